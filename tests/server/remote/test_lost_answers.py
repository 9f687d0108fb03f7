"""A connection that breaks while a client commits: nothing is done twice, and what is known is said."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Protocol

import pytest

import clew
from clew.errors import BackendUnavailableError, OutcomeUnknownError
from clew.server.rows import held
from tests.server.conftest import TOKEN, Running, running
from tests.server.process.commands import serving
from tests.server.remote.proxy import Proxy, proxied
from tests.server.routes.asking import user


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
    with clew.open(proxy.url, token=TOKEN) as store:
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

    def test_a_session_is_created_once(
        self, proxy: Proxy, s: clew.Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A transaction that the server held open is given up, and begun again."""
        monkeypatch.setattr(held, "IDLE", 0.2)
        with clew.open(proxy.url, token=TOKEN) as store:
            for number, lose in enumerate(("request", "answer")):
                proxy.lose = lose  # type: ignore[assignment]
                store.create(lose)
                assert proxy.lost == number + 1
            assert sorted(info.id for info in store.list()) == ["answer", "request", "s"]

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


# -- the server goes away


class Server(Protocol):
    """One that can be started again over the same file."""

    token: str

    def start(self) -> None: ...
    def stop(self) -> None: ...


class Restarted:
    """A server in this process: the next one knows nothing of what this one was asked."""

    token = TOKEN

    def __init__(self, place: Path, proxy: Proxy) -> None:
        self._place, self._proxy = place, proxy
        self._opened = ExitStack()

    def start(self) -> None:
        store = self._opened.enter_context(clew.open(self._place))
        host = self._proxy.url.removeprefix("http://")
        self._proxy.lead_to(self._opened.enter_context(running(store, hosts=(host,))).url)

    def stop(self) -> None:
        self._opened.close()


class Killed:
    """`clew serve`, which is ended by SIGKILL."""

    def __init__(self, home: Path, proxy: Proxy) -> None:
        self._home, self._proxy = home, proxy
        self._opened = ExitStack()

    def start(self) -> None:
        self._server = self._opened.enter_context(serving(self._home, "--public-url", self._proxy.url))
        self.token = self._server.token
        self._proxy.lead_to(self._server.said["urls"][0])

    def stop(self) -> None:
        self._server.end(signal.SIGKILL)
        self._opened.close()


@pytest.fixture
def lossy() -> Iterator[Proxy]:
    with proxied() as found:
        yield found


class LostServer:
    """It ends between the commit and its answer, and another one takes its place."""

    kind: Callable[[Path, Proxy], Server]

    @pytest.fixture
    def server(self, tmp_path: Path, lossy: Proxy) -> Iterator[Server]:
        found = type(self).kind(tmp_path / "served", lossy)
        found.start()
        yield found
        found.stop()

    @pytest.mark.parametrize("lose", ["request", "answer"])
    @pytest.mark.parametrize("key", [None, "k"])
    def test_an_append_happens_once(self, server: Server, lossy: Proxy, lose: Any, key: str | None) -> None:
        """The new server knows nothing of the commit. The rows say whether it happened; if they are as the
        client knew them it is sent again, else the digest of the entry tells whose it is."""
        with clew.open(lossy.url, token=server.token, timeout=200) as store:
            session = store.session("s")
            session.append(user("before"))
            lossy.lose = lose
            lossy.on_lost, lossy.then = server.stop, server.start
            session.append(user("once"), key=key)

            assert lossy.lost == 1
            assert said(session) == ["before", "once"]
            assert store.verify().problems == ()

    def test_what_cannot_be_known_is_said_to_be_unknown(self, server: Server, lossy: Proxy) -> None:
        """A variable has no digest: it may have been set, or not."""
        with clew.open(lossy.url, token=server.token, timeout=200) as store:
            session = store.session("s")
            session.append(user("before"))
            lossy.lose = "answer"
            lossy.on_lost, lossy.then = server.stop, server.start
            with pytest.raises(OutcomeUnknownError):
                session.set_var("n", 1)
            assert session.get_var("n") == 1
            session.set_var("n", 2)
            assert session.get_var("n") == 2

    def test_an_unreachable_server_leaves_the_outcome_unknown(self, server: Server, lossy: Proxy) -> None:
        """It ended for good while the answer was on its way: the client asks again for as long as it may."""
        with closing(clew.open(lossy.url, token=server.token, timeout=200)) as store:
            session = store.session("s")
            session.append(user("before"))
            connection = store._engine.backend._connection  # type: ignore[attr-defined]

            def stop_for_good() -> None:
                server.stop()
                connection.timeout = 0.01

            lossy.lose = "answer"
            lossy.on_lost = stop_for_good
            with pytest.raises(OutcomeUnknownError):
                session.append(user("perhaps"))
            connection.timeout = 200
            server.start()
            assert said(session) == ["before", "perhaps"]


class TestServerThatIsStartedAnew(LostServer):
    kind = Restarted


class TestServerThatIsKilled(LostServer):
    kind = Killed
