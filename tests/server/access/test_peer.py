"""Which user is at the other end of a connection, and codes that are good for one user only."""

from __future__ import annotations

import os
import socket
import time
from contextlib import closing
from pathlib import Path

import pytest

from clew.server.access import browser, peer
from tests.server.conftest import Running
from tests.support.rows import each_row

pytestmark = pytest.mark.skipif(not peer.CAN_TELL, reason="only Linux tells")


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_the_user_of_a_connection(family: socket.AddressFamily, host: str) -> None:
    with closing(socket.socket(family)) as listener:
        try:
            listener.bind((host, 0))
        except OSError:
            pytest.skip("this machine has no such address")
        listener.listen()
        server = listener.getsockname()[:2]
        with closing(socket.create_connection(server)) as ours:
            client = ours.getsockname()[:2]
            assert peer.user_of(client, server) == os.getuid()
            assert peer.is_own_user(client, server)
            assert peer.user_of((client[0], client[1] ^ 1), server) is None
            assert not peer.is_own_user(server, ("127.0.0.1", 9))


def test_a_socket_that_was_closed_is_nobodys_least_of_all_roots() -> None:
    """The tables of Linux say user 0 of every connection that no program holds any more."""
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        server = listener.getsockname()
        ours = socket.create_connection(server)
        client = ours.getsockname()
        accepted, _ = listener.accept()
        with closing(accepted):
            assert peer.user_of(client, server) == os.getuid()
            ours.close()
            assert accepted.recv(1) == b""
            assert peer.user_of(client, server) is None
            assert not peer.is_own_user(client, server)


@each_row(
    "answer",
    ["", "   1: {ends} 01\n", "   1: {ends} 01 0:0 0:0 0 root 0 77\n", "   1: {ends} 01 0:0 0:0 0  0 0\n"],
)
def test_a_table_that_says_nothing_says_nothing_of_root(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, server = ("127.0.0.1", 5), ("127.0.0.1", 6)
    table = tmp_path / "tcp"
    table.write_text(answer.format(ends=f"{next(peer._written(client))} {next(peer._written(server))}"))
    monkeypatch.setattr(peer, "_TABLES", (str(table), str(tmp_path / "none")))
    assert peer.user_of(client, server) is None
    assert not peer.is_own_user(client, server)


@each_row("odd", [("", 0), ("name", 1), ("::1", 1), (None, None)])
def test_what_is_no_address_is_nobodys(odd: tuple[str, int]) -> None:
    assert peer.user_of(odd, ("127.0.0.1", 1)) is None


def test_a_connection_of_another_user_is_not_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for user, is_own in ((os.getuid(), True), (0, True), (os.getuid() + 1, False), (None, False)):
        monkeypatch.setattr(peer, "user_of", lambda *_, user=user: user)
        assert peer.is_own_user(("127.0.0.1", 1), ("127.0.0.1", 2)) is is_own


def test_s16_a_code_for_programs_of_this_user_is_refused_to_others_and_stays_good(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = browser.new_code(server.store.location, time.time(), own=True)
    with server.client(None) as client:

        def sign_in(**headers: str) -> int:
            return client.post("/api/v1/login", json={"once": code}, headers=headers).status_code

        with monkeypatch.context() as other:
            other.setattr(peer, "user_of", lambda *_: os.getuid() + 1)
            assert sign_in() == 401
        assert sign_in(**{"x-forwarded-for": "127.0.0.1"}) == 401
        assert sign_in() == 200
        assert sign_in() == 401
