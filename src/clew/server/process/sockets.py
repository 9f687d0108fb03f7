"""The sockets that a server listens on."""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from clew.errors import InvalidError

USUAL_PORT: Final = 8731
_TRIED: Final = 20
"""Ports above the usual one that are tried when it is taken."""
_BACKLOG: Final = 512
_LOOPBACK: Final = ("127.0.0.1", "::1")
_EVERYWHERE: Final = {"0.0.0.0": (socket.AF_INET, "127.0.0.1"), "::": (socket.AF_INET6, "::1")}
"""Hosts to listen on that are no addresses to go to, and the loopback address of each."""
_DEVICE_ADDRESS: Final = 0x8915
"""SIOCGIFADDR of Linux."""


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach it."""
    import ipaddress

    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"


def reached_at(host: str) -> tuple[str, ...]:
    """Where programs reach a server that listens on a host. For one that listens everywhere: the addresses of
    this machine, those that others reach first, then its loopback address."""
    if host not in _EVERYWHERE:
        return (host,)
    family, loopback = _EVERYWHERE[host]
    return (*open_addresses(_own_addresses(family)), loopback)


def open_addresses(found: Iterable[str]) -> list[str]:
    """Those that other machines may reach, each once: none of this machine alone, none of one cable only."""
    import ipaddress

    known: dict[str, None] = {}
    for text in found:
        try:
            one = ipaddress.ip_address(text)
        except ValueError:  # a link-local one has the name of its device behind it
            continue
        if not (one.is_loopback or one.is_link_local or one.is_unspecified or one.is_multicast):
            known[str(one)] = None
    return list(known)


def _own_addresses(family: int) -> Iterator[str]:
    """Addresses of this machine, that of the usual way out first. Nothing is sent to find them."""
    outside = "192.0.2.1" if family == socket.AF_INET else "2001:db8::1"
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as one:
        one.connect((outside, 9))
        yield one.getsockname()[0]
    with suppress(OSError):
        for _, name in socket.if_nameindex():
            yield from _address_of(name, family)
    with suppress(OSError):
        for *_, address in socket.getaddrinfo(socket.gethostname(), None, family, socket.SOCK_STREAM):
            yield str(address[0])


def _address_of(device: str, family: int) -> Iterator[str]:
    """The address of version 4 that a network device has, where the system tells it so."""
    if family != socket.AF_INET or sys.platform != "linux":
        return
    import fcntl

    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as one:
        told = fcntl.ioctl(one, _DEVICE_ADDRESS, struct.pack("256s", device.encode()[:15]))
        yield socket.inet_ntoa(told[20:24])


def listen(host: str | None, port: int | None) -> list[socket.socket]:
    """Listen on a host; None: on the loopback addresses of this machine. Port None: the usual one, or the
    next that is free; 0: any that is free. All sockets have the same port."""
    hosts = _LOOPBACK if host is None or host.lower() == "localhost" else (host.strip("[]"),)
    if port is not None and not 0 <= port <= 65535:
        raise InvalidError(f"{port} is not a port; a port is a number from 0 to 65535")
    ports = [port] if port is not None else [*range(USUAL_PORT, USUAL_PORT + _TRIED + 1), 0]
    for number in ports:
        try:
            return _bound(hosts, number)
        except OSError as exc:
            if exc.errno != errno.EADDRINUSE or number == ports[-1]:
                raise _explained(exc, hosts[0], number) from None
    raise AssertionError("the last port raises")


def _explained(exc: OSError, host: str, port: int) -> Exception:
    match exc.errno:
        case errno.EADDRINUSE:
            return InvalidError(f"port {port} of {host} is taken by another program; choose another --port")
        case errno.EACCES:
            return InvalidError(f"port {port} may not be used by this user; choose one above 1023")
        case errno.EADDRNOTAVAIL:
            return InvalidError(f"{host} is not an address of this machine; choose another --host")
    if isinstance(exc, socket.gaierror):
        return InvalidError(f"{host} is not the name of a host: {exc.strerror}")
    return exc


def _bound(hosts: tuple[str, ...], port: int) -> list[socket.socket]:
    """A socket for each address. Of the loopback addresses one may be missing, but not be taken."""
    found: list[socket.socket] = []
    for _ in range(_TRIED):
        number = port
        try:
            for host in hosts:
                for family, address in _addresses(host, number):
                    try:
                        one = _socket(family, address)
                    except OSError as exc:
                        if found and exc.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                            continue  # this machine has no IPv6
                        raise
                    found.append(one)
                    number = one.getsockname()[1]
        except OSError as exc:
            for one in found:
                one.close()
            if port == 0 and found and exc.errno == errno.EADDRINUSE:
                found = []
                continue  # free for one address, taken for the other
            raise
        return found
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def _addresses(host: str, port: int) -> list[tuple[int, tuple[str, int]]]:
    flags = socket.AI_PASSIVE if host else 0
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    except socket.gaierror:
        if host == "::1":
            return []
        raise
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))  # type: ignore[misc]


def _socket(family: int, address: tuple[str, int]) -> socket.socket:
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(address)
        one.listen(_BACKLOG)
        one.setblocking(False)
    except BaseException:
        one.close()
        raise
    return one


def listen_on_path(path: Path) -> socket.socket:
    """Listen on a socket in the file system that only this user may use. A socket that is left of a server
    that was killed is replaced; one that is listened on, and a file that is no socket, are not."""
    _check_free(path)
    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)
        try:
            one.bind(os.fspath(path))
        finally:
            os.umask(before)
        one.listen(_BACKLOG)
        one.setblocking(False)
    except OSError as exc:
        one.close()
        if "too long" in str(exc):
            raise InvalidError(f"{path} is too long for the path of a socket; choose a shorter one") from None
        raise OSError(exc.errno, exc.strerror, os.fspath(path)) from None
    return one


def _check_free(path: Path) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise InvalidError(f"{path} is there already and is not a socket; choose another --unix-socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
        one.settimeout(1.0)
        try:
            one.connect(os.fspath(path))
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except OSError as exc:
            raise InvalidError(f"{path} cannot be used: {exc.strerror or exc}") from None
    raise InvalidError(f"another server listens on {path}; stop it, or choose another --unix-socket")


def remove_path(path: Path, one: socket.socket, inode: tuple[int, int]) -> None:
    """Remove our socket, and no other that took its place."""
    one.close()
    try:
        found = os.lstat(path)
    except OSError:
        return
    if (found.st_dev, found.st_ino) == inode and stat.S_ISSOCK(found.st_mode):
        os.unlink(path)
