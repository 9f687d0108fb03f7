"""P20, S-05: nobody else reads a store."""

from __future__ import annotations

from pathlib import Path

import pytest

import clew
from tests.backends.sqlite.children import as_somebody_else, error_of_opening, mode_behind_a_link, modes_under
from tests.faults.crash.common import message, quick_directory
from tests.support.rows import each_row


@each_row("umask", [0o000, 0o022, 0o077], ids=oct)
def test_p20_files_are_0600_and_directories_0700_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    found = modes_under(umask, f"{tmp_path}/{umask}")

    directories = {"made": "0o700", "made/also made": "0o700"}
    files = {f"made/also made/a.db{end}": "0o600" for end in ("", "-wal", "-shm")}
    assert found == {**directories, **files}


def test_p20_a_directory_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o755)

    clew.open(shared / "a.db").close()

    assert shared.stat().st_mode & 0o777 == 0o755
    assert (shared / "a.db").stat().st_mode & 0o777 == 0o600


def test_s06_a_file_made_behind_a_symbolic_link_is_private_too(tmp_path: Path) -> None:
    assert mode_behind_a_link(str(tmp_path)) == "0o600"


@pytest.mark.needs("root")
def test_s05_somebody_else_can_not_open_a_store() -> None:
    with quick_directory() as directory:
        directory.chmod(0o755)
        path = directory / "a.db"
        with clew.open(path) as store:
            store.session("s").append(message("secret"))

            assert as_somebody_else(error_of_opening, str(path)) == "backend_unavailable"
