"""F-03: real power cuts, on file systems in files. `make faults` makes hundreds of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.campaign import campaign
from tests.faults.campaigns.power import cut_power, why_not
from tests.faults.subjects import SUBJECTS, Subject, available
from tests.support.effort import usually

CUTS = {"ext4": usually(4, thorough=6), "xfs": usually(2, thorough=4)}


def need_power(filesystem: str) -> None:
    """Where no power can be cut this says so; in CI that is a failure."""
    reason = why_not(filesystem)
    if reason and "CI" in os.environ:
        pytest.fail(f"NO POWER WAS CUT: {reason}, and in CI this test must run")
    if reason:
        pytest.skip(f"NO POWER WAS CUT: {reason}")


@pytest.mark.parametrize("filesystem", CUTS)
def test_f03_whatever_was_acknowledged_is_there_after_the_power_was_cut(
    subject_on_disk: Subject, filesystem: str
) -> None:
    """P1, P2, P12: single appends, batches, group commits, forks, rewinds, checkpoints with files."""
    need_power(filesystem)

    result = campaign(cut_power, subject_on_disk, cuts=CUTS[filesystem], seed=1, filesystem=filesystem)

    assert result.wrong == []
    assert result.acknowledged > 2 * CUTS[filesystem]


def test_f03_whatever_was_acknowledged_is_there_after_the_power_was_cut_inside_a_purge(
    subject_on_disk: Subject,
) -> None:
    """P1, P11, P18: what a purge or a scrub writes anew is what was there."""
    need_power("ext4")

    cuts = usually(4, thorough=12)
    result = campaign(cut_power, subject_on_disk, cuts=cuts, seed=1, purges=True)

    assert result.wrong == []
    assert result.seen["scrub"] + result.seen["purge"] > cuts


@pytest.mark.timeout(320)
def test_the_power_cuts_find_a_log_that_is_known_by_its_end_alone(tmp_path: Path) -> None:
    """What was written anew may be as long as before, and end as before. Some 15 cuts find it, on a busy
    machine more: the first one that does is the last."""
    need_power("ext4")

    planted = "jsonl: a log known by its end"
    subject = SUBJECTS["jsonl"](tmp_path / "subject")
    result = campaign(cut_power, subject, cuts=200, seed=1, purges=True, planted=planted, timeout=300)

    assert any("the moves of" in line or "J10" in line for line in result.wrong)


def plants() -> list[tuple[str, str]]:
    found = [(name, "acknowledge before commit") for name in available()]
    found += [(name, f"{name}: missing fsync") for name in available()]
    return [*found, ("sqlite", "sqlite: NORMAL for FULL")]


@pytest.mark.parametrize("filesystem", CUTS)
@pytest.mark.parametrize(("name", "planted"), plants())
def test_the_power_cuts_find_a_planted_bug(tmp_path: Path, filesystem: str, name: str, planted: str) -> None:
    need_power(filesystem)

    subject = SUBJECTS[name](tmp_path / "subject")
    result = campaign(cut_power, subject, cuts=10, seed=2, filesystem=filesystem, planted=planted)

    assert any("J1" in line or "the moves of" in line for line in result.wrong)


def test_a_test_that_needs_power_cuts_fails_in_ci_when_there_are_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="NO POWER WAS CUT"):
        need_power("ext4")
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="only root"):
        need_power("ext4")
