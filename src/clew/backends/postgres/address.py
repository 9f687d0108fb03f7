"""The address of a PostgreSQL store: options for Clew, options for the driver, and what may be shown."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import (
    SplitResult,
    parse_qsl,
    quote,
    quote_from_bytes,
    unquote,
    unquote_to_bytes,
    urlencode,
    urlsplit,
    urlunsplit,
)

import msgspec

from clew.backends.registry import MASK, is_secret, masked, masked_settings
from clew.errors import InvalidUrlError

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
_SHOWN: Final = (
    "application_name", "connect_timeout", "dbname", "host", "hostaddr", "load_balance_hosts", "options",
    "port", "sslmode", "sslrootcert", "target_session_attrs", "user",
)  # fmt: skip
"""Settings of the driver that may be shown. Any other may be a password under a mistyped name."""
_NAME: Final = re.compile(r"\w+", re.ASCII)
_SIGN: Final = re.compile("[:@]")
_TRUTH: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


class Address(msgspec.Struct, frozen=True):
    """Where a store is."""

    conninfo: str
    """For the driver, the password included."""
    shown: str
    """For messages and logs."""
    secrets: tuple[str, ...]
    """Texts that must not be in any message."""
    options: dict[str, Any]

    def __repr__(self) -> str:
        return f"<Address {self.shown}>"


def parse_address(url: str) -> Address:
    """Take an address apart. Errors never repeat a part that may be a password."""
    parts = _parts(url)
    if parts is None:
        raise InvalidUrlError(
            "the address of a PostgreSQL store is postgresql://user:password@host:port/database;"
            " percent-encode special characters of a password"
        )
    given = parse_qsl(parts.query, keep_blank_values=True)
    options = {name: _value(name, value) for name, value in given if name in _OURS}
    if "blobs" in options:
        check_blobs(options["blobs"])
    others = [(name, value) for name, value in given if name not in _OURS]
    shown_query = [
        (name, masked_settings(value) if name in (*_OURS, *_SHOWN) else MASK)
        for name, value in given
        if not is_secret(name)
    ]
    secrets = [value for name, value in others if name not in _SHOWN]
    user, at, hosts = parts.netloc.rpartition("@")
    name, colon, password = user.partition(":")
    # The user's name ends at the first sign: after it may be a password whose colon was mistyped.
    known, _, more = _SIGN.sub("\0", unquote(name), count=1).partition("\0")
    secrets += [password, unquote(password), more]
    account = _encoded(name) + (f":{_encoded(password)}" if colon else "")
    shown_name = quote(known) if more else name
    shown = urlunsplit(
        ("postgresql", shown_name + at + hosts, parts.path, urlencode(shown_query, safe="/:*"), "")
    )
    if not parts.netloc:
        shown = shown.replace("postgresql:", "postgresql://", 1) if "//" not in shown else shown
    conninfo = f"postgresql://{account}{at}{hosts}{parts.path}"
    if others:
        conninfo += "?" + urlencode(others, quote_via=quote)
    return Address(conninfo, shown, tuple(text for text in secrets if text), options)


def _encoded(text: str) -> str:
    """Percent-encoded as the driver wants it, whether it was encoded before or not."""
    return quote_from_bytes(unquote_to_bytes(text), safe="")


def _parts(url: str) -> SplitResult | None:
    """The parts of an address; None if it cannot be read. An unencoded /, ?, # or @ in a password moves the
    borders of all parts after it, so each part must look like what belongs there."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    hosts = parts.netloc.rpartition("@")[2]
    named = all(_NAME.fullmatch(name) for name, _ in parse_qsl(parts.query, keep_blank_values=True))
    is_whole = named and not parts.fragment and "#" not in url and "@" not in parts.path and _are_hosts(hosts)
    return parts if is_whole else None


def _are_hosts(hosts: str) -> bool:
    """There may be several, as in a,b or a:5432,b:5433: the driver takes the first that answers."""
    ports = (host.rpartition("]")[2].partition(":")[2] for host in hosts.split(","))
    return all(not port or (port.isascii() and port.isdecimal()) for port in ports)


def _value(name: str, value: str) -> Any:
    try:
        return _TRUTH[value.lower()] if _OURS[name] is bool else _OURS[name](value)
    except (KeyError, ValueError):
        pass  # its message repeats the value, which may be a password in the wrong place
    raise InvalidUrlError(f"{masked(value)!r} is not a value for the option {name} of a PostgreSQL store")


def check_blobs(address: str) -> None:
    """Refuse an address that may hold a password: addresses are shown. The error does not repeat it."""
    try:
        parts = urlsplit(address)
    except ValueError:
        parts = urlsplit("")
    if not parts.scheme or "@" in (parts.netloc if parts.scheme == "file" else address) or parts.query:
        raise InvalidUrlError(
            "blobs is an address such as s3://bucket/prefix or file:///directory, without keys and options;"
            " set those in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL …)"
        )
