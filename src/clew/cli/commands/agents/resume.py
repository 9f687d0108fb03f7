"""`clew resume`: go on with a session in an agent."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap
from typing import Final

import click

import clew
from clew.cli.agents import AgentName
from clew.cli.app import Refused, Settings, command, flush, session_argument
from clew.cli.output import Output, terminal_size
from clew.cli.store import opened, spot_of
from clew.cli.text import from_home, one_line
from clew.exporters.programs.resume_command import in_shell, own_command, own_file

PROGRAMS: Final = {
    "claude-code": "claude",
    "codex": "codex",
    "gemini-cli": "gemini",
    "opencode": "opencode",
    "pi": "pi",
}
"""The agents that can go on with any session, and what each is started by."""
AGENTS: Final = tuple(PROGRAMS)


@command(
    "resume",
    "clew resume login                  print the command that goes on with it",
    "clew resume login --exec           go on with it now",
    "clew resume login@30               go on from entry 30, in a copy",
    "clew resume login@30 --in codex    go on from there in Codex",
    'eval "$(clew resume login)"        the same as --exec, in your shell',
)
@session_argument("id", metavar="ID[@PLACE]")
@click.option(
    "--in", "agent", type=AgentName(AGENTS), help="Go on in this agent, whichever one wrote the session"
)
@click.option(
    "--directory",
    type=click.Path(),
    help="Go on in this directory, not in the one where the session worked",
)
@click.option("--exec", "run", is_flag=True, help="Run the command instead of printing it")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and write nothing")
@click.pass_obj
def resume_command(
    settings: Settings, id: str, agent: str | None, directory: str | None, run: bool, dry_run: bool
) -> None:
    """A session that its agent still has, and that was not changed here, goes on in the agent's own file.
    Else a copy is written where the agent looks for sessions: under a new id, never over a file. It ends at
    PLACE, or at the current point. A copy of the same messages that nobody has continued is used again. What
    the agent cannot be given is named.
    Piped: the command alone. With --json: the command, its directory and what was written.
    """
    out = Output(settings)
    with opened(settings) as store:
        session, point = spot_of(store, id)
        info = session.info
        place = _directory(info, directory)
        # An agent finds a session of its own in its own directory only.
        is_there = directory is None or os.path.realpath(place) == info.workspace
        own = own_command(info) if point is None and agent is None and is_there else None
        if own is not None and not own.is_subagent and (file := _own_file(session)) is not None:
            going = Going(info.id, info.agent or "", own.words, place)
            going.notes.append(f"Nothing was changed here: it goes on in its own file, {from_home(file)}.")
            if _has_grown(store, file):
                going.notes.append("The file has changed since it was read; clew sync brings what is new.")
            _check_program(own.words[0], run)
        else:
            going = Going(info.id, agent or _agent_of(info), [], place)
            _check_program(PROGRAMS[going.agent], run)
            going.notes += _notes_of(info)
            if _takes_unused(going, store, point):
                pass
            elif dry_run:
                _plan(going, store, point)
            else:
                _write(going, store, point)
    _tell(out, going, is_dry=dry_run)
    if run and not dry_run:
        flush()
        os.chdir(going.directory)
        os.environ["PWD"] = going.directory  # as a shell does; OpenCode goes by it
        os.execvp(going.command[0], going.command)


@dataclass
class Going:
    """How a session goes on."""

    session: str
    agent: str
    command: list[str]
    """Empty: a copy would be written, and its id is not known before."""
    directory: str
    id: str | None = None
    """The agent's own, of a copy."""
    is_reused: bool = False
    """The copy was written before."""
    written: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _own_file(session: clew.Session) -> str | None:
    """The agent's file, if a session is there as it is here."""
    from clew.exporters.programs.resuming import is_changed

    return own_file(session.info) if is_changed(session) is False else None


