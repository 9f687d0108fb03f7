"""No export to another agent lets a secret out that it was told to keep."""

from __future__ import annotations

from pathlib import Path

import clew
from clew.exporters.programs import ductwork, gemini_cli, ggcode, opencode, openrouter, picoclaw, tingly_box
from clew.exporters.redact import Redactor

SECRET = "AKIA" + "QYLPMN5HHHFPZAM2"


def session(store: clew.Store) -> clew.Session:
    s = store.create("x")
    s.append({"role": "user", "content": f"my key is {SECRET}"})
    s.set_summary(f"the key is {SECRET}")
    s.add_event("cost", {"position": 0, "record": {"type": "cost", "note": SECRET}}, stream="ggcode")
    s.start(request=f"use {SECRET}")
    return s


def test_secrets_are_replaced_in_logs_and_documents(store: clew.Store) -> None:
    id = session(store).id
    for exporter in (picoclaw, ggcode, ductwork, openrouter, gemini_cli, opencode):
        redactor = Redactor()
        clean = b"".join(exporter.pieces(store, id, redact=redactor))
        assert SECRET.encode() in b"".join(exporter.pieces(store, id))
        assert SECRET.encode() not in clean
        assert redactor.report().total >= 1
    assert SECRET.encode() not in picoclaw.meta(store, id, redact=True)


def test_secrets_are_replaced_in_files(store: clew.Store, tmp_path: Path) -> None:
    id = session(store).id
    tingly_box.write(store, [id], tmp_path / "out.db", redact=True)
    redactor = Redactor()
    picoclaw.write(store, [id], tmp_path, redact=redactor)
    assert redactor.report().total == 2
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["out.db", "x.jsonl", "x.meta.json"]
    assert not [file.name for file in files if SECRET.encode() in file.read_bytes()]
