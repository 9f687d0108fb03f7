"""Export to picoclaw: what came from there goes back byte for byte."""

from __future__ import annotations

import json
import stat
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.exporters.programs import picoclaw as exporter
from clew.importers.programs import picoclaw as reader
from tests.importers.landing import bring_one
from tests.support.rows import each_row

LOG = rb"""{"role":"user","content":"if a \u003c b \u0026\u0026 c \u003e d: \u2028 \u00e4?"}
{"role":"assistant","content":"","model_name":"m1","created_at":"2026-05-12T09:00:00.1Z","tool_calls":[{"id":"call_0","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"a\"}"},"extra_content":{"google":{"thought_signature":"x=="}}}]}
{"role":"tool","content":"text\n\ttab","tool_call_id":"call_0"}
{"role":"user","content":"more","media":["data:image/png;base64,AA=="],"n":12345678901234567890}
""".replace(rb"\u00e4", "ä".encode())  # fmt: skip
META = """{
  "key": "telegram:1",
  "summary": "they talked",
  "skip": 1,
  "count": 4,
  "created_at": "2026-05-01T08:00:00.123456789+08:00",
  "updated_at": "2026-05-12T10:00:00.5Z",
  "scope": {
    "version": 1,
    "dimensions": [
      "chat"
    ],
    "values": {
      "chat": "direct:1"
    }
  },
  "aliases": [
    "agent:main:direct:1"
  ]
}"""


def imported(store: clew.Store, folder: Path) -> clew.Session:
    (folder / "telegram_1.jsonl").write_bytes(LOG)
    (folder / "telegram_1.meta.json").write_text(META)
    return bring_one(store, reader, folder / "telegram_1.jsonl")


def test_log_and_meta_come_back_byte_for_byte(store: clew.Store, tmp_path: Path) -> None:
    s = imported(store, tmp_path)
    assert b"".join(exporter.pieces(store, s.id)) == LOG
    assert exporter.meta(store, s.id).decode() == META


def test_a_message_that_is_younger_than_its_session_does_not_change_when_it_was_updated(
    store: clew.Store,
    tmp_path: Path,
) -> None:
    later = b'{"role":"user","content":"x","created_at":"2026-05-12T10:00:01.123456789+08:00"}\n'
    later += b'{"role":"user","content":"y","created_at":"2026-06-12T10:00:01.25Z"}\n'
    (tmp_path / "telegram_1.jsonl").write_bytes(LOG + later)
    meta = META.replace('"skip": 1', '"skip": 0').replace("they talked", "")
    (tmp_path / "telegram_1.meta.json").write_text(meta)
    s = bring_one(store, reader, tmp_path / "telegram_1.jsonl")
    assert json.loads(exporter.meta(store, s.id))["updated_at"] == "2026-05-12T10:00:00.5Z"
    s.append({"role": "user", "content": "new"})
    told = json.loads(exporter.meta(store, s.id))["updated_at"]
    assert datetime.fromisoformat(told) == s.info.updated_at


def test_files_have_the_names_that_picoclaw_looks_for_and_are_private(
    store: clew.Store, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (log,) = exporter.write(store, [imported(store, tmp_path).id], out)
    assert log == str(out / "telegram_1.jsonl")
    assert sorted(file.name for file in out.iterdir()) == ["telegram_1.jsonl", "telegram_1.meta.json"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in out.iterdir()} == {0o600}


def test_what_was_said_and_cut_since_is_in_the_export(store: clew.Store, tmp_path: Path) -> None:
    s = imported(store, tmp_path)
    s.append({"role": "user", "content": "new"})
    s.compact("all of it")
    s.set_summary("other")
    meta = json.loads(exporter.meta(store, s.id))
    assert (meta["skip"], meta["count"], meta["summary"]) == (5, 5, "other")
    assert meta["updated_at"] != "2026-05-12T10:00:00.5Z"
    assert b"".join(exporter.pieces(store, s.id)) == LOG + b'{"role":"user","content":"new"}\n'


def test_messages_of_other_shapes_become_texts_and_tool_messages(store: clew.Store) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a.txt"}]}
    s = store.session("x")
    thought = {"type": "thinking", "thinking": "hm", "signature": "x"}
    s.append({"role": "assistant", "content": [thought, {"type": "text", "text": "look"}, call]})
    s.append({"role": "user", "content": [result, {"type": "text", "text": "go on"}]})
    lines: list[dict[str, Any]] = [json.loads(piece) for piece in exporter.pieces(store, "x")]
    meta = json.loads(exporter.meta(store, "x"))
    assert [(line["role"], line["content"]) for line in lines] == [
        ("assistant", "look"),
        ("tool", "a.txt"),
        ("user", "go on"),
    ]
    assert json.loads(lines[0]["tool_calls"][0]["function"]["arguments"]) == {"command": "ls"}
    assert lines[0]["reasoning_content"] == "hm"
    assert lines[1]["tool_call_id"] == "t1"
    assert meta["count"] == 3


def test_two_sessions_that_would_share_a_file_are_refused_and_nothing_is_written(
    store: clew.Store, tmp_path: Path
) -> None:
    store.create("a:b").append({"role": "user", "content": "1"})
    store.create("a/b").append({"role": "user", "content": "2"})
    with pytest.raises(clew.InvalidError, match=r"a_b\.jsonl"):
        exporter.write(store, ["a:b", "a/b"], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_id_that_is_no_file_name_is_refused(store: clew.Store, tmp_path: Path) -> None:
    for id in ("..", "x" * 400):
        store.create(id)
        with pytest.raises(clew.InvalidError, match="name of a file"):
            exporter.write(store, [id], tmp_path)
    assert list(tmp_path.iterdir()) == []


OTHERS: list[dict[str, Any]] = [
    {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
    {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": 7, "function": {"name": "f", "arguments": "{}"}}],
    },
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "f"}}],
    },
    {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}},
    {"role": "assistant", "content": "x", "created_at": 1760000000},
    {"role": "user", "content": "x", "media": [{"type": "image"}], "attachments": "a.txt"},
    {"role": "assistant", "content": "x", "reasoning_content": ["hm"], "model_name": 3},
    {"role": "tool", "content": "x", "tool_call_id": 7},
    {"role": "developer", "content": "x"},
]


@each_row("message", OTHERS, ids=str)
def test_whatever_shape_a_message_has_picoclaw_can_decode_it(message: dict[str, Any]) -> None:
    with clew.open("memory:") as store:
        store.session("x").append(message)
        lines = [json.loads(piece) for piece in exporter.pieces(store, "x")]
        for line in lines:
            assert line["role"] in ("system", "user", "assistant", "tool")
            for name in ("content", "reasoning_content", "tool_call_id", "model_name", "created_at"):
                assert isinstance(line.get(name, ""), str)
            assert line.keys().isdisjoint(("media", "attachments"))
            for call in line.get("tool_calls", []):
                assert isinstance(call["id"], str)
                assert {type(call["function"][name]) for name in ("name", "arguments")} == {str}
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
        called = "tool_calls" in message or "function_call" in message
        assert [call["function"]["name"] for line in lines for call in line.get("tool_calls", [])] == [
            "f"
        ] * called
        assert called or message["content"] in lines[0]["content"]


def test_the_arguments_of_a_call_are_the_same_as_a_text(store: clew.Store) -> None:
    store.session("x").append(OTHERS[0])
    (line,) = (json.loads(piece) for piece in exporter.pieces(store, "x"))
    assert json.loads(line["tool_calls"][0]["function"]["arguments"]) == {"a": 1}
