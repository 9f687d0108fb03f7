"""S-22: who edits, deletes, swaps or cuts off entries behind the back of Clew is found by `verify`.

Checksums are put right by whoever does it, as everybody can compute them. The chain of hashes tells.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import clew
from clew.core.log import jsonl
from clew.core.log.digest import checksum
from tests.support.stores import run_sql

WORDS = [f"word {number}" for number in range(6)]
FORGED = b'{"role":"user","content":"forged"}'

Run: TypeAlias = Callable[..., list[Any]]
"""Runs a statement in the database behind a store."""


def message(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def fill(url: str) -> None:
    with clew.open(url) as store:
        for id in ("victim", "other"):
            session = store.session(id)
            for word in WORDS:
                session.append(message(word))
        assert store.verify().ok


def check_found(url: str) -> None:
    """It is named, and another session is not harmed by it."""
    with clew.open(url) as store:
        report = store.verify()
        assert not report.ok
        assert any("victim" in str(problem) for problem in report.problems)
        assert not any("other" in str(problem) for problem in report.problems)
        assert store.get("other").messages() == [message(word) for word in WORDS]


# -- SQLite and PostgreSQL


def in_sqlite(path: Path) -> Run:
    def run(statement: str, *values: Any) -> list[Any]:
        return run_sql(path, statement.replace("@place", "(key & 4294967295)"), *values)

    return run


def in_postgres(url: str) -> Run:
    import psycopg

    address, _, schema = url.partition("?schema=")

    def run(statement: str, *values: Any) -> list[Any]:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f'SET search_path TO "{schema}"')
            done = connection.execute(statement.replace("@place", "position").replace("?", "%s"), values)
            return done.fetchall() if done.description else []

    return run


def first_branch(run: Run, is_sqlite: bool) -> str:
    """The condition that an entry is one of the victim."""
    [(branch,)] = run("SELECT min(branch) FROM branches")
    return f"(key >> 32) = {branch}" if is_sqlite else f"branch = {branch}"


def put(run: Run, where: str, position: int, body: bytes) -> None:
    """Another body, with its checksum."""
    [(time, kind, flags)] = run(
        f"SELECT time, kind, flags FROM entries WHERE {where} AND @place = {position}"
    )
    right = checksum(body, position, time, kind, 0, flags)
    run(
        f"UPDATE entries SET codec = 0, body = ?, checksum = ? WHERE {where} AND @place = {position}",
        body,
        right,
    )


def edit(run: Run, where: str) -> None:
    put(run, where, 2, FORGED)


def delete(run: Run, where: str) -> None:
    run(f"DELETE FROM entries WHERE {where} AND @place = 2")


def reorder(run: Run, where: str) -> None:
    [(one,)] = run(f"SELECT body FROM entries WHERE {where} AND @place = 1")
    [(two,)] = run(f"SELECT body FROM entries WHERE {where} AND @place = 2")
    put(run, where, 1, bytes(two))
    put(run, where, 2, bytes(one))


def cut_off(run: Run, where: str) -> None:
    run(f"DELETE FROM entries WHERE {where} AND @place >= 3")


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Run, str]:
    is_sqlite = request.param == "sqlite"
    url = str(tmp_path / "s.db") if is_sqlite else request.getfixturevalue("emptied_postgres")
    fill(url)
    run = in_sqlite(tmp_path / "s.db") if is_sqlite else in_postgres(url)
    return url, run, first_branch(run, is_sqlite)


@pytest.mark.parametrize("tamper", [edit, delete, reorder, cut_off], ids=lambda one: one.__name__)
def test_s22_tampering_with_rows_is_found(
    database: tuple[str, Run, str], tamper: Callable[[Run, str], None]
) -> None:
    url, run, where = database
    tamper(run, where)
    check_found(url)


# -- JSONL


def forged_log(raw: list[bytes], how: str) -> list[bytes]:
    """The lines of a log, an entry and a head for each message, of which one was tampered with."""
    first, second = [at for at, line in enumerate(raw) if b'"kind":"entry"' in line][1:3]
    one, two = raw[first], raw[second]
    match how:
        case "edit":
            raw[second] = forged(two, b"word 2", b"forged")
        case "reorder":
            raw[first], raw[second] = forged(one, b"word 1", b"word 2"), forged(two, b"word 2", b"word 1")
        case "delete":
            del raw[second]
        case "delete with its head":
            del raw[second : second + 2]
    return raw


def forged(line: bytes, old: bytes, new: bytes) -> bytes:
    """Another line, with its checksum."""
    is_last, text = jsonl.open_line(line.rstrip(b"\n"))
    assert old in text
    return jsonl.finish(text.replace(old, new), is_last=is_last)


@pytest.mark.parametrize("how", ["edit", "reorder", "delete", "delete with its head"])
def test_s22_tampering_with_lines_is_found(tmp_path: Path, how: str) -> None:
    url = f"jsonl:///{tmp_path}/store"
    fill(url)
    [path] = [one for one in (tmp_path / "store").rglob("*.jsonl") if b"victim" in one.read_bytes()]
    path.write_bytes(b"".join(forged_log(path.read_bytes().splitlines(keepends=True), how)))
    check_found(url)


def test_s22_a_log_that_was_cut_off_between_two_batches_is_whole_and_its_head_tells(tmp_path: Path) -> None:
    """No log can say how long it was: who wrote down the head elsewhere knows that entries are missing."""
    url = f"jsonl:///{tmp_path}/store"
    fill(url)
    with clew.open(url) as store:
        head = store.get("victim").info.hash
    path = tmp_path / "store/sessions/victim.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    with clew.open(url) as store:
        assert store.get("victim").messages() == [message(word) for word in WORDS[:-1]]
        assert store.get("victim").info.hash != head
        assert store.get("other").messages() == [message(word) for word in WORDS]
