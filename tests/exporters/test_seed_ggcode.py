"""Export to ggcode: the same records in the same order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import clew
from clew.exporters import seed_ggcode as exporter
from clew.importers import seed_ggcode as reader
from tests.importers.seed_landing import bring_one

LOG = """\
{"type":"meta","session_id":"20260525-101500-0011","title":"Fix<bug>","workspace":"/w","vendor":"zai","endpoint":"cn","model":"glm","created_at":"2026-05-25T10:15:00.123456789+08:00","updated_at":"2026-05-25T10:20:00+08:00"}
{"type":"message","session_id":"20260525-101500-0011","created_at":"0001-01-01T00:00:00Z","updated_at":"0001-01-01T00:00:00Z","message":{"role":"user","content":[{"type":"text","text":"hi&bye-ä"}]},"timestamp":"2026-08-01T09:00:00Z"}
{"type":"tunnel_event","session_id":"20260525-101500-0011","tunnel_event":{"event_id":"e1","stream_id":"s","type":"text","data":{}}}
{"type":"tunnel_event","session_id":"20260525-101500-0011","tunnel_event":{"event_id":"e1","stream_id":"s","type":"text","data":{}}}
{"type":"message","session_id":"20260525-101500-0011","created_at":"0001-01-01T00:00:00Z","updated_at":"0001-01-01T00:00:00Z","message":{"id":"msg_1","role":"assistant","content":[{"type":"text","text":"ok"},{"type":"tool_use","tool_name":"run","tool_id":"t1","input":{"command":"ls"}}]},"timestamp":"2026-08-01T09:00:01.123456789+08:00"}
{"type":"message","message":{"role":"user","content":[{"type":"tool_result","tool_id":"t1","output":"a","is_error":false}]}}
{"type":"checkpoint","session_id":"20260525-101500-0011","checkpoint_messages":[{"role":"system","content":[{"type":"text","text":"[Summary]"}]}],"checkpoint_tokens":1234}
{"type":"message","session_id":"20260525-101500-0011","created_at":"0001-01-01T00:00:00Z","updated_at":"0001-01-01T00:00:00Z","message":{"id":"msg_2","role":"system","content":[{"type":"text","text":"summary"}]},"timestamp":"2026-08-01T09:00:03.5Z"}
{"type":"checkpoint","session_id":"20260525-101500-0011","checkpoint_summary_msg_id":"msg_2","checkpoint_last_msg_id":"msg_1","checkpoint_tokens":99}
{"type":"checkpoint","session_id":"20260525-101500-0011","checkpoint_messages":[],"checkpoint_tokens":0}
{"type":"cost","session_id":"20260525-101500-0011","cost":{"total":0.1}}
{"type":"usage","session_id":"20260525-101500-0011","usage_entry":{"timestamp":"2026-08-01T09:00:04Z","turn_index":3,"model":"m","vendor":"v","endpoint":"e","source":"agent","usage":{"input_tokens":1,"output_tokens":2,"cache_read_tokens":0,"cache_write_tokens":0}}}
{"type":"metric","session_id":"20260525-101500-0011","metric_event":{"timestamp":"2026-08-01T09:00:04Z","turn_index":3,"type":"llm","ttft":123000000,"duration":900000000,"input_tokens":1,"model":"m"}}
"""  # fmt: skip


def imported(store: clew.Store, folder: Path) -> clew.Session:
    path = folder / "20260525-101500-0011.jsonl"
    path.write_text(LOG)
    return bring_one(store, reader, path)


def records(store: clew.Store, id: str) -> list[dict[str, Any]]:
    return [json.loads(piece) for piece in exporter.pieces(store, id)]


def test_every_record_comes_back_in_its_place_byte_for_byte(tmp_path: Path) -> None:
    with clew.open("memory:") as store:
        s = imported(store, tmp_path)
        assert b"".join(exporter.pieces(store, s.id)).decode() == LOG


def test_what_was_said_since_follows_in_the_same_form(tmp_path: Path) -> None:
    with clew.open("memory:") as store:
        s = imported(store, tmp_path)
        s.append({"role": "user", "content": "plain text"})
        s.update(title="Renamed")
        *_, meta = found = records(store, s.id)
        (new,) = (record for record in found if "plain text" in json.dumps(record))
    assert new["message"] == {"role": "user", "content": [{"type": "text", "text": "plain text"}]}
    assert (new["session_id"], new["created_at"]) == ("20260525-101500-0011", "0001-01-01T00:00:00Z")
    assert (meta["type"], meta["title"], meta["session_id"]) == ("meta", "Renamed", "20260525-101500-0011")


def test_a_session_of_another_program_begins_with_its_meta_record() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"command":"ls"}'}}
    with clew.open("memory:") as store:
        s = store.create("x", title="Two", model="m", workspace="/w")
        s.append({"role": "assistant", "content": None, "tool_calls": [call]})
        s.append({"role": "tool", "tool_call_id": "c1", "content": "a"})
        meta, asked, answered = records(store, "x")
    assert (meta["type"], meta["session_id"], meta["title"], meta["model"]) == ("meta", "x", "Two", "m")
    assert asked["message"] == {
        "role": "assistant",
        "content": [{"type": "tool_use", "tool_name": "run", "tool_id": "c1", "input": {"command": "ls"}}],
    }
    result = {"type": "tool_result", "tool_id": "c1", "output": "a", "is_error": False}
    assert answered["message"] == {"role": "user", "content": [result]}


def test_a_compaction_made_here_is_a_checkpoint_that_says_all_the_model_gets() -> None:
    with clew.open("memory:") as store:
        s = store.create("x")
        s.append(*({"role": "user", "content": word} for word in ("one", "two", "three")))
        s.compact("so far", upto=1, tokens=7)
        s.append({"role": "user", "content": "four"})
        (checkpoint,) = (record for record in records(store, "x") if record["type"] == "checkpoint")
        expected = [message["content"] for message in s.context()][:-1]
    said = [message["content"][0]["text"] for message in checkpoint["checkpoint_messages"]]
    assert said == expected == ["so far", "three"]
    assert checkpoint["checkpoint_tokens"] == 7
