"""What a durable backend keeps of runs: all of it is there after a restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clew.errors import LeaseHeldError
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Broken, Ticking, fail, said, say, texts
from clew.testing.backend.durable import DurableConformance


class DurableRunConformance(DurableConformance):
    """P1, P9, P10: status, lease and what a worker can resume from survive those who wrote them."""

    @pytest.mark.parametrize("end", ["complete", "fail", "close", None])
    def test_the_status_survives_a_restart(
        self, s: Session, restart: Callable[[], Store], end: str | None
    ) -> None:
        """With the run and every change of status."""
        s.start({"request": 1}, task="sync")
        arguments: tuple[Any, ...] = () if end == "close" else ("outcome",)
        if end == "close":
            s.complete()
        if end:
            getattr(s, end)(*arguments)
        before = s.info, s.status_changes()
        store = restart()
        again = store.get("s")

        assert (again.info, again.status_changes()) == before
        assert store.stats().by_status[before[0].status] == 1
        assert [info.id for info in store.list(status=before[0].status)] == ["s"]

    def test_a_lease_survives_a_restart(
        self, s: Session, restart: Callable[[], Store], clock: Ticking
    ) -> None:
        """Its holder may still be there; when its time is over, the next epoch follows."""
        say(s.run(owner="w", lease=30), "a")
        again = restart().get("s")
        lease = again.lease

        assert lease is not None
        assert (lease.owner, lease.epoch, again.info.status) == ("w", 1, "running")
        with pytest.raises(LeaseHeldError):
            say(again, "b")
        clock.now += 31_000_000
        again = restart().get("s")
        assert again.lease is None
        with again.run() as run:
            assert run.epoch == 2
            say(run, "c")
        assert [entry.epoch for entry in again.entries()] == [1, 2]
        assert [change.status for change in again.status_changes()] == [
            "running", "interrupted", "running", "completed",
        ]  # fmt: skip

    def test_an_epoch_is_never_given_out_twice(self, s: Session, restart: Callable[[], Store]) -> None:
        """J8: not after a restart either."""
        epochs: list[int] = []
        for _ in range(3):
            with s.run() as run:
                epochs.append(run.epoch)
            s = restart().get("s")

        assert (epochs, s.info.epoch) == ([1, 2, 3], 3)

    def test_a_worker_resumes_after_a_restart(self, s: Session, restart: Callable[[], Store]) -> None:
        """From the last checkpoint, in whatever process; the log says nothing twice."""
        run = s.run(task="sync")
        say(run, "step 1")
        run.add_usage(model="none", input_tokens=7, output_tokens=3)
        before = run.checkpoint(iteration=1, state={"next": 2}, system_prompt="p")
        say(run, "half of step 2")
        store = restart()
        with store.get("s").run(steal=True) as other:
            point = other.resume(system_prompt="p")
            assert (point.checkpoint, point.changed, point.ahead) == (before, (), True)
            assert texts(point.messages) == ["step 1"]
            other.rewind(point.head)
            say(other, "step 2")
            other.checkpoint(iteration=2)
        again = restart().get("s")

        assert said(again) == ["step 1", "step 2"]
        assert (again.resume().iteration, again.resume().checkpoint.name) == (2, "run-2-2")

    def test_an_aborted_turn_survives_a_restart(self, s: Session, restart: Callable[[], Store]) -> None:
        """P12: it is off the path, and `undo` brings it back."""
        say(s, "a")
        with pytest.raises(Broken):
            fail(s, lambda: say(s, "b"))
        again = restart().get("s")
        assert said(again) == ["a"]
        again.undo()
        assert said(again) == ["a", "b"]
