"""Export to ggcode: the same records in the same order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import clew
from clew.exporters.programs import ggcode as exporter
from clew.importers.programs import ggcode as reader
from tests.importers.landing import bring_one
from tests.support.rows import each_row

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
{"type":"checkpoint","session_id":"20260525-101500-0011"}
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


def test_every_record_comes_back_in_its_place_byte_for_byte(store: clew.Store, tmp_path: Path) -> None:
    s = imported(store, tmp_path)
    assert b"".join(exporter.pieces(store, s.id)).decode() == LOG


def test_what_was_said_since_follows_in_the_same_form(store: clew.Store, tmp_path: Path) -> None:
    s = imported(store, tmp_path)
    s.append({"role": "user", "content": "plain text"})
    s.update(title="Renamed")
    *_, meta = found = records(store, s.id)
    (new,) = (record for record in found if "plain text" in json.dumps(record))
    assert new["message"] == {"role": "user", "content": [{"type": "text", "text": "plain text"}]}
    assert (new["session_id"], new["created_at"]) == ("20260525-101500-0011", "0001-01-01T00:00:00Z")
    assert (meta["type"], meta["title"], meta["session_id"]) == ("meta", "Renamed", "20260525-101500-0011")


def test_events_that_were_added_here_are_tunnel_events_once(store: clew.Store, tmp_path: Path) -> None:
    """In their place; an import of the export brings no second one."""
    s = imported(store, tmp_path)
    s.add_event_nowait("text", {"delta": "a"}, stream="ggcode", id="e2")
    store.flush()
    s.add_event("done", stream="ggcode")
    s.append({"role": "user", "content": "last"})
    s.add_event("for the screen", stream="ui")
    found = records(store, s.id)
    added = [record["tunnel_event"] for record in found if record["type"] == "tunnel_event"][2:]
    assert added[0] == {"event_id": "e2", "stream_id": "", "type": "text", "data": {"delta": "a"}}
    assert [(one["type"], one["data"]) for one in added[1:]] == [("done", None)]
    assert [record["type"] for record in found][-3:] == ["tunnel_event", "tunnel_event", "message"]
    (tmp_path / "20260525-101500-0011.jsonl").write_bytes(b"".join(exporter.pieces(store, s.id)))
    again = bring_one(store, reader, tmp_path / "20260525-101500-0011.jsonl")
    assert (again.id, records(store, again.id)) == (s.id, found)


def test_a_session_of_another_program_begins_with_its_meta_record(store: clew.Store) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"command":"ls"}'}}
    s = store.create("x", title="Two", model="m", workspace="/w")
    s.append({"role": "assistant", "content": None, "tool_calls": [call]})
    s.append({"role": "tool", "tool_call_id": "c1", "content": "a"})
    meta, asked, answered = records(store, "x")
    assert (meta["type"], meta["session_id"], meta["title"], meta["model"]) == ("meta", "x", "Two", "m")
    assert asked["message"].pop("id") != answered["message"].pop("id")
    assert asked["message"] == {
        "role": "assistant",
        "content": [{"type": "tool_use", "tool_name": "run", "tool_id": "c1", "input": {"command": "ls"}}],
    }
    result = {"type": "tool_result", "tool_id": "c1", "output": "a", "is_error": False}
    assert answered["message"] == {"role": "user", "content": [result]}


def test_a_compaction_made_here_is_a_checkpoint_that_says_all_the_model_gets(store: clew.Store) -> None:
    s = store.create("x")
    s.append(*({"role": "user", "content": word} for word in ("one", "two", "three")))
    s.compact("so far", upto=1, tokens=7)
    s.append({"role": "user", "content": "four"})
    (checkpoint,) = (record for record in records(store, "x") if record["type"] == "checkpoint")
    expected = [message["content"] for message in s.context()][:-1]
    said = [message["content"][0]["text"] for message in checkpoint["checkpoint_messages"]]
    assert said == expected == ["so far", "three"]
    assert checkpoint["checkpoint_tokens"] == 7


def meta_records(store: clew.Store, id: str) -> list[dict[str, Any]]:
    return [record for record in records(store, id) if record["type"] == "meta"]


def test_a_new_title_or_model_is_told_with_all_that_the_meta_record_said(
    store: clew.Store, tmp_path: Path
) -> None:
    s = imported(store, tmp_path)
    s.update(title="Renamed", model="glm-2")
    first, last = meta_records(store, s.id)
    assert last.pop("updated_at") != first.pop("updated_at")
    assert last == {**first, "title": "Renamed", "model": "glm-2"}


def test_a_title_that_an_import_trims_is_no_new_title(tmp_path: Path) -> None:
    for number, title in enumerate(["  Fix bug ", "Fix\0bug", "x" * 600, " " * 499 + "x y"]):
        path = tmp_path / f"{number}.jsonl"
        meta = {"type": "meta", "session_id": f"s{number}", "title": title}
        path.write_text(f"{json.dumps(meta)}\n{LOG.splitlines()[1]}\n")
        with clew.open("memory:") as store:
            s = bring_one(store, reader, path)
            assert meta_records(store, s.id) == [meta]


def test_a_log_without_meta_gets_one_with_its_own_id(tmp_path: Path) -> None:
    path = tmp_path / "20260525-101500-0011.jsonl"
    for line in (LOG.splitlines()[1], LOG.splitlines()[5]):
        path.write_text(line + "\n")
        with clew.open("memory:") as store:
            s = bring_one(store, reader, path)
            assert s.id == "ggcode:20260525-101500-0011"
            assert [record["session_id"] for record in meta_records(store, s.id)] == ["20260525-101500-0011"]


def test_a_log_whose_meta_is_not_its_first_record_gets_no_other(store: clew.Store, tmp_path: Path) -> None:
    path = tmp_path / "20260525-101500-0011.jsonl"
    lines = LOG.splitlines()
    log = "".join(line + "\n" for line in (lines[2], lines[0], lines[1]))
    path.write_text(log)
    s = bring_one(store, reader, path)
    assert b"".join(exporter.pieces(store, s.id)).decode() == log


def test_the_id_of_another_programs_session_is_one_that_ggcode_takes(store: clew.Store) -> None:
    store.create("-claude-code:0b1c/2").append({"role": "user", "content": "hi"})
    assert {record["session_id"] for record in records(store, "-claude-code:0b1c/2")} == {
        "claude-code_0b1c_2"
    }


CALL = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"a":1}'}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
OTHERS = [
    {"role": "assistant", "content": [{"type": "text", "text": "see"}], "tool_calls": [CALL]},
    {"role": "assistant", "content": [], "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "see"}]},
    {"role": "user", "content": [{"type": "text", "text": "see"}, IMAGE]},
    {"role": "developer", "content": [{"type": "text", "text": "see"}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "run", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "see"}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_id": "c1", "output": [{"text": "see"}]}]},
    {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://see"}}]},
]


@each_row("message", OTHERS, ids=str)
def test_whatever_shape_a_message_has_ggcode_can_decode_it(message: dict[str, Any]) -> None:
    with clew.open("memory:") as store:
        store.session("x").append(message)
        found = records(store, "x")[1]["message"]
        assert found["role"] in ("user", "assistant", "system")
        for block in found["content"]:
            assert block["type"] in ("text", "image", "tool_use", "tool_result")
            texts = {name: value for name, value in block.items() if name not in ("input", "is_error")}
            assert all(isinstance(value, str) for value in texts.values())
            assert isinstance(block.get("is_error", False), bool)
            assert ("tool_id" in block) == block["type"].startswith("tool_")
        said = json.dumps(found["content"])
        assert ('"c1"' in said) == ('"c1"' in json.dumps(message))
        assert ("see" in said) == ("see" in json.dumps(message)) or message["content"][0]["type"] == "image"


def test_the_parts_of_one_answer_do_not_share_an_id(store: clew.Store) -> None:
    answer = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
    s = store.session("x")
    for word in ("one", "two"):
        s.append({**answer, "content": [{"type": "text", "text": word}]})
    said = [record["message"] for record in records(store, "x")[1:]]
    assert said[0].pop("id") != said[1].pop("id")
    assert said == [{"role": "assistant", "content": [{"type": "text", "text": w}]} for w in ("one", "two")]


def test_the_same_words_twice_have_two_ids_so_that_ggcode_keeps_both(
    store: clew.Store, tmp_path: Path
) -> None:
    """It drops a message that has no id and says what was said before."""
    path = tmp_path / "20260525-101500-0011.jsonl"
    with_ids = LOG.splitlines()[0::4][:2]
    path.write_text("".join(line + "\n" for line in with_ids))
    for s in (bring_one(store, reader, path), store.create("x")):
        s.append(*({"role": "user", "content": "continue"} for _ in range(2)))
        said = [record["message"] for record in records(store, s.id) if record["type"] == "message"]
        ids = [message["id"] for message in said]
        assert len(set(ids)) == len(said)
        assert [record["message"]["id"] for record in records(store, s.id)[1:]] == ids
    assert "".join(with_ids[1:]) in b"".join(exporter.pieces(store, "ggcode:20260525-101500-0011")).decode()
