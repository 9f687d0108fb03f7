"""The address of a remote store: where the server is, and what may be shown of it."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import msgspec

from clew.backends.registry import is_secret
from clew.errors import InvalidUrlError

PORTS: Final = {"http": 80, "https": 443}
_OPTIONS: Final = ("ca", "insecure", "read_only", "timeout")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_TRUTH: Final = {"true": True, "1": True, "false": False, "0": False}


class Address(msgspec.Struct, frozen=True):
    """Where a server is."""

    scheme: str
    host: str
    port: int
    path: str
    """The path below which it answers, without a slash at its end."""
    options: dict[str, Any]

    @property
    def shown(self) -> str:
        """For messages and logs. There is no secret in an address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"

    @property
    def is_loopback(self) -> bool:
        return self.host in _LOOPBACK or self.host.startswith("127.")


def parse_address(url: str) -> Address:
    """Take an address apart. Errors do not repeat what may be a secret."""
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname or ""
    except ValueError:
        port, host, parts = None, "", urlsplit("")
    if "@" in url.partition("://")[2].partition("?")[0]:
        raise InvalidUrlError(
            "the address of a server holds no user and no password:"
            " pass token=… to clew.open(), or set CLEW_TOKEN"
        )
    if not host:
        raise InvalidUrlError("the address of a server is https://host, or https://host:port/path")
    if parts.fragment or "#" in url:
        raise InvalidUrlError(
            "the address ends with a # and what follows it, as in a browser: leave that out, and pass token=…"
        )
    options: dict[str, Any] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in _OPTIONS:
            hint = "pass token=… to clew.open(), or set CLEW_TOKEN" if is_secret(name) else _known()
            raise InvalidUrlError(f"the address of a server has no option {name[:40]!r}: {hint}")
        options[name] = _value(name, value)
    path = parts.path.rstrip("/")
    return Address(parts.scheme, host, port or PORTS[parts.scheme], path, options)


def _known() -> str:
    return f"there is {', '.join(_OPTIONS)}"


def _value(name: str, value: str) -> Any:
    try:
        if name == "timeout":
            return float(value)
        return _TRUTH[value.lower()] if name in ("insecure", "read_only") else value
    except (KeyError, ValueError):
        pass  # its message repeats the value, which may be a secret in the wrong place
    raise InvalidUrlError(f"the option {name} of a server has a value that it cannot have")
