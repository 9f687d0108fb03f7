"""The address of a PostgreSQL store: what of it is ours, what is the driver's, and what may be shown."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

import msgspec

from clew.backends.postgres.blobs import check_blobs
from clew.errors import InvalidUrlError

DEFAULT_SCHEMA: Final = "clew"
SECRET: Final = ("password", "sslpassword", "passfile", "sslkey")
_OURS: Final = {
    "blobs": str,
    "partitions": int,
    "pgbouncer": bool,
    "pool": int,
    "read_only": bool,
    "schema": str,
    "scrub": str,
    "sharded": bool,
    "timeout": float,
}
_TRUTH: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


class Address(msgspec.Struct, frozen=True):
    """Where a store is."""

    conninfo: str
    """For the driver, the password included."""
    shown: str
    """For everybody else."""
    secrets: tuple[str, ...]
    """Texts that must not be in any message."""
    options: dict[str, Any]

    def __repr__(self) -> str:
        return f"<Address {self.shown}>"


def parse_address(url: str) -> Address:
    """Take an address apart. What is wrong with it is said without repeating what may be a password."""
    try:
        parts = urlsplit(url)
        _check_ports(parts.netloc.rpartition("@")[2])
    except ValueError:
        raise InvalidUrlError(
            "the address of a PostgreSQL store is postgresql://user:password@host:port/database;"
            " a password with special characters has to be percent-encoded"
        ) from None
    given = parse_qsl(parts.query, keep_blank_values=True)
    options = {name: _value(name, value) for name, value in given if name in _OURS}
    if "blobs" in options:
        check_blobs(options["blobs"])
    others = [(name, value) for name, value in given if name not in _OURS]
    shown_query = [(name, value) for name, value in given if name not in SECRET]
    secrets = [value for name, value in others if name in SECRET]
    user, at, hosts = parts.netloc.rpartition("@")
    name, colon, password = user.partition(":")
    if colon:
        secrets += [password, unquote(password)]
    shown = urlunsplit(("postgresql", name + at + hosts, parts.path, urlencode(shown_query, safe="/:"), ""))
    if not parts.netloc:
        shown = shown.replace("postgresql:", "postgresql://", 1) if "//" not in shown else shown
    conninfo = f"postgresql://{parts.netloc}{parts.path}"
    if others:
        conninfo += "?" + urlencode(others, quote_via=quote)
    return Address(conninfo, shown, tuple(text for text in secrets if text), options)


def _check_ports(hosts: str) -> None:
    """There may be several hosts, as in a,b or a:5432,b:5433, of which the driver takes one that answers."""
    for host in hosts.split(","):
        port = host.rpartition("]")[2].partition(":")[2]
        if port:
            int(port)


def _value(name: str, value: str) -> Any:
    try:
        return _TRUTH[value.lower()] if _OURS[name] is bool else _OURS[name](value)
    except (KeyError, ValueError):
        raise InvalidUrlError(f"{value!r} is no value for {name} of a PostgreSQL store") from None
