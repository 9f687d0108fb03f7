"""Stores whose files were changed at random, by their structure: whoever opens one gets what is whole in it,
or a ClewError; never anything else, and never for ever."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clew
from clew.core.log import jsonl
from tests.importers.hostile import forged_files
from tests.security.mutations import (
    Number,
    change_bytes,
    change_database,
    change_lines,
    change_value,
    numbers,
    place,
)
from tests.support.effort import usually

pytestmark = pytest.mark.timeout(usually(300, thorough=7200))

UNHURRIED = settings(
    max_examples=usually(25, quick=16, thorough=5000),
    deadline=None,
    derandomize=usually(True, thorough=False),
    suppress_health_check=list(HealthCheck),
    database=None,
)


TEMPLATES: dict[str, Path] = {}


@pytest.fixture(scope="module", autouse=True)
def remove_templates() -> Iterator[None]:
    yield
    while TEMPLATES:
        shutil.rmtree(TEMPLATES.popitem()[1])


def made(folder: Path, kind: str) -> str:
    """A store with some of everything, closed; its address."""
    if kind not in TEMPLATES:
        TEMPLATES[kind] = Path(tempfile.mkdtemp(prefix="clew-fuzz-"))
        fill(TEMPLATES[kind], kind)
    shutil.copytree(TEMPLATES[kind], folder, dirs_exist_ok=True, symlinks=True)
    return address(folder, kind)


def address(folder: Path, kind: str) -> str:
    return f"jsonl:///{folder}/s" if kind == "jsonl" else f"sqlite:///{folder}/s.db?durability=process"


def fill(folder: Path, kind: str) -> None:
    root = folder / "root"
    root.mkdir()
    (root / "file").write_text("text")
    with clew.open(address(folder, kind)) as store:
        forged_files.fill(store)
        store.session("other").append(forged_files.said("hello"))
        store.get("other").checkpoint("with files", files=root)
        store.create("empty")
        store.delete("empty")


def look(url: str) -> None:
    """All that people do with a store. Only ClewErrors come out."""
    try:
        store = clew.open(url)
    except clew.ClewError:
        return
    with store:
        names = ["s", "s-base", "other"]
        for act in (
            lambda: [info.id for info in store.list()],
            lambda: [info.id for info in store.list(deleted=True)],
            store.stats,
            store.snapshots,
            lambda: store.verify().ok,
            lambda: store.search("hello"),
            lambda: store.get("s-alias").info,
        ):
            _try(act)
        for name in names:
            _try(lambda name=name: store.get(name).info)
            _try(lambda name=name: store.get(name).messages())
            _try(lambda name=name: list(store.get(name).entries(damaged="skip")))
            _try(lambda name=name: list(store.get(name).context()))
            _try(lambda name=name: store.get(name).checkpoints())
            _try(lambda name=name: list(store.get(name).events()))
            _try(lambda name=name: store.get(name).status_changes())
            _try(lambda name=name: store.export(name, "jsonl"))
            _try(lambda name=name: store.export(name, "json"))
        _try(lambda: store.get("other").append(forged_files.said("goes on")))
        _try(lambda: store.get("s").undo())
        with clew.open("memory:") as target:
            _try(lambda: clew.copy(store, target, on_conflict="skip"))
            found = [problem for problem in target.verify().problems if "snapshot" not in str(problem)]
            assert found == []  # of snapshots that the source lost there is nothing to copy
        for name in names:
            _try(lambda name=name: store.delete(name, purge=True))


def _try(act: object) -> None:
    try:
        act()  # type: ignore[operator]
    except clew.ClewError:
        pass


@UNHURRIED
@given(choose=numbers(), changes=st.integers(1, 3))
def test_s51_a_changed_sqlite_store_gives_clew_errors_only(choose: Number, changes: int) -> None:
    with place() as folder:
        url = made(folder, "sqlite")
        path = folder / "s.db"
        for _ in range(changes):
            if choose(3):
                change_database(path, choose)
            else:
                path.write_bytes(change_bytes(path.read_bytes(), choose))
        look(url)


@UNHURRIED
@given(choose=numbers(), changes=st.integers(1, 3))
def test_s51_a_changed_jsonl_store_gives_clew_errors_only(choose: Number, changes: int) -> None:
    """It takes more than a second: each purge of a changed store writes its logs anew."""
    with place() as folder:
        url = made(folder, "jsonl")
        files = sorted(file for file in (folder / "s").rglob("*.jsonl") if file.stat().st_size)
        for _ in range(changes):
            change_log(files[choose(len(files))], choose)
        if choose(2):
            for file in (folder / "s").glob("index.db*"):
                file.unlink()
        look(url)


def change_log(path: Path, choose: Number) -> None:
    """A change inside of a line, whose checksum is right again; or of the bytes."""
    raw = path.read_bytes()
    if choose(5) == 0:
        path.write_bytes(change_bytes(raw, choose))
        return
    found = []
    for line in raw.splitlines():
        with suppress(ValueError):
            found.append(forged_files.opened(line))
    if choose(4) == 0 or not found:
        change_lines(found, choose)
    else:
        change_value(found[choose(len(found))], choose)
    try:
        path.write_bytes(
            b"".join(
                jsonl.finish(json.dumps(one, ensure_ascii=False).encode()[1:], is_last=True) for one in found
            )
        )
    except UnicodeEncodeError:
        path.write_bytes(change_bytes(raw, choose))
