"""Snapshots over HTTP: read from the store, never from the disk; and restores, which are off."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

import clew
from clew.server.access.tokens import add_token
from tests.server.conftest import Running
from tests.server.routes.asking import API, assistant, plain, raw, refusal, rows, user
from tests.support.rows import each_row


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    (root / "src").mkdir(parents=True)
    (root / "src/a.py").write_text("print('one')\n")
    (root / "name with ü and #?.txt").write_text("odd")
    (root / os.fsdecode(b"bad\xff")).write_bytes(b"raw")
    (root / "large").write_bytes(bytes(range(256)) * 20_000)
    (root / "link").symlink_to("src/a.py")
    (root / "empty").mkdir()
    return root


@pytest.fixture
def session(server: Running, root: Path) -> clew.Session:
    """With a checkpoint before and one after an edit."""
    session = server.store.create("a", tags=["mine"], workspace=root)
    session.append(user("edit it"))
    session.checkpoint("before", files=root)
    (root / "src/a.py").write_text("print('two')\n")
    (root / "new").write_text("new")
    session.append(assistant("done"))
    session.checkpoint("after", files=root)
    return session


@pytest.fixture
def ids(session: clew.Session) -> list[str]:
    return [one.snapshot or "" for one in session.checkpoints()]


# -- reading


def test_snapshots_are_listed_page_by_page(server: Running, client: httpx.Client, ids: list[str]) -> None:
    first = client.get(f"{API}/snapshots", params={"limit": 1})
    second = client.get(first.links["next"]["url"])
    assert [one["id"] for one in first.json()["data"] + second.json()["data"]] == ids[::-1]
    assert second.json()["cursor"] is None
    assert client.get(f"{API}/snapshots/{ids[0]}").json() == plain(server.store.get_snapshot(ids[0]))
    assert [one["id"] for one in client.get(f"{API}/sessions/a/snapshots").json()["data"]] == ids
    assert client.get(f"{API}/snapshots", params={"root": "/nowhere"}).json()["data"] == []
    assert refusal(client.get(f"{API}/snapshots/none")) == (404, "snapshot_not_found")


def test_every_file_of_a_snapshot_can_be_listed_and_read(
    server: Running, client: httpx.Client, ids: list[str]
) -> None:
    """Whatever its name is, also one that is no Unicode."""
    listed = rows(client, f"{API}/snapshots/{ids[1]}/files", limit=2)
    known = server.store.list_files(ids[1])
    assert [one["hash"] for one in listed] == [one.hash for one in known]
    assert "bad\ufffd" in {one["path"] for one in listed}
    for one, file in zip(listed, known, strict=True):
        if file.kind == "directory":
            assert one["url"] is None
            continue
        answer = client.get(raw(client, one["url"]))
        assert answer.status_code == 200, answer.text
        assert answer.content == server.store.read_file(ids[1], file.path)
        assert answer.headers["etag"] == f'"{file.hash}"'
    only = client.get(f"{API}/snapshots/{ids[1]}/files", params={"path": "src"}).json()["data"]
    assert [one["path"] for one in only] == ["src/a.py"]
    top = client.get(f"{API}/snapshots/{ids[1]}/files", params={"deep": "false"}).json()["data"]
    assert ("src", "directory", None) in [(one["path"], one["kind"], one["url"]) for one in top]


def test_s18_content_is_a_file_to_keep_and_nothing_to_show(client: httpx.Client, ids: list[str]) -> None:
    answer = client.get(f"{API}/snapshots/{ids[0]}/files/name%20with%20%C3%BC%20and%20%23%3F.txt")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    kind, plain_name, name = answer.headers["content-disposition"].split("; ")
    assert (kind, plain_name) == ("attachment", 'filename="name with _ and __.txt"')
    assert name == "filename*=UTF-8''name%20with%20%C3%BC%20and%20%23%3F.txt"


def test_parts_of_a_file(server: Running, client: httpx.Client, ids: list[str]) -> None:
    url = f"{API}/snapshots/{ids[0]}/files/large"
    whole = server.store.read_file(ids[0], "large")
    size = len(whole)
    full = client.get(url)
    assert (full.content, full.headers["content-length"]) == (whole, str(size))
    assert client.head(url).headers["content-length"] == str(size)
    for asked, start, end in (
        ("bytes=0-0", 0, 1),
        ("bytes=1000000-2999999", 1_000_000, 3_000_000),
        (f"bytes={size - 3}-", size - 3, size),
        ("bytes=-5", size - 5, size),
        (f"bytes=9-{size * 2}", 9, size),
    ):
        answer = client.get(url, headers={"range": asked})
        assert answer.status_code == 206
        assert answer.content == whole[start:end]
        assert answer.headers["content-range"] == f"bytes {start}-{end - 1}/{size}"
    beyond = client.get(url, headers={"range": f"bytes={size}-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{size}")
    for ignored in ("bytes=0-1,5-6", "lines=1-2", "bytes=-", "bytes=x-1"):
        assert client.get(url, headers={"range": ignored}).status_code == 200
    tag = full.headers["etag"]
    assert client.get(url, headers={"if-none-match": tag}).status_code == 304
    assert client.get(url, headers={"range": "bytes=0-0", "if-range": tag}).status_code == 206
    assert client.get(url, headers={"range": "bytes=0-0", "if-range": '"other"'}).status_code == 200


@each_row(
    "path",
    ["none", "src", "empty", "src/a.py/x", "src//a.py", "%2E/src/a.py", "%2E%2E/%2E%2E/etc/passwd", "x%00y"],
)
def test_what_is_no_file_is_not_there(client: httpx.Client, ids: list[str], path: str) -> None:
    assert client.get(raw(client, f"{API}/snapshots/{ids[0]}/files/{path}")).status_code in (404, 422)


def test_two_snapshots_are_compared(server: Running, client: httpx.Client, ids: list[str]) -> None:
    a, b = ids
    query = {"a": a, "b": b, "text": "true", "limit": "1"}
    first = client.get(f"{API}/diff", params=query)
    second = client.get(first.links["next"]["url"])
    assert first.json()["data"] + second.json()["data"] == plain(server.store.diff(a, b, text=True))
    assert "+print('two')" in second.json()["data"][0]["text"]
    assert second.json()["cursor"] is None


def test_s42_a_directory_of_the_server_cannot_be_compared(
    client: httpx.Client, ids: list[str], root: Path
) -> None:
    for a, b in ((ids[0], str(root)), (str(root), ids[0]), (ids[0], ""), (ids[0], ".")):
        assert refusal(client.get(f"{API}/diff", params={"a": a, "b": b})) == (404, "snapshot_not_found")
    assert client.get(f"{API}/diff", params={"a": ids[0]}).status_code == 422


def test_the_history_of_a_file(session: clew.Session, client: httpx.Client) -> None:
    answer = client.get(f"{API}/sessions/a/file-history", params={"path": "src/a.py"})
    assert answer.json() == {"data": plain(session.file_history("src/a.py"))}
    assert [one["verb"] for one in answer.json()["data"]] == ["created", "changed"]


@each_row("cursor", ["%", "a", "ä"])
def test_a_cursor_that_is_none(client: httpx.Client, ids: list[str], cursor: str) -> None:
    answer = client.get(f"{API}/snapshots/{ids[0]}/files", params={"cursor": cursor})
    assert answer.status_code == 422


# -- who may


def test_s20_a_bound_token_sees_the_snapshots_of_its_sessions_only(
    server: Running, limited: Callable[..., httpx.Client], ids: list[str], root: Path
) -> None:
    """Not even whether there is another one; and nothing by its hash."""
    mine, others = limited("read", "files", tags=["mine"]), limited("read", "files", tags=["theirs"])
    assert mine.get(f"{API}/snapshots/{ids[0]}/files/src/a.py").status_code == 200
    assert mine.get(f"{API}/diff", params={"a": ids[0], "b": ids[1]}).status_code == 200
    assert len(mine.get(f"{API}/sessions/a/snapshots").json()["data"]) == 2
    tree = server.store.get_snapshot(ids[0]).tree
    free = server.store.snapshot(root).id  # that no session names
    for client, id in ((others, ids[0]), (mine, free), (mine, tree), (mine, "none")):
        for path in (
            f"/snapshots/{id}",
            f"/snapshots/{id}/files",
            f"/snapshots/{id}/files/src/a.py",
            f"/diff?a={id}&b={id}",
        ):
            answer = client.get(API + path)
            assert answer.status_code == 404, path
            assert answer.json()["code"] == "snapshot_not_found"
            assert answer.json()["detail"] == f"no snapshot {id!r}"
    for path in ("/snapshots", "/restores"):
        assert refusal(mine.get(API + path)) == (403, "bound")


# -- restores


@pytest.fixture
def allowed(tmp_path: Path, serve: Callable[..., Running]) -> Running:
    return serve(allow_files=True)


def test_files_are_not_restored_unless_the_server_was_started_so(
    client: httpx.Client, ids: list[str], root: Path
) -> None:
    for path, body in (
        ("/restores", {"snapshot": ids[0], "dry_run": True}),
        ("/restores/x/undo", {"dry_run": True}),
        ("/restores/x/finish", {"dry_run": True}),
    ):
        answer = client.post(API + path, json=body)
        assert refusal(answer) == (403, "files_not_allowed")
        assert "--allow files" in answer.json()["next"]
    assert (root / "src/a.py").read_text() == "print('two')\n"


def test_a_restore_and_its_undo(allowed: Running, root: Path) -> None:
    snapshot = allowed.store.snapshot(root).id
    (root / "src/a.py").write_text("print('three')\n")
    with allowed.client() as client:
        for body in ({"snapshot": snapshot}, {"snapshot": snapshot, "dry_run": None}):
            assert client.post(f"{API}/restores", json=body).status_code == 422
        would = client.post(f"{API}/restores", json={"snapshot": snapshot, "dry_run": True}).json()
        assert [one["path"] for one in would["changes"]] == ["src/a.py"]
        assert (root / "src/a.py").read_text() == "print('three')\n"
        did = client.post(f"{API}/restores", json={"snapshot": snapshot, "dry_run": False}).json()
        assert (did["changes"], did["dry_run"]) == (would["changes"], False)
        assert (root / "src/a.py").read_text() == "print('one')\n"
        assert client.get(f"{API}/restores").json() == {"data": []}
        undone = client.post(f"{API}/restores/{did['id']}/undo", json={"dry_run": False})
        assert undone.status_code == 200, undone.text
        assert (root / "src/a.py").read_text() == "print('three')\n"
        again = client.post(f"{API}/restores/none/finish", json={"dry_run": False})
        assert again.status_code == 404
        refused = client.post(
            f"{API}/restores", json={"snapshot": snapshot, "dry_run": False, "root": os.path.expanduser("~")}
        )
        assert refusal(refused) == (403, "root_refused")


@each_row("header", ["x-forwarded-for", "forwarded", "x-real-ip"])
def test_s41_a_request_through_a_proxy_restores_nothing(allowed: Running, root: Path, header: str) -> None:
    snapshot = allowed.store.snapshot(root).id
    with allowed.client() as client:
        answer = client.post(
            f"{API}/restores", json={"snapshot": snapshot, "dry_run": False}, headers={header: "127.0.0.1"}
        )
    assert refusal(answer) == (403, "not_local")


def test_a_bound_token_restores_nothing(allowed: Running, root: Path) -> None:
    session = allowed.store.create("a", tags=["mine"])
    snapshot = session.checkpoint("c", files=root).snapshot
    _, text = add_token(allowed.store, "bound", scopes=["write", "files"], tags=["mine"])
    with allowed.client(text) as client:
        answer = client.post(f"{API}/restores", json={"snapshot": snapshot, "dry_run": False})
        assert refusal(answer) == (403, "bound")
        answer = client.post(f"{API}/sessions/a/rewind", json={"to": "c", "files": True})
        assert refusal(answer) == (403, "bound"), answer.text
