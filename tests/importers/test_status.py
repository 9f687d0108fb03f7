"""The status, the expiry and the resume points of another program mean here what they say there."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

import clew
from clew.importers.programs import ductwork, tingly_box
from clew.model.source import SourceEntry, SourceRun, SourceSession
from tests.importers.landing import bring_one
from tests.importers.programs.test_ductwork import ANSWER, ASK, CALL, run
from tests.importers.readers import write_json
from tests.support.rows import each_row

SAID = {"role": "user", "content": "hi"}
ANSWERED = {"role": "assistant", "content": "hello"}
CALLED = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "ls", "input": {}}]}


SEARCHED = [
    {"role": "assistant", "content": [block]}
    for block in (
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
    )
]
NOTICE = {"role": "system", "content": "The server is busy.", "notice": True}


def conversation(*messages: dict[str, Any], told: SourceRun | None = None) -> SourceSession:
    names = [f"e{number}" for number in range(len(messages))]
    entries = [
        SourceEntry(uid=uid, parent=names[at - 1] if at else None, message=message)
        for at, (uid, message) in enumerate(zip(names, messages, strict=True))
    ]
    return SourceSession(id="other:1", entries=entries, run=lambda: told)


@each_row(
    ("messages", "status"),
    [
        ((SAID, ANSWERED), "completed"),
        ((SAID,), "pending"),
        ((SAID, CALLED), "pending"),
        ((), "pending"),
        ((SAID, ANSWERED, NOTICE), "completed"),
        ((SAID, ANSWERED, NOTICE, NOTICE), "completed"),
        ((SAID, NOTICE), "completed"),
        ((SAID, CALLED, NOTICE), "pending"),
        ((SAID, ANSWERED, SAID), "pending"),
        ((SAID, *SEARCHED * 20, ANSWERED), "completed"),
    ],
)
def test_a_conversation_that_ends_with_an_answer_is_completed(
    messages: tuple[dict[str, Any], ...], status: str
) -> None:
    with clew.open("memory:") as store:
        store.load(conversation(*messages))
        assert store.get("other:1").info.status == status
        assert store.load(conversation(*messages)).state == "unchanged"
        assert store.verify().ok


def test_a_conversation_that_goes_on_is_pending_until_it_is_answered(store: clew.Store) -> None:
    found = []
    for messages in ((SAID, ANSWERED), (SAID, ANSWERED, SAID), (SAID, ANSWERED, SAID, ANSWERED)):
        store.load(conversation(*messages))
        found.append(store.get("other:1").info.status)
    assert found == ["completed", "pending", "completed"]


@each_row(
    ("messages", "status"),
    [
        ((SAID, ANSWERED, SAID), "completed"),
        ((SAID, SAID), "pending"),
        ((SAID, CALLED, SAID), "pending"),
        ((SAID,), "pending"),
    ],
)
def test_what_a_program_puts_behind_an_answer_in_the_users_name_waits_for_none(
    messages: tuple[dict[str, Any], ...], status: str
) -> None:
    """As the output of a command, or that its turn was interrupted: the last of these messages."""
    with clew.open("memory:") as store:
        source = conversation(*messages)
        *before, last = source.entries
        entries = [*before, msgspec.structs.replace(last, human=False)]
        store.load(msgspec.structs.replace(source, entries=entries))
        assert store.get("other:1").info.status == status


def test_a_status_that_was_given_here_stays(store: clew.Store) -> None:
    store.load(conversation(SAID))
    store.get("other:1").close()
    store.load(conversation(SAID, ANSWERED))
    s = store.get("other:1")
    assert s.info.status == "closed"
    assert s.messages() == [SAID, ANSWERED]


def test_other_programs_sessions_are_not_offered_as_interrupted_work(store: clew.Store) -> None:
    store.load(conversation(SAID, CALLED))
    assert list(store.interrupted()) == []


def test_a_run_of_ductwork_can_be_resumed(store: clew.Store, tmp_path: Path) -> None:
    s = bring_one(store, ductwork, write_json(tmp_path / "r.json", run()))
    assert s.info.status == "interrupted"
    assert [one.id for one in store.interrupted()] == [s.id]
    point = s.resume(system_prompt="be good")
    assert point.messages == [ASK, CALL, ANSWER]
    assert point.changed == ()
    assert s.resume(system_prompt="be bad").changed == ("system_prompt",)
    told = point.checkpoint.run
    assert told is not None
    assert (told.task, told.iteration, told.input_tokens, told.output_tokens) == ("sync", 2, 1200, 80)
    with s.run(task="sync") as work:
        work.rewind(work.resume().head)
        work.append(ANSWERED)
    assert store.get(s.id).info.status == "completed"
    assert store.verify().ok


def test_a_run_of_ductwork_that_went_on_there_is_resumed_where_it_stands_now(
    store: clew.Store, tmp_path: Path
) -> None:
    bring_one(store, ductwork, write_json(tmp_path / "r.json", run((ASK, CALL, ANSWER))))
    more = run((ASK, CALL, ANSWER, CALL, ANSWER), iteration=3)
    s = bring_one(store, ductwork, write_json(tmp_path / "r.json", more))
    point = s.resume()
    assert point.checkpoint.name == "iteration-3"
    assert len(point.messages) == 5


def of_tingly_box(folder: Path, **fields: Any) -> Path:
    item = {
        "ID": "s1", "Status": "completed", "Request": "fix it", "Response": "done", "Error": "",
        "CreatedAt": "2026-02-10T09:15:04Z", "LastActivity": "2026-02-10T09:16:04Z",
        "ExpiresAt": "2026-02-11T09:15:04Z", "Messages": [],
    }  # fmt: skip
    return write_json(
        folder / "bot_sessions.json", {"version": 1, "items": {"s1": item | fields}, "updated": ""}
    )


@each_row(
    ("told", "status"),
    [
        *((name, name) for name in ("pending", "completed", "failed", "expired", "closed")),
        ("running", "interrupted"),
        ("no such", "pending"),
    ],
)
def test_a_session_of_tingly_box_has_the_status_that_it_had(tmp_path: Path, told: str, status: str) -> None:
    with clew.open("memory:") as store:
        s = bring_one(store, tingly_box, of_tingly_box(tmp_path, Status=told, Error="no"))
        assert s.info.status == status
        if told != "no such":
            assert s.info.run is not None
            assert (s.info.run.request, s.info.run.response, s.info.run.error) == ("fix it", "done", "no")
        assert bring_one(store, tingly_box, of_tingly_box(tmp_path, Status=told, Error="no")).id == s.id
        assert store.verify().ok


@each_row(
    ("told", "at", "never"),
    [
        ("2026-02-11T09:15:04Z", datetime(2026, 2, 11, 9, 15, 4, tzinfo=UTC), False),
        ("0001-01-01T00:00:00Z", None, True),
        ("tomorrow", None, False),
    ],
)
def test_a_session_of_tingly_box_expires_when_it_says(
    tmp_path: Path, told: str, at: datetime | None, never: bool
) -> None:
    with clew.open("memory:") as store:
        info = bring_one(store, tingly_box, of_tingly_box(tmp_path, ExpiresAt=told)).info
        assert (info.expires_at, info.never_expires) == (at, never)


def test_an_expiry_that_was_given_here_stays(store: clew.Store, tmp_path: Path) -> None:
    s = bring_one(store, tingly_box, of_tingly_box(tmp_path))
    s.update(expires_at="never")
    s = bring_one(store, tingly_box, of_tingly_box(tmp_path, ExpiresAt="2026-03-11T09:15:04Z"))
    assert s.info.never_expires
