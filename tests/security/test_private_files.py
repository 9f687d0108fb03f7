"""P20, S-05: nobody else reads anything that Clew makes, whatever the umask."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.security.all_files import make_everything
from tests.support.children import call

MADE = [
    "index.db", "packs/", ".stat", "backup.db", "copy/of/it", "all/of/them", "s.html", "corrupt-",
    "quarantine", "copy.db", "objects/all/store/ab/cd/ef", "-wal", "-shm", "of/state/",
]  # fmt: skip


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_p20_every_file_is_0600_and_every_directory_0700(tmp_path: Path, umask: int) -> None:
    found = call(make_everything, umask, str(tmp_path))

    assert {name: mode for name, mode in found.items() if mode not in ("0o600", "0o700")} == {}
    names = " ".join(found)
    for what in MADE:
        assert what in names, names
