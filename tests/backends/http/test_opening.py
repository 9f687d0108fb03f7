"""Opening a store over HTTP: addresses, secrets, certificates, servers that are none, and the end."""

from __future__ import annotations

import asyncio
import datetime as dt
import http.server
import logging
import os
import ssl
import subprocess
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.backends.http import wire
from clew.backends.http.address import parse_address
from clew.backends.http.backend import HttpBackend
from clew.errors import (
    AccessDeniedError,
    BackendError,
    BackendUnavailableError,
    ClewError,
    InvalidUrlError,
    LeaseHeldError,
    ReadOnlyError,
    VersionError,
)
from clew.server import app
from clew.testing.backend.base import user
from tests.server.conftest import TOKEN, Running, running
from tests.server.sockets import listening
from tests.support.rows import each_row
from tests.support.waiting import until

SECRET = "clew_s3cret-that-nobody-may-see"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with clew.open(tmp_path / "store.db") as store, running(store) as found:
        yield found


@pytest.fixture
def store(server: Running) -> Iterator[clew.Store]:
    with clew.open(server.url, token=TOKEN) as found:
        yield found


class TestAddresses:
    """What may stand in one, and what is shown of it."""

    @each_row(
        ("url", "shown"),
        [
            ("https://host", "https://host"),
            ("https://host/", "https://host"),
            ("https://host:443/a/b/", "https://host/a/b"),
            ("http://127.0.0.1:8731", "http://127.0.0.1:8731"),
            ("http://[::1]:8731?timeout=3", "http://[::1]:8731"),
        ],
    )
    def test_an_address_is_shown_as_it_is_used(self, url: str, shown: str) -> None:
        assert parse_address(url).shown == shown

    @each_row(
        "url",
        [
            f"https://user:{SECRET}@host", f"https://{SECRET}@host/x", f"https://host/?token={SECRET}",
            f"https://host/#{SECRET}", f"https://host/?read_only={SECRET}", "https://", "https:///path",
            f"https://host:{SECRET}/", "https://host/?unknown=1", f"http://example.com/?token={SECRET}",
        ],
    )  # fmt: skip
    def test_what_is_no_address_is_refused(self, url: str) -> None:
        """No error repeats what may be a secret."""
        with pytest.raises(InvalidUrlError) as refused:
            clew.open(url, token="t")
        assert SECRET not in "".join(traceback.format_exception(refused.value))

    def test_a_token_is_not_sent_in_the_clear(self) -> None:
        """Except on this machine, or where the user says so."""
        with pytest.raises(InvalidUrlError, match="insecure=True"):
            clew.open("http://192.0.2.1:8731", token="t")
        with pytest.raises(BackendUnavailableError):
            clew.open("http://192.0.2.1:8731", token="t", insecure=True, timeout=0.1)

    @each_row("token", [7, "two words", "line\nbreak", "ümlaut"])
    def test_a_token_that_is_none_is_not_repeated(self, token: Any) -> None:
        with pytest.raises(InvalidUrlError) as refused:
            clew.open("http://127.0.0.1:1", token=token)
        assert str(token) not in str(refused.value)


