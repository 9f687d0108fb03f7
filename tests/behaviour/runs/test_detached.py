"""Runs of workers that are not this process: the lease is theirs, and a text is all they need to write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import clew
from clew.core.log.lease import Holder
from clew.core.runs.access import lease_of
from clew.errors import InvalidError, LeaseHeldError, LeaseLostError
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Ticking, said, say
from tests.behaviour.values import SECOND
from tests.support.rows import each_row


def test_another_handle_goes_on_with_a_detached_run_by_its_secret(s: Session) -> None:
    """P9: the lease belongs to whoever has its secret, in whatever process."""
    secret = s.run("fix it", owner="worker", task="fix", detached=True).secret

    with s.attach(secret) as run:
        assert (run.owner, run.task, run.epoch, run.secret) == ("worker", "fix", 1, secret)
        say(run, "a")
        run.checkpoint("half", iteration=1)

    assert (said(s), s.info.status, s.lease) == (["a"], "completed", None)
    assert s.resume().iteration == 1
    assert [change.by for change in s.status_changes()] == ["worker", "worker"]


def test_a_detached_lease_runs_out_unless_it_is_renewed(timed: Store, steady: Ticking) -> None:
    """P9: no thread renews it, so its worker does."""
    s = timed.session("s")
    run = s.run(lease=30, owner="far away", detached=True)
    steady.now += 20 * SECOND
    assert run.renew().owner == "far away"
    steady.now += 20 * SECOND
    with pytest.raises(LeaseHeldError):
        s.run()
    steady.now += 11 * SECOND
    s.run(owner="next")
    for lost in (run.renew, lambda: say(run, "late"), lambda: s.attach(run.secret), run.complete):
        with pytest.raises(LeaseLostError):
            lost()


def test_no_process_stands_for_a_detached_run(s: Session) -> None:
    """So its end says nothing about the worker."""
    s.run(detached=True)
    with s._look() as (reader, row):
        lease = lease_of(reader, row)
    assert lease is not None
    assert lease.holder == Holder()


def test_the_end_of_the_process_that_took_a_detached_lease_frees_nothing(tmp_path: Path) -> None:
    """P9: the worker is elsewhere, and may be alive."""
    code = (
        "import clew, os, sys; s = clew.open(sys.argv[1]).session('s')\n"
        "print(s.run(owner='far away', lease=60, detached=True).secret, flush=True); os._exit(9)"
    )
    store = str(tmp_path / "store.db")
    ended = subprocess.run([sys.executable, "-c", code, store], capture_output=True, text=True, check=False)
    assert ended.returncode == 9, ended.stderr
    with clew.open(store) as opened:
        s = opened.get("s")
        with pytest.raises(LeaseHeldError):
            s.run()
        assert [one.id for one in opened.interrupted()] == []
        say(s.attach(ended.stdout.strip()), "still mine")


@pytest.mark.parametrize("change", ["epoch", "fence"])
def test_s21_a_lease_that_is_guessed_is_no_lease(s: Session, change: str) -> None:
    """P9: the secret is compared inside the write."""
    run = s.run(owner="worker", detached=True)
    epoch, fence = run.secret.split(".")
    guess = f"{int(epoch) + 1}.{fence}" if change == "epoch" else f"{epoch}.{int(fence, 16) ^ 1:x}"
    with pytest.raises(LeaseLostError):
        s.attach(guess)
    assert s.lease is not None
    run.append({"role": "user", "content": "mine"})


@each_row("text", ["", "1", "1.", ".1", "1.0", "0.1", "1.G", "1.1 ", "1." + "f" * 17, "1.-1"])
def test_what_no_run_has_is_refused(s: Session, text: str) -> None:
    """A text that is no secret is told from a lease that is lost."""
    with pytest.raises(InvalidError, match="secret"):
        s.attach(text)
