"""What a tool call did, in one line: `Edit auth.py +3 −1`, `Read app.py (120 lines)`, `Ran pytest: 2 failed`.

The tools of Claude Code, Codex, Gemini CLI, OpenCode, pi and others like them are known by name; of any other
the line has its name, its most telling argument and the first line of its result. Pure: `clew show`,
`clew ui` and the exports all say it with these words. The line holds no character that acts on a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

import msgspec

from clew.core.messages.text import visible_line, without
from clew.exporters.changes import PATHS, Change, changes_of, is_diff, patch_changes, text_at
from clew.exporters.tools.output import (
    BAD,
    SILENT,
    command_of,
    decoded,
    file_text,
    output_of,
    plain,
    result_text,
    verdict,
)
from clew.model import Json


class Gist(NamedTuple):
    """The line in its parts, for a view that draws them differently."""

    verb: str
    """`Edit`, `Ran`, or the name of the tool."""
    subject: str
    """The file, the command, the question; may be empty."""
    outcome: str
    """`+3 −1`, `(120 lines)`, `2 failed`; empty without a result."""
    failed: bool = False
    family: str = ""
    """`shell`, `read`, `write`, `edit`, `search`, `agent`, `plan`, `web`; empty: any other tool."""

    def __str__(self) -> str:
        line = f"{self.verb} {self.subject}" if self.subject else self.verb
        if not self.outcome:
            return line
        return f"{line} {self.outcome}" if self.outcome[0] in "(+−" else f"{line}: {self.outcome}"


MOST_SUBJECT: Final = 100
MOST_OUTCOME: Final = 80
"""Letters."""


def summary(
    name: str | None,
    arguments: Json,
    result: Json = None,
    *,
    is_error: bool = False,
    workspace: str | None = None,
) -> str:
    """One line about a tool call.

    Args:
        name: Of the tool, as its agent calls it; None when the message does not say.
        arguments: A dict, or a text (JSON or not), as they stand in the message.
        result: A text, or the content of a result as it stands in the message; None: there is none.
        is_error: The message says that the tool failed.
        workspace: Paths inside of it are told without it.
    """
    return str(gist(name, arguments, result, is_error=is_error, workspace=workspace))


def gist(
    name: str | None,
    arguments: Json,
    result: Json = None,
    *,
    is_error: bool = False,
    workspace: str | None = None,
) -> Gist:
    """The same in its parts."""
    given = decoded(arguments)
    call = _Call(name or "a tool", given if isinstance(given, dict) else {}, given, workspace)
    call.result = None if result is None else result_text(result)
    call.is_error = is_error
    family, teller = _TOOLS.get(_key(call.name), ("", _other))
    if family == "edit" and call.arguments.get("command") in ("view", "create"):
        family, teller = ("read", _read) if call.arguments["command"] == "view" else ("write", _write)
    told = teller(call)
    outcome, failed = told.outcome, told.failed or is_error
    if is_error and not told.failed:
        outcome = _complaint(call.result or "")
    return Gist(
        _line(told.verb, 60), _line(told.subject, MOST_SUBJECT), _line(outcome, MOST_OUTCOME), failed, family
    )


# -- one function for each family of tools


class _Call:
    __slots__ = ("arguments", "given", "is_error", "name", "result", "workspace")

    def __init__(self, name: str, arguments: dict[str, Json], given: Json, workspace: str | None) -> None:
        self.name = name
        self.arguments = arguments
        self.given = given
        self.workspace = workspace
        self.result: str | None = None
        self.is_error = False

    def path(self) -> str:
        return shorter_path(text_at(self.arguments, PATHS), self.workspace)

    def answered(self) -> str:
        """The result without what the agent tells its model."""
        text = self.result or ""
        return without(text, "system-reminder").strip("\n") if "<system-reminder" in text else text


_Teller: TypeAlias = Callable[[_Call], Gist]


def _shell(call: _Call) -> Gist:
    if patched := changes_of(call.arguments):
        return _changed(call, patched)
    command = command_of(call.given).strip()
    first, _, more = command.partition("\n")
    subject = first.rstrip(" \\") + " …" if more.strip() else first
    if call.result is None:
        return Gist("Ran", subject, "")
    output = output_of(call.answered())
    tested = verdict(output.text)
    first = _first_line(output.text)
    if not output.code and is_diff(output.text) and (printed := patch_changes(output.text)):
        return Gist("Ran", subject, _counts(printed), call.is_error)
    if tested:
        failed = call.is_error or bool(output.code) or BAD.search(tested) is not None
        return Gist("Ran", subject, tested, failed)
    if output.code:
        return Gist("Ran", subject, f"exit {output.code}" + (f", {first}" if first else ""), True)
    if call.is_error:
        return Gist("Ran", subject, _complaint(call.result), True)
    return Gist("Ran", subject, "(no output)" if not first or first in SILENT else first)


def _read(call: _Call) -> Gist:
    paths = call.arguments.get("paths", call.arguments.get("files"))
    subject = call.path()
    if not subject and isinstance(paths, list):
        names = [path if isinstance(path, str) else text_at(path, PATHS) for path in paths
                 if isinstance(path, (str, dict))]  # fmt: skip
        subject = _named(names, call.workspace)
    if call.result is None or call.is_error:
        return Gist("Read", subject, "")
    text = file_text(call.answered())
    if not text.strip():
        return Gist("Read", subject, "")
    count = _lines(text)
    first = call.arguments.get("offset", call.arguments.get("start_line"))
    if isinstance(first, int) and first > 1:
        return Gist("Read", subject, f"(lines {first}–{first + count - 1})")
    return Gist("Read", subject, f"({_many(count, 'line')})")


def _write(call: _Call) -> Gist:
    content = text_at(call.arguments, ("content", "contents", "text", "file_text", "data"))
    return Gist("Write", call.path(), f"({_many(_lines(content), 'line')})" if content else "")


def _edit(call: _Call) -> Gist:
    if changed := changes_of(call.given):
        return _changed(call, changed)
    return Gist("Edit", call.path(), "")


_VERBS: Final = {"edit": "Edit", "add": "Write", "delete": "Delete", "move": "Move"}


def _changed(call: _Call, changed: list[Change]) -> Gist:
    names = [change.path for change in changed]
    verb = _VERBS[changed[0].kind] if len(changed) == 1 else "Edit"
    return Gist(verb, _named(names, call.workspace) or call.path(), _counts(changed))


def _counts(changed: list[Change]) -> str:
    added, removed = sum(c.added for c in changed), sum(c.removed for c in changed)
    counts = [f"+{added:,}"] if added else []
    counts += [f"−{removed:,}"] if removed else []
    return " ".join(counts)


def _search(call: _Call) -> Gist:
    pattern = text_at(call.arguments, ("pattern", "query", "regex", "search", "content_pattern", "q"))
    place = text_at(call.arguments, ("path", "dir_path", "directory", "include", "glob"))
    subject = f"“{pattern}”" + (f" in {shorter_path(place, call.workspace)}" if place else "")
    return Gist("Search", subject, _hits(call, "line"))


def _find(call: _Call) -> Gist:
    pattern = text_at(call.arguments, ("pattern", "glob_pattern", "query", "glob", "name"))
    place = text_at(call.arguments, ("path", "dir_path", "directory"))
    where = f" in {shorter_path(place, call.workspace)}" if place else ""
    return Gist("Find", f"{pattern}{where}", _hits(call, "file"))


def _list(call: _Call) -> Gist:
    place = text_at(call.arguments, ("path", "dir_path", "directory", "target_directory"))
    return Gist("List", shorter_path(place, call.workspace) or ".", _hits(call, "line"))


_FOUND: Final = re.compile(r"(?i)found (?:a total of )?(\d{1,9}) ([a-z() ]{1,40})")


def _hits(call: _Call, unit: str) -> str:
    text = call.answered().strip()
    if call.result is None or call.is_error:
        return ""
    first = text[:200].partition("\n")[0]
    if found := _FOUND.match(first):
        word = found[2].split()[0].replace("(es)", "es").replace("(s)", "s")
        return f"({int(found[1]):,} {word})"
    if not text or first.lower().startswith(("no files", "no match", "no results", "nothing")):
        return "(nothing found)"
    return f"({_many(_lines(text), unit)})"


def _agent(call: _Call) -> Gist:
    about = text_at(
        call.arguments, ("description", "name", "task_name", "title", "prompt", "message", "task")
    )
    kind = text_at(call.arguments, ("subagent_type", "agent_type", "agent", "type", "mode"))
    subject = f"{about} ({kind})" if kind and kind not in ("general-purpose", about) else about
    return Gist("Agent", subject, _first_words(call.answered()))


def plan_items(arguments: dict[str, Json]) -> list[tuple[str, str]]:
    """The items of a plan: `done`, `now` or `open`, and the words of each."""
    lists = [arguments.get(field) for field in ("todos", "plan", "tasks", "items")]
    found = []
    for item in [item for items in lists if isinstance(items, list) for item in items]:
        if isinstance(item, dict):
            status = str(item.get("status", "")).lower()
            state = (
                "done" if status in ("completed", "done") else "now" if status.startswith("in") else "open"
            )
            found.append((state, text_at(item, ("content", "step", "description", "title", "activeForm"))))
    return found


def _plan(call: _Call) -> Gist:
    items = plan_items(call.arguments)
    if not items:
        about = text_at(call.arguments, ("subject", "description", "explanation", "todos", "status"))
        return Gist("Plan", about, "")
    done = sum(state == "done" for state, _ in items)
    about = next((words for state, words in items if state == "now"), "")
    return Gist("Plan", about, f"({done} of {len(items)} done)")


def _fetch(call: _Call) -> Gist:
    address = text_at(call.arguments, ("url", "uri", "prompt", "link"))
    return Gist(
        "Fetch", address.removeprefix("https://").removeprefix("http://"), _first_words(call.answered())
    )


def _web(call: _Call) -> Gist:
    question = text_at(call.arguments, ("query", "q", "search_term"))
    action = call.arguments.get("action")
    if not question and isinstance(action, dict):
        question = text_at(action, ("query", "url", "type"))
    return Gist("Search the web", f"“{question}”" if question else "", "")


def _ask(call: _Call) -> Gist:
    asked = call.arguments.get("questions")
    first = asked[0] if isinstance(asked, list) and asked and isinstance(asked[0], dict) else call.arguments
    return Gist("Ask", text_at(first, ("question", "text", "prompt")), _first_line(call.answered()))


def _skill(call: _Call) -> Gist:
    return Gist("Skill", text_at(call.arguments, ("skill", "name", "command")), "")


def _leave_plan(call: _Call) -> Gist:
    return Gist("Plan ready", _first_line(text_at(call.arguments, ("plan", "summary"))).lstrip("# "), "")


def _look_at_shell(call: _Call) -> Gist:
    about = text_at(call.arguments, ("input", "chars", "bash_id", "shell_id", "task_id")).strip()
    output = output_of(call.answered())
    return Gist("Shell", about, verdict(output.text) or _first_line(output.text), bool(output.code))


_TELLING: Final = (
    "command", "cmd", *PATHS, "query", "pattern", "url", "name", "title", "subject", "description", "prompt",
    "question", "message", "text", "id",
)  # fmt: skip


def _other(call: _Call) -> Gist:
    name = call.name
    if name.startswith("mcp__"):
        name = name[5:].replace("__", ": ", 1)
    if changed := changes_of(call.arguments):
        told = _changed(call, changed)
        return Gist(name, told.subject, told.outcome)
    subject = shorter_path(text_at(call.arguments, _TELLING), call.workspace)
    if not subject:
        subject = next((value for value in call.arguments.values() if isinstance(value, str) and value), "")
    if not subject and call.arguments:
        subject = msgspec.json.encode(call.arguments).decode()[1:-1]
    elif not subject and isinstance(call.given, str):
        subject = call.given
    return Gist(name, subject, _first_line(call.answered()))


_FAMILIES: Final[tuple[tuple[str, _Teller, str], ...]] = (
    ("shell", _shell, """bash shell execcommand localshell localshellcall shellcommand runshellcommand
        terminal executecommand runcommand runterminalcmd runinterminal executebash powershell containerexec
        developershell shellexec unifiedexec bashtool"""),
    ("shell", _look_at_shell, "bashoutput writestdin sendinput killshell killbash taskoutput"),
    ("read", _read, """read readfile view viewfile readmanyfiles notebookread cat openfile viewimage fsread
        getfilecontents"""),
    ("write", _write, "write writefile create createfile writetofile savefile fswrite createnewfile"),
    ("edit", _edit, """edit multiedit replace replaceinfile strreplace strreplaceeditor editfile applydiff
        patch strreplacebasededittool searchreplace searchandreplace notebookedit texteditor
        developertexteditor editexistingfile applypatch"""),
    ("search", _search, """grep grepsearch searchfilecontent searchfiles rg ripgrep codebasesearch search
        searchtext"""),
    ("search", _find, "glob find findfiles filesearch globsearch"),
    ("search", _list, "ls list listdir listdirectory listfiles"),
    ("agent", _agent, "task agent subagent spawnagent newtask delegatetask delegate"),
    ("plan", _plan, "todowrite writetodos todo updateplan updatetodolist todoread taskcreate taskupdate"),
    ("plan", _leave_plan, "exitplanmode planexit"),
    ("web", _fetch, "webfetch fetch fetchurl"),
    ("web", _web, "websearch googlewebsearch websearchcall searchweb"),
    ("", _ask, "askuserquestion askuser askfollowupquestion requestuserinput question"),
    ("", _skill, "skill"),
)  # fmt: skip
_TOOLS: Final = {name: (family, teller) for family, teller, names in _FAMILIES for name in names.split()}
"""By the name without its capitals, marks and underscores."""


def _key(name: str) -> str:
    return "".join(filter(str.isalnum, name[:80].lower()))


# -- words


def shorter_path(path: str, workspace: str | None) -> str:
    """A path without the workspace that it lies in."""
    path = path.removeprefix("file://")
    if workspace:
        base = workspace.rstrip("/\\")
        if path == base:
            return "."
        if base and path.startswith((f"{base}/", f"{base}\\")):
            return path[len(base) + 1 :]
    return path


def _named(paths: list[str], workspace: str | None) -> str:
    names = [shorter_path(path, workspace) for path in paths if path]
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def _first_line(text: str) -> str:
    """The first line of a text that says something; of JSON its beginning."""
    if text[:1] == "{" or (text[:1] == "[" and text[1:40].lstrip()[:1] in ("{", "[", '"')):
        return " ".join(text[: 4 * MOST_OUTCOME].split())
    for line in text[:2000].split("\n"):
        if (told := plain(line).strip()) and any(map(str.isalnum, told)):
            return told
    return plain(text[:200]).strip()


_MARKS: Final = str.maketrans("", "", "`*#")


def _first_words(text: str) -> str:
    """The first line of a text that is Markdown, without its marks."""
    return _first_line(text).translate(_MARKS).strip()


_REFUSED: Final = ("The user doesn't want to proceed", "The user doesn't want to take this action",
                   "User rejected", "user rejected", "[Request interrupted", "[interrupted")  # fmt: skip


def _complaint(text: str) -> str:
    """The first line of an error."""
    said = text.strip().removeprefix("<tool_use_error>").partition("</tool_use_error>")[0]
    if said.startswith(_REFUSED):
        return "interrupted" if "nterrupted" in said[:20] else "declined by the user"
    first = _first_line(said)
    for word in ("Error: ", "error: "):
        first = first.removeprefix(word)
    return f"failed: {first}" if first else "failed"


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n")) if text else 0


def _many(count: int, unit: str) -> str:
    return f"{count:,} {unit}" if count == 1 else f"{count:,} {unit}s"


def _line(text: str, most: int) -> str:
    """On one line, without characters that act, and cut."""
    line = visible_line(text[: 4 * most])
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"
