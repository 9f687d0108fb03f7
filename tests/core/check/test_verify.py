"""Whether `verify` finds what is wrong with conversations, names it, and finds nothing where all is well.

P7, J4, J5, J10, J11: a flipped bit, a lost entry, a wrong counter, a record that leads nowhere.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import apsw
import msgspec
import pytest

import clew
from clew.backends.contract import STORE_WIDE
from clew.core.check import branches
from clew.core.check import verify as checking
from clew.core.check import verify as findings
from clew.core.engine.engine import Engine
from clew.core.log.digest import checksum
from clew.errors import InvalidError
from clew.files.upkeep import verify as module
from clew.model.files import FileProgress, VerifyProblem, VerifyReport
from tests.files.playground import cache_in
from tests.support.storage import Watched
from tests.support.stores import run_sql


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with cache_in(tmp_path):
        yield tmp_path / "store.db"


def fill(store: clew.Store, root: Path) -> None:
    """A little of everything that a conversation may leave in a store."""
    root.mkdir()
    (root / "file").write_text("one")
    chat = store.session("chat")
    for number in range(10):
        chat.append({"role": "user", "content": f"question {number}"}, key=f"k{number}")
        chat.append({"role": "assistant", "content": f"answer {number}"})
    chat.checkpoint("half", state={"at": 1}, files=root)
    chat.set_var("colour", "red")
    chat.annotate(3, label="good", note="well said")
    (root / "file").write_text("two")
    chat.append({"role": "user", "content": "wrong turn"})
    chat.rewind("half", files=True)
    chat.append({"role": "user", "content": "right turn"})
    chat.rewind(5)
    chat.undo()
    chat.compact("what was said", upto=7)
    fork = chat.fork("fork", at=8)
    fork.append({"role": "user", "content": "elsewhere"})
    fork.replace([{"role": "user", "content": "all new"}])
    store.session("gone").append({"role": "user", "content": "bye"})
    store.delete("gone")
    store.session("empty")


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("filled")
    with cache_in(place), clew.open(place / "store.db") as store:
        fill(store, place / "root")
    return place / "store.db"


@pytest.fixture
def filled(path: Path, filled_once: Path) -> Path:
    shutil.copy(filled_once, path)
    return path


def change(path: Path, sql: str, *values: object) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(sql, values)
    assert connection.changes() == 1
    connection.close()


def verify(path: Path, *, full: bool = True) -> VerifyReport:
    with clew.open(path) as store:
        return store.verify(full=full)


def only(report: VerifyReport) -> VerifyProblem:
    assert [problem.text for problem in report.details] == list(report.problems)
    (problem,) = report.details
    assert not report.ok
    return problem


def place(path: Path, position: int) -> tuple[int, str]:
    """The key and the branch of an entry of the first branch of the session `chat`."""
    [(branch, uid)] = run_sql(path, "SELECT branch, uid FROM branches ORDER BY branch LIMIT 1")
    return branch << 32 | position, uid


# -- all is well


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("where", ["memory", "sqlite"])
def test_a_store_that_is_in_order_has_no_problem(path: Path, where: str, full: bool) -> None:
    with clew.open("memory:" if where == "memory" else path) as store:
        fill(store, path.parent / "root")
        report = store.verify(full=full)
        stats = store.stats()

    assert report.problems == ()
    assert report.details == ()
    assert report.complete
    assert report.sessions == stats.sessions + stats.deleted == 4
    assert report.entries == stats.entries


@pytest.mark.parametrize("full", [False, True])
def test_what_is_purged_or_removed_by_a_rule_leaves_no_problem(path: Path, full: bool) -> None:
    with clew.open(path) as store:
        fill(store, path.parent / "root")
        store.delete("chat", purge=True)
        store.delete("gone", purge=True)
        store.set_retention(clew.Retention(max_messages=3))
        store.sweep()
        kept = [entry.kind for entry in store.get("fork").entries()]
        assert store.verify(full=full).problems == ()
    assert kept


def test_entries_whose_messages_were_removed_by_a_rule_are_passed_over(path: Path) -> None:
    with clew.open(path) as store:
        chat = store.session("chat")
        for number in range(20):
            chat.append({"role": "user", "content": f"question {number}"})
        store.set_retention(clew.Retention(max_messages=3))
        store.sweep()
        assert [entry.kind for entry in chat.entries()].count("removed") == 17
        report = store.verify()
    assert report.problems == ()
    assert report.entries == 20


# -- one thing is wrong

COUNTERS = ("messages", "turns", "size", "view_start", "summary", "last_user_turn")


@pytest.mark.parametrize(
    ("change_to", "text"),
    [
        ("body = CAST(replace(body, 'question', 'questioN') AS BLOB)", "checksum"),
        ("digest = zeroblob(32)", "its hash is not"),
        *((f"{name} = {name} + 1", f"its counters are wrong: {name}$") for name in COUNTERS),
    ],
)
def test_p7_j10_j11_a_full_look_finds_what_is_wrong_in_an_entry(
    filled: Path, change_to: str, text: str
) -> None:
    key, uid = place(filled, 4)
    change(filled, f"UPDATE entries SET {change_to} WHERE key = ?", key)

    assert verify(filled, full=False).ok
    problem = only(verify(filled))
    assert (problem.kind, problem.session, problem.branch, problem.position) == ("entry", "chat", uid, 4)
    assert re.search(text, problem.text)


def of_record(kind: str) -> tuple[str, str, str, str]:
    one = f"SELECT name FROM records WHERE kind = '{kind}' AND sid ORDER BY sid, name LIMIT 1"
    where = f"kind = '{kind}' AND sid = 1 AND name = ({one})"
    return f"UPDATE records SET value = x'c1c1' WHERE {where}", "record", "chat", f"^the {kind} '.*cannot be"


def of_details(id: str) -> tuple[str, str, str, str]:
    where = f"sid = (SELECT sid FROM sessions WHERE id = '{id}')"
    return f"UPDATE details SET value = x'ff' WHERE {where}", "session", id, "its settings cannot be read"


def of_session(name: str, to: str, text: str) -> tuple[str, str, str, str]:
    return f"UPDATE sessions SET {name} = {to} WHERE id = 'chat'", "session", "chat", text


LOST_MOVE = "DELETE FROM records WHERE kind = 'move' AND sid = 1 AND name = printf('%012d', 1)"


@pytest.mark.parametrize(
    ("sql", "kind", "session", "text"),
    [
        *(of_session(name, f"{name} + 1", f"at its head: {name}$") for name in COUNTERS),
        of_session("grows", "1 - grows", "^session 'chat' would append to the wrong branch$"),
        *(of_details(id) for id in ("chat", "gone")),
        *(of_record(kind) for kind in ("checkpoint", "move", "var", "key")),
        (LOST_MOVE, "record", "chat", "moves of session 'chat' are missing"),
    ],
)
def test_j11_what_is_wrong_beside_the_entries_is_seen_without_reading_them(
    filled: Path, sql: str, kind: str, session: str, text: str
) -> None:
    change(filled, sql)

    problem = only(verify(filled, full=False))
    assert (problem.kind, problem.session) == (kind, session)
    assert re.search(text, problem.text)


# -- entries


@pytest.mark.parametrize("full", [False, True])
def test_j4_a_lost_entry_is_a_hole(filled: Path, full: bool) -> None:
    key, uid = place(filled, 11)
    change(filled, "DELETE FROM entries WHERE key = ?", key)

    problem = only(verify(filled, full=full))
    assert (problem.kind, problem.branch, problem.position) == ("entry", uid, 11)
    assert problem.text.endswith("it is missing")


def forge(path: Path, body: bytes) -> str:
    """Give an entry another body, with its checksum: somebody edited the database, and knew how."""
    key, uid = place(path, 4)
    [(time,)] = run_sql(path, "SELECT time FROM entries WHERE key = ?", key)
    right = checksum(body, 4, time, 0, 0, 0)
    change(path, "UPDATE entries SET body = ?, checksum = ? WHERE key = ?", body, right, key)
    return uid


def test_j10_a_body_that_was_changed_with_its_checksum_breaks_the_chain(filled: Path) -> None:
    """The hash still tells. One entry, one problem."""
    uid = forge(filled, b'{"role":"user","content":"QUESTION 2"}')

    problem = only(verify(filled))
    assert (problem.kind, problem.branch, problem.position) == ("entry", uid, 4)
    assert "its hash is not" in problem.text


def test_a_body_that_is_no_message_is_a_problem(filled: Path) -> None:
    forge(filled, b"\xff")

    assert "its body cannot be understood" in only(verify(filled)).text


@pytest.mark.parametrize("full", [False, True])
def test_j4_a_hole_is_one_problem_however_large_it_is(path: Path, full: bool) -> None:
    """A damaged key may say any position: nobody waits for four billion looks."""
    with clew.open(path) as store:
        chat = store.session("chat")
        for number in range(5):
            chat.append({"role": "user", "content": f"{number}"})
    key, _ = place(path, 3)
    change(path, "UPDATE entries SET key = ? WHERE key = ?", key | 0xFFFFFF00, key)

    problems = verify(path, full=full).details
    holes = [(one.position, one.text.rpartition(": ")[2]) for one in problems if "missing" in one.text]
    assert holes == [(3, "it is missing"), (5, f"it and all up to {0xFFFFFF02} are missing")]


def test_j10_entries_that_changed_places_are_found(filled: Path) -> None:
    key, _ = place(filled, 4)
    for old, new in ((key, key + 900), (key + 2, key), (key + 900, key + 2)):
        change(filled, "UPDATE entries SET key = ? WHERE key = ?", new, old)

    assert {problem.position for problem in verify(filled).details} >= {4, 6}


@pytest.mark.parametrize("full", [False, True])
def test_j5_a_branch_that_continues_nothing_is_a_problem(filled: Path, full: bool) -> None:
    youngest = "SELECT max(branch) FROM branches WHERE parent"
    change(filled, f"UPDATE branches SET fork = fork - 1 WHERE branch = ({youngest})")

    problems = verify(filled, full=full).details
    assert problems
    assert {problem.session for problem in problems} == {"chat"}


# -- sessions


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("id", ["chat", "gone"])
def test_a_session_whose_head_was_lost_is_named(filled: Path, id: str, full: bool) -> None:
    """In the trash, too."""
    head = "SELECT branch << 32 | position FROM sessions WHERE id = ?"
    change(filled, f"DELETE FROM entries WHERE key = ({head})", id)

    heads = [problem for problem in verify(filled, full=full).details if problem.kind == "session"]
    assert [problem.session for problem in heads] == [id]
    assert "which does not exist" in heads[0].text


def test_a_lost_branch_is_told_by_those_who_need_it(filled: Path) -> None:
    change(filled, "DELETE FROM branches WHERE branch = (SELECT branch FROM sessions WHERE id = 'fork')")

    assert "fork" in {problem.session for problem in verify(filled, full=False).details}


# -- records


@pytest.mark.parametrize("kind", ["annotation", "label", "snapshot", "restore"])
def test_a_record_of_the_store_that_can_not_be_read_is_named(filled: Path, kind: str) -> None:
    one = "SELECT sid, name FROM records WHERE kind = ?1 AND name > '' ORDER BY sid, name LIMIT 1"
    change(filled, f"UPDATE records SET value = x'c1c1' WHERE kind = ?1 AND (sid, name) = ({one})", kind)

    problems = verify(filled, full=False).details
    assert problems[0].kind in ("record", "snapshot")
    assert kind in problems[0].text


def test_a_checkpoint_that_leads_nowhere_is_named(filled: Path) -> None:
    with clew.open(filled) as store:
        sid = store.get("chat")._sid
        value = msgspec.json.encode({"uid": "f" * 32, "position": 3, "time": 1})
        store._engine.run(lambda tx: tx.put_record(sid, "checkpoint", "nowhere", value))
        problem = only(store.verify(full=False))
    assert (problem.kind, problem.session, problem.branch, problem.position) == (
        "record",
        "chat",
        "f" * 32,
        3,
    )
    assert "'nowhere'" in problem.text


def test_a_lost_move_is_a_problem(filled: Path) -> None:
    change(filled, "DELETE FROM records WHERE kind = 'move' AND sid = 1 AND name = printf('%012d', 1)")

    assert "moves of session 'chat' are missing" in only(verify(filled, full=False)).text


def test_an_alias_or_label_that_leads_nowhere_is_named(filled: Path) -> None:
    with clew.open(filled) as store:
        store._engine.run(lambda tx: tx.put_record(STORE_WIDE, "alias", "ghost", b"999"))
        sid = store.get("chat")._sid
        with store._engine.read() as reader:
            ((name, _),) = reader.scan_records(sid, "label", "good:", "good:~")
        store._engine.run(lambda tx: tx.drop_record(sid, "label", name))
        store._engine.run(lambda tx: tx.put_record(sid, "label", f"ghost{name}", b""))
        problems = store.verify(full=False).problems
    assert len(problems) == 3
    told = "\n".join(problems)
    assert "the alias 'ghost'" in told
    assert "the label 'good' does not lead to it" in told
    assert f"the label 'ghost{name}'" in told


def test_a_snapshot_that_a_checkpoint_or_a_move_names_and_that_is_gone_is_named(filled: Path) -> None:
    with clew.open(filled) as store:
        snapshot = store.get("chat").checkpoints()[0].snapshot
        assert snapshot is not None
        store.delete_snapshot(snapshot)
        problems = store.verify(full=False).details
    assert {(problem.kind, problem.session) for problem in problems} == {("snapshot", "chat")}
    assert all(snapshot in problem.text for problem in problems)
    assert "the checkpoint 'half'" in problems[0].text


# -- how it looks


def test_the_time_limit_ends_it_and_the_report_says_so(filled: Path) -> None:
    with clew.open(filled) as store:
        none, long = store.verify(time_limit=0), store.verify(time_limit=3600)
    assert not none.complete
    assert none.ok
    assert none.entries < long.entries
    assert long.complete


@pytest.mark.parametrize("limit", [-1, float("nan"), "1", True])
def test_a_time_limit_that_is_none_is_refused(path: Path, limit: float) -> None:
    with clew.open(path) as store, pytest.raises(InvalidError, match="time_limit"):
        store.verify(time_limit=limit)


def test_what_was_found_before_the_time_was_over_is_told(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, _ = place(filled, 4)
    change(filled, "UPDATE entries SET messages = 77 WHERE key = ?", key)
    now = [0.0]
    monkeypatch.setattr("clew.core.check.verify.time.monotonic", lambda: now[0])

    def late(_: FileProgress) -> None:
        now[0] += 10

    with clew.open(filled) as store:
        report = store.verify(time_limit=5, on_progress=late)
    assert [problem.position for problem in report.details] == [4]
    assert not report.complete


def test_more_problems_than_anybody_reads_are_not_gathered(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "MOST", 3)
    monkeypatch.setattr(findings, "MOST", 3)
    run_sql(filled, "UPDATE entries SET body = x'00'")

    report = verify(filled)
    assert len(report.problems) == 3
    assert not report.complete


def test_progress_is_told_and_pages_are_bounded(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "PAGE", 2)
    monkeypatch.setattr(checking, "PAGE", 1)
    told: list[FileProgress] = []
    with clew.open(filled) as store:
        report = store.verify(on_progress=told.append)
    checks = [one for one in told if one.phase == "check"]
    assert report.ok
    assert checks[-1].files == report.sessions == 4
    assert [one.bytes for one in checks] == sorted(one.bytes for one in checks)
    assert checks[-1].bytes > 1000


def test_what_is_purged_while_it_looks_is_no_problem(filled: Path) -> None:
    """The first look meets a tree that is half gone; the second one finds that it is gone."""
    purged: list[str] = []
    with clew.open(filled) as store:

        def purge(_: FileProgress) -> None:
            if not purged:
                purged.append("chat")
                store.delete("chat", purge=True)

        assert store.verify(on_progress=purge).problems == ()
    assert purged


def test_what_is_written_while_it_looks_is_no_problem(filled: Path) -> None:
    with clew.open(filled) as store:
        chat = store.get("chat")

        def write(_: FileProgress) -> None:
            chat.append({"role": "user", "content": "meanwhile"})
            chat.rewind(chat.head.position - 1)

        assert store.verify(on_progress=write).problems == ()


def test_a_session_that_grows_at_every_look_is_no_problem(filled: Path) -> None:
    """Between the row of a session and the entries behind its head there is always somebody who writes."""
    with clew.open(filled) as store:
        chat, looks = store.get("chat"), list[str]()

        def write(call: str, _: object) -> None:
            if call == "tree_branches":
                looks.append(call)
                chat.append({"role": "user", "content": "meanwhile"})

        watched = Engine(Watched(store._engine.backend, write))
        assert module.verify(watched, full=True).problems == ()
    assert looks
