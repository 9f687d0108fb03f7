"""A connection that breaks while a client commits: nothing is done twice, and what is known is said."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import BackendUnavailableError, OutcomeUnknownError
from tests.server.conftest import TOKEN, Running
from tests.server.remote.proxy import Proxy, proxied

SERVER = """
import sys, uvicorn, clew
from clew.server import app
store = clew.open(sys.argv[1])
address = f"127.0.0.1:{sys.argv[2]}"
uvicorn.run(app(store, token=sys.argv[3], hosts=tuple(sys.argv[4:])), host="127.0.0.1", port=int(sys.argv[2]),
            log_level="error")
"""


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(session: clew.Session) -> list[Any]:
    return [message["content"] for message in session.messages()]


@pytest.fixture
def proxy(serve: Callable[..., Running]) -> Iterator[Proxy]:
    with proxied() as found:
        found.lead_to(serve(hosts=(found.url.removeprefix("http://"),)).url)
        yield found


@pytest.fixture
def s(proxy: Proxy) -> Iterator[clew.Session]:
    """A session that was appended to, so that the next append is one request."""
    with clew.open(proxy.url, token=TOKEN, timeout=5) as store:
        session = store.session("s")
        session.append(user("before"))
        yield session


class TestLostAnswers:
    """The server goes on: it remembers what became of a commit."""

    def test_a_request_that_never_arrived_is_sent_again(self, proxy: Proxy, s: clew.Session) -> None:
        """The server is asked, knows of no such commit, and will not take it any more."""
        proxy.lose = "request"
        s.append(user("once"))

        assert (proxy.lost, said(s)) == (1, ["before", "once"])

    def test_an_answer_that_was_lost_is_asked_for(self, proxy: Proxy, s: clew.Session) -> None:
        """The append happened, once."""
        proxy.lose = "answer"
        s.append(user("once"))

        assert (proxy.lost, said(s)) == (1, ["before", "once"])

    @pytest.mark.parametrize("lose", ["request", "answer"])
    def test_a_session_is_created_once(self, proxy: Proxy, s: clew.Session, lose: Any) -> None:
        """A transaction that the server held open is given up, and begun again."""
        with clew.open(proxy.url, token=TOKEN, timeout=5) as store:
            proxy.lose = lose
            store.create("new")
            assert proxy.lost == 1
            assert [info.id for info in store.list()] == ["new", "s"]

    def test_a_read_is_repeated(self, proxy: Proxy, s: clew.Session) -> None:
        """Nothing is lost by asking twice."""
        proxy.path = b"/rows/read"
        proxy.lose = "answer"

        assert said(s) == ["before"]
        assert proxy.lost == 1

    def test_a_server_that_is_away_says_so(self, proxy: Proxy, s: clew.Session) -> None:
        """Nothing was sent, so nothing is unknown."""
        said(s)
        proxy.close()

        with pytest.raises(BackendUnavailableError, match="is `clew serve` running there"):
            s.append(user("nowhere"))


# -- the server is killed


class Killable:
    """A server in a process of its own, on one port, over one file."""

    def __init__(self, place: Path, port: int) -> None:
        self._place = place
        self._port = port
        self.url = f"http://127.0.0.1:{port}"
        self.hosts = [f"127.0.0.1:{port}"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        arguments = [str(self._place), str(self._port), TOKEN, *self.hosts]
        self._process = subprocess.Popen([sys.executable, "-c", SERVER, *arguments])
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError("the server did not start")

    def kill(self) -> None:
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


@pytest.fixture
def killable(tmp_path: Path) -> Iterator[Killable]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    server = Killable(tmp_path / "store.db", port)
    try:
        yield server
    finally:
        server.kill()


class TestKilledServer:
    """SIGKILL between the commit and its answer, and a server that was started anew."""

    @pytest.mark.parametrize("lose", ["request", "answer"])
    @pytest.mark.parametrize("key", [None, "k"])
    def test_an_append_happens_once(self, killable: Killable, lose: Any, key: str | None) -> None:
        """The new server knows nothing of the commit. The rows say whether it happened; if they are as the
        client knew them it is sent again, else the digest of the entry tells whose it is."""
        with proxied(killable.url) as proxy:
            killable.hosts.append(proxy.url.removeprefix("http://"))
            killable.start()
            with clew.open(proxy.url, token=TOKEN, timeout=20) as store:
                session = store.session("s")
                session.append(user("before"))
                proxy.lose = lose
                proxy.on_lost, proxy.then = killable.kill, killable.start
                session.append(user("once"), key=key)

                assert proxy.lost == 1
                assert said(session) == ["before", "once"]
                assert store.verify().problems == ()

    def test_what_cannot_be_known_is_said_to_be_unknown(self, killable: Killable) -> None:
        """A variable has no digest: it may have been set, or not."""
        with proxied(killable.url) as proxy:
            killable.hosts.append(proxy.url.removeprefix("http://"))
            killable.start()
            with clew.open(proxy.url, token=TOKEN, timeout=20) as store:
                session = store.session("s")
                session.append(user("before"))
                proxy.lose = "answer"
                proxy.on_lost, proxy.then = killable.kill, killable.start
                with pytest.raises(OutcomeUnknownError):
                    session.set_var("n", 1)
                assert session.get_var("n") == 1
                session.set_var("n", 2)
                assert session.get_var("n") == 2

    def test_an_unreachable_server_leaves_the_outcome_unknown(self, killable: Killable) -> None:
        """Killed for good while the answer was on its way."""
        with proxied(killable.url) as proxy:
            killable.hosts.append(proxy.url.removeprefix("http://"))
            killable.start()
            with closing(clew.open(proxy.url, token=TOKEN, timeout=2)) as store:
                session = store.session("s")
                session.append(user("before"))
                proxy.lose = "answer"
                proxy.on_lost = killable.kill
                with pytest.raises(OutcomeUnknownError):
                    session.append(user("perhaps"))
                killable.start()
                assert said(session) == ["before", "perhaps"]
