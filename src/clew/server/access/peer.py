"""Which user of this machine is at the other end of a connection. Linux tells it of every connection."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Iterator
from typing import Final

_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_LOCAL, _REMOTE, _USER, _INODE = 1, 2, 7, 9
"""Columns of these tables."""
_UNHELD: Final = "0"
"""The inode of a connection that no program holds any more. Its user is given as 0 then, like root."""
CAN_TELL: Final = sys.platform == "linux"
ROOT: Final = 0

Address = tuple[str, int]
"""A number of a host, and a port."""


def is_own_user(client: Address, server: Address) -> bool:
    """Whether a program of this user, or of root, who can read everything anyway, holds the client's end of a
    connection. False also where nothing tells."""
    found = user_of(client, server)
    return found is not None and found in (os.getuid(), ROOT)


def user_of(client: Address, server: Address) -> int | None:
    """The user whose program holds the client's end; None: nothing tells, or no program holds it any more."""
    try:
        wanted = set(zip(_written(client), _written(server), strict=True))
    except (TypeError, ValueError):
        return None  # no addresses of IP, or one of each kind
    for table in _TABLES:
        try:
            with open(table, encoding="ascii") as lines:
                for line in lines:
                    parts = line.split()
                    is_wanted = len(parts) > _INODE and (parts[_LOCAL], parts[_REMOTE]) in wanted
                    if is_wanted and parts[_INODE] != _UNHELD:
                        return int(parts[_USER])
        except (OSError, ValueError):
            continue
    return None


def _written(address: Address) -> Iterator[str]:
    """An address as the tables have it. One of IPv4 may also stand in that of IPv6."""
    host, port = address
    number = ipaddress.ip_address(str(host).partition("%")[0])
    yield f"{_hex(number.packed)}:{port:04X}"
    if isinstance(number, ipaddress.IPv4Address):
        yield f"{_hex(ipaddress.IPv6Address(f'::ffff:{number}').packed)}:{port:04X}"


def _hex(packed: bytes) -> str:
    """Words of four bytes, each in the order of this machine."""
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
