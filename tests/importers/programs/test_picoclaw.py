"""picoclaw: lines that the model does not get any more are still the history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import clew
from clew.importers.programs import picoclaw as reader
from tests.importers.landing import bring, bring_one
from tests.importers.readers import read_file, read_one, write_json, write_lines


def said(text: str, role: str = "user", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": text} | more


ONE, TWO, THREE, FOUR = (said(word) for word in ("one", "two", "three", "four"))


def log(folder: Path, *lines: Any, meta: dict[str, Any] | None = None, end: str = "\n") -> Path:
    if meta is not None:
        dates = {"created_at": "2026-05-01T08:00:00Z", "updated_at": "2026-05-02T08:00:00Z"}
        write_json(
            folder / "a_b.meta.json", {"key": "a:b", "summary": "", "skip": 0, "count": 0, **dates, **meta}
        )
    return write_lines(folder / "a_b.jsonl", *lines, end=end)


def legacy(folder: Path, *messages: Any, name: str = "a_b.json", **more: Any) -> Path:
    document = {
        "key": "a:b",
        "messages": list(messages),
        "summary": "",
        "created": "2026-02-01T10:00:00.5+08:00",
        "updated": "2026-02-01T10:05:00+08:00",
    }
    return write_json(folder / name, document | more)


def test_lines_before_skip_are_history_but_not_context(store: clew.Store, tmp_path: Path) -> None:
    s = bring_one(store, reader, log(tmp_path, ONE, TWO, THREE, meta={"skip": 2}))
    assert s.messages() == [ONE, TWO, THREE]
    context = s.context()
    assert [message["role"] for message in context] == ["system", "user"]
    assert context[-1] == THREE


def test_a_summary_is_the_sessions_and_the_model_gets_it_for_what_was_cut_off(
    store: clew.Store, tmp_path: Path
) -> None:
    s = bring_one(store, reader, log(tmp_path, ONE, TWO, meta={"skip": 2, "summary": "they counted"}))
    assert s.summary == "they counted"
    (only,) = s.context()
    assert "they counted" in only["content"]


def test_the_model_gets_the_summary_of_messages_that_are_in_no_file_any_more(
    store: clew.Store, tmp_path: Path
) -> None:
    for path in (
        log(tmp_path, ONE, TWO, meta={"summary": "s1"}),
        legacy(tmp_path, ONE, key="k", summary="s1"),
    ):
        s = bring_one(store, reader, path)
        summary, *rest = s.context()
        assert "s1" in summary["content"]
        assert rest == s.messages()


def test_key_aliases_scope_and_dates_come_from_the_meta_file(store: clew.Store, tmp_path: Path) -> None:
    scope = {"version": 1, "agent_id": "main", "values": {"chat": "direct:1"}}
    path = log(tmp_path, ONE, meta={"key": "telegram:1", "aliases": ["agent:main:direct:1"], "scope": scope})
    s = bring_one(store, reader, path)
    assert s.id == "picoclaw:telegram:1"
    assert store.get("agent:main:direct:1").id == s.id
    assert s.info.metadata["scope"] == scope
    assert str(s.info.created_at) == "2026-05-01 08:00:00+00:00"
    assert str(s.info.updated_at) == "2026-05-02 08:00:00+00:00"


def test_a_log_without_meta_has_the_name_of_its_file(tmp_path: Path) -> None:
    read = read_one(reader, log(tmp_path, ONE))
    assert read.session.id == "picoclaw:a_b"


def test_messages_keep_their_own_times_and_all_their_fields(tmp_path: Path) -> None:
    call = {"id": "call_0", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = said("", "assistant", model_name="m1", created_at="2026-05-12T09:00:00.1Z", tool_calls=[call])
    read = read_one(reader, log(tmp_path, message, said("text", "tool", tool_call_id="call_0"), meta={}))
    assert read.entries[0].message == message
    assert str(read.entries[0].at) == "2026-05-12 09:00:00.100000+00:00"
    assert read.session.updates() == {"model": "m1"}


def test_a_stale_count_is_not_believed(tmp_path: Path) -> None:
    read = read_one(reader, log(tmp_path, ONE, TWO, meta={"count": 1}))
    assert len(read.entries) == 2


def test_a_damaged_line_is_told_and_still_counts_for_skip(tmp_path: Path) -> None:
    path = log(tmp_path, ONE, '{"role":"user","cont', "", TWO, meta={"skip": 2})
    (read,), problems = read_file(reader, path)
    assert [entry.message for entry in read.path if entry.kind == "message"] == [ONE, TWO]
    assert [problem.line for problem in problems] == [2]
    (mark,) = [entry for entry in read.path if entry.kind == "compaction"]
    assert mark.message["from"] == read.entries[1].uid
    assert mark.notes == {"skip": 1}


def test_a_message_glued_to_a_torn_one_is_kept(tmp_path: Path) -> None:
    path = log(tmp_path, ONE, '{"role":"user","content":"tor{"role": "user", "content": "two"}', THREE)
    (read,), problems = read_file(reader, path)
    assert [entry.message for entry in read.path] == [ONE, TWO, THREE]
    assert [problem.line for problem in problems] == [2]


def test_a_line_of_eleven_megabytes_costs_nothing(tmp_path: Path) -> None:
    long = said("x" * 11_000_000)
    read = read_one(reader, log(tmp_path, ONE, long, TWO))
    assert [entry.message for entry in read.path] == [ONE, long, TWO]


def test_the_older_form_keeps_its_dates_and_summary(store: clew.Store, tmp_path: Path) -> None:
    s = bring_one(store, reader, legacy(tmp_path, ONE, TWO, summary="short"))
    assert (s.id, s.messages(), s.summary) == ("picoclaw:a:b", [ONE, TWO], "short")
    assert str(s.info.created_at) == "2026-02-01 02:00:00.500000+00:00"
    assert str(s.info.updated_at) == "2026-02-01 02:05:00+00:00"


def test_what_a_migration_left_and_the_log_it_made_are_one_session(store: clew.Store, tmp_path: Path) -> None:
    legacy(tmp_path, ONE, TWO, name="a_b.json.migrated")
    log(tmp_path, ONE, TWO, THREE, meta={})
    loaded = bring(store, reader, *reader.files(tmp_path))
    assert [(one.id, one.state, one.entries) for one in loaded] == [
        ("picoclaw:a:b", "new", 2),
        ("picoclaw:a:b", "grown", 1),
    ]
    s = store.get("picoclaw:a:b")
    assert s.messages() == [ONE, TWO, THREE]
    assert s.info.created_at.year == 2026
    assert s.info.created_at.month == 2


def test_a_meta_file_is_no_empty_session_unless_it_stands_alone(store: clew.Store, tmp_path: Path) -> None:
    log(tmp_path, ONE, meta={"summary": "all of it"})
    meta = tmp_path / "a_b.meta.json"
    beginning = meta.read_bytes()
    assert not reader.recognises(meta, beginning)
    assert reader.files(meta) == [tmp_path / "a_b.jsonl"]
    assert reader.files(tmp_path) == [tmp_path / "a_b.jsonl"]
    (tmp_path / "a_b.jsonl").unlink()
    assert reader.recognises(meta, beginning)
    assert reader.files(tmp_path) == [meta]
    assert bring_one(store, reader, meta).summary == "all of it"


def test_a_log_that_grew_adds_what_is_new_and_the_view_follows(store: clew.Store, tmp_path: Path) -> None:
    bring(store, reader, log(tmp_path, ONE, TWO, meta={"skip": 1}))
    (same,) = bring(store, reader, tmp_path / "a_b.jsonl")
    assert (same.state, same.entries) == ("unchanged", 0)
    s = bring_one(store, reader, log(tmp_path, ONE, TWO, THREE, FOUR, meta={"skip": 3}))
    assert s.messages() == [ONE, TWO, THREE, FOUR]
    assert s.context()[1:] == [FOUR]
    s = bring_one(store, reader, log(tmp_path, ONE, TWO, THREE, FOUR, ONE, meta={"skip": 3}))
    assert s.messages() == [ONE, TWO, THREE, FOUR, ONE]
    assert s.context()[1:] == [FOUR, ONE]


def test_what_picoclaw_destroyed_since_the_last_import_stays_in_the_store(
    store: clew.Store, tmp_path: Path
) -> None:
    s = bring_one(store, reader, log(tmp_path, ONE, ONE, TWO, meta={}))
    before = s.head
    bring(store, reader, log(tmp_path, ONE, TWO, ONE, meta={}))
    assert s.messages() == [ONE, TWO, ONE]
    s.rewind(before)
    assert s.messages() == [ONE, ONE, TWO]


def test_keys_that_no_store_takes_as_ids_still_get_one(store: clew.Store, tmp_path: Path) -> None:
    long = read_one(reader, log(tmp_path / "1", ONE, meta={"key": "ä" * 600})).session.id
    other = read_one(reader, log(tmp_path / "2", ONE, meta={"key": "ä" * 601})).session.id
    assert store.create(long).id != store.create(other).id
