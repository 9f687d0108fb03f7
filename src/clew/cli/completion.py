"""Completion in bash, zsh and fish: the typed line, the proposals, and the scripts that shells run at Tab.

Ids and titles may hold any text. Text that is added to a line stays text: nothing in an id may end a
quotation, run a command or become another word. If anything goes wrong, or takes too long, nothing is
proposed and nothing is printed: the user is typing.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from threading import Timer
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    import clew
    from clew.backends.contract import Reader

Shell = Literal["bash", "zsh", "fish"]

_ACTING: Final = re.compile(r'[$`"\\]')
"""Characters with a meaning between double quotes."""
_PLAIN_LETTER: Final = re.compile(r"[\w@%+=:,./#-]")
"""Characters that no shell changes within a word."""
_NOT_PLAIN: Final = re.compile(r"[^\w@%+=:,./#-]")
_ESCAPED_IN: Final[dict[Shell, dict[str, str]]] = {
    "bash": {"'": "", '"': '$`"\\'},
    "zsh": {"'": "", '"': '$`"\\'},
    "fish": {"'": "'\\", '"': '"$\\'},
}
"""Between which quotes a backslash escapes, and which characters."""


class Line(NamedTuple):
    """The typed line, up to the cursor."""

    words: tuple[str, ...]
    """The words before the last one."""
    last: str
    """The word that is being typed, as the command would get it; it may be empty."""
    raw: str
    """The same as it is typed."""
    quote: str
    """The quotation that is open at its end, or nothing."""


def read_line(text: str, shell: Shell) -> Line | None:
    """The words of a line. None: the shell would expand the last one, so its final form is unknown."""
    words: list[str] = []
    word, start, quote, is_plain, at = "", 0, "", True, 0
    while at < len(text):
        letter = text[at]
        step = 1
        if quote and letter == quote:
            quote = ""
        elif letter == "\\" and (not quote or text[at + 1 : at + 2] in _ESCAPED_IN[shell][quote]):
            word += text[at + 1 : at + 2]
            step = 2
        elif quote:
            is_plain = is_plain and not (quote == '"' and letter in "$`!")
            word += letter
        elif letter in "'\"":
            quote = letter
        elif letter in " \t\n":
            if at > start:
                words.append(word)
            word, start, is_plain = "", at + 1, True
        else:
            is_plain = (
                is_plain and _PLAIN_LETTER.match(letter) is not None and not (letter == "#" and at == start)
            )
            word += letter
        at += step
    if not is_plain:
        return None
    return Line(tuple(words), word, text[start:], quote)


def rest_of(line: Line, value: str) -> str | None:
    """The text to insert after the last word in bash, so that the command gets `value`. None: the open
    quotation cannot hold it."""
    if not value.startswith(line.last) or not value.isprintable():
        return None
    rest = value[len(line.last) :]
    match line.quote:
        case "'":
            return None if "'" in rest else rest
        case '"':
            return None if "!" in rest else _ACTING.sub(r"\\\g<0>", rest)
    escaped = _NOT_PLAIN.sub(r"\\\g<0>", rest)
    return f"\\{escaped}" if not line.raw and rest.startswith("#") else escaped


# -- proposals

NEWEST: Final = 100
"""How many of the newest sessions are offered where nothing is typed: a shell asks at every Tab."""
ENTRIES: Final = 100
"""How many of the newest entries of a session are offered."""


def complete_session(
    ctx: click.Context,
    parameter: click.Parameter,
    incomplete: str,
    *,
    trash: bool = False,
) -> list[Any]:
    """Sessions by what is typed of their ids, with their titles; behind an @ the places in one. `trash`:
    those in the trash. The store is only read."""
    with _store(ctx) as store:
        takes_places = "@" in (parameter.metavar or "")
        places = _places_behind(store, incomplete) if takes_places else []
        return places or list(_sessions(store, incomplete, trash=trash))


def complete_place(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[Any]:
    """Checkpoints and entries of the session that the argument before this one names."""
    from clew.cli.store import session_of

    with _store(ctx) as store:
        return list(_places(session_of(store, ctx.params.get("id")), incomplete, ""))


def _store(ctx: click.Context) -> clew.Store:
    import clew
    from clew.cli.app import Settings
    from clew.cli.config import resolve
    from clew.cli.store import must_exist

    settings = ctx.find_object(Settings) or Settings()
    resolve(settings)
    must_exist(settings.store)
    return clew.open(settings.store, read_only=True)


def _sessions(store: clew.Store, typed: str, *, trash: bool) -> Iterator[CompletionItem]:
    from click.shell_completion import CompletionItem

    from clew.importers.short_ids import IndexedKeys, keys_of, short_ids

    if not typed:
        newest = store.list(limit=NEWEST, deleted=trash, subagents=trash)
        shown = short_ids(store, [info.id for info in newest])
        for info in newest:
            yield CompletionItem(shown[info.id], help=info.title or "")
        return
    with store._engine.read() as reader:
        found = [key for key in keys_of(IndexedKeys(reader), typed, MOST) if key.session.deleted == trash]
        names = short_ids(store, [key.session.id for key in found])
        done = set()
        for key in found:
            texts = (names[key.session.id], key.text)
            text = next((text for text in texts if text.startswith(typed)), None)
            if text is not None and key.session.id not in done:
                done.add(key.session.id)
                yield CompletionItem(text, help=_title(reader, key.session.sid))


def _title(reader: Reader, sid: int) -> str:
    """Nothing, if the session cannot be read: it can be named all the same."""
    from clew.errors import CorruptError

    try:
        row = reader.get_session(sid)
    except CorruptError:
        return ""
    return (row.title if row else None) or ""


def _places_behind(store: clew.Store, typed: str) -> list[CompletionItem]:
    """Of `ID@` and the beginning of a place; nothing, if what is before the @ names no session."""
    from clew.cli.app import Refused
    from clew.cli.store import session_of
    from clew.errors import ClewError

    id, at, place = typed.rpartition("@")
    if not at or not id:
        return []
    try:
        return list(_places(session_of(store, id), place, f"{id}@"))
    except (ClewError, Refused):
        return []


def _places(session: clew.Session, typed: str, before: str) -> Iterator[CompletionItem]:
    from click.shell_completion import CompletionItem

    from clew.cli.names import branch_names, entry_name
    from clew.cli.text import first_words, who
    from clew.cli.views.checkpoints import checkpoint_cells
    from clew.core.log.ids import parse_entry_id

    prompts = checkpoint_cells(session)
    for checkpoint in session.checkpoints():
        if checkpoint.name.startswith(typed):
            told = prompts[checkpoint.name].text[:HELP_WIDTH] if checkpoint.name in prompts else ""
            said = f": {told}" if told else ""
            yield CompletionItem(before + checkpoint.name, help=f"checkpoint at {checkpoint.position}{said}")
    names = branch_names(branch.id for branch in session.tree().branches)
    for entry in session.entries(last=ENTRIES, newest_first=True, damaged="skip"):
        place = parse_entry_id(entry.id)
        name = entry_name(names, place) if place else entry.id
        if name.startswith(typed):
            yield CompletionItem(before + name, help=f"{who(entry)}: {first_words(entry)[:HELP_WIDTH]}")


# -- what the shells run
#
# The answer has a line for each proposal: `word`, a tab, the word, and for zsh and fish a tab and its
# meaning; or `file` or `dir`, and the shell looks for files itself. zsh and fish quote what they insert; bash
# does not, so it gets words that are quoted already.

PATIENCE: Final = 5.0
"""Seconds after which no proposal is made: the store may be on a slow server."""
MOST: Final = 200
HELP_WIDTH: Final = 60

# COMP_LINE is what was typed, COMP_PART what bash replaces by a proposal: it begins again at each colon.
_BASH: Final = """\
_clew_completion() {
    local kind value
    COMPREPLY=()
    while IFS=$'\\t' read -r kind value; do
        case $kind in
            dir) compopt -o dirnames 2>/dev/null ;;
            file) compopt -o default 2>/dev/null ;;
            word) COMPREPLY+=("$value") ;;
        esac
    done < <(COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_PART="$2" _CLEW_COMPLETE=bash "$1" 2>/dev/null)
}

