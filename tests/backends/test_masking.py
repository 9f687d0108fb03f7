"""S-25: a password that is in an address is in no message, however the address was mistyped."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.backends.registry import masked, masked_addresses, may_hold_password
from clew.errors import ClewError
from tests.cli.inside import run_in_pipes
from tests.support.rows import each_row

SECRET = "hunter2"

MISTYPED = [
    f"postgresql://u:{SECRET}@127.0.0.1:1/db",
    f"postgres://u:p@{SECRET}@127.0.0.1:1",
    f"postgres://u:{SECRET}@x@127.0.0.1:1",
    f"postgresql:/u:{SECRET}@127.0.0.1",
    f"postgresql:u:{SECRET}@127.0.0.1",
    f"postgresql//u:{SECRET}@127.0.0.1/db",
    f"postgresql/u:{SECRET}@127.0.0.1/db",
    f"postgre://u:{SECRET}@127.0.0.1/db",
    f"postgre:/u:{SECRET}@127.0.0.1/db",
    f"Postgres://u:{SECRET}@127.0.0.1:1/db",
    f"mysql://u:{SECRET}@127.0.0.1/db",
    f"://u:{SECRET}@127.0.0.1/db",
    f"u:{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:{SECRET}/x@127.0.0.1:1/db",
    f"postgresql://u:1/{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:1?{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:1#{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:{SECRET}#@127.0.0.1:1/db",
    f"postgresql://u:{SECRET}[@127.0.0.1:1/db",
    f"sqlite://u:{SECRET}[@127.0.0.1:1/db",
    f"postgresql://u:{SECRET}%zz@127.0.0.1:1/db",
    f"postgresql://u:%{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:{SECRET}:x@127.0.0.1:1/db",
    f"postgresql://u:{SECRET} x@127.0.0.1:1/db",
    f"postgresql://u%3A{SECRET}@127.0.0.1:1/db",
    f"postgresql://u@{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:{SECRET}@127.0.0.1:port/db",
    f"postgresql://u:{SECRET}@127.0.0.1:1:2/db",
    f"postgresql://u@127.0.0.1:1/db?password={SECRET}",
    f"postgresql://u@127.0.0.1:1/db?password={SECRET}%40x",
    f"postgresql://u:{SECRET}%40x@no.such.host.invalid/db",
    f"postgresql://u:{SECRET}%40x@127.0.0.1:1/db?nonsense=1",
    f"postgresql://u:{SECRET}%40x@127.0.0.1:1/db?timeout=soon",
    f"postgresql://u@127.0.0.1:1/db?Password={SECRET}",
    f"postgresql://u@127.0.0.1:1/db?pasword={SECRET}&passwd={SECRET}",
    f"postgresql://u@127.0.0.1:1/db?timeout=1;password={SECRET}",
    f"postgresql://u@127.0.0.1:1/db?pw={SECRET}&parole={SECRET}",
    f"postgresql://u@127.0.0.1:1/db?sslpassword={SECRET}",
    f"postgresql://u@127.0.0.1:1/db?options=-c%20password={SECRET}",
    f"postgresql://u@127.0.0.1:1/db?blobs=s3://key:{SECRET}@bucket/x",
    f"postgresql://u@127.0.0.1:1/db?blobs=s3:/key:{SECRET}@bucket/x",
    f"postgresql://u@127.0.0.1:1/db?blobs=s3://bucket/x%3Faws_secret_access_key={SECRET}",
    f"postgresql://u@127.0.0.1:1/db?blobs=key:{SECRET}@bucket",
    f"host=127.0.0.1 port=1 user=u password={SECRET} dbname=db",
    f"host=127.0.0.1 password='{SECRET} x' dbname=db",
    f"PGPASSWORD={SECRET} postgresql://127.0.0.1:1/db",
    f"memory:u:{SECRET}@x",
    f"sqlite://u:{SECRET}@127.0.0.1/db",
    f"jsonl://u:{SECRET}@127.0.0.1/db?timeout=x",
    f"sqlite:///a.db?timeout=u:{SECRET}@x",
    f"sqlite:u:{SECRET}@x",
]


def chain(error: BaseException) -> Iterator[BaseException]:
    """An error, and all that it came from: also what is not shown of it."""
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None:
            yield one
            waiting += [one.__cause__, one.__context__]


@each_row("address", MISTYPED)
def test_s25_a_password_is_in_no_error_of_a_mistyped_address(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.DEBUG)
    with pytest.raises(ClewError) as caught:
        clew.open(address)

    told = [f"{one}{one!r}{vars(one)}" for one in chain(caught.value)]
    said = [line for line in traceback.format_exception(caught.value) if "File " not in line]
    assert SECRET not in "".join([*told, *said, caplog.text])
    assert list(tmp_path.iterdir()) == []


def run(*args: str, home: Path, address: str | None = None) -> str:
    environment = {"HOME": str(home), **({"CLEW_STORE": address} if address else {})}
    done = run_in_pipes(args, environment, home)
    return done.out + done.err


@each_row("address", [MISTYPED[1], MISTYPED[3]])
def test_s25_no_command_prints_it(address: str, tmp_path: Path) -> None:
    for args in (["doctor", "--json"], ["import", "--scan"]):
        assert SECRET not in run(*args, home=tmp_path, address=address)


def test_s25_an_address_in_the_wrong_place_of_a_command_is_not_repeated(tmp_path: Path) -> None:
    address = f"postgresql://u:{SECRET}@host/db"
    for args in ([address], ["ls", address], [f"--stor={address}", "ls"]):
        told = run(*args, home=tmp_path)
        assert "clew: " in told
        assert SECRET not in told


@each_row(
    ("address", "shown"),
    [
        ("postgres://u:p@ss@host", "postgres://u:***@host"),
        ("postgresql:/u:p@h", "postgresql:***@h"),
        ("u:p@h/db", "u:***@h/db"),
        ("x://h/db?password=a&b=c", "x://h/db?password=***&b=c"),
        ("host=h password='a b\\'c' port=1", "host=h password=*** port=1"),
        ("postgresql://u@h:5432/db", "postgresql://u@h:5432/db"),
        ("/srv/agents.db", "/srv/agents.db"),
    ],
)
def test_what_may_be_a_password_is_masked(address: str, shown: str) -> None:
    assert masked(address) == shown


@each_row("path", ["a.db", "C:\\Users\\me@home\\a.db", "dir/a@b.db", "a:b.db", "monkey.db"])
def test_a_path_is_a_path(path: str) -> None:
    assert not may_hold_password(path)


def test_a_file_of_such_a_name_can_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    clew.open(Path("a:b@c.db")).close()
    clew.open("a:b@c.db").close()


def test_a_sentence_keeps_what_is_no_address() -> None:
    assert masked_addresses("no session 'telegram:42@3'; see x://u:p@h/d") == (
        "no session 'telegram:42@3'; see x://u:***@h/d"
    )