def _has_grown(store: clew.Store, file: str) -> bool:
    """Whether the agent wrote to a file since it was imported."""
    from clew.importers.ledger import Ledger

    source = Ledger(store._engine).find(file)
    stamps = () if source is None else source.seen
    try:
        return any(stamp.path == file and stamp.size != os.stat(file).st_size for stamp in stamps)
    except OSError:
        return False


def _takes_unused(going: Going, store: clew.Store, point: clew.Head | str | int | None) -> bool:
    """Whether there is a copy that nobody has used."""
    from clew.exporters.programs.resuming import unused_copy

    copy = unused_copy(store, going.session, going.agent, at=point, directory=going.directory)
    if copy is None:
        return False
    going.command, going.id, going.is_reused = copy.command, copy.id, True
    file = from_home(str(copy.paths[0]))
    going.notes.append(f"Nobody has continued the copy that was written before: using {file} again.")
    return True


def _write(going: Going, store: clew.Store, point: clew.Head | str | int | None) -> None:
    from clew.exporters.programs.resuming import note_copy, writer_of

    written = writer_of(going.agent).write_session(
        store, going.session, at=point, home=Path.home(), workspace=going.directory, new_id=None
    )
    note_copy(store, going.session, going.agent, written, at=point)
    going.command, going.directory, going.id = written.command, written.directory, written.id
    going.written = written.paths
    going.notes += [_sentence(note) for note in written.notes]


def _plan(going: Going, store: clew.Store, point: clew.Head | str | int | None) -> None:
    """What a copy would be; nothing is written."""
    from clew.exporters.programs.replay import Replay

    replay = Replay(store, going.session, going.agent, at=point, is_copy=True)
    going.notes += [_sentence(note) for note in replay.notes()]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")


def _agent_of(info: clew.SessionInfo) -> str:
    agent = info.agent or info.id.partition(":")[0]
    if agent in AGENTS:
        return agent
    known = ", ".join(AGENTS)
    who = f"no copy can be written for {one_line(info.agent)}" if info.agent else "no agent is known to it"
    raise Refused(f"{who}; name one that goes on with it by --in: {known}")


def _directory(info: clew.SessionInfo, given: str | None) -> str:
    """Where the agent goes on; it must be there."""
    if given is not None:
        place = os.path.abspath(given)
        if not os.path.isdir(place):
            raise Refused(f"there is no directory {given!r}")
        return place
    known = info.workspace_given or info.workspace
    if known is None:
        return os.getcwd()
    if not os.path.isdir(known):
        raise Refused(f"the directory of the session is gone: {known}; name another one with --directory DIR")
    return known


def _check_program(name: str, run: bool) -> None:
    if run and shutil.which(name) is None:
        raise Refused(f"{name} is not installed, or not in PATH; without --exec the command is printed")


def _notes_of(info: clew.SessionInfo) -> list[str]:
    if info.parent is not None:
        return ["It was a subagent; there it is a session of its own, and its parent does not know of it."]
    return []


def _tell(out: Output, going: Going, *, is_dry: bool) -> None:
    shell = in_shell(going.command, going.directory) if going.command else None
    if out.json:
        out.record(
            {
                "session": going.session,
                "agent": going.agent,
                "id": going.id,
                "command": going.command or None,
                "directory": going.directory,
                "shell": shell,
                "written": [str(path) for path in going.written],
                "reused": going.is_reused,
                "notes": going.notes,
                "dry_run": is_dry,
            }
        )
        return
    if out.is_terminal or is_dry:
        if shell is None:
            out.line(f"Would write a copy for {going.agent}, to go on in {from_home(going.directory)}")
        for path in going.written[:1]:
            out.line(f"Written for {going.agent}: {from_home(str(path))}")
        for note in going.notes:
            for line in wrap(note, terminal_size().columns) if out.is_terminal else [note]:
                out.line(line)
        if shell is not None:
            out.line("Go on with:")
            out.line()
            out.line(f"  {shell}")
    else:
        out.line(shell or "")
