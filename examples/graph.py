"""Draws the tree of a session as lanes, oldest entry first, like `git log --graph` upside down.

    ●  0  user       The login page returns 500.
    ●  1  assistant  Two ways: a guard, or a middleware.   ◆ plan
    ├─╮
    │ ·  2  assistant  I rewrote auth.py.
    ├─╮
    │ ○  2  user       Try the middleware.                 ◀ login-bug#fork-1
    ●  2  user       Only guard line 42.                   ◀ login-bug

    python examples/graph.py agents.db login-bug

The path of the session runs straight down. What leaves it is drawn to the right, at once and whole, so
there are never more lanes than forks within forks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping

import clew
from clew.cli.views.graph import START, Row, draw


def lines(rows: Iterable[Row], describe: Callable[[clew.Head], str]) -> Iterator[str]:
    """The drawing as plain text; `describe` says what an entry is."""
    for row in rows:
        if row.folded:
            yield f"{row.lanes}  {row.folded} more"
            continue
        if row.entry is None:
            yield row.lanes
            continue
        what = describe(row.entry) if row.entry != START else "(empty)"
        position = f"{row.entry.position}  " if row.entry != START else ""
        names = [f"◆ {name}" for name in row.checkpoints] + [f"◀ {session}" for session in row.heads]
        yield "  ".join([f"{row.lanes}  {position}{what}", *names]).rstrip()


def summarise(message: Mapping[str, object], width: int = 60) -> str:
    """One line for a message."""
    said = str(message.get("content") or "…").replace("\n", " ")
    said = said if len(said) <= width else said[: width - 1] + "…"
    return f"{message.get('role', ''):<9}  {said}"


def main(address: str, id: str) -> None:
    """Print the tree of a session. What no path reaches is drawn without its text."""
    with clew.open(address, read_only=True) as store:
        tree = store.get(id).tree()
        said = {
            entry.id: summarise(entry.message) if entry.kind == "message" else f"[{entry.kind}]"
            for session in tree.heads
            for entry in store.get(session).entries(damaged="skip")
        }
        for line in lines(draw(tree), lambda entry: said.get(f"{entry.branch}.{entry.position}", "…")):
            print(line)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python examples/graph.py STORE SESSION")
    main(*sys.argv[1:])
