"""Holds what a crash left against what was acknowledged before it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tests.faults.campaign import Result
from tests.faults.history.checker import History, check
from tests.faults.history.rules import NEVER, Operation
from tests.faults.subjects import Subject
from tests.faults.workload.look import look_at
from tests.faults.workload.moves import Move, World, difference, played

ENDS: Final = ("acknowledged", "refused", "moved", "stopped", "unopened")


class Judge:
    """Knows the history of one store, over all the crashes that it went through."""

    def __init__(self, subject: Subject, result: Result, planted: str = "") -> None:
        self.subject = subject
        self._planted = planted
        self.retry: list[tuple[str, list[str], str]] = []
        """Appends with a key that nobody got an answer to."""
        self._result = result
        self._history = History()
        self._by_value: dict[str, Operation] = {}
        self._promised: dict[str, str] = {}
        self._worlds: dict[str, World] = {}
        self._doubtful: dict[str, list[Move]] = {}
        """By worker: the moves that were begun and not acknowledged; several if answers were not heard."""
        self._snapshots: dict[str, str] = {}

    def hear(self, heard: list[Any], *, over: int = NEVER) -> None:
        """Take in what a worker told. `over`: when the power was cut. What was said since then is not
        heard: a client without power sees neither errors nor answers, and a file system whose power fails
        inside a sync may call it done."""
        asked: dict[str, Operation] = {}
        keys: dict[str, str | None] = {}
        for kind, client, *told in heard:
            if kind in ENDS and told[-1] > over:
                self._result.saw("answers after the cut")
                continue
            match kind:
                case "asked":
                    asked[client] = self._asked(client, told[0], told[1], told[3])
                    keys[client] = told[2]
                case "acknowledged":
                    operation = asked.pop(client)
                    operation.outcome, operation.ended = "ok", told[-1]
                    self._promised.update(told[0])
                    self._result.acknowledged += 1
                case "refused":
                    operation = asked[client]
                    operation.outcome, operation.ended = told[0], told[-1]
                    self._result.found("refused", [told[1]])
                    if operation.outcome != "unknown":
                        del asked[client]
                case "move":
                    self._doubtful.setdefault(client, []).append(msgspec.convert(told[0], Move))
                case "moved":
                    self._moved(client, told[0], told[1])
                case "stopped" | "unopened":
                    self._result.found(f"{kind} {client}", [told[1]])
        self.retry = [
            (operation.session, operation.values, key)
            for client, operation in asked.items()
            if (key := keys.get(client))
        ]
        self._result.unknown += len(asked)

    def _asked(self, client: str, session: str, values: list[str], invoked: int) -> Operation:
        known = self._by_value.get(values[0])
        if known is not None:  # a second try of what nobody got an answer to
            known.outcome, known.ended, known.client = "unknown", NEVER, client
            self._result.saw("retried")
            return known
        operation = self._history.invoke(client, session, values)
        operation.invoked = invoked
        self._by_value[values[0]] = operation
        return operation

    def _moved(self, client: str, snapshot: str, content: str) -> None:
        (move,) = self._doubtful.pop(client)
        self._worlds[client] = played(self._worlds.get(client, {}), move)
        self._result.acknowledged += 1
        self._result.saw(move.kind)
        if snapshot:
            self._snapshots = {**dict(list(self._snapshots.items())[-2:]), snapshot: content}

    # -- the verdict

    def judge(self, where: str) -> bool:
        """Look at what is there; False: something is wrong with it."""
        before = len(self._result.wrong)
        self.subject.settle()
        found = look_at(self.subject, self._snapshots, self._planted)
        lines = [*found.wrong, *map(str, check(self._history.operations, found.logs))]
        moved = [id for id, hash in self._promised.items() if found.hashes.get(id) != hash]
        if moved:
            lines.append(f"{len(moved)} entries are not what was acknowledged: {moved[:3]}")
        lines += self._compare_worlds(found.world)
        self._settle({record.value for log in found.logs.values() for record in log})
        self._result.found(where, [line[:1500] for line in lines[:20]])
        return len(self._result.wrong) == before

    def _compare_worlds(self, found: World) -> list[str]:
        """Each worker's sessions are where its last acknowledged move left them, or a doubtful one."""
        lines = []
        workers = {*self._worlds, *self._doubtful}
        for worker in workers:
            mine = {name: state for name, state in found.items() if name.split("/")[0] == f"moves-{worker}"}
            expected = self._worlds.get(worker, {})
            wrong = difference(expected, mine)
            further = expected
            for move in self._doubtful.pop(worker, []):
                further = played(further, move)
                if wrong and not difference(further, mine):
                    wrong, self._worlds[worker] = "", further
                    self._result.saw("a move without an answer is there")
            if wrong:
                lines.append(f"the moves of {worker}: {wrong}")
        known = {f"moves-{worker}" for worker in workers}
        lines += [f"nobody made {name!r}" for name in found if name.split("/")[0] not in known]
        return lines

    def _settle(self, there: set[str]) -> None:
        """What nobody knew is known now: whatever is there must stay, whatever is not must stay away."""
        for operation in self._history.operations:
            if operation.outcome == "unknown":
                is_there = operation.values[0] in there
                operation.outcome = "ok" if is_there else "fail"
                self._result.saw("an append without an answer is " + ("there" if is_there else "not there"))
