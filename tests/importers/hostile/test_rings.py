"""S-52: session files of other programs that name themselves, or each other, as what is before them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import clew
from clew.importers.contract import SourceEntry
from tests.core.load import test_load
from tests.importers.hostile.forged_files import store_of
from tests.importers.programs import test_codex, test_llm, test_opencode, test_pi
from tests.importers.programs.claude_code import test_reader

OTHER = "0b1c2d3e-1111-4222-8333-444455557777"


def of_pi(folder: Path) -> None:
    """Ids that come twice, so that each of two lines is above the other; and a compaction, which looks up."""
    said, line = test_pi.said, test_pi.line
    test_pi.session_file(
        folder,
        said("a1", None, "user", "one"),
        said("a2", "a1", "assistant", "two"),
        said("a1", "a2", "user", "three"),
        said("a1", "a1", "user", "four"),
        line("compaction", "a5", "a1", summary="short", firstKeptEntryId="nowhere", tokensBefore=1),
        header={**test_pi.HEADER, "parentSession": str(folder / "--w--" / "t_0198-s.jsonl")},
    )


def of_claude_code(folder: Path) -> None:
    """Records, and two sessions that were each forked from the other."""
    for id, base in ((test_reader.SESSION, OTHER), (OTHER, test_reader.SESSION)):
        log = test_reader.Log(
            folder / f"{id}.jsonl", sessionId=id, forkedFrom={"sessionId": base, "messageUuid": "u1"}
        )
        log.user("u1", parentUuid="u1").user("u2", parentUuid="u3").model("u3", parentUuid="u2")
        log.user("u2", parentUuid="u2").user("u4", parentUuid="u4")


def of_codex(folder: Path) -> None:
    threads = (test_codex.THREAD, test_codex.OTHER)
    for thread, base in (threads, threads[::-1]):
        test_codex.Rollout(folder, thread, forked_from_id=base, parent_thread_id=thread).user("hi")


def of_opencode(folder: Path) -> None:
    database = test_opencode.Database(folder / "opencode.db")
    said = test_opencode.user(test_opencode.text("hi"))
    for name, above in (("ses_1", "ses_1"), ("ses_2", "ses_3"), ("ses_3", "ses_2")):
        database.add(name, said, parent_id=above)
    database.close()


def of_llm(folder: Path) -> None:
    log = test_llm.Log(folder / "logs.db")
    log.db.executescript(test_llm.OLD + test_llm.NEW)
    log.say("m1", "m2", "user", "one")
    log.say("m2", "m1", "assistant", "two")
    log.say("m3", "m3", "user", "three")
    for name, base, tip in (("t1", "t1", "m1"), ("t2", "t3", "m3"), ("t3", "t2", "m2")):
        log.add("threads", id=name, tip_message_hash=tip, forked_from=base, datetime_utc=test_llm.TIME)
        log.turn(f"turn-{name}", name, tip)
    log.db.close()


@pytest.fixture
def store(backend: str, tmp_path: Path) -> Iterator[clew.Store]:
    with store_of(backend, tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("write", [of_pi, of_claude_code, of_codex, of_opencode, of_llm])
def test_s52_a_file_that_leads_round_is_imported_to_its_end(
    store: clew.Store, tmp_path: Path, write: Callable[[Path], None]
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    write(folder)
    report = store.import_path(folder)
    assert report.sessions
    for info in store.list():
        assert store.get(info.id).messages()
        assert store.export(info.id, "markdown", whole=True)
    assert store.verify(full=True).ok
    store.import_path(folder)  # the first of two now finds its parent, and tells it
    again = store.import_path(folder)
    assert {session.state for session in again.sessions} == {"unchanged"}


def refused(uid: str, parent: str) -> SourceEntry:
    """An entry that cannot be kept."""
    return SourceEntry(uid=uid, parent=parent, message={"messages": "none"}, kind="compaction")


def test_s52_refused_entries_that_name_each_other_do_not_hold_up_the_others(store: clew.Store) -> None:
    told: list[str] = []
    entries = [
        test_load.said("e1", None),
        *(refused(uid, parent) for uid, parent in (("x1", "x1"), ("x2", "x3"), ("x3", "x2"))),
        *(test_load.said(f"e{n + 2}", name) for n, name in enumerate(("x1", "x2", "x3"))),
    ]
    source = test_load.session(entries, head=lambda: "x3")
    store.load(source, on_refused=lambda uid, _: told.append(uid))
    assert told == ["x1", "x2", "x3"]
    assert test_load.texts(store.get("other:1"))[0] == "text of e1"
    assert store.verify(full=True).ok


def test_s52_a_long_row_of_refused_entries_costs_its_length(store: clew.Store) -> None:
    """Each is behind the one before: 20,000 of them, all looked through for each, would take minutes."""
    names = [f"x{n}" for n in range(20_000)]
    row = [refused(name, above) for above, name in zip(("e1", *names), names, strict=False)]
    entries = [test_load.said("e1", None), *row, test_load.said("e2", names[-1])]
    store.load(test_load.session(entries), on_refused=lambda *_: None)
    assert test_load.texts(store.get("other:1")) == ["text of e1", "text of e2"]
