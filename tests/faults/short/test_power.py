"""F-03: real power cuts, on file systems in files. `make faults` makes hundreds of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.campaign import campaign
from tests.faults.campaigns.crashes import lose_the_index
from tests.faults.campaigns.power import cut_power, why_not
from tests.faults.subjects import SUBJECTS, JsonlSubject, Subject
from tests.support.needs import need


def need_power(filesystem: str) -> None:
    need("root")
    need(f"mkfs.{filesystem}")
    if reason := why_not(filesystem):
        need("root", reason)


def test_f03_whatever_was_acknowledged_is_there_after_the_power_was_cut(subject_on_disk: Subject) -> None:
    """P1, P2, P12: single appends, batches, group commits, forks, rewinds, checkpoints with files."""
    need_power("ext4")

    result = campaign(cut_power, subject_on_disk, cuts=2, seed=11)

    assert result.wrong == []
    assert result.acknowledged > 20


def test_f03_whatever_was_acknowledged_is_there_after_the_power_was_cut_inside_a_purge(
    subject_on_disk: Subject,
) -> None:
    """P1, P11, P18: what a purge or a scrub writes anew is what was there."""
    need_power("ext4")

    result = campaign(cut_power, subject_on_disk, cuts=2, seed=11, purges=True)

    assert result.wrong == []
    assert result.seen["scrub"] + result.seen["purge"] > 2


@pytest.mark.parametrize("planted", ["", "jsonl: a log known by its end"])
def test_the_power_cuts_find_a_log_that_is_known_by_its_end_alone(tmp_path: Path, planted: str) -> None:
    """What was written anew may be as long as before, and end as before."""
    result = campaign(lose_the_index, JsonlSubject(tmp_path / "subject"), planted=planted)

    assert result.wrong == (["it looks as before the log was written anew"] if planted else [])


@pytest.mark.parametrize(
    ("filesystem", "name", "planted"),
    [
        ("ext4", "sqlite", "acknowledge before commit"),
        ("ext4", "sqlite", "sqlite: missing fsync"),
        ("xfs", "sqlite", "sqlite: NORMAL for FULL"),
        ("ext4", "jsonl", "acknowledge before commit"),
        ("xfs", "jsonl", "jsonl: missing fsync"),
    ],
)
def test_the_power_cuts_find_a_planted_bug(tmp_path: Path, filesystem: str, name: str, planted: str) -> None:
    need_power(filesystem)

    options = {"filesystem": filesystem, "in_turn": True, "planted": planted}
    result = campaign(cut_power, SUBJECTS[name](tmp_path / "subject"), cuts=8, seed=2, **options)

    assert any("J1" in line or "it cannot be read" in line for line in result.wrong)
