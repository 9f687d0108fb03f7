"""ggcode: the whole log is the history, its last checkpoint only the model's view."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import clew
from clew.importers.programs import ggcode as reader
from tests.importers.landing import bring, bring_one
from tests.importers.readers import read_file, read_one, write_lines
from tests.support.rows import each_named_row

ID = "20260525-101500-0011223344556677"
ZERO = "0001-01-01T00:00:00Z"
META = {
    "type": "meta",
    "session_id": ID,
    "title": "Fix bug",
    "workspace": "/w",
    "vendor": "zai",
    "endpoint": "cn",
    "model": "glm",
    "created_at": "2026-05-25T10:15:00.1+08:00",
    "updated_at": "2026-05-25T10:20:00+08:00",
}


def spoken(text: str, role: str = "user", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]} | more


def message(what: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "session_id": ID,
        "created_at": ZERO,
        "updated_at": ZERO,
        "message": what,
    } | more


def usage(turn: int = 3, **more: Any) -> dict[str, Any]:
    tokens = {"input_tokens": 10, "output_tokens": 2, "cache_read_tokens": 1, "cache_write_tokens": 4}
    entry = {
        "timestamp": "2026-05-25T10:16:00Z",
        "turn_index": turn,
        "model": "m",
        "vendor": "v",
        "usage": tokens,
    }
    return {"type": "usage", "session_id": ID, "usage_entry": entry | more}


def log(folder: Path, *records: Any, name: str = ID, end: str = "\n") -> Path:
    return write_lines(folder / f"{name}.jsonl", *records, end=end)


ONE, TWO, THREE = spoken("one"), spoken("two", "assistant"), spoken("three")
SUMMARY = spoken("[Previous conversation summary]\n...", "system")


def test_the_settings_of_a_session_come_from_its_meta_records(tmp_path: Path) -> None:
    later = {**META, "title": "Fixed", "workspace": "", "updated_at": ZERO}
    read = read_one(reader, log(tmp_path, META, message(ONE), later))
    session = read.session
    assert (session.id, session.title, session.workspace) == (f"ggcode:{ID}", "Fixed", "/w")
    assert (session.vendor, session.model, session.endpoint) == ("zai", "glm", "cn")
    assert str(session.created_at) == "2026-05-25 02:15:00.100000+00:00"
    assert session.metadata["updated_at"] == META["updated_at"]


def test_a_text_that_quotes_a_meta_record_changes_nothing(tmp_path: Path) -> None:
    quoting = spoken('{"type":"meta","title":"stolen","checkpoint":1}')
    read = read_one(reader, log(tmp_path, META, message(quoting)))
    assert read.session.title == "Fix bug"


def test_zero_times_are_no_times_and_real_ones_are_kept(tmp_path: Path) -> None:
    path = log(tmp_path, message(ONE, timestamp="2026-08-01T09:00:00Z"), message(TWO, timestamp=ZERO))
    read = read_one(reader, path)
    assert str(read.entries[0].at) == "2026-08-01 09:00:00+00:00"
    assert read.entries[1].at is None


def test_times_in_steps_of_a_millisecond_are_noted_as_made_up(tmp_path: Path) -> None:
    times = ["2026-08-01T09:00:00Z", "2026-08-01T09:00:00.001Z", "2026-08-01T09:00:01Z"]
    path = log(
        tmp_path, *(message(what, timestamp=at) for what, at in zip((ONE, TWO, THREE), times, strict=True))
    )
    read = read_one(reader, path)
    assert [entry.notes.get("synthetic_time") for entry in read.entries] == [None, True, None]


CLEARED = {"role": "system", "content": [{"type": "text", "text": "[The history was cleared.]"}]}
OLD, LAST, MEANWHILE = (spoken(text, id=f"msg_{text}") for text in ("old", "last", "meanwhile"))
NAMED = {**SUMMARY, "id": "msg_s"}


def checkpoint(**fields: Any) -> dict[str, Any]:
    return {"type": "checkpoint", "session_id": ID, "created_at": ZERO, "updated_at": ZERO, **fields}


def by_ids(summary: str, last: str) -> dict[str, Any]:
    return checkpoint(checkpoint_summary_msg_id=summary, checkpoint_last_msg_id=last, checkpoint_tokens=9)


CONTEXTS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "copies": (
        [message(ONE), message(TWO), checkpoint(checkpoint_messages=[SUMMARY]), message(THREE)],
        [SUMMARY, THREE],
    ),
    "no copies": ([message(ONE), checkpoint(checkpoint_messages=[]), message(THREE)], [CLEARED, THREE]),
    "nothing, as Go writes it": (
        [message(ONE), message(TWO), checkpoint(), message(THREE)],
        [CLEARED, THREE],
    ),
    "ids, of which the last was said before others while the summary was made": (
        [*map(message, (OLD, LAST, MEANWHILE, NAMED)), by_ids("msg_s", "msg_last"), message(THREE)],
        [NAMED, MEANWHILE, THREE],
    ),
    "ids, of which the last is missing": (
        [message(ONE), message(NAMED), message(LAST), by_ids("msg_s", "gone")],
        [NAMED, LAST],
    ),
    "ids, of which the summary is missing": (
        [message(ONE), message(LAST), by_ids("gone", "msg_last")],
        [ONE, LAST],
    ),
}


@each_named_row(("records", "context"), CONTEXTS)
def test_a_checkpoint_changes_the_context_and_never_the_history(
    tmp_path: Path, records: list[dict[str, Any]], context: list[dict[str, Any]]
) -> None:
    with clew.open("memory:") as store:
        s = bring_one(store, reader, log(tmp_path, META, *records))
        assert s.messages() == [record["message"] for record in records if "message" in record]
        assert list(s.context()) == context


def test_a_checkpoint_of_nothing_that_is_there_is_told_and_kept_as_an_event(tmp_path: Path) -> None:
    checkpoint = {"type": "checkpoint", "checkpoint_summary_msg_id": "x", "checkpoint_last_msg_id": "y"}
    (read,), problems = read_file(reader, log(tmp_path, META, message(ONE), checkpoint))
    assert [problem.line for problem in problems] == [3]
    assert [entry.kind for entry in read.entries] == ["message"]
    assert [event.type for event in read.session.events()] == ["checkpoint"]


def test_a_branch_names_the_session_that_it_was_copied_from(tmp_path: Path) -> None:
    read = read_one(reader, log(tmp_path, {**META, "parent_session_id": "p", "fork_point": 2}, message(ONE)))
    assert read.session.parent == "ggcode:p"
    assert read.session.metadata["fork_point"] == 2


def test_a_record_repeated_with_its_id_is_one_message(tmp_path: Path) -> None:
    named = spoken("one", id="msg_1")
    read = read_one(reader, log(tmp_path, message(named), message(named), message(ONE), message(ONE)))
    assert [entry.message for entry in read.path] == [named, ONE, ONE]


def test_an_id_with_other_words_is_another_message(tmp_path: Path) -> None:
    versions = [spoken("one", id="msg_1"), spoken("other", id="msg_1")]
    read = read_one(reader, log(tmp_path, *map(message, versions)))
    assert [entry.message for entry in read.path] == versions


def test_ids_written_into_an_old_log_later_add_nothing(store: clew.Store, tmp_path: Path) -> None:
    checkpoint = {"type": "checkpoint", "checkpoint_messages": [SUMMARY]}
    bring(store, reader, log(tmp_path, META, message(ONE), checkpoint, message(TWO)))
    named = [
        message({**ONE, "id": "msg_1"}, timestamp="2026-08-01T09:00:00Z"),
        {**checkpoint, "timestamp": "2026-08-01T09:00:00.001Z"},
        message({**TWO, "id": "msg_2"}, timestamp="2026-08-01T09:00:00.002Z"),
        message({**THREE, "id": "msg_3"}),
    ]
    (loaded,) = bring(store, reader, log(tmp_path, META, *named))
    assert loaded.entries == 1
    assert len(store.get(loaded.id).messages()) == 3


def test_a_switch_that_was_turned_off_is_off(tmp_path: Path) -> None:
    path = log(tmp_path, {**META, "sidebar_visible": True}, message(ONE), {**META, "sidebar_visible": False})
    assert read_one(reader, path).session.metadata["sidebar_visible"] is False


def test_a_log_without_meta_has_the_id_that_its_records_name(tmp_path: Path) -> None:
    assert read_one(reader, log(tmp_path, message(ONE), name="copy")).session.id == f"ggcode:{ID}"


def test_usage_is_counted_once_and_survives_a_checkpoint(store: clew.Store, tmp_path: Path) -> None:
    checkpoint = {"type": "checkpoint", "checkpoint_messages": [SUMMARY]}
    path = log(tmp_path, META, message(ONE), usage(3), checkpoint, usage(4), usage(4, source="summariser"))
    bring(store, reader, path, path)
    totals = store.usage()
    assert isinstance(totals, clew.UsageTotals)
    assert (totals.calls, totals.input_tokens, totals.cache_write_tokens) == (3, 45, 12)


def test_a_call_has_the_endpoint_and_the_source_that_its_record_names(
    store: clew.Store, tmp_path: Path
) -> None:
    calls = [usage(3, endpoint="eu", source="subagent"), usage(4)]
    s = bring_one(store, reader, log(tmp_path, META, message(ONE), *calls))
    told = [(call.endpoint, call.source, call.model, call.vendor) for call in s.usage_records()]
    assert told == [("eu", "subagent", "m", "v"), ("cn", None, "m", "v")]
    assert s.info.endpoint == "cn"


def test_every_other_record_is_an_event_with_its_place(store: clew.Store, tmp_path: Path) -> None:
    tunnel = {"type": "tunnel_event", "tunnel_event": {"event_id": "e1", "stream_id": "s", "type": "text"}}
    cost = {"type": "cost", "cost": {"total": 0.1}}
    metric = {"type": "metric", "metric_event": {"type": "llm", "ttft": 123000000}}
    new = {"type": "of_a_later_version", "x": 1}
    path = log(tmp_path, META, tunnel, message(ONE), cost, tunnel, message(TWO), metric, new)
    events = bring_one(store, reader, path).events(stream="ggcode")
    found = [(event.type, event.data["position"]) for event in events]
    kinds = ["meta", "tunnel_event", "cost", "tunnel_event", "metric", "of_a_later_version"]
    assert found == list(zip(kinds, [0, 0, 1, 1, 2, 2], strict=True))
    assert events[2].data["record"] == cost


def test_tool_results_are_not_turns_of_the_user(store: clew.Store, tmp_path: Path) -> None:
    call = {"type": "tool_use", "tool_name": "run", "tool_id": "t1", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_id": "t1", "output": "a", "is_error": False}
    records = [ONE, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    assert bring_one(store, reader, log(tmp_path, META, *map(message, records))).info.user_turns == 1


def test_damaged_lines_are_told_with_their_numbers_and_the_rest_is_imported(tmp_path: Path) -> None:
    glued = '{"type":"message","mess{"type": "message", "message": {"role": "user", "content": []}}'
    path = log(
        tmp_path,
        META,
        message(ONE),
        "nonsense",
        glued,
        {"type": "message"},
        message(TWO),
        '{"type":"m',
        end="",
    )
    (read,), problems = read_file(reader, path)
    assert [problem.line for problem in problems] == [3, 4, 5, 7]
    assert [entry.message for entry in read.path] == [ONE, {"role": "user", "content": []}, TWO]


def test_the_index_beside_the_logs_is_none(tmp_path: Path) -> None:
    path = log(tmp_path, META, message(ONE))
    (tmp_path / "index.json").write_text("[]")
    assert reader.files(tmp_path) == [path]
