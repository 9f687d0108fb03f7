"""What came from an agent and was not changed is the same file again, without the one that it came from."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import clew
from clew.core.log.lines import decode_lines
from clew.importers.detect import reader_of
from tests.home.make import make_home
from tests.importers.following import grow

FILES = {
    "claude-code": ".claude/projects/**/*.jsonl",
    "codex": ".codex/sessions/**/*.jsonl",
    "pi": ".pi/agent/sessions/**/*.jsonl",
    "gemini-cli": ".gemini/tmp/*/chats/*.jsonl",
}
HOME = Path(__file__).parents[2] / "home" / "files"
RECORDED = [
    (format, str(path.relative_to(HOME)))
    for format, pattern in FILES.items()
    for path in sorted(HOME.glob(pattern))
]
LOGIN = ".claude/projects/-home-ana-shop/4be70e2a-7c1d-4f0e-9d55-3b9f6a1c8e21.jsonl"


@pytest.fixture
def login(tmp_path: Path) -> Path:
    """A recorded file of Claude Code, which is not imported yet."""
    return make_home(tmp_path / "home") / LOGIN


def bring(store: clew.Store, path: Path, format: str = "claude-code") -> str:
    """The id of the session in a file, which is deleted."""
    report = store.import_path(path, format)
    (file,) = (one for one in report.sources if one.path == str(path))
    path.unlink()
    return file.sessions[0].id


@pytest.mark.parametrize(("format", "name"), RECORDED, ids=[name[-20:] for _, name in RECORDED])
def test_a_recorded_file_is_the_same_after_an_import(
    store: clew.Store, tmp_path: Path, format: str, name: str
) -> None:
    path = make_home(tmp_path / "home") / name
    before = path.read_bytes()
    id = bring(store, path, format)
    assert store.export(id, format).encode() == before  # type: ignore[arg-type]


@pytest.mark.parametrize(("format", "name"), RECORDED, ids=[name[-20:] for _, name in RECORDED])
def test_it_is_the_same_if_it_was_followed_line_by_line(
    store: clew.Store, tmp_path: Path, format: str, name: str
) -> None:
    path = make_home(tmp_path / "home") / name
    before = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(before) if byte == 0x0A]
    grow(store, reader_of(format), path, before, ends)
    path.unlink()
    ids = [info.id for info in store.list(limit=10)]
    assert before in [store.export(id, format).encode() for id in ids]  # type: ignore[arg-type]


def test_lines_that_come_one_by_one_do_not_have_a_record_each(store: clew.Store, login: Path) -> None:
    before = login.read_bytes()
    ends = [at + 1 for at, byte in enumerate(before) if byte == 0x0A]
    grow(store, reader_of("claude-code"), login, before, ends)
    with store._engine.read() as reader:
        row = reader.find_session(f"claude-code:{login.stem}")
        assert row is not None
        kept = reader.scan_records(row.sid, "line")
    assert len(ends) == 103
    assert len(kept) <= 3
    assert sum(len(value) for _, value in kept) < len(before) // 8


def test_a_copy_and_a_session_file_take_the_lines_along(
    store: clew.Store, login: Path, tmp_path: Path
) -> None:
    before = login.read_bytes()
    id = bring(store, login)
    with clew.open("memory:") as other:
        other.import_path(store.export(id, "jsonl", path=tmp_path / "session.jsonl"))
        assert other.export(id, "claude-code").encode() == before
    with clew.open(f"{tmp_path}/copy.db") as other:
        clew.copy(store, other)
    with clew.open(f"{tmp_path}/copy.db") as other:
        assert other.export(id, "claude-code").encode() == before
        assert other.verify().ok


def test_without_secrets_the_lines_are_not_in_a_session_file(store: clew.Store, login: Path) -> None:
    id = bring(store, login)
    assert '"type":"line"' in store.export(id, "jsonl")
    assert '"type":"line"' not in store.export(id, "jsonl", redact=True)


def test_a_note_of_the_user_changes_no_line(store: clew.Store, login: Path) -> None:
    before = login.read_bytes()
    session = store.get(bring(store, login))
    for entry in session.entries():
        session.annotate(entry, seen=True)
    assert store.export(session.id, "claude-code").encode() == before


def test_where_what_came_beside_an_entry_was_changed_here_the_line_is_as_it_came(
    store: clew.Store, login: Path
) -> None:
    before = login.read_bytes()
    session = store.get(bring(store, login))
    noted = next(entry for entry in session.entries() if "toolUseResult" in entry.annotations)
    session.annotate(noted, toolUseResult="something else")
    assert store.export(session.id, "claude-code").encode() == before


def test_where_an_annotation_of_the_file_was_changed_in_an_older_store_the_line_is_made_anew(
    store: clew.Store, login: Path
) -> None:
    """There the change took the place of what came."""
    session = store.get(bring(store, login))
    noted = next(entry for entry in session.entries() if "toolUseResult" in entry.annotations)
    uid, _, position = noted.id.rpartition(".")
    changed = msgspec.json.encode({**noted.annotations, "toolUseResult": "something else"})
    name = f"{uid}.{int(position):010d}"
    store._engine.run(lambda tx: tx.put_record(0, "annotation", name, changed))
    records = [msgspec.json.decode(line) for line in store.export(session.id, "claude-code").splitlines()]
    said = [record for record in records if record["type"] in ("user", "assistant")]
    assert len(said) >= len([one for one in session.entries() if one.kind == "message"])


def test_a_file_that_was_written_anew_is_what_comes_back(store: clew.Store, login: Path) -> None:
    lines = login.read_bytes().splitlines(keepends=True)
    store.import_path(login)
    other = b"".join([*lines[:40], *(line.replace(b"2.1.197", b"2.1.198") for line in lines[40:])])
    login.write_bytes(other)
    id = bring(store, login)
    assert store.export(id, "claude-code").encode() == other


def test_an_older_copy_of_a_file_costs_no_line(store: clew.Store, login: Path) -> None:
    before = login.read_bytes()
    store.import_path(login)
    login.write_bytes(b"".join(before.splitlines(keepends=True)[:50]))
    id = bring(store, login)
    assert store.export(id, "claude-code").encode() == before


def test_lines_that_are_no_json_are_left_out(store: clew.Store, login: Path) -> None:
    before = login.read_bytes()
    lines = before.splitlines(keepends=True)
    login.write_bytes(b"".join([*lines[:9], b"\n", b'{"type":"user","mess\n', *lines[9:]]))
    id = bring(store, login)
    assert store.export(id, "claude-code").encode() == before


def test_what_a_sweep_removed_is_in_no_line(store: clew.Store, login: Path) -> None:
    id = bring(store, login)
    store.set_retention(clew.Retention(max_messages=10))
    store.sweep()
    with store._engine.read() as reader:
        row = reader.find_session(id)
        assert row is not None
        assert not reader.scan_records(row.sid, "line")
    assert "capital letters in their e-mail" not in store.export(id, "claude-code")


TOKEN = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
KEY = """-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj
MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu
NMoSfm76oqFvAp8Gy0iz5sxjZmSnXyCdPEovGhLa0VzMaQ8s+CLOyS56YyCFGeJZ
-----END PRIVATE KEY-----"""


def with_secrets(path: Path) -> None:
    """A token and a private key in a prompt, in a result, beside it, and in a record that is no message."""
    records = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    said = [record for record in records if record["type"] == "user"]
    said[0]["message"]["content"] = f"My token is {TOKEN}. {KEY}"
    result = next(record for record in said if "toolUseResult" in record)
    result["toolUseResult"] = {"stdout": f"{TOKEN}\n{KEY}", "more": "x" * 400}
    result["message"]["content"][0]["content"] = f"{TOKEN}\n{KEY}"
    records[0]["content"] = f"export GITHUB_TOKEN={TOKEN}"
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))


def test_what_was_redacted_on_the_way_in_is_in_no_line(store: clew.Store, login: Path) -> None:
    with_secrets(login)
    before = login.read_bytes()
    assert before.count(TOKEN.encode()) == 4
    id = bring(store, login)
    told = store.export(id, "claude-code").encode()
    assert TOKEN.encode() not in told
    assert b"MIIEvQ" not in told
    assert told.count(b"[redacted:github-token:") == 4
    assert len(told.splitlines()) == len(before.splitlines())
    with store._engine.read() as reader:
        row = reader.find_session(id)
        assert row is not None
        for _, value in reader.scan_records(row.sid, "line"):
            kept = decode_lines(value).text
            assert TOKEN.encode() not in kept
            assert b"MIIEvQ" not in kept
    # All that has no secret in it is as it was.
    same = [line for line in before.splitlines() if line in set(told.splitlines())]
    assert len(same) == len(before.splitlines()) - 3


def test_without_redaction_the_file_is_the_same(store: clew.Store, login: Path) -> None:
    with_secrets(login)
    before = login.read_bytes()
    store.import_path(login, redact=False)
    assert store.export(f"claude-code:{login.stem}", "claude-code").encode() == before


def test_a_file_with_secrets_that_is_read_again_changes_nothing(store: clew.Store, login: Path) -> None:
    with_secrets(login)
    store.import_path(login)
    id = f"claude-code:{login.stem}"
    told = store.export(id, "claude-code")
    store.import_path(login, again=True)
    assert store.export(id, "claude-code") == told


def test_a_lone_surrogate_comes_back_as_it_was_escaped(store: clew.Store, login: Path) -> None:
    before = login.read_bytes().replace(b"Find out why", b"\\ud83d Find \xc3\xa4 out why " + TOKEN.encode())
    login.write_bytes(before)
    id = bring(store, login)
    told = store.export(id, "claude-code").encode()
    assert TOKEN.encode() not in told
    others = [line for line in before.splitlines() if TOKEN.encode() not in line]
    assert [line for line in told.splitlines() if b"[redacted:" not in line] == others
    assert b"\\ud83d" in told
    assert b"ud83d" in store.export(id, "claude-code", redact=True).encode()


def test_without_a_secret_a_lone_surrogate_changes_nothing(store: clew.Store, login: Path) -> None:
    before = login.read_bytes().replace(b"Find out why", b"\\ud83d Find \xc3\xa4 out why")
    login.write_bytes(before)
    assert store.export(bring(store, login), "claude-code").encode() == before
