"""The command that a client starts.

Settings of the user name the program with its whole path: a client that was started from the desktop does not
know the PATH of a shell. Settings of a project are shared with others, so they say `clew`. A program of a
virtual environment is named only if there is no other: the environment may go away.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from clew.backends.registry import masked, parse, whole
from clew.core.own_program import own_program
from clew.errors import InvalidError
from clew.server.mcp.install.clients import WORKSPACE, Client

_REPLACED: Final = ("$", "{env:", "{file:")
"""What clients replace in their settings by something else."""


class Wish(NamedTuple):
    """How `clew mcp` is to be started."""

    store: str | None = None
    """Its address. None: the user's own."""
    workspace: Path | None = None
    """None: where the client works."""
    sees_all: bool = False
    writes: bool = False
    sync: bool = True


class Program(NamedTuple):
    """What starts `clew`."""

    words: tuple[str, ...]
    is_of_environment: bool
    """It is gone when that virtual environment is."""


def find_program(*, is_shared: bool = False) -> Program:
    """The `clew` of this user. `is_shared`: for settings that others read, too."""
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        found = shutil.which("clew", path=directory) if os.path.isabs(directory) else None
        if found is not None and not (Path(found).parent.parent / "pyvenv.cfg").exists():
            return Program(("clew",) if is_shared else (found,), is_of_environment=False)
    is_of_environment = sys.prefix != sys.base_prefix
    return Program(own_program(), is_of_environment)


def command_line(client: Client, program: Program, wish: Wish, *, is_project: bool) -> list[str]:
    """The words that the client starts. InvalidError: it would change one of them."""
    own = client.project_workspace if is_project else client.workspace
    words = [*program.words, "mcp"]
    if wish.store is not None:
        words += ["--store", address_of(wish.store)]
    if wish.workspace is not None or own:
        words += ["--workspace", str(wish.workspace.absolute()) if wish.workspace is not None else own]
    words += ["--all"] if wish.sees_all else []
    words += ["--allow", "write"] if wish.writes else []
    words += ["--sync"] if wish.sync else []
    for word in words:
        if word != WORKSPACE and any(sign in word for sign in _REPLACED):
            raise InvalidError(
                f"{client.title} would change {word!r} when it reads its settings, because of the sign "
                "$ or {; use a path without it"
            )
    return words


def address_of(store: str) -> str:
    """An address that means the same wherever it is read. Passwords stay out of the settings of clients."""
    if masked(store) != store:
        raise InvalidError(
            f"{masked(store)} holds a password, which the settings of a client must not; "
            "clew config store ADDRESS sets it once, and clew mcp reads it there"
        )
    if parse(store)[0] == "memory":
        raise InvalidError("a store in memory has no sessions to search; name a file or a server")
    return whole(store)


def is_ours(words: Sequence[object]) -> bool:
    """Whether this starts `clew mcp`, whoever wrote it."""
    names = [os.path.basename(word) if isinstance(word, str) else "" for word in words]
    return "clew" in names and "mcp" in words[names.index("clew") + 1 :]
