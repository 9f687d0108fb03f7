"""Campaigns: how they are started, and what they give."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import msgspec

from tests.faults.subjects import Subject, address_of, subject_at
from tests.support.children import Child, ProcessFailed
from tests.support.forks import call_in_fork


class Result(msgspec.Struct):
    """What a campaign tried, and what came of it."""

    cycles: int = 0
    """How often something was broken."""
    acknowledged: int = 0
    """Operations that were acknowledged before, and looked for afterwards."""
    unknown: int = 0
    """Operations that nobody got an answer to: they may be there, as a whole, or not."""
    wrong: list[str] = msgspec.field(default_factory=list)
    """Broken promises, in words; [] when all were kept."""
    seen: dict[str, int] = msgspec.field(default_factory=dict)
    """How often what happened: a campaign in which something never did proves nothing about it."""

    def saw(self, what: str, times: int = 1) -> None:
        self.seen[what] = self.seen.get(what, 0) + times

    def found(self, where: str, lines: list[str]) -> None:
        self.wrong += [f"{where}: {line}" for line in lines]


def told_by(child: Child) -> list[Any]:
    """All that a process tells until its end, which must be a good one."""
    heard = child.hear_all()
    if child.wait() != 0:
        raise ProcessFailed(f"a process ended with {child.status}")
    return heard


def campaign(function: Callable[..., Result], subject: Subject, **options: Any) -> Result:
    """Run a campaign on a subject in a process of its own. The options must be JSON."""
    module = function.__module__
    given = call_in_fork(
        _run, module, function.__name__, address_of(subject), options, also=[module, "tests.faults.plants"]
    )
    return msgspec.convert(given, Result)


def _run(module: str, name: str, address: list[str], options: dict[str, Any]) -> Any:
    result: Result = getattr(import_module(module), name)(subject_at(address), **options)
    return msgspec.to_builtins(result)