complete -o nosort -F _clew_completion clew 2>/dev/null || complete -F _clew_completion clew
"""

_ZSH: Final = """\
#compdef clew

_clew_completion() {
    local -a answer parts plain values shown
    local line
    answer=("${(@f)$(COMP_LINE="${(j: :)words[1,CURRENT]}" _CLEW_COMPLETE=zsh "${words[1]}" 2>/dev/null)}")
    for line in "${answer[@]}"; do
        parts=("${(@ps:\\t:)line}")
        case "${parts[1]}" in
            dir) _path_files -/ ;;
            file) _path_files -f ;;
            word)
                if [[ -n "${parts[3]}" ]]; then
                    values+=("${parts[2]}")
                    shown+=("${parts[2]}  -- ${parts[3]}")
                else
                    plain+=("${parts[2]}")
                fi ;;
        esac
    done
    (( $#values )) && compadd -U -V described -l -d shown -a values
    (( $#plain )) && compadd -U -V plain -a plain
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _clew_completion "$@"
else
    compdef _clew_completion clew
fi
"""

_FISH: Final = """\
function _clew_completion
    set -l typed (commandline -cp | string collect --allow-empty)
    for line in (env COMP_LINE="$typed" _CLEW_COMPLETE=fish clew 2>/dev/null)
        set -l parts (string split --max 1 \\t -- $line)
        switch "$parts[1]"
            case dir
                __fish_complete_directories (commandline -ct)
            case file
                __fish_complete_path (commandline -ct)
            case word
                printf '%s\\n' $parts[2]
        end
    end
end

complete --no-files --keep-order --command clew --arguments "(_clew_completion)"
"""

SCRIPTS: Final[Mapping[Shell, str]] = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def answer(cli: click.Command, shell: str, environment: Mapping[str, str]) -> int:
    """Print the proposals for the typed line; the exit code. Scripts of older versions get no answer: they
    would insert it unquoted."""
    late = Timer(PATIENCE, os._exit, (1,))
    late.daemon = True
    late.start()
    try:
        text = "".join(f"{line}\n" for line in _proposals(cli, shell, environment))
        sys.stdout.write(text)
        sys.stdout.flush()
    except Exception:  # noqa: BLE001  # no error may get into the line
        return 1
    finally:
        late.cancel()
    return 0


def _proposals(cli: click.Command, asking: str, environment: Mapping[str, str]) -> Iterator[str]:
    shell: Shell | None = next((one for one in SCRIPTS if one == asking), None)
    line = read_line(environment["COMP_LINE"], shell) if shell else None
    if shell is None or line is None or not line.words:
        return
    found = _found(cli, line)
    if shell == "bash":
        yield from _for_bash(found, line, environment["COMP_PART"])
    else:
        yield from _for_others(found, line, shell)


def _found(cli: click.Command, line: Line) -> Iterator[CompletionItem]:
    from itertools import islice

    from click.shell_completion import ShellComplete

    words = list(line.words[1:])
    found = ShellComplete(cli, {}, "clew", "").get_completions(words, line.last)
    # Where options may stand, a word that begins like one would be taken for one.
    is_safe = "--" in words or line.last.startswith("-")
    return islice((one for one in found if is_safe or not str(one.value).startswith("-")), MOST)


def _for_bash(found: Iterator[CompletionItem], line: Line, part: str) -> Iterator[str]:
    if not line.raw.endswith(part):
        return
    for item in found:
        rest = rest_of(line, str(item.value)) if item.type == "plain" else None
        if item.type in ("dir", "file"):
            yield item.type
        elif rest is not None:
            yield f"word\t{part}{rest}"


def _for_others(found: Iterator[CompletionItem], line: Line, shell: Shell) -> Iterator[str]:
    from clew.cli.text import one_line

    for item in found:
        is_home = (
            shell == "fish" and not line.raw and str(item.value).startswith("~")
        )  # it is not quoted there
        if item.type in ("dir", "file"):
            yield item.type
        elif str(item.value).isprintable() and not is_home:
            yield f"word\t{item.value}\t{one_line(item.help or '')[:HELP_WIDTH]}".rstrip("\t")
