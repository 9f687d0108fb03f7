"""Errors on the command line name what can be typed: no argument, method or type of Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.cli.wording import described, in_words
from tests.cli.processes import Clew
from tests.support.rows import each_row

SOURCE = Path(clew.__file__).parent
PYTHON = re.compile(
    r"(?<![?&\w-])[a-z][a-z_]*=(?!=)"  # format=, but ?pool=32 of an address
    r"|\b\w+\(\)"  # undo()
    r"|\b(?:True|False|None|NoneType|timedelta|datetime|dict|mappings?|bytes-like)\b"
    r"|\b(?:store|session|run|s|clew)\.[a-z_]+"
    r"|\bpass (?:a|it|[a-z_]+=)"
    r"|\*\*"
    r"|[a-z]+_[a-z_]+"  # on_conflict
    r"|\bno JSON\b|\bis no (?:JSON|SQLite)\b"
)
TYPED = re.compile(
    r"sslmode=verify-full|(?:NAME|\{X\})=|(?:max|keep|trash)_[a-z_]+=?|(?:read_only|insecure)=true|\?ca=|sqlite:/+\S+|CLEW_[A-Z_]+|\S+\.db\b"
)
"""What looks like Python, and is typed: settings of an address, and rules of `clew sweep`."""
NOT_ON_THE_COMMAND_LINE = (
    "transact()",  # there is no transaction
    "read(): use",
    "expires_at is",
    "set_retention",
    "trash_expired must be",  # the options are checked before
    "keep_tags must be",
    "must be a timedelta",
    "add_events takes",
    "on_conflict",
    "redact must be",
    "delete(deleted=True)",
    "pass confirm=True",
    "a compaction needs a list",
    "in the metadata of the session",  # of frameworks
    "must be a datetime",
    "must be a mapping",
    "from 0 to 2**53",
    "is no secret of a run",  # no run outlives a command
)


NOT_FOR_PEOPLE = ("adapters", "testing", "aio", "server")
"""What these tell is for programs: names of the API."""
PARTS = sorted({path.relative_to(SOURCE).parts[0] for path in SOURCE.rglob("*.py")} - {*NOT_FOR_PEOPLE})


def raised(part: Path) -> Iterator[tuple[str, str]]:
    """Every text with which a part of the library makes an error or tells of a problem, and where that is."""
    for path in sorted(part.rglob("*.py")) or [part]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and _makes_error(node)):
                for text in _texts(node):
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", text


def _makes_error(node: ast.Call) -> bool:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    is_init = name == "__init__" and isinstance(node.func, ast.Attribute)
    return is_init or name.endswith(("Error", "Refused", "Problem", "Finding", "_tell", "tell", "UsageError"))


def _texts(node: ast.AST) -> Iterator[str]:
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{X}" for part in inner.values
            )
        elif isinstance(inner, ast.Constant) and isinstance(inner.value, str) and " " in inner.value:
            yield inner.value
        else:
            yield from _texts(inner)


def test_the_texts_of_errors_are_found() -> None:
    assert sum(1 for part in PARTS for _ in raised(SOURCE / part)) > 300


@pytest.mark.parametrize("part", PARTS)
def test_no_error_that_reaches_the_command_line_speaks_python(part: str) -> None:
    found = list(raised(SOURCE / part))
    assert len(found) > 100 or part not in ("cli", "core")
    wrong = []
    for place, text in found:
        if any(part in text for part in NOT_ON_THE_COMMAND_LINE):
            continue
        said = described(clew.ClewError(text))
        if PYTHON.search(TYPED.sub("", said)):
            wrong.append(f"{place}: {said}")
    assert not wrong, "\n".join(wrong)


def test_the_test_above_can_fail() -> None:
    for text in ("say so with format=", "call undo()", "or None", "pass a Path", "on_conflict is wrong"):
        assert PYTHON.search(TYPED.sub("", text)), text
    assert "or None" not in in_words("a number, or None")


@each_row(
    ("args", "says"),
    [
        (["ls", "-n", "x"], "-n / --limit: 'x' is not a whole number; see clew ls --help"),
        (["ls", "-n", "-1"], "-1 is less than 0"),
        (["search", "-n", "0", "x"], "0 is not between 1 and 1000"),
        (["ls", "--limt", "3"], "no option --limt; did you mean --limit?"),
        (["ls", "--color", "pink"], "--color: 'pink' is not one of auto, always, never; see clew ls --help"),
        (["trash", "lss"], "no command 'lss'; did you mean 'ls'?"),
        (["rewind"], "missing argument ID; see clew rewind --help"),
        (["ls", "one", "two"], "too many arguments: one two; see clew ls --help"),
        (["backup", "copy.db"], "choose another path, or add --overwrite"),
        (["import", "agents.db", "--format", "nosuch"], "nosuch"),
        (["sweep", "--rule", "max_messages=0"], "from 1 on; not 0"),
        (["export", "login-bug", "-f", "tingly-box"], "-o FILE"),
        (["ls", "-w", ""], ""),
    ],
)
def test_errors_say_what_to_type(story: Clew, args: list[str], says: str) -> None:
    (story.home / "copy.db").touch()
    done = story(*args, code=1 if args[0] in ("backup", "sweep") or args[1:] == ["-w", ""] else 2)
    assert says in done.err
    assert not PYTHON.search(TYPED.sub("", done.err)), done.err


def test_every_command_words_a_missing_session_and_a_missing_store_alike(story: Clew) -> None:
    takes_id = "show, log, tail, stats, usage, undo, redo, fork, title, tag, close, reopen"
    for name in takes_id.split(", "):
        done = story(name, "nosuch", code=1)
        assert "clew: no session 'nosuch'; clew ls lists the sessions" in done.err, name
        assert "clew: no store at" in story(name, "nosuch", "-s", "none.db", code=1).err, name


@each_row("path", sorted((SOURCE / "cli").rglob("*.py")))
def test_numbers_are_counted_in_words_that_fit(path: Path) -> None:
    """`count(1, "session")` is "1 session"; a number before a plural would be "1 sessions"."""
    plural = re.compile(
        r"(?<!more than )(?<!all )\{X\} (?:sessions|entries|files|messages|snapshots|problems|paths|calls)\b"
    )
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(p.value) if isinstance(p, ast.Constant) else "{X}" for p in node.values)
            assert not plural.search(text) or "begin with" in text or "go by" in text, (node.lineno, text)
