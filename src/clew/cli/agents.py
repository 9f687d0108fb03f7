"""Agents by their names, in options and arguments: short forms are taken, and what is unknown is an error."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

import click

import clew
from clew.importers import READERS, agent_named


class AgentName(click.Choice[str]):
    """One of some agents, or of the formats that are named after them. `kind`: what they are called."""

    def __init__(self, names: Iterable[str], kind: str = "agent") -> None:
        super().__init__(list(names))
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        found = agent_named(str(value), self.choices)
        return found if found is not None else self.fail(unknown(self.kind, value, self.choices), param, ctx)


def agent_in(store: clew.Store, text: str | None) -> str | None:
    """The agent that a filter names: one whose sessions are in the store, or that can be imported. UsageError
    lists them all."""
    if text is None or text in READERS:
        return text
    with store._engine.read() as reader:
        here = list(reader.count_by("agent"))
    known = list(dict.fromkeys([*here, *READERS]))
    found = agent_named(text, known)
    if found is None:
        raise click.UsageError(unknown("agent", text, known), click.get_current_context(silent=True))
    return found


ARTICLES: Final = {"agent": "an agent", "client": "a client", "format": "a format"}


def unknown(kind: str, text: str, known: Collection[str]) -> str:
    return f"{text!r} is not {ARTICLES[kind]} that Clew knows; there are {', '.join(known)}"
