"""S-09: what by its name holds nothing but secrets is in no snapshot, unless somebody asks for it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.backends.memory import MemoryBackend
from clew.core.engine.engine import Engine
from clew.files.snapshot import ignore
from clew.files.snapshot.ignore import is_secret_directory, is_secret_file
from tests.files.trees import Tree, build, in_store, paths, take
from tests.support.rows import each_row

SECRET = b"TOKEN=hunter2"
PLAIN = b"plain"

SECRETS = (
    ".env", ".env.local", ".env.production", ".ENV", ".Env.Prod", ".env.example.local", "server.pem", "a.KEY",
    "key.p12", "key.pfx", "key.jks", "app.keystore", "passwords.kdbx", "putty.ppk", "id_rsa", "id_dsa",
    "id_ecdsa", "id_ed25519", "ID_RSA", ".netrc", "_netrc", ".pgpass", ".pypirc", ".git-credentials",
    ".htpasswd", ".vault-token", ".pem",
)  # fmt: skip
ORDINARY = (
    "env", "env.py", ".environment", ".envrc", ".env.example", ".env.sample", ".env.template", ".env.dist",
    ".env.defaults", ".env.EXAMPLE", ".env.local.example", "id_rsa.pub", "id_ed25519.pub", "key", "pem",
    "keys.py", "monkey", "a.keys", "a.pem.txt", "netrc", "known_hosts", "README.md", "",
)  # fmt: skip


pytestmark = pytest.mark.usefixtures("own_cache")


def taken(root: Path, tree: Tree, **options: Any) -> tuple[set[bytes], list[tuple[str, str]]]:
    build(root, tree)
    engine = Engine(MemoryBackend())
    scan = take(engine, root, **options)
    return paths(in_store(engine, scan.tree)), [(one.path, one.reason) for one in scan.skipped]


@each_row("name", SECRETS)
def test_s09_a_name_of_secrets_is_known_in_letters_of_either_case(name: str) -> None:
    assert is_secret_file(name)


@each_row("name", ORDINARY)
def test_s09_an_ordinary_name_is_none_of_secrets(name: str) -> None:
    assert not is_secret_file(name)


def test_s09_a_snapshot_leaves_out_secrets_at_any_depth_and_lists_them(tmp_path: Path) -> None:
    tree: Tree = {
        b".env": SECRET, b"app.py": PLAIN, b".env.example": PLAIN, b".ssh": {b"config": SECRET},
        b"deep": {b"er": {b"server.pem": SECRET, b"x": PLAIN}}, b".AWS": {b"credentials": SECRET},
    }  # fmt: skip
    held, skipped = taken(tmp_path, tree)
    assert held == {b"app.py", b".env.example", b"deep/", b"deep/er/", b"deep/er/x"}
    assert skipped == [
        (".AWS", "secret"), (".env", "secret"), (".ssh", "secret"), ("deep/er/server.pem", "secret"),
    ]  # fmt: skip


def test_s09_only_the_kind_that_holds_secrets_is_meant(tmp_path: Path) -> None:
    """A directory `.env` is an environment, a file `.ssh` is anything."""
    tree: Tree = {b".env": {b"a": PLAIN}, b".ssh": PLAIN, b"x.pem": {b"a": PLAIN}}
    assert taken(tmp_path, tree) == ({b".env/", b".env/a", b".ssh", b"x.pem/", b"x.pem/a"}, [])
    assert not is_secret_directory(".env")


def test_s09_include_takes_secrets_and_exclude_is_above_it(tmp_path: Path) -> None:
    tree: Tree = {
        b".env": SECRET,
        b"a.pem": SECRET,
        b"b.pem": SECRET,
        b".ssh": {b"config": SECRET, b"x": SECRET},
    }
    held, skipped = taken(tmp_path, tree, include=[".env", "*.pem", ".ssh/config"], exclude=["b.pem"])
    assert held == {b".env", b"a.pem", b".ssh/", b".ssh/config"}
    assert skipped == []


def test_s09_a_rule_may_bring_back_a_secret_and_what_is_ignored_is_not_listed(tmp_path: Path) -> None:
    tree: Tree = {
        b".gitignore": b"!/tests/*.pem\n.env\n", b".env": SECRET, b"a.pem": SECRET,
        b"tests": {b"a.pem": PLAIN}, b"build": {b".clewignore": b"*\n", b"b.pem": SECRET},
    }  # fmt: skip
    held, skipped = taken(tmp_path, tree)
    assert held == {b".gitignore", b"tests/", b"tests/a.pem", b"build/"}
    assert skipped == [("a.pem", "secret")]


def test_s09_p14_a_secret_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    really = os.open

    def noting(path: Any, *args: Any, **kwargs: Any) -> int:
        opened.append(os.fsencode(path))
        return really(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", noting)
    taken(tmp_path / "root", {b".env": SECRET, b"a.pem": SECRET, b"app.py": PLAIN, b".ssh": {b"x": SECRET}})
    assert b"app.py" in opened
    assert not {b".env", b"a.pem", b".ssh"}.intersection(opened)


def test_s09_a_second_snapshot_lists_the_same_from_what_is_remembered(tmp_path: Path) -> None:
    root = tmp_path / "root"
    build(root, {b".env": SECRET, b"a": PLAIN, b"sub": {b"k.pem": SECRET, b".kube": {b"config": SECRET}}})
    with clew.open(tmp_path / "s.db") as store:
        first = store.snapshot(root)
        (root / "a").write_bytes(b"other")
        second = store.snapshot(root)
        (root / ".env").rename(root / "sub/.env")
        third = store.snapshot(root)
    assert {one.reason for one in first.skipped} == {"secret"}
    assert [one.path for one in first.skipped] == [".env", "sub/.kube", "sub/k.pem"]
    assert second.skipped == first.skipped
    assert [one.path for one in third.skipped] == ["sub/.env", "sub/.kube", "sub/k.pem"]
    assert (first.files, second.files, third.files) == (1, 1, 1)


def test_s09_no_byte_of_a_secret_is_in_the_store(tmp_path: Path) -> None:
    root = tmp_path / "root"
    build(root, {b".env": SECRET, b"a": PLAIN})
    with clew.open(tmp_path / "s.db") as store:
        snapshot = store.snapshot(root)
        (root / "a").write_bytes(b"other")
        store.restore(snapshot, root)
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("s.db*"))
    assert b"hunter2" not in kept
    assert (root / ".env").read_bytes() == SECRET
    assert (root / "a").read_bytes() == PLAIN


def test_s09_p14_a_snapshot_that_holds_secrets_restores_them_and_undo_brings_back_the_present(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those do that were taken before the names of secrets were known."""
    root = tmp_path / "root"
    build(root, {b".env": b"old", b".ssh": {b"config": b"old"}, b"a": PLAIN})
    with clew.open(tmp_path / "s.db") as store:
        with monkeypatch.context() as patched:
            patched.setattr(ignore, "is_secret_file", lambda name: False)
            patched.setattr(ignore, "is_secret_directory", lambda name: False)
            patched.setattr(ignore, "_VERSION", b"clew rules 1")
            held = store.snapshot(root)
        (root / ".env").write_bytes(b"new")
        (root / ".ssh/config").unlink()
        (root / ".ssh/key").write_bytes(b"came since")
        (root / "key.pem").write_bytes(b"came since")
        plain = store.snapshot(root)
        assert (held.files, plain.files) == (3, 1)

        report = store.restore(held, root)
        assert (root / ".env").read_bytes() == b"old"
        assert (root / ".ssh/config").read_bytes() == b"old"
        assert (root / ".ssh/key").read_bytes() == (root / "key.pem").read_bytes() == b"came since"

        store.undo_restore(report)
        assert (root / ".env").read_bytes() == b"new"
        assert (root / ".ssh/key").read_bytes() == b"came since"

        report = store.restore(plain, root)
        assert (root / ".env").read_bytes() == b"new"
        assert {(one.path, one.reason) for one in report.kept} == {
            (".env", "secret"), (".ssh", "secret"), ("key.pem", "secret"),
        }  # fmt: skip


def test_s09_a_snapshot_of_somebody_who_watches_leaves_out_a_secret_that_comes(tmp_path: Path) -> None:
    root = tmp_path / "root"
    build(root, {b"a": PLAIN})
    with clew.open(tmp_path / "s.db") as store, store.watch_files(root):
        store.snapshot(root)
        (root / ".env").write_bytes(b"TOKEN=1")
        assert [(one.path, one.reason) for one in store.snapshot(root).skipped] == [(".env", "secret")]
