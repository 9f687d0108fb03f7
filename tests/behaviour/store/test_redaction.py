"""S-24: secrets on the way into a store, by its policy. What is stored stays (P11)."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from backports import zstd

import clew
from clew.backends.contract import Backend
from clew.core.redact import rules
from clew.errors import InvalidError
from clew.model.source import SourceCheckpoint, SourceEntry, SourceEvent, SourceRun, SourceSession
from clew.store import Store
from clew.testing.backend.base import Ticking
from tests.core.redact.files import claude_file, codex_file
from tests.core.redact.keys import keys

GITHUB, OTHER = keys(2)[35][1], keys(3)[-36][1]
PASSWORD = "q7TzPw0Lk2"
ADDRESS = f"postgres://app:{PASSWORD}@db/app"
SECRETS = (GITHUB, PASSWORD)
TEXT = f"use {GITHUB} and {ADDRESS}"


def source(text: str = TEXT, **changes: Any) -> SourceSession:
    """A session of another program that holds a secret in every place that there is."""
    message = {"role": "user", "content": text}
    entries = [
        SourceEntry(uid="a", parent=None, message=message, notes={"env": {"token": text}}),
        SourceEntry(
            uid="b",
            parent="a",
            message={"role": "assistant", "content": [{"type": "tool_use", "input": {"command": text}}]},
            events=(SourceEvent(id="e1", type="log", data={"line": text}),),
        ),
        SourceEntry(uid="c", parent="b", message={"text": f"they said {text}"}, kind="summary"),
        SourceEntry(uid="d", parent="c", message={"text": f"so far: {text}"}, kind="compaction"),
    ]
    return SourceSession(
        id="other:1",
        entries=entries,
        title=text,
        endpoint=ADDRESS,
        metadata={"env": {"DATABASE": ADDRESS}},
        checkpoints=lambda: [SourceCheckpoint(name="before", entry="b", state={"seen": text})],
        events=lambda: [SourceEvent(id="e2", type="log", data=[text])],
        vars=lambda: {"setup": text},
        run=lambda: SourceRun(status="failed", request=text, error=f"refused: {text}"),
        updates=lambda: {"title": f"late {text}", "metadata": {"more": [text]}},
        **changes,
    )


def told(session: clew.Session) -> str:
    """All that a session says, as text."""
    entries = [(e.raw.decode(), dict(e.annotations)) for e in session.entries()]
    points = [point.state for point in session.checkpoints()]
    events = [event.data for event in session.events()]
    info = session.info
    parts = (entries, points, events, session.vars(), info.title, info.preview, info.endpoint, info.metadata)
    return json.dumps([parts, repr(info.run), session.summary, session.context()], default=str)


@pytest.fixture
def whole(store: Store, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[], bytes]:
    """Every byte that the store keeps, wherever it keeps it."""

    def read() -> bytes:
        store.flush()
        kind = request.node.callspec.params["backend"]
        if kind == "postgres":
            return _dumped(*request.getfixturevalue("emptied_postgres").split("?schema="))
        found = b"".join(path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file())
        return found + b"".join(store.export(info.id, "jsonl").encode() for info in store.list())

    return read


def _dumped(url: str, schema: str) -> bytes:
    import psycopg

    from clew.backends.postgres.migrate import TABLES

    content = b""
    with psycopg.connect(url) as connection:
        for table in TABLES:
            with connection.cursor().copy(f'COPY "{schema}".{table} TO STDOUT'.encode()) as rows:
                content += b"".join(bytes(row) for row in rows)
    return content


def compressed(store: Store) -> bytes:
    """What is kept in Zstandard frames: lines of imported files, and what readers remember of them."""
    content = b""
    with store._engine.read() as reader:
        for info in store.list():
            row = reader.find_session(info.id)
            assert row is not None
            for kind in ("line", "source"):
                for _, value in reader.scan_records(row.sid, kind):
                    content += value
                    with suppress(zstd.ZstdError):
                        content += zstd.decompress(value)
    return content


def is_in(secret: str, content: bytes) -> bool:
    return secret.encode() in content or secret.encode().hex().encode() in content


class TestImport:
    """The default: what comes from other programs has no definite secrets."""

    def test_s24_no_secret_is_left_in_what_was_loaded(self, store: Store) -> None:
        """Neither in messages nor beside them: notes, events, settings, variables, checkpoints, the run. A
        secret has one marker in a store, and an entry says how many there were. The same again is the same,
        though its texts differ from those that are stored."""
        store.load(source())
        session = store.session("other:1")
        shown = told(session)
        assert [secret for secret in SECRETS if secret in shown] == []
        first, *markers = (part[:4] for part in shown.split("[redacted:github-token:")[1:])
        assert set(markers) == {first}
        assert len(markers) >= 11
        assert [entry.redacted for entry in session.entries()] == [2, 2, 2, 2]
        assert store.verify().ok
        assert store.load(source()).state == "unchanged"
        assert told(session) == shown

    def test_s24_no_byte_of_a_secret_is_in_storage(
        self, store: Store, tmp_path: Path, whole: Callable[[], bytes]
    ) -> None:
        """Files, journals, tables, kept lines of the source, what its reader remembers: all are searched."""
        files = tmp_path.parent / f"{tmp_path.name}-files"
        files.mkdir()
        claude_file(files / "c.jsonl", TEXT)
        codex_file(files / "rollout-2026-01-01T00-00-00-0b1c2d3e-0000-4000-8000-000000000000.jsonl", TEXT)
        report = store.import_path(files)
        assert report.new == 2
        assert report.redacted > 2
        store.load(source())
        content = whole() + compressed(store)
        assert [secret for secret in SECRETS if is_in(secret, content)] == []

    def test_off_leaves_all_as_it_is(self, store: Store, whole: Callable[[], bytes]) -> None:
        """The search for bytes would find them, too."""
        store.set_redaction("off")
        store.load(source())
        assert "redacted" not in told(store.session("other:1"))
        if type(store._engine.backend).__name__ != "MemoryBackend":
            content = whole()
            assert [secret for secret in SECRETS if not is_in(secret, content)] == []

    def test_one_import_may_differ_from_the_policy(self, store: Store, tmp_path: Path) -> None:
        """`redact` of an import comes before the policy; the search of bytes finds what was left."""
        file = claude_file(tmp_path / "c.jsonl", TEXT)
        assert store.import_path(file, redact=False).redacted == 0
        assert is_in(GITHUB, compressed(store))
        assert GITHUB in told(store.session(next(iter(store.list())).id))
        store.set_redaction("off")
        other = claude_file(tmp_path / "d.jsonl", TEXT, id="other")
        assert store.import_path(other, redact=True).redacted > 0

    def test_a_dry_run_counts_and_writes_nothing(self, store: Store, tmp_path: Path) -> None:
        """Not even the key of the markers."""
        report = store.import_path(claude_file(tmp_path / "c.jsonl", TEXT), dry_run=True)
        assert report.redacted > 0
        with store._engine.read() as reader:
            assert reader.scan_records(0, "redaction") == []

    def test_appends_stay_as_they_are(self, store: Store) -> None:
        """A program that reads its own history back must find it."""
        entry = store.session("s").append({"role": "user", "content": TEXT})[0]
        assert entry.redacted == 0
        assert GITHUB.encode() in entry.raw


class TestAgain:
    """An import of the same changes nothing, whatever the rules know by then."""

    def test_p11_better_rules_change_nothing_that_is_stored(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """P11: a new release that knows more secrets is no reason to change what is here."""
        known = rules.DEFINITE
        fewer = tuple(rule for rule in known if rule.kind != "github-token")
        monkeypatch.setattr("clew.core.redact.definite.DEFINITE", fewer)
        store.load(source())
        before = told(store.session("other:1"))
        assert GITHUB in before
        assert PASSWORD not in before
        monkeypatch.setattr("clew.core.redact.definite.DEFINITE", known)
        assert store.load(source()).state == "unchanged"
        assert told(store.session("other:1")) == before

    def test_p11_a_policy_that_is_switched_on_changes_nothing_that_is_stored(self, store: Store) -> None:
        """P11: nor is another policy."""
        store.set_redaction("off")
        store.load(source())
        before = told(store.session("other:1"))
        store.set_redaction("import")
        assert store.load(source()).state == "unchanged"
        assert told(store.session("other:1")) == before

    def test_a_title_that_the_user_set_stays(self, store: Store) -> None:
        """As after any import."""
        store.load(source())
        store.session("other:1").update(title="mine")
        assert store.load(source()).state == "unchanged"
        assert store.session("other:1").info.title == "mine"

    def test_a_file_that_is_read_again_is_unchanged(self, store: Store, tmp_path: Path) -> None:
        """Also if all of it is read."""
        file = claude_file(tmp_path / "c.jsonl", TEXT)
        store.import_path(file)
        again = store.import_path(file, again=True)
        assert [session.state for session in again.sessions] == ["unchanged"]
        assert again.entries == 0


class TestAll:
    """The policy for those who want no secret in the store, whoever brings it."""

    @pytest.fixture
    def session(self, store: Store) -> clew.Session:
        store.set_redaction("all")
        return store.session("s", title=TEXT, metadata={"a": TEXT}, tags=["x"])

    def test_s24_an_append_returns_the_entry_as_it_is_kept(self, session: clew.Session) -> None:
        """With its count; what has no secret is not flagged."""
        entry, plain = session.append({"role": "user", "content": TEXT}, {"role": "user", "content": "hi"})
        assert entry.redacted == 2
        assert plain.redacted == 0
        assert entry == next(iter(session.entries()))
        assert GITHUB.encode() not in entry.raw

    def test_s24_nothing_that_a_session_keeps_has_a_secret(
        self, store: Store, session: clew.Session, whole: Callable[[], bytes]
    ) -> None:
        """Whatever method brings it, also inside of `transact`."""
        first = session.append({"role": "user", "content": TEXT})[0]
        session.append_nowait({"role": "assistant", "content": TEXT})
        store.flush()
        session.annotate(first, note=TEXT, label=GITHUB)
        session.set_summary(TEXT)
        session.compact([{"role": "user", "content": TEXT}])
        session.compact(TEXT)
        session.set_var("v", {"a": [TEXT]})
        session.add_event("e", TEXT)
        session.add_events([{"type": "e", "data": {"a": TEXT}}])
        session.checkpoint("c", state=TEXT)
        session.update(title=f"again {TEXT}", metadata={"b": TEXT}, endpoint=ADDRESS)
        run = session.run(request=TEXT)
        run.checkpoint(state=TEXT)
        run.fail(ValueError(f"boom {TEXT}"))
        session.start(TEXT)
        session.complete(TEXT)
        session.replace([{"role": "user", "content": TEXT}, {"role": "assistant", "content": f"2 {TEXT}"}])
        store.transact(lambda inside: inside.session("t").append({"role": "user", "content": TEXT}))
        shown = told(session) + told(store.session("t"))
        assert [secret for secret in SECRETS if secret in shown] == []
        content = whole()
        assert [secret for secret in SECRETS if is_in(secret, content)] == []
        assert store.verify().ok

    def test_replace_keeps_the_beginning_that_is_the_same(self, session: clew.Session) -> None:
        """What is compared are the messages as they are kept."""
        messages = [{"role": "user", "content": TEXT}, {"role": "assistant", "content": "ok"}]
        before = session.replace(messages)
        assert session.replace([*messages, {"role": "user", "content": "more"}])[:2] == before

    def test_an_append_that_is_repeated_by_its_key_is_the_same(self, session: clew.Session) -> None:
        """Its digest is that of the messages as they are kept."""
        once = session.append({"role": "user", "content": TEXT}, key="k")
        assert session.append({"role": "user", "content": TEXT}, key="k") == once

    def test_documents_are_bytes_and_stay(self, session: clew.Session) -> None:
        """A program may not be able to read them with another byte."""
        session.set_document("d", TEXT.encode())
        assert session.get_document("d") == TEXT.encode()

    def test_p11_what_was_stored_before_stays(self, store: Store) -> None:
        """P11: the policy is about what comes in."""
        s = store.session("s")
        s.append({"role": "user", "content": TEXT})
        store.set_redaction("all")
        assert GITHUB in s.messages()[0]["content"]


class TestPolicy:
    def test_it_is_kept_in_the_store(self, backend: Backend, store: Store, clock: Ticking) -> None:
        """For all who open it."""
        assert store.redaction == "import"
        for policy in ("all", "off", "import"):
            store.set_redaction(policy)
            assert store.redaction == policy
            assert Store(backend, clock=clock).redaction == policy

    def test_another_word_is_refused(self, store: Store) -> None:
        """With those that there are."""
        with pytest.raises(InvalidError, match="import, all, off"):
            store.set_redaction("always")  # type: ignore[arg-type]

    def test_a_copy_takes_policy_and_key_along(self, store: Store) -> None:
        """A copy of the whole store is the same store elsewhere: equal secrets have equal markers."""
        store.load(source())
        store.set_redaction("all")
        marker = told(store.session("other:1")).partition("[redacted:github-token:")[2][:4]
        with clew.open("memory:") as other:
            clew.copy(store, other)
            assert other.redaction == "all"
            entry = other.session("new").append({"role": "user", "content": GITHUB})[0]
            assert entry.message["content"] == f"[redacted:github-token:{marker}]"

    def test_a_copy_of_some_sessions_does_not(self, store: Store) -> None:
        """They go to a store that has a policy of its own; their flags stay."""
        store.load(source())
        store.set_redaction("all")
        with clew.open("memory:") as other:
            clew.copy(store, other, sessions=["other:1"])
            assert other.redaction == "import"
            assert GITHUB not in told(other.session("other:1"))
            assert [entry.redacted for entry in other.session("other:1").entries()] == [2, 2, 2, 2]

    def test_an_export_has_the_flags_and_not_the_key(self, store: Store, tmp_path: Path) -> None:
        """With the key, guesses could be tried."""
        store.load(source())
        with store._engine.read() as reader:
            key = dict(reader.scan_records(0, "redaction"))["key"]
        for format in ("jsonl", "json", "markdown", "html"):
            assert json.loads(key) not in store.export("other:1", format)
        store.export("other:1", "jsonl", path=tmp_path / "s.jsonl")
        with clew.open("memory:") as other:
            other.import_path(tmp_path / "s.jsonl")
            assert [entry.redacted for entry in other.session("other:1").entries()] == [2, 2, 2, 2]
            assert other.verify().ok

    def test_a_file_of_clew_is_taken_as_it_is(self, store: Store, tmp_path: Path) -> None:
        """It is a copy: its hashes are those of its entries."""
        with clew.open("memory:") as other:
            other.session("own").append({"role": "user", "content": TEXT})
            other.export("own", "jsonl", path=tmp_path / "own.jsonl")
        store.import_path(tmp_path / "own.jsonl")
        assert GITHUB in told(store.session("own"))

    def test_a_damaged_policy_is_told(self, store: Store) -> None:
        """It is not taken for another one."""
        store._engine.run(lambda tx: tx.put_record(0, "redaction", "policy", b'"never"'))
        with pytest.raises(clew.ClewError, match="redaction policy"):
            _ = store.redaction
        assert not store.verify().ok
