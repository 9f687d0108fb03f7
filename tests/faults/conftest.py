"""The subjects of the fault campaigns: every backend that keeps files and is installed here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.crash.common import quick_directory
from tests.faults.subjects import SUBJECTS, Subject, available


@pytest.fixture(params=available())
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    """In memory, where a sync costs nothing: for faults that need no disk."""
    with quick_directory() as directory:
        yield SUBJECTS[request.param](directory / "subject")


@pytest.fixture(params=available())
def subject_on_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Subject:
    return SUBJECTS[request.param](tmp_path / "subject")


@pytest.fixture(params=available())
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store that is not there yet."""
    return SUBJECTS[request.param](tmp_path / "store").url
