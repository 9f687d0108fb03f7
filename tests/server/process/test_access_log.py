"""The log: one line a request, which no client can forge, and no secret in it."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import stat
import threading
from pathlib import Path

import pytest

from clew.server.access import audit
from clew.server.application import Finished
from clew.server.process import access_log
from clew.server.process.access_log import Log, safe, safe_path
from clew.server.process.serve import attached
from tests.server.conftest import Running
from tests.support.rows import each_row

LINE = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [!-~]+ [!-~]+ [!-~]+ [!-~]+"
    r" (?:\d{3}|-) \d+ \d+\.\dms(?: error=\w+)?"
)
TOKEN = "clew_own_" + "a" * 43


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "log")


def written(log: Log, tmp_path: Path) -> list[str]:
    log.close()
    return (tmp_path / "log").read_text().splitlines()


@each_row(
    "path",
    [
        "/a\n2026-11-16T00:00:00.000Z 127.0.0.1 owner GET /forged 200 1 1.0ms",
        "/a\r\nb",
        "/a b",
        "/\x1b]0;title\x07",
        "/\x00\x7f\x80\xff",
        "/\u2028\u202e\ud800",
        '/"quoted"',
        "/" + "a" * 100_000,
        "",
    ],
)
def test_a_path_cannot_look_like_another_line(tmp_path: Path, path: str) -> None:
    log = Log(tmp_path / "log")
    log.request(Finished(method="GET", path=path, client="127.0.0.1", principal="owner", status=200))
    (line,) = written(log, tmp_path)
    assert LINE.fullmatch(line), line
    assert len(line) < 1000


def test_names_and_methods_cannot_either(log: Log, tmp_path: Path) -> None:
    log.request(Finished(method="G\nET", path="/", client="a b\n", principal="me\nyou and \x1b[31m"))
    (line,) = written(log, tmp_path)
    assert LINE.fullmatch(line), line


def test_neither_query_nor_token_is_written() -> None:
    assert safe_path("/a?q=secret#x") == "/a"
    assert safe_path(f"/api/v1/sessions/{TOKEN}") == "/api/v1/sessions/***"
    assert safe_path("/sk-abcdefghijklmnopqrstuvwxyz0123456789/x", is_known=False) == "/***/x"
    assert safe_path("/api/v1/sessions/" + "a" * 36) == "/api/v1/sessions/" + "a" * 36
    assert safe("") == "-"


def test_an_error_is_written_with_its_places_and_without_what_was_sent(log: Log, tmp_path: Path) -> None:
    def fail() -> None:
        try:
            raise ValueError("the body: hunter2")
        except ValueError as exc:
            raise KeyError("hunter2") from exc

    try:
        fail()
    except KeyError as exc:
        log.failed("GET /x failed (abc)", exc)
    text = "\n".join(written(log, tmp_path))
    assert "GET /x failed (abc)" in text
    assert "builtins.KeyError" in text
    assert "builtins.ValueError" in text
    assert f"{Path(__file__).name}:" in text
    assert "hunter2" not in text


def test_s32_a_client_is_told_under_which_name_the_log_has_an_error_and_no_more(
    server: Running, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("hunter2 in a body")

    monkeypatch.setattr(server.store, "list", fail)
    with attached(log), server.client() as client:
        found = client.get("/api/v1/sessions", headers={"x-secret": "hunter3"})
        assert found.status_code == 500
        assert "hunter" not in found.text
        id = found.json()["error"]
        assert (found.json()["code"], id in found.json()["detail"]) == ("unexpected", True)
        assert "Traceback" not in found.text
    text = (tmp_path / "log").read_text()
    assert f"GET /api/v1/sessions failed ({id})" in text
    assert "builtins.ZeroDivisionError" in text
    assert "test_access_log.py" in text
    assert "hunter" not in text


def test_what_cannot_be_taken_back_is_in_the_log(log: Log, tmp_path: Path) -> None:
    with attached(log):
        audit.note("purged", by="me\nyou", session="a\x1b[31m")
    assert re.search(r'Z audit: purged by="me\\nyou" session="a', (tmp_path / "log").read_text())


def test_what_the_sdk_tells_is_one_short_line(log: Log, tmp_path: Path) -> None:
    with attached(log):
        logging.getLogger("mcp.server.runner").warning("dropped %s", "a\n\x1b[31m" + "x" * 100_000)
    (line,) = (tmp_path / "log").read_text().splitlines()
    assert re.fullmatch(r"\S+Z dropped a\?\?\[31mx{200,300}", line)


def test_a_log_that_is_not_written_fast_enough_says_what_it_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_log, "_MOST_LINES", 1000)
    reader, writer = os.pipe()
    os.write(
        writer, b"x" * fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ)
    )  # full: nothing gets out before it is read
    log = Log()
    log._fd = writer
    for _ in range(5000):  # those that wait, those that are being written, and more
        log.note("x" * 100)
    read = []

    def drain() -> None:
        while data := os.read(reader, 1 << 20):
            read.append(data)

    thread = threading.Thread(target=drain)
    thread.start()
    log.close()
    assert log._thread
    log._thread.join()
    os.close(writer)
    thread.join()
    os.close(reader)
    lines = b"".join(read).decode().splitlines()
    assert 1000 < len(lines) < 2100
    assert any("lines were left out" in line for line in lines)


def test_a_new_file_is_the_users_alone_and_an_old_one_is_added_to(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        for number in range(2):
            log = Log(tmp_path / "log")
            log.note(f"number {number}")
            log.close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600
    assert len((tmp_path / "log").read_text().splitlines()) == 2
