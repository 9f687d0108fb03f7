"""F-04: every state in which a crash may leave a tree of files, from a record of system calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.campaign import campaign
from tests.faults.campaigns.crashes import crash_everywhere
from tests.faults.disk.file_log import FileEvent
from tests.faults.disk.file_states import FileState, file_states
from tests.faults.requirements import needs_strace
from tests.faults.subjects import SUBJECTS

MOST = 8


@needs_strace
@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("sqlite", "begin"),
        ("sqlite", "purge"),
        ("jsonl", "begin"),
        ("jsonl", "append as a group"),
        ("jsonl", "purge"),
        ("jsonl", "snapshot"),
    ],
)
def test_f04_from_every_state_that_a_crash_may_leave_the_store_opens_with_all_it_promised(
    tmp_path: Path, name: str, operation: str
) -> None:
    """P1, P2: a choice of the states; `make faults` takes thousands."""
    subject = SUBJECTS[name](tmp_path / "subject")
    result = campaign(crash_everywhere, subject, operations=[operation], most=MOST, at_once=4)

    assert result.wrong == []
    assert result.cycles >= MOST


@needs_strace
@pytest.mark.parametrize("planted", ["jsonl: missing fsync", "sqlite: missing directory fsync"])
def test_the_crash_states_find_a_planted_bug(tmp_path: Path, planted: str) -> None:
    subject = SUBJECTS[planted.split(":", maxsplit=1)[0]](tmp_path / "subject")
    result = campaign(crash_everywhere, subject, operations=["begin"], most=24, at_once=6, planted=planted)

    assert any("operations were done" in line for line in result.wrong)


# The enumeration itself


def contents(events: list[FileEvent], **base: bytes | None) -> list[dict[str, bytes | None]]:
    return [dict(state.files) for state in file_states(events, base)]


def test_a_name_is_safe_when_its_directory_was_synced_and_not_before() -> None:
    events = [FileEvent("create", "a"), FileEvent("write", "a", 0, b"x"), FileEvent("sync", "a")]

    assert {} in contents(events)
    after = [*events, FileEvent("sync", "."), FileEvent("mark", "done")]
    assert [s.files for s in file_states(after, {}) if s.marks] == [{"a": b"x"}]


def test_content_that_was_not_synced_may_be_lost_torn_or_zeros() -> None:
    found = contents([FileEvent("write", "a", -1, b"y" * 600)], a=b"x")

    assert {"a": b"x"} in found
    assert {"a": b"x" + b"y" * 600} in found
    assert {"a": b"x" + b"y" * 511} in found
    assert {"a": b"x" + bytes(600)} in found


def test_a_rename_may_arrive_before_the_content_that_was_never_synced() -> None:
    events = [
        FileEvent("create", "new"),
        FileEvent("write", "new", 0, b"two"),
        FileEvent("rename", "new", target="a"),
    ]

    assert {"a": b""} in contents(events, a=b"one")
    assert {"a": b"one"} in contents(events, a=b"one")


def test_what_lies_in_a_directory_is_lost_with_it() -> None:
    events = [
        FileEvent("mkdir", "d"),
        FileEvent("create", "d/a"),
        FileEvent("sync", "d/a"),
        FileEvent("sync", "d"),
    ]

    assert {} in contents(events)
    assert {"d": None, "d/a": b""} in contents(events)


def test_a_state_is_written_as_it_is(tmp_path: Path) -> None:
    FileState({"d": None, "d/a": b"x", "e": None}, (), "").write_to(tmp_path / "tree")

    assert (tmp_path / "tree" / "d" / "a").read_bytes() == b"x"
    assert (tmp_path / "tree" / "e").is_dir()
