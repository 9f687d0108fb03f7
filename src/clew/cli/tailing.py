"""`clew tail`: the end of a session, and what comes after it."""

from __future__ import annotations

import click

import clew
from clew.cli.app import Settings, command, session_argument
from clew.cli.commands.show import entry_record
from clew.cli.output import Output, print_line, terminal
from clew.cli.store import opened, session_of


@command(
    "tail",
    "clew tail login                       its last ten entries",
    "clew tail -f login                    and what comes, until Ctrl-C",
    "clew tail -f --all --json             every session, for programs",
)
@session_argument("id", required=False)
@click.option(
    "-n", "--last", type=click.IntRange(0), default=10, show_default=True, help="Begin with so many."
)
@click.option("-f", "--follow", is_flag=True, help="Go on as the session grows.")
@click.option("--all", "everything", is_flag=True, help="Follow all sessions of the store; needs -f.")
@click.option("--every", type=click.FloatRange(0.01), default=0.5, hidden=True)
@click.pass_obj
def tail_command(
    settings: Settings, id: str | None, last: int, follow: bool, everything: bool, every: float
) -> None:
    """The end of a session; -f goes on as it grows, whatever process writes to it.

    After a rewind it goes on with what is new on the path. --json: one entry a line.
    """
    if everything and (id is not None or not follow):
        raise click.UsageError("--all goes with -f, and without an id")
    out = Output(settings)
    with opened(settings) as store:
        # The watch begins before the first look: nothing can come between the two.
        changes = store.watch(every=every) if follow else iter(())
        tail = _Tail(out, store)
        only = None
        if not everything:
            session = session_of(store, id)
            only = session.id
            tail.show(session, last)
        else:
            tail.mark_all()
        for change in changes:
            if only in (None, change.session):
                tail.catch_up(change.session)


class _Tail:
    """Remembers of each session what was printed of it."""

    def __init__(self, out: Output, store: clew.Store) -> None:
        self._out = out
        self._store = store
        self._heads: dict[str, clew.Head] = {}
        self._spoke_last: str | None = None

    def mark_all(self) -> None:
        from clew.cli.store import all_sessions

        self._heads = {info.id: info.head for info in all_sessions(self._store)}

    def show(self, session: clew.Session, last: int) -> None:
        head = session.head
        for entry in session.entries(last=last, damaged="skip"):
            if entry.position <= head.position:
                self._print(session.id, entry)
        self._heads[session.id] = head

    def catch_up(self, id: str) -> None:
        """Print what is on the path now and was not when it was last looked at."""
        from clew.cli.places import path_to

        session = self._store.find(id)
        if session is None:
            return
        was, tree = self._heads.get(id), session.tree()
        head = tree.heads[session.id]
        if head == was:
            return
        known = {branch: last for branch, _, last in path_to(tree, was)} if was else {}
        for entry in session.entries(after=_last_common(path_to(tree, head), known), damaged="skip"):
            if entry.position <= head.position:
                self._print(id, entry)
        self._heads[id] = head

    def _print(self, id: str, entry: clew.Entry) -> None:
        import sys

        if self._out.json:
            self._out.record(entry_record(id, entry))
        else:
            from clew.cli.commands.show import transcript

            if self._spoke_last not in (None, id):
                self._out.line()
                self._out.line(f"── {id}")
            self._spoke_last = id
            for line in transcript([entry], None, set(), full=False):
                if self._out.is_terminal:
                    print_line(terminal(), line)
                else:
                    self._out.line(line.plain)
        sys.stdout.flush()


def _last_common(path: list[tuple[str, int, int]], known: dict[str, int]) -> int | None:
    """The position up to which a path was printed before; None: nothing of it was."""
    common = [min(last, known[branch]) for branch, first, last in path if known.get(branch, -1) >= first]
    return max(common) if common else None
