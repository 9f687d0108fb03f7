"""S-49, P20: objects in a directory stay in it, for their owner only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clew.backends.postgres.blobs import Blobs, LocalObjects, blob_name
from clew.errors import BackendUnavailableError, ClewError, InvalidUrlError

STORE = "0123abcd-0123-0123-0123-0123456789ab"


def test_an_object_comes_back_and_goes(tmp_path: Path) -> None:
    objects = LocalObjects(str(tmp_path / "all"))
    objects.put("s/ab/cd/ef", b"x")
    objects.put("s/ab/cd/ef", b"x")

    assert objects.get("s/ab/cd/ef") == b"x"
    assert [file.name for file in (tmp_path / "all/s/ab/cd").iterdir()] == ["ef"]
    objects.delete("s/ab/cd/ef")
    with pytest.raises(FileNotFoundError):
        objects.get("s/ab/cd/ef")
    with pytest.raises(FileNotFoundError):
        objects.delete("s/ab/cd/ef")


def test_s49_a_link_in_the_place_of_a_folder_or_an_object_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "ef").write_text("precious")
    blobs = Blobs(f"file://{tmp_path}/all", STORE, 1)
    name = blob_name(b"x")
    place = tmp_path / "all" / blobs.place(name)
    place.parent.parent.mkdir(parents=True)
    place.parent.symlink_to(victim)

    for work in (lambda: blobs.put(name, b"x"), lambda: blobs.get(name), lambda: blobs.remove(name)):
        with pytest.raises(BackendUnavailableError):
            work()
    place.parent.unlink()
    place.parent.mkdir()
    place.symlink_to(victim / "ef")
    with pytest.raises(BackendUnavailableError):
        blobs.get(name)
    blobs.put(name, b"x")

    assert blobs.get(name) == b"x"
    assert os.listdir(victim) == ["ef"]
    assert (victim / "ef").read_text() == "precious"


@pytest.mark.parametrize("store", ["..", "../x", "/tmp", "", "a/b", "a\0b", "x" * 300])
def test_s49_the_name_of_a_store_is_no_path(tmp_path: Path, store: str) -> None:
    """It is read from the database."""
    with pytest.raises(ClewError):
        Blobs(f"file://{tmp_path}/all", store, 1)


@pytest.mark.parametrize("address", ["file://elsewhere/objects", "file:objects"])
def test_a_directory_of_another_machine_is_refused(address: str) -> None:
    with pytest.raises(InvalidUrlError):
        Blobs(address, STORE, 1)
