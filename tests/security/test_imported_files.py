"""Files of all formats that can be imported, changed at random: whatever is in them, only ClewErrors come
out, and what came in can be listed, shown, exported, checked and removed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clew
from clew.core.log import jsonl
from tests.importers import test_contexts, test_tokens
from tests.importers.hostile import forged_files, test_lookalikes
from tests.security.mutations import (
    Number,
    change_bytes,
    change_file,
    change_lines,
    change_value,
    numbers,
    place,
)
from tests.support.effort import usually

pytestmark = pytest.mark.timeout(usually(300, thorough=7200))

INTERNAL = re.compile(r"it cannot be read: (?!OSError|PermissionError)[A-Z]\w*(Error|Exception):")
"""What a problem says when a reader fell over: that costs the whole file, not one record."""
EXAMPLES = usually(12, thorough=1500)
UNHURRIED = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES < 100,
    suppress_health_check=list(HealthCheck),
    database=None,
)


def samples() -> dict[str, Callable[[Path], Path]]:
    """Files as programs write them: some of each format."""
    found: dict[str, Callable[[Path], Path]] = {}
    for what, writers in (
        ("stopped", test_contexts.STOPPED),
        ("cached", test_tokens.CACHED),
        ("reading", test_tokens.READING),
    ):
        found |= {f"{format}, {what}": writer for format, writer in writers.items()}
    for name, (format, text) in test_lookalikes.SAMPLES.items():
        found[f"{format}, {name}"] = _writer(name, text)
    return found


def _writer(name: str, text: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_text(text)
        return folder / name

    return write


SAMPLES = samples()


def check_import(store: clew.Store, path: Path, **options: Any) -> None:
    """The one property of every import."""
    before = {info.id: store.export(info.id, "jsonl") for info in store.list(limit=1000)}
    told: list[str] = []
    try:
        told = [problem.reason for problem in store.import_path(path, **options).problems]
    except clew.ClewError as error:
        told = [str(error)]
    assert not [reason for reason in told if INTERNAL.search(reason)]
    forged_files.check_whole(store)
    for id, text in before.items():
        assert store.export(id, "jsonl") == text


@pytest.mark.parametrize("name", SAMPLES)
def test_s53_a_changed_file_of_another_program_does_no_harm(name: str) -> None:
    @UNHURRIED
    @given(choose=numbers(), changes=st.integers(1, 4), told=st.booleans())
    def check(choose: Number, changes: int, told: bool) -> None:
        with place() as folder, clew.open("memory:") as store:
            path = SAMPLES[name](folder)
            files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
            for _ in range(changes):
                change_file(files[choose(len(files))], choose)
            check_import(store, path, **({"format": name.partition(",")[0]} if told else {}))
            forged_files.check_removable(store)

    check()


OWN: list[list[forged_files.Fields]] = []


def own_lines() -> list[forged_files.Fields]:
    if not OWN:
        with place() as folder:
            OWN.append(forged_files.exported(folder / "s.jsonl"))
    return [forged_files.opened(b'{"x":1,' + text) for text in map(_text, OWN[0])]


def _text(fields: forged_files.Fields) -> bytes:
    import json

    return json.dumps(fields).encode()[1:]


@settings(UNHURRIED, max_examples=usually(60, thorough=20_000))
@given(choose=numbers(), changes=st.integers(1, 3), rehash=st.booleans(), is_raw=st.integers(0, 9))
def test_s53_a_changed_file_of_our_own_does_no_harm(
    choose: Number, changes: int, rehash: bool, is_raw: int
) -> None:
    """The checksums of its lines are right; in some of them the hashes too."""
    with place() as folder, clew.open("memory:") as store:
        store.session("here").append(forged_files.said("was here before"))
        found = own_lines()
        for _ in range(changes):
            if choose(4) == 0:
                change_lines(found, choose)
            else:
                change_value(found[choose(len(found))], choose)
        if rehash:
            try:
                forged_files.rehashed(found)
            except Exception:  # noqa: BLE001 (there is not enough left of it)
                pass
        path = folder / "s.jsonl"
        try:
            raw = forged_files.framed(found)
        except UnicodeEncodeError:
            return
        path.write_bytes(change_bytes(raw, choose) if is_raw == 0 else raw)
        check_import(store, path)
        check_import(store, path, rename=True)
        forged_files.check_removable(store)


def test_the_samples_have_every_format() -> None:
    from clew.importers import READERS

    assert {name.partition(",")[0] for name in SAMPLES} == set(READERS)
    assert jsonl.begins_log(forged_files.framed(own_lines()))
