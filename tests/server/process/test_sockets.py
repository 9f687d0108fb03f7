"""Where a server listens."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clew.errors import InvalidError
from clew.server.process import sockets
from clew.server.process.sockets import (
    is_loopback,
    listen,
    listen_on_path,
    open_addresses,
    reached_at,
    remove_path,
)
from tests.support.rows import each_row


@contextmanager
def closing(found: list[socket.socket]) -> Iterator[list[socket.socket]]:
    try:
        yield found
    finally:
        for one in found:
            one.close()


LOCAL = ("127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost", "LOCALHOST.")
OPEN = ("0.0.0.0", "::", "192.168.0.1", "localhost.example.org", "", "127.0.0.1.nip.io")


@each_row("host", [*LOCAL, *OPEN])
def test_what_others_can_reach_is_known(host: str) -> None:
    assert is_loopback(host) == (host in LOCAL)


def test_addresses_that_others_reach_are_chosen_and_a_host_that_is_one_is_kept() -> None:
    found = [
        "10.0.0.5",
        "127.0.1.1",
        "169.254.3.4",
        "0.0.0.0",
        "fe80::1%eth0",
        "fe80::1",
        "2001:db8::5",
        "10.0.0.5",
    ]
    assert open_addresses(found) == ["10.0.0.5", "2001:db8::5"]
    assert reached_at("192.168.0.1") == ("192.168.0.1",)
    assert reached_at("0.0.0.0")[-1] == "127.0.0.1"
    assert reached_at("::")[-1] == "::1"
    assert not {"0.0.0.0", "::"} & {*reached_at("0.0.0.0"), *reached_at("::")}


def test_all_sockets_have_the_same_port() -> None:
    with closing(listen(None, 0)) as found:
        assert len({one.getsockname()[1] for one in found}) == 1
        assert found[0].getsockname()[0] == "127.0.0.1"


def test_a_taken_usual_port_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(sockets, "USUAL_PORT", port)
        with closing(listen(None, None)) as found:
            assert found[0].getsockname()[1] > port
        with pytest.raises(InvalidError, match=f"port {port} of 127.0.0.1 is taken"):
            listen(None, port)


@each_row(
    ("host", "port", "said"),
    [
        ("203.0.113.1", 0, "is not an address of this machine"),
        ("no.such.host.invalid", 0, "is not the name of a host"),
        (None, 70000, "is not a port"),
    ],
)
def test_what_cannot_be_listened_on_is_named(host: str | None, port: int, said: str) -> None:
    with pytest.raises(InvalidError, match=said):
        listen(host, port)


def test_only_our_own_socket_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "s"
    one = listen_on_path(path)
    found = path.lstat()
    remove_path(path, one, (found.st_dev, found.st_ino + 1))
    assert path.exists()
    remove_path(path, one, (found.st_dev, found.st_ino))
    assert not path.exists()


def test_a_path_that_is_too_long_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="too long"):
        listen_on_path(tmp_path / ("a" * 120))
