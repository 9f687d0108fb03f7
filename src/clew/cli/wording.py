"""Errors of the library in the words of the command line: what to type, not what to call.

The library names its own arguments (`rename=True`), because Python programs read its messages. Here is the
option that does the same, and for each kind of error the next step.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from clew import errors

_NEXT: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (errors.StoreNotFoundError, "clew import --scan makes one, and so does --store FILE with clew import"),
    (errors.SessionNotFoundError, "clew ls lists the sessions, clew trash ls those that were removed"),
    (errors.SessionDeletedError, "clew trash restore may bring it back"),
    (errors.CheckpointNotFoundError, "clew log ID lists positions and checkpoints"),
    (errors.EntryNotFoundError, "clew log ID lists the entries, clew log --graph ID those of every branch"),
    (errors.SnapshotNotFoundError, "clew files lists the snapshots"),
    (errors.ObjectMissingError, "clew verify says what else is missing"),
    (errors.SessionExistsError, "choose another id"),
    (errors.InvalidTransitionError, "clew reopen makes it usable again"),
    (
        errors.RestoreConflictError,
        "--on-conflict keep leaves these files as they are, overwrite replaces them",
    ),
    (errors.LeaseHeldError, "wait until it is done, or fork the session"),
    (
        errors.RootNotNamedError,
        "--root DIRECTORY says where (clew restore: --to); add --dry-run to look first",
    ),
    (
        errors.RootRefusedError,
        "name a directory inside of it; clew snapshot and clew restore take it with --force",
    ),
    (errors.NothingToUndoError, "clew log --graph ID shows where the session stands"),
    (errors.CorruptError, "clew verify says what is damaged, clew repair saves the rest"),
    (errors.StoreBusyError, "try again in a moment"),
    (errors.DiskFullError, "free some space, or clew copy what is to stay to another disk; nothing is lost"),
    (errors.QuotaExceededError, "exclude something, or clew gc"),
    (errors.RestoreFailedError, "clew restore --pending lists what was cut off"),
    (errors.InvalidQueryError, "clew COMMAND --help has examples"),
    (errors.InvalidUrlError, "clew help addresses lists what a store may be"),
)

_FOR_PROGRAMS: Final = re.compile(r"; (?:store\.|pass (?:it as|move=))")
"""A next step that is a call, and has one of the texts above instead."""

_IN_WORDS: Final = (
    ("; pass rename=True to give this one a new id", "; --rename gives this one a new id"),
    ("choose another path, or pass overwrite=True", "choose another path, or add --overwrite"),
    ("; for a file of this name, pass a Path", ""),
    (
        "open it with read_only=True",
        "add ?read_only=true to its address, as in sqlite:///path?read_only=true",
    ),
    ("name some of its paths (paths=)", "name some of its paths"),
    (": restore it (paths=), or read it in parts (start=, length=)", ": clew restore writes it to the disk"),
    ("pass token=… to clew.open(), or set CLEW_TOKEN", "set CLEW_TOKEN"),
    ("leave that out, and pass token=…", "leave that out, and set CLEW_TOKEN"),
    ("or insecure=True if the network", "or add ?insecure=true to the address if the network"),
    ("pass ca='/path/to/ca.pem'", "add ?ca=/path/to/ca.pem to the address"),
    ("; undo() brings both back", "; clew undo brings both back"),
    (
        "finish or undo it first; with force=True what",
        "finish or undo it with clew restore; with --force what",
    ),
    ("or gc(thorough=True)", "or clew gc --thorough"),
    ("); format= names one", "); --format names one"),
    ("say where with path=", "say where with --output"),
    ("Without strict, all", "Without --strict, all"),
    ("; name the format if you know it", "; if you know it, name it with --format"),
    (
        "is a pipe: only a file or a directory can be imported; write what it holds to a file first",
        "is a pipe that may never end; clew import - reads what is piped into it",
    ),
    ("or leave them out with exclude=", "or leave them out with --exclude"),
    (", or None", ""),
    ("null (None)", "null"),
    ("from 1 to 2**62", "from 1 on"),
)
_LIMIT: Final = re.compile(r"more than max_bytes=(\d+)")
_ADDRESS_OPTION: Final = re.compile(r"^(blobs=)")


def in_words(text: str) -> str:
    """A message of the library, with options instead of arguments."""
    for said, meant in _IN_WORDS:
        text = text.replace(said, meant)
    return _ADDRESS_OPTION.sub(r"?\1", _LIMIT.sub(r"more than \1", text))


def described(exc: BaseException) -> str:
    """One line: what happened, and the next step."""
    hint = next((hint for kind, hint in _NEXT if isinstance(exc, kind)), None)
    said = in_words(_FOR_PROGRAMS.split(str(exc), maxsplit=1)[0])
    return said if hint is None else f"{said}; {hint}"


# -- mistakes in a command line, which click words for programmers


def _unquoted(found: re.Match[str]) -> str:
    return found[0].replace("'", "")


_USAGE: Final[tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    (re.compile(r"is not a valid integer(?: range)?"), "is not a whole number"),
    (re.compile(r"is not a valid float(?: range)?"), "is not a number"),
    (re.compile(r"is not in the range x>=(\d+)"), r"is less than \1"),
    (re.compile(r"is not in the range (\d+)<=x<=(\d+)"), r"is not between \1 and \2"),
    (re.compile(r"^Got unexpected extra arguments? \((.*)\)"), r"too many arguments: \1"),
    (re.compile(r"^Invalid value for (.*?): "), r"\1: "),
    (
        re.compile(r"^No such (option|command):? (\S*?)\.? Did you mean ([^?]*)\?$"),
        r"no \1 \2; did you mean \3?",
    ),
    (re.compile(r"^No such (option|command):? "), r"no \1 "),
    (re.compile(r"\.? \(Did you mean one of: ([^()]*)\?\)$"), r"; did you mean one of \1?"),
    (re.compile(r"'(--?[\w-]+|[A-Z][A-Z@\[\].]*)'"), r"\1"),  # options and arguments need no quotation marks
    (re.compile(r"(?<=is not one of )('[\w-]+'(?:, '[\w-]+')*)"), _unquoted),
)


def usage(text: str) -> str:
    """What is wrong with a command line, without the words of a parser."""
    text = " ".join(text.split()).rstrip(".")
    for pattern, words in _USAGE:
        text = pattern.sub(words, text)
    return text[:1].lower() + text[1:]
