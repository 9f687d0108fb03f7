"""`clew checkpoint`, `rewind`, `undo`, `redo`, `follow`, `fork`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import click

import clew
from clew.cli.app import PARTLY, Settings, command, complete_with, session_argument
from clew.cli.commands.files import conflict_option, exclude_option, include_option, say_left_out
from clew.cli.names import short_id, short_ids
from clew.cli.output import Output, yes_option
from clew.cli.store import opened, point_in, session_of, spot_of
from clew.cli.table import Column
from clew.cli.text import ago, clew_command, iso, one_line
from clew.cli.views.moves import Places, difference, history_rows, kind, noun, origin
from clew.cli.views.restoring import ask_for, report_lines, safety_line, say_unfinished
from clew.cli.views.sessions import new_words
from clew.errors import RestoreFailedError
from clew.exporters.programs.resuming import AGENTS
from clew.model import MoveInfo
from clew.model.files import RestoreReport

if TYPE_CHECKING:
    from clew.model.files import OnConflict

Verb: TypeAlias = Literal["rewind", "undo", "redo", "follow"]


@command(
    "checkpoint",
    "clew checkpoint login plan            name the current point",
    "clew checkpoint login plan --files .  save this directory with it",
    "clew checkpoint login                 list the checkpoints",
    "clew checkpoint login plan --rm       remove the name again",
)
@session_argument("id")
@click.argument("name", required=False)
@click.option(
    "--files", type=click.Path(exists=True, file_okay=False), help="Save this directory with the checkpoint"
)
@include_option
@exclude_option
@click.option("--rm", "removes", is_flag=True, help="Remove the name; the entries stay")
@click.option("-d", "--delete", "removes", is_flag=True, hidden=True)
@click.pass_obj
def checkpoint_command(
    settings: Settings,
    id: str,
    name: str | None,
    files: str | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    removes: bool,
) -> None:
    """Without NAME it lists the checkpoints.
    Piped: name, position, time (UTC), session and snapshot, separated by tabs.
    """
    if files is None and (include or exclude):
        raise click.UsageError("--include and --exclude go with --files")
    out = Output(settings)
    with opened(settings) as store:
        session = session_of(store, id)
        if name is None:
            _list_checkpoints(out, session)
            return
        if removes:
            session.get_checkpoint(name)
            session.delete_checkpoint(name)
            out.line(f"{name} is forgotten; the entries stay")
            return
        made = session.checkpoint(name, files=files, include=include, exclude=exclude)
        left_out = store.get_snapshot(made.snapshot).skipped if made.snapshot else ()
        shown = short_id(store, session.id)
    if out.json:
        out.record(made)
    else:
        kept = f", with the files of {Path(files).resolve()}" if files else ""
        out.line(f"{made.name} is entry {made.position} of {shown}{kept}")
    say_left_out(left_out)


def _list_checkpoints(out: Output, session: clew.Session) -> None:
    from clew.cli.views.checkpoints import checkpoint_cells

    found = session.checkpoints()
    if out.json:
        for checkpoint in found:
            out.record(checkpoint)
    elif not out.is_terminal:
        for one in found:
            out.row(one.name, one.position, iso(one.created_at), one.session, one.snapshot)
    else:
        columns = (
            Column("NAME", "yellow", flexible=True),
            Column("AT", right=True),
            Column("SET", "bright_black"),
            Column("FILES", "bright_black"),
        )
        cells = checkpoint_cells(session)
        rows = [(cells.get(c.name, c.name), c.position, ago(c.created_at), c.snapshot) for c in found]
        out.rows(columns, rows)


@command(
    "rewind",
    "clew rewind login plan          go to the checkpoint plan",
    "clew rewind login 12            make entry 12 the last one",
    "clew rewind login plan --files  bring back its files too",
    "clew undo login                 take the rewind back",
)
@session_argument("id")
@click.argument("to", required=False, shell_complete=complete_with("complete_place"))
@click.option("--files", is_flag=True, help="Restore the files of that point too")
@click.option("--root", type=click.Path(), help="Restore the files in this directory")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing")
@conflict_option
@yes_option
@click.pass_obj
def rewind_command(
    settings: Settings,
    id: str,
    to: str | None,
    files: bool,
    root: str | None,
    dry_run: bool,
    on_conflict: OnConflict,
    yes: bool,
) -> int:
    """TO is a checkpoint, a position or the name of an entry, as clew log shows it; ID@TO means the same.
    Nothing is removed, and clew undo goes back again.

    With --files the directory becomes what it was then. The changes are shown first, and you are asked. The
    present files are saved first, and clew undo brings them back.

    Of a session that was imported from an agent only Clew's view moves: the agent stays where it is. clew
    resume continues in the agent from the new point, and clew follow goes back to the agent.
    """
    if root is not None and not files:
        raise click.UsageError("--root is for --files: the conversation has no directory")
    out = Output(settings)
    with opened(settings) as store:
        session, point = _spot(store, id, to)
        step = _Step(settings, out, store, session)
        move = partial(session.rewind, point, files=root or files, on_conflict=on_conflict)
        plan = move(dry_run=True)
        if dry_run:
            return step.say_dry("rewind", clew.Head(plan.branch, plan.position), plan.files)
        if plan.files is not None:
            ask_for(plan.files, yes=yes)
        return step.take("rewind", move)


def _spot(store: clew.Store, id: str, to: str | None) -> tuple[clew.Session, clew.Head | str | int]:
    """Where to go: `ID TO`, or `ID@TO`."""
    if to is not None:
        session = session_of(store, id)
        return session, point_in(session, to)
    spot = spot_of(store, id)
    if spot.point is None:
        raise click.UsageError("missing argument TO", click.get_current_context())
    return spot.session, spot.point


root_option = click.option("--root", type=click.Path(), help="Restore the files in this directory")
dry_option = click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing")
list_option = click.option("--list", "history", is_flag=True, help="List all moves, newest first")


@command(
    "undo",
    "clew undo login",
    "clew undo login --dry-run  show what would be done",
    "clew undo login --list     list all moves, as git reflog does",
)
@session_argument("id")
@list_option
@root_option
@dry_option
@yes_option
@click.pass_obj
def undo_command(
    settings: Settings, id: str, history: bool, root: str | None, dry_run: bool, yes: bool
) -> int:
    """Files that the move restored come back too. The changes are shown first, and you are asked. A directory
    in which you have not used this store before is not touched unless --root names it.

    --list prints all moves, as git reflog does; clew rewind and clew show take the places that it names.
    Piped: number, time (UTC), move, from, to, and undo or redo where that comes next, separated by tabs.
    """
    return (
        _list_moves(settings, id) if history else _move(settings, id, "undo", root, dry_run=dry_run, yes=yes)
    )


@command("redo", "clew redo login", "clew redo login --list            list all moves")
@session_argument("id")
@list_option
@root_option
@dry_option
@yes_option
@click.pass_obj
def redo_command(
    settings: Settings, id: str, history: bool, root: str | None, dry_run: bool, yes: bool
) -> int:
    """It restores files as clew undo does."""
    return (
        _list_moves(settings, id) if history else _move(settings, id, "redo", root, dry_run=dry_run, yes=yes)
    )


@command(
    "follow",
    "clew follow login",
    "clew follow login --dry-run  show where it would go",
    "clew undo login              go back to where it was",
)
@session_argument("id")
@dry_option
@click.pass_obj
def follow_command(settings: Settings, id: str, dry_run: bool) -> int:
    """For a session that was imported from an agent and rewound here. Its head goes to the end of the agent's
    branch, and moves on with what the agent writes. clew ls says how many messages are new there.
    """
    out = Output(settings)
    with opened(settings) as store:
        session = session_of(store, id)
        step = _Step(settings, out, store, session)
        if dry_run:
            plan = session.follow(dry_run=True)
            return step.say_dry("follow", clew.Head(plan.branch, plan.position), None)
        return step.take("follow", session.follow)


def _move(
    settings: Settings, id: str, verb: Literal["undo", "redo"], root: str | None, *, dry_run: bool, yes: bool
) -> int:
    out = Output(settings)
    with opened(settings) as store:
        session = session_of(store, id)
        step = _Step(settings, out, store, session)
        move = session.undo if verb == "undo" else session.redo
        plan = move(root=root, dry_run=True)
        if dry_run:
            return step.say_dry(verb, clew.Head(plan.branch, plan.position), plan.files)
        if plan.files is not None:
            ask_for(plan.files, yes=yes)
        return step.take(verb, lambda: move(root=root))


class _Step:
    """One move of a session, and what is said of it."""

    def __init__(self, settings: Settings, out: Output, store: clew.Store, session: clew.Session) -> None:
        self._settings = settings
        self._out = out
        self._session = session
        self._before = session.info
        self._places = Places(session.tree())
        self._shown = short_id(store, session.id)
        say_unfinished(store)

    def take(self, verb: Verb, move: Callable[[], clew.model.Moved]) -> int:
        """Do it, and say what was done; of files that could not be restored, which."""
        taken = origin(self._session.moves(), verb) if verb in ("undo", "redo") else None
        try:
            files = move().files
        except RestoreFailedError as exc:
            moved = self._session.head != self._before.head
            if not moved or not isinstance(exc.report, RestoreReport):
                raise
            files = exc.report
        after = self._session.info
        if self._out.json:
            record = {"id": after.id, "head": after.head, "messages": after.messages, "files": files}
            record |= {"came_from": self._before.head, "move": verb, "of": taken}
            self._out.record(
                {**record, "agent_branch": after.agent_branch, "resume": self._resume(after, after.id)}
            )
        else:
            report = [] if files is None else list(report_lines(files))
            done = one_line(self._done(verb, taken, after))
            self._out.texts([*report, done, *self._of_agent(after), *self._back(verb, files)])
        return PARTLY if files is not None and files.failed else 0

    def _done(self, verb: Verb, taken: MoveInfo | None, after: clew.SessionInfo) -> str:
        now = difference(self._before.messages, after.messages)
        if verb == "rewind":
            return f"rewound {self._shown} to {self._places.words(after.head)}: {now}"
        if verb == "follow":
            if after.head == self._before.head:
                return f"{self._shown} is with its agent already, at {self._places.name(after.head)}"
            return f"{self._shown} is with its agent again, at {self._places.name(after.head)}: {now}"
        what = "the last move" if taken is None else noun(taken, self._places)
        there = self._places.name(after.head)
        if verb == "undo":
            return f"undid {what}: {self._shown} is back at {there}, {now}"
        return f"redid {what}: {self._shown} is at {there} again, {now}"

    def _of_agent(self, after: clew.SessionInfo) -> Iterator[str]:
        """On a terminal: where the agent stands, if that is elsewhere, and how to bring both together."""
        branch = after.agent_branch
        if not self._out.is_terminal or branch is None or branch.head == after.head:
            return
        who = after.agent or "its agent"
        yield one_line(f"This moved Clew's view only; {who} stands at {self._places.name(branch.head)}.")
        if branch.new:
            yield f"{new_words(after)}: {clew_command(self._settings, 'follow', self._shown)}"
        if (resume := self._resume(after, self._shown)) is not None:
            yield one_line(f"{resume} continues from here in the agent")

    def _resume(self, after: clew.SessionInfo, id: str) -> str | None:
        """The command that continues in the agent from where the session stands here; None: the agent stands
        there too, or no copy can be written for it."""
        branch = after.agent_branch
        if branch is None or branch.head == after.head or after.agent not in AGENTS:
            return None
        return clew_command(self._settings, "resume", id)

    def _back(self, verb: Verb, files: RestoreReport | None) -> Iterator[str]:
        """How to take it back: always if files changed, else where it may not be known."""
        back = clew_command(self._settings, "redo" if verb == "undo" else "undo", self._shown)
        kept = None if files is None else safety_line(files, back)
        if kept is not None:
            yield one_line(kept)
        elif (
            verb in ("rewind", "follow") and self._out.is_terminal and self._session.head != self._before.head
        ):
            yield one_line(f"{back} takes it back")

    def say_dry(self, verb: Verb, there: clew.Head, plan: RestoreReport | None) -> int:
        before = self._before.head
        if self._out.json:
            said = {"id": self._session.id, "dry_run": True, "head": before, "to": there, "files": plan}
            self._out.record(said)
            return 0
        report = [] if plan is None else list(report_lines(plan))
        way = f"go from {self._places.name(before)} to {self._places.words(there)}"
        if there == before:
            way = f"stay at {self._places.words(there)}"
        if verb in ("rewind", "follow"):
            self._out.texts([*report, one_line(f"{self._shown} would {way}")])
            return 0
        taken = origin(self._session.moves(), verb)
        what = "the last move" if taken is None else noun(taken, self._places)
        self._out.texts([*report, one_line(f"would {verb} {what}: {self._shown} would {way}")])
        return 0


def _list_moves(settings: Settings, id: str) -> int:
    out = Output(settings)
    with opened(settings) as store:
        session = session_of(store, id)
        moves, places = session.moves(), Places(session.tree())
        shown = short_id(store, session.id)
        say_unfinished(store)
    if out.json:
        for move in moves:
            names = {"from": places.name(move.came_from), "to": places.name(move.went_to)}
            fields = {field: getattr(move, field) for field in move.__struct_fields__}
            out.record({"session": session.id, **names, **fields})
    elif not out.is_terminal:
        for move in moves:
            places_named = (places.name(move.came_from), places.name(move.went_to))
            out.row(move.number, iso(move.at), kind(move), *places_named, move.next)
    elif not moves:
        out.line(f"{shown} has never moved: there is nothing to undo")
    else:
        columns = (
            Column("", "bold bright_green"),
            Column("NR", right=True),
            Column("WHEN", "bright_black"),
            Column("MOVE"),
            Column("FROM", "yellow"),
            Column("TO", "yellow", flexible=True),
        )
        out.rows(columns, list(history_rows(moves, places)))
    return 0


def place_words(head: clew.Head) -> str:
    return f"entry {head.position}" if head.position >= 0 else "the beginning"


@command(
    "fork",
    "clew fork login                   start login#fork-1 from its current point",
    "clew fork login@plan try-b        start try-b from the checkpoint plan",
)
@session_argument("id", metavar="ID[@PLACE]")
@click.argument("new_id", required=False)
@click.pass_obj
def fork_command(settings: Settings, id: str, new_id: str | None) -> None:
    """No message is copied, and neither session changes the other."""
    out = Output(settings)
    with opened(settings) as store:
        session, point = spot_of(store, id)
        forked = session.fork(new_id, at=point).info
        place = Places(session.tree()).words(forked.head)
        shown = short_ids(store, (forked.id, session.id))
    if out.json:
        out.record(forked)
    else:
        out.line(f"{shown[forked.id]} begins at {place} of {shown[session.id]}")
