"""Exports and imports over HTTP: what the library makes of them, and nothing of the server's disk."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import httpx
import msgspec
import pytest

import clew
from clew.core.messages import value_count
from clew.importers import unpacking
from clew.importers.reading.files import zstd
from clew.server.routing import encoded
from tests.server.conftest import Running, running
from tests.server.routes.asking import API, assistant, refusal, user
from tests.support.rows import each_row

SECRET = "ghp_" + "R7kQ2mZ9xV4bN8sT1wY6cH3jL5pD0fGaEuKi"


@pytest.fixture
def a(server: Running) -> clew.Session:
    session = server.store.create("a", title="Über <all>", tags=["mine"], workspace="/w/a")
    session.append(user("hello"), assistant(f"the key is {SECRET}"))
    session.checkpoint("half")
    session.append(user("more"))
    return session


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files lie during a test."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


# -- out


@each_row(
    ("format", "options"),
    [
        ("jsonl", {}),
        ("json", {"whole": True}),
        ("json", {"redact": True}),
        ("markdown", {"tools": False, "thinking": False}),
        ("html", {}),
        ("claude-code", {"at": "half"}),
        ("codex", {}),
        ("pi", {}),
        ("ggcode", {}),
        ("ductwork", {}),
        ("openrouter", {}),
        ("opencode", {"at": 1}),
        ("gemini-cli", {}),
        ("picoclaw", {}),
    ],
)
def test_an_export_is_that_of_the_library(
    server: Running, client: httpx.Client, a: clew.Session, format: Any, options: dict[str, Any]
) -> None:
    answer = client.get(f"{API}/sessions/a/export", params={"format": format, **options})
    assert answer.status_code == 200, answer.text
    again = server.store.export("a", format, **options)
    steady = format not in ("claude-code", "codex", "pi", "gemini-cli", "opencode", "openrouter")
    assert answer.text == again if steady else len(answer.text) == len(again)
    assert (SECRET in answer.text) == ("redact" not in options and options.get("at") != "x")
    assert answer.headers["content-disposition"].startswith('attachment; filename="a.')
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_download_of_an_agents_session_is_named_after_its_title(
    server: Running, client: httpx.Client
) -> None:
    id = "claude-code:0b1c2d3e-1111-4222-8333-444455556666"
    server.store.create(id, title='Fix: the "login" bug').append(user("hi"))
    for options, stem in {"": "fix-the-login-bug-0b1c2d3e", "&redact=true": id.replace(":", "_")}.items():
        answer = client.get(f"{API}/sessions/{encoded(id)}/export?format=html{options}")
        told = answer.headers["content-disposition"]
        assert told.startswith(f'attachment; filename="{stem}.html"'), told


def test_s18_names_are_encoded_and_nothing_is_shown(server: Running, client: httpx.Client) -> None:
    id = 'a"b\r\nset-cookie: x=1;ü/..\\'
    server.store.create(id).append(user("<script>alert(1)</script>"))
    answer = client.get(f"{API}/sessions/{encoded(id)}/export?format=html")
    assert answer.status_code == 200, answer.text
    assert "set-cookie" not in answer.headers
    kind, plain_name, name = answer.headers["content-disposition"].split("; ")
    assert (kind, plain_name) == ("attachment", 'filename="a_b__set-cookie_ x_1___.._.html"')
    assert name.startswith("filename*=UTF-8''a%22b%0D%0Aset-cookie%3A%20x%3D1%3B%C3%BC%2F..%5C.html")
    assert "sandbox" in answer.headers["content-security-policy"]


@each_row(
    ("query", "word"),
    [
        ({}, "format"),
        ({"format": "pdf"}, "format"),
        ({"format": "tingly-box"}, "database"),
        ({"format": "markdown", "at": "half"}, "at"),
        ({"format": "jsonl", "whole": "true"}, "whole"),
        ({"format": "jsonl", "path": "/tmp/x"}, "path"),
    ],
)
def test_what_cannot_be_exported(
    client: httpx.Client, a: clew.Session, query: dict[str, str], word: str
) -> None:
    answer = client.get(f"{API}/sessions/a/export", params=query)
    assert answer.status_code == 422
    assert word in answer.json()["detail"]


def test_an_export_is_sent_as_it_is_made(server: Running, client: httpx.Client) -> None:
    """No export is held in memory as a whole."""
    session = server.store.create("long")
    for _ in range(40):
        session.append(*[user("x" * 1000) for _ in range(50)])
    with client.stream("GET", f"{API}/sessions/long/export?format=jsonl") as answer:
        assert "content-length" not in answer.headers
        sizes = [len(piece) for piece in answer.iter_raw()]
    assert sum(sizes) > 2_000_000
    assert len(sizes) > 2


def test_damage_is_told_before_anything_is_sent(
    server: Running, client: httpx.Client, a: clew.Session
) -> None:
    path = str(server.store.location).removeprefix("sqlite:///")
    connection = apsw.Connection(path)
    connection.execute("UPDATE entries SET body = ?", (b"{",))
    connection.close()
    answer = client.get(f"{API}/sessions/a/export?format=jsonl")
    assert answer.status_code == 500
    assert answer.json()["code"] == "corrupt_entry"


# -- out, for some


@pytest.fixture
def bound(limited: Callable[..., httpx.Client]) -> httpx.Client:
    return limited("write", tags=["mine"])


@pytest.mark.parametrize("format", ["jsonl", "json", "markdown", "html"])
def test_s19_an_export_holds_nothing_of_sessions_of_others(
    server: Running, a: clew.Session, bound: httpx.Client, format: str
) -> None:
    """Neither of a subagent, nor of the session that it was forked from, nor of its other forks."""
    server.store.create("agent", metadata={"parent": "a"}).append(user("a secret of a subagent"))
    server.store.create("agent-2", metadata={"parent": "a"}, tags=["mine"]).append(user("an own subagent"))
    theirs = server.store.create("the-base-of-others")
    theirs.append(user("shared beginning"))
    fork = theirs.fork("fork")
    fork.update(tags=["mine"])
    theirs.append(user("a secret of the base"))
    other = theirs.fork("other")
    other.append(user("a secret of another fork"))
    for id in ("a", "fork"):
        whole = {"whole": "true"} if format != "jsonl" else {}
        answer = bound.get(f"{API}/sessions/{id}/export", params={"format": format, **whole})
        assert "the-base-of-others" not in answer.text
        if (id, format) == ("fork", "jsonl"):
            assert refusal(answer) == (403, "bound")
            continue
        assert answer.status_code == 200
        assert "a secret of" not in answer.text
        assert ("shared beginning" in answer.text) == (id == "fork")
        if format == "html":
            assert ("an own subagent" in answer.text) == (id == "a")
    assert bound.get(f"{API}/sessions/the-base-of-others/export?format=json").status_code == 404


# -- in


CLAUDE = b"".join(
    json.dumps(line).encode() + b"\n"
    for line in (
        {
            "type": "user", "uuid": "u1", "parentUuid": None, "sessionId": "s-1", "cwd": "/w",
            "timestamp": "2026-03-01T10:00:00.000Z", "message": {"role": "user", "content": "hi there"},
        },
        {
            "type": "assistant", "uuid": "u2", "parentUuid": "u1", "sessionId": "s-1", "cwd": "/w",
            "timestamp": "2026-03-01T10:00:01.000Z",
            "message": {"role": "assistant", "content": [{"type": "text", "text": f"use {SECRET}"}]},
        },
    )
)  # fmt: skip


def sent(client: httpx.Client, content: Any, **query: Any) -> httpx.Response:
    return client.post(f"{API}/import", content=content, params=query)


def test_s28_a_file_that_unpacks_to_far_more_is_read_only_so_far(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "MOST", 1024 * 1024)
    report = sent(client, zstd().compress(CLAUDE + b" " * 4 * 1024 * 1024 + b"\n"), name="s-1.jsonl.zst")
    assert report.status_code == 200, report.text
    assert [one["state"] for one in report.json()["sessions"]] == ["new"]
    [problem] = report.json()["problems"]
    assert "the 1 MiB that one import may unpack" in problem["reason"]
    assert "clew import --again --max-unpacked MIB" in problem["reason"]


def test_s28_a_line_of_many_tiny_values_is_left_out_of_an_upload(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_count, "MOST_VALUES", 2000)
    said = [
        json.dumps(
            {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/w"}
        )
    ]
    said.append(json.dumps({"type": "message", "id": "a", "parentId": None, "message": user("hi")}))
    said.append('{"type": "message", "id": "b", "parentId": "a", "message": [' + "{}," * 2000 + "{}]}")
    answer = sent(client, "\n".join([*said, ""]).encode(), name="s.jsonl", format="pi")
    [problem] = answer.json()["problems"]
    assert (answer.status_code, problem["line"]) == (200, 3)
    assert "more than 2,000 values" in problem["reason"]


def test_a_session_comes_in_as_by_the_command_line(
    server: Running, client: httpx.Client, tmp_path: Path, temporary: Path
) -> None:
    would = sent(client, CLAUDE, name="s-1.jsonl", dry_run=True)
    assert would.status_code == 200, would.text
    assert [one["state"] for one in would.json()["sessions"]] == ["new"]
    assert server.store.list().sessions == ()
    report = sent(client, CLAUDE, name="s-1.jsonl").json()
    assert [one["state"] for one in report["sessions"]] == ["new"]
    assert report["sessions"][0]["format"] == "claude-code"
    assert report["redacted"] == 1
    (tmp_path / "s-1.jsonl").write_bytes(CLAUDE)
    with clew.open("memory:") as other:
        other.import_path(tmp_path / "s-1.jsonl")
        assert [one.id for one in other.list()] == [one.id for one in server.store.list()]
        id = other.list().sessions[0].id
        mine = [entry.message for entry in server.store.get(id).entries()]
        assert SECRET not in str(mine)
        assert len(mine) == 2
    again = sent(client, CLAUDE, name="s-1.jsonl").json()
    assert [one["state"] for one in again["sessions"]] == ["unchanged"]
    more = CLAUDE + CLAUDE.splitlines(keepends=True)[0].replace(b'"u1"', b'"u3"').replace(b"null", b'"u2"')
    assert [one["state"] for one in sent(client, more, name="s-1.jsonl").json()["sessions"]] == ["grown"]
    assert str(temporary) not in would.text
    assert list(temporary.iterdir()) == []


def test_what_was_exported_comes_back(server: Running, client: httpx.Client, a: clew.Session) -> None:
    exported = client.get(f"{API}/sessions/a/export?format=jsonl").content
    with clew.open("memory:") as store, running(store) as other, other.client() as there:
        report = sent(there, exported)
        assert report.status_code == 200, report.text
        assert store.get("a").messages() == a.messages()
        assert store.get("a").info.hash == a.info.hash
        conflict = sent(there, exported.replace(b"hello", b"jello"))
        assert conflict.status_code in (409, 422), conflict.text


def test_a_body_of_unknown_length_and_without_a_name(server: Running, client: httpx.Client) -> None:
    def pieces() -> Iterator[bytes]:
        for at in range(0, len(CLAUDE), 100):
            yield CLAUDE[at : at + 100]

    answer = sent(client, pieces())
    assert answer.status_code == 200, answer.text
    assert [one["state"] for one in answer.json()["sessions"]] == ["new"]


def test_what_is_no_session_is_refused(client: httpx.Client, temporary: Path) -> None:
    for content, query in (
        (b"", {}),
        (b"just words", {}),
        (CLAUDE, {"format": "nothing"}),
        (CLAUDE + b"{broken\n", {"strict": True, "name": "s.jsonl"}),
        (CLAUDE, {"format": "codex", "strict": True}),
    ):
        answer = sent(client, content, **query)
        assert answer.status_code == 422, (content, query, answer.text)
        assert str(temporary) not in answer.text
    assert sent(client, CLAUDE, path="/etc/passwd").status_code == 422
    assert list(temporary.iterdir()) == []


def test_what_cannot_be_read_is_listed(client: httpx.Client, temporary: Path) -> None:
    answer = sent(client, CLAUDE + b"{broken\n", name="s.jsonl").json()
    assert [(one["path"], one["line"]) for one in answer["problems"]] == [("s.jsonl", 3)]
    assert str(temporary) not in json.dumps(answer)


def test_the_file_is_for_its_owner_alone_and_is_gone_afterwards(
    client: httpx.Client, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int, int]] = []

    def look(self: clew.Store, path: Path, *args: Any, **options: Any) -> Any:
        seen.append((str(path), path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777))
        raise OSError("the disk is gone")

    monkeypatch.setattr(clew.Store, "import_path", look)
    assert sent(client, CLAUDE, name="../../../etc/cron.d/x y").status_code == 500
    ((path, mode, folder_mode),) = seen
    assert (mode, folder_mode) == (0o600, 0o700)
    assert path.startswith(str(temporary))
    assert os.path.basename(path) == "x_y.jsonl"
    assert list(temporary.iterdir()) == []


def test_a_file_may_be_larger_than_other_requests_and_has_a_limit(temporary: Path) -> None:
    with (
        clew.open("memory:") as store,
        running(store, max_body=2000, max_import=5000) as server,
        server.client() as client,
    ):
        assert sent(client, CLAUDE + b" " * 3000).status_code == 200
        for content in (CLAUDE + b" " * 6000, iter([CLAUDE, b" " * 6000])):
            assert refusal(sent(client, content)) == (413, "too_large")
    assert list(temporary.iterdir()) == []


def test_a_compressed_body_is_refused(client: httpx.Client) -> None:
    answer = client.post(f"{API}/import", content=b"x", headers={"content-encoding": "gzip"})
    assert refusal(answer) == (415, "unsupported_encoding")


def test_a_bound_token_imports_nothing(bound: httpx.Client) -> None:
    assert refusal(sent(bound, CLAUDE)) == (403, "bound")


def test_s42_a_file_that_names_others_gets_nothing_of_them(
    server: Running, client: httpx.Client, tmp_path: Path, temporary: Path
) -> None:
    """Formats in which files belong together: what one of them says leads nowhere."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "msg_1.json").write_text(
        '{"id": "m", "role": "user", "content": "PRIVATE", "time": {"created": 1}}'
    )
    for id in (str(theirs), "../" * 8 + str(theirs), ".."):
        session = {"id": id, "parentID": "ses_1", "title": "x", "time": {"created": 1}, "projectID": "p"}
        answer = sent(client, json.dumps(session).encode(), name="ses_1.json", format="opencode")
        assert answer.status_code in (200, 422)
        assert "PRIVATE" not in answer.text
    (temporary / "file-history/s-1").mkdir(parents=True)
    (temporary / "file-history/s-1/abc@v1").write_text("PRIVATE")
    history = {
        "type": "file-history-snapshot", "messageId": "u1", "isSnapshotUpdate": False,
        "snapshot": {
            "messageId": "u1", "timestamp": "2026-03-01T10:00:00.500Z",
            "trackedFileBackups": {"a.py": {"backupFileName": "abc@v1", "version": 1}},
        },
    }  # fmt: skip
    answer = sent(client, CLAUDE + json.dumps(history).encode() + b"\n", name="s-1.jsonl")
    assert answer.status_code == 200
    assert server.store.snapshots() == []
    for info in server.store.list():
        assert "PRIVATE" not in server.store.export(info.id, "jsonl")


def test_the_search_finds_what_was_imported(client: httpx.Client) -> None:
    assert sent(client, CLAUDE).status_code == 200
    found = client.get(f"{API}/search", params={"q": "there"}).json()["data"]
    assert [one["role"] for one in found] == ["user"]
    assert msgspec.json.encode(found)