class TestSecrets:
    """The token is in no text that anybody sees."""

    def test_it_is_in_no_text(self, server: Running, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        with clew.open(server.url, token=TOKEN) as store:
            s = store.session("s")
            s.append(user("a"))
            backend = store._engine.backend
            assert isinstance(backend, HttpBackend)
            shown = [repr(store), repr(backend), repr(backend._connection), store.location, repr(s)]
        with pytest.raises(AccessDeniedError) as refused:
            clew.open(server.url, token=SECRET)
        shown += traceback.format_exception(refused.value)
        with pytest.raises(BackendUnavailableError) as away:
            clew.open("http://127.0.0.1:1", token=SECRET)
        shown += traceback.format_exception(away.value)

        assert TOKEN not in "".join(shown) + caplog.text
        assert SECRET not in "".join(shown) + caplog.text

    def test_it_comes_from_the_environment(self, server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CLEW_TOKEN", TOKEN)
        monkeypatch.setenv("CLEW_STORE", server.url)
        with clew.open() as store:
            assert store.location == server.url


class TestServersThatAreNone:
    """Answers are as little believed as requests."""

    @each_row(
        ("status", "headers", "body", "error", "said"),
        [
            (200, {}, b"hello", BackendError, "something else than Clew"),
            (200, {}, b"{}", BackendError, "something else than Clew"),
            (200, {"content-encoding": "zstd"}, b"no zstd", BackendUnavailableError, "unpacked"),
            (200, {"content-encoding": "br"}, b"x", BackendUnavailableError, "br"),
            (302, {"location": "https://elsewhere"}, b"", InvalidUrlError, "redirects are not followed"),
            (401, {}, b"<html>", AccessDeniedError, "is this a Clew server"),
            (404, {}, b"<html>", InvalidUrlError, "no Clew server"),
            (500, {}, b"<html>", BackendUnavailableError, "status 500"),
            (502, {"content-type": "application/problem+json"}, b"[", BackendUnavailableError, "status 502"),
        ],
    )
    def test_it_is_told_apart(
        self, status: int, headers: dict[str, str], body: bytes, error: type[ClewError], said: str
    ) -> None:
        with answering(lambda: (status, headers, body)) as url, pytest.raises(error, match=said):
            clew.open(url, token="t")

    def test_another_protocol_is_named(self) -> None:
        hello = wire.Hello(protocol=99, instance="i", durability="full", read_only=False)
        with answering(lambda: (200, {}, wire.encode(hello))) as url, pytest.raises(VersionError, match="99"):
            clew.open(url, token="t")

    def test_a_bomb_does_not_go_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        most = 1 << 20
        assert wire.decompress.__defaults__ == (wire.MOST_SENT,)
        monkeypatch.setattr(wire.decompress, "__defaults__", (most,))
        for encoding in wire.ENCODINGS:
            answer = (200, {"content-encoding": encoding}, wire.compress(encoding, b" " * (most + 1)))
            with answering(lambda: answer) as url, pytest.raises(BackendError, match="larger"):  # noqa: B023
                clew.open(url, token="t")

    def test_rows_that_cannot_be_are_damage(self, store: clew.Store, monkeypatch: pytest.MonkeyPatch) -> None:
        """A server, or one in between, that sends something else than it stored."""
        store.session("s").append(user("a"))
        backend = store._engine.backend
        assert isinstance(backend, HttpBackend)
        post = backend._connection.post

        def lying(what: str, body: bytes, **options: Any) -> bytes:
            return post(what, body, **options).replace(b'"status":0', b'"status":99')

        monkeypatch.setattr(backend._connection, "post", lying)
        with pytest.raises(clew.errors.CorruptError):
            store.get("s")


@contextmanager
def answering(answer: Callable[[], tuple[int, dict[str, str], bytes]]) -> Iterator[str]:
    """A server that always answers the same."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"] or 0))
            status, headers, body = answer()
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


class TestCertificates:
    """The server has to be who it says."""

    @pytest.mark.needs("openssl")
    def test_a_certificate_is_checked(self, tmp_path: Path) -> None:
        def named(address: str) -> str:
            return address.replace("127.0.0.1", "localhost")

        def application(store: clew.Store) -> Callable[[str], Any]:
            return lambda address: app(store, token=TOKEN, hosts=(named(address),))

        key, certificate = tmp_path / "key.pem", tmp_path / "ca.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
             "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
            check=True, capture_output=True,
        )  # fmt: skip
        keys: Any = {"ssl_keyfile": str(key), "ssl_certfile": str(certificate)}
        with clew.open("memory:") as local, listening(application(local), **keys) as (address, _):
            url = f"https://{named(address)}"
            with pytest.raises(BackendUnavailableError, match="ca="):
                clew.open(url, token=TOKEN)
            with clew.open(url, token=TOKEN, ca=str(certificate)) as store:
                store.session("s").append(user("a"))
                assert store.get("s").info.messages == 1

    def test_certificates_that_cannot_be_read_are_named(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidUrlError, match="ca"):
            clew.open("https://localhost:1", token="t", ca=str(tmp_path / "none.pem"))
        assert ssl.OPENSSL_VERSION


class TestTheEnd:
    """Closing, forks, Ctrl-C."""

    def test_read_only(self, server: Running) -> None:
        server.store.session("s")
        with clew.open(server.url, token=TOKEN, read_only=True) as store:
            assert store.get("s").messages() == []
            with pytest.raises(ReadOnlyError):
                store.get("s").append(user("a"))
        with clew.open(f"{server.url}?read_only=true", token=TOKEN) as store, pytest.raises(ReadOnlyError):
            store.session("t")

    def test_a_forked_child_has_connections_of_its_own(self, store: clew.Store) -> None:
        """And both go on writing."""
        s = store.session("s")
        s.append(user("before"))
        child = os.fork()
        if not child:
            status = 1
            try:
                for number in range(10):
                    s.append(user(f"child {number}"))
                status = 0
            finally:
                os._exit(status)
        for number in range(10):
            s.append(user(f"parent {number}"))
        assert os.waitpid(child, 0)[1] == 0

        assert len(s.messages()) == 21
        assert store.verify().problems == ()

    def test_an_interrupt_leaves_nothing_locked(
        self, server: Running, store: clew.Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Wherever it comes: before a request, in the middle of it, or behind it."""
        s = store.session("s")
        s.append(user("a"))
        backend = store._engine.backend
        assert isinstance(backend, HttpBackend)
        connection = backend._connection
        send = connection._send
        for is_before in (True, False):

            def interrupted(*given: Any, is_before: bool = is_before) -> Any:
                monkeypatch.setattr(connection, "_send", send)
                if not is_before:
                    send(*given)
                raise KeyboardInterrupt

            for work in (lambda: s.append(user("b")), lambda: store.create(f"n{is_before}")):  # noqa: B023
                monkeypatch.setattr(connection, "_send", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    work()
                server.store.get("s").append(user("another process"))
                s.append(user("goes on"))

        assert store.verify().problems == ()

    def test_a_backup_sees_one_moment(self, store: clew.Store, tmp_path: Path) -> None:
        s = store.session("s")
        s.append(user("a"))

        def look(now: clew.Store) -> tuple[int, int]:
            before = now.get("s").info.messages
            s.append(user("meanwhile"))
            return before, now.get("s").info.messages

        assert store.read(look) == (1, 1)
        store.backup(tmp_path / "backup.db")
        with clew.open(tmp_path / "backup.db") as copy:
            assert copy.get("s").info.messages == 2


class TestTogether:
    """Other faces of the same store."""

    def test_async(self, server: Running) -> None:
        async def work() -> list[Any]:
            async with await clew.open_async(server.url, token=TOKEN) as store:
                s = await store.session("s")
                await asyncio.gather(*(s.append(user(f"{number}")) for number in range(20)))
                return [message["content"] for message in await s.messages()]

        assert sorted(asyncio.run(work()), key=int) == [f"{number}" for number in range(20)]

    def test_large_messages_are_compressed(self, store: clew.Store) -> None:
        """And come back byte for byte, whatever they hold."""
        s = store.session("s")
        texts = ["a word \0\u2028 ü 🙂 " * 200_000, "x"]
        s.append(*map(user, texts))
        s.append_nowait(user("y" * 1_000_000))
        store.flush()
        assert [message["content"] for message in s.messages()] == [*texts, "y" * 1_000_000]

    def test_a_watcher_is_woken(self, server: Running, store: clew.Store) -> None:
        """By a commit on the server, long before it would look by itself."""
        with ThreadPoolExecutor(1) as watching:
            seen = watching.submit(lambda: next(store.watch(every=1000)))
            until(lambda: server.app.rows._news._waiting)
            server.store.session("new")

            assert seen.result().session == "new"

    def test_a_lease_of_another_machine_is_not_deserted(
        self, server: Running, store: clew.Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The server has its store for itself; so the boot of another machine once meant a process that is
        gone."""
        from clew.core.log.lease import Holder

        store._engine.host.__dict__["me"] = Holder("another-boot", "pid:[1]", 4711, "12345")
        with store.session("s").run(owner="elsewhere", lease=3600):
            with pytest.raises(LeaseHeldError):
                server.store.get("s").append(user("b"))
            lease = server.store.get("s").lease
            assert lease is not None
            left = lease.expires_at - dt.datetime.now(dt.UTC)
            assert 3000 < left.total_seconds() <= 3600
