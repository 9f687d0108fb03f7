"""F-17, F-19: little memory, few files. `make faults` uses a session of several gigabytes."""

from __future__ import annotations

from tests.faults.campaign import campaign
from tests.faults.campaigns.limits import few_files, little_memory
from tests.faults.subjects import Subject


def test_f17_a_session_larger_than_the_memory_is_opened_read_at_its_tail_and_appended_to(
    subject: Subject,
) -> None:
    """P16: 160 MB in a process that may have 128 MiB."""
    result = campaign(little_memory, subject, megabytes=160)

    assert result.wrong == []
    assert result.seen["peak MiB"] > 0


def test_f17_a_limit_that_is_too_small_is_felt(subject: Subject) -> None:
    """Else the limit would limit nothing."""
    result = campaign(little_memory, subject, megabytes=1, memory=1)

    assert result.wrong != []


def test_f19_thirty_two_open_files_are_enough_for_two_hundred_sessions(subject: Subject) -> None:
    result = campaign(few_files, subject)

    assert result.wrong == []
