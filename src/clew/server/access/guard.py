"""What is checked before anything else: under which name a server is asked for, and by whose page.

A page of another site can make a browser send requests to this machine. So a request has to name a host that
is this server's own (a name that an attacker points here is none), a page that sends one has to be our own,
and a cookie alone is never enough to change something. Pure: it decides by the request and the settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from clew.errors import InvalidError
from clew.server.problems import Problem
from clew.server.process.settings import Settings

LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
FORWARDED: Final = frozenset(
    {"forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via"}
)
"""A request with one of these came through a proxy, or pretends to."""
SINGLE: Final = frozenset(
    {
        b"authorization", b"clew-lease", b"content-length", b"content-type", b"host", b"idempotency-key",
        b"if-match", b"last-event-id", b"mcp-method", b"mcp-name", b"mcp-protocol-version", b"origin",
        b"sec-fetch-site",
    }
)  # fmt: skip
"""Headers that a request may have once only: of two, each reader might believe another one."""
JSON_TYPES: Final = ("application/json", "application/merge-patch+json")
_PORTS: Final = {"http": 80, "https": 443}
_ALLOWED_HEADERS: Final = (
    "authorization, clew-lease, content-encoding, content-type, idempotency-key, if-match, if-none-match,"
    " last-event-id, mcp-method, mcp-name, mcp-protocol-version"
)
_SHOWN_HEADERS: Final = "content-disposition, etag, link, location, retry-after"
_METHODS: Final = "GET, POST, PUT, PATCH, DELETE"

SAFE_HEADERS: Final[Mapping[str, str]] = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""On every answer; a page of our own replaces the policy."""
SHOWN_TYPES: Final = ("application/json", "application/problem+json", "text/event-stream", "text/plain")
"""What a browser may show. All else is offered as a file."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Under which name a request came, and from where."""

    host: str
    """As `127.0.0.1:8731`."""
    port: int | None
    origin: str | None
    """Of the page that sent it; None: no page did, or a browser that does not say."""
    is_own_page: bool
    """The page is one of this server."""
    is_https: bool
    client: str
    """The address of the caller, for limits and the log. Empty: a Unix socket has none, or none is known."""
    is_local: bool
    """It came from this machine, and through no proxy."""
    ends: tuple[Any, Any] = (None, None)
    """Of its connection: host and port of the client, and of the server; None: it has none."""


class Guard:
    """The door of one application."""

    def __init__(self, settings: Settings) -> None:
        self._proxy = settings.proxy
        self._hosts = {host.lower() for host in settings.hosts}
        self._public: str | None = None
        if settings.public_url is not None:
            scheme, host = _public(settings.public_url)
            self._hosts.add(host)
            self._public = f"{scheme}://{host}"
        self._cors = frozenset(_checked_origin(origin) for origin in settings.cors)

    def check(self, scope: Mapping[str, Any], headers: Mapping[str, str]) -> Asked:
        """Refuse what was sent to another name, by another page, or in two ways at once."""
        _check_single(scope["headers"])
        host = headers.get("host", "").lower()
        port = self._port(scope, host)
        scheme = scope.get("scheme", "http")
        origin = headers.get("origin")
        own = {f"{scheme}://{host}", self._public}
        if origin is not None and origin not in own and origin not in self._cors:
            raise _foreign(origin)
        client = self._client(scope, headers)
        is_behind = self._proxy or not FORWARDED.isdisjoint(headers)
        return Asked(
            host=host,
            port=port,
            origin=origin,
            is_own_page=origin is not None and origin in own,
            is_https=scheme == "https" or (origin or "").startswith("https://"),
            client=client,
            is_local=not is_behind and (_is_loopback(client) if client else _is_unix_socket(scope)),
            ends=(scope.get("client"), scope.get("server")),
        )

    def check_cookie(self, asked: Asked, method: str, headers: Mapping[str, str]) -> None:
        """A browser sends a cookie whoever asks it to: so the request has to show that a page of ours did."""
        site = headers.get("sec-fetch-site")
        if site not in (None, "same-origin", "none"):
            raise _foreign_cookie(f"another site ({site[:20]!r}) made the browser send it")
        if asked.origin is not None and not asked.is_own_page:
            raise _foreign_cookie("a page of another origin sent it")
        if method in ("GET", "HEAD"):
            return
        if not asked.is_own_page:
            raise _foreign_cookie("it has no Origin that is this server's own")
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method == "POST" and media_type not in JSON_TYPES:  # all that a form of another site can send
            raise _foreign_cookie("it is not application/json")

    # -- CORS

    def cors_headers(self, asked: Asked) -> dict[str, str]:
        """For a page of an origin that the settings name; never with cookies."""
        if asked.origin is None or asked.origin not in self._cors:
            return {}
        return {
            "access-control-allow-origin": asked.origin,
            "access-control-expose-headers": _SHOWN_HEADERS,
            "cross-origin-resource-policy": "cross-origin",
            "vary": "origin",
        }

    def preflight(self, asked: Asked, headers: Mapping[str, str]) -> dict[str, str]:
        """What a browser may do for such a page. Problem 403: nothing."""
        allowed = self.cors_headers(asked)
        if not allowed:
            raise Problem(
                403,
                "foreign_origin",
                "Pages of other sites may not call this server",
                "no CORS is allowed here",
                next="clew serve --cors ORIGIN allows one origin",
            )
        allowed["access-control-allow-methods"] = _METHODS
        allowed["access-control-allow-headers"] = _ALLOWED_HEADERS
        allowed["access-control-max-age"] = "600"
        if headers.get("access-control-request-private-network") == "true":
            allowed["access-control-allow-private-network"] = "true"
        return allowed

    # -- parts

    def _port(self, scope: Mapping[str, Any], host: str) -> int | None:
        """The port of the name by which it is asked for. Problem 421: the name is none of ours."""
        served = scope.get("server") or ("", None)
        port: int | None = served[1]
        if host in self._hosts or host in _loopback_hosts(port, scope.get("scheme", "http")):
            return _port_in(host)
        address = f"[{served[0]}]" if ":" in served[0] else served[0]
        if _is_address(served[0]) and host == f"{address}:{port}":
            return port  # by its number no name can lead here
        raise Problem(
            421,
            "wrong_host",
            "The server is not known by this name",
            f"the request is for {host[:100]!r}",
            next="start the server with --public-url and the address that people use, or ask for"
            f" {LOOPBACK[1] if port is None else f'{LOOPBACK[1]}:{port}'}",
        )

    def _client(self, scope: Mapping[str, Any], headers: Mapping[str, str]) -> str:
        if self._proxy and (told := headers.get("x-forwarded-for", "")):
            # The last one is what our own proxy saw; those before it are what the client said.
            return told.rpartition(",")[2].strip()[:64]
        found = scope.get("client")
        return found[0] if found else ""


def attachment(name: str, *, media_type: str = "application/octet-stream") -> dict[str, str]:
    """Headers for content that others wrote: it is saved, never shown, whatever it holds or is called."""
    plain = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in " ._-()") else "_" for letter in name
    )
    return {
        "content-type": media_type,
        "content-disposition": f'attachment; filename="{plain[-100:].strip() or "file"}";'
        f" filename*=UTF-8''{quote(name[-100:], safe='', errors='replace')}",
    }


def as_file(headers: dict[str, str], media_type: str) -> None:
    """Offer as a file what a browser is not to show."""
    kind = media_type.partition(";")[0].strip()
    if kind not in SHOWN_TYPES and "content-disposition" not in headers:
        headers["content-disposition"] = "attachment"


def _check_single(headers: Iterable[tuple[bytes, bytes]]) -> None:
    seen = set()
    for name, _ in headers:
        if name in SINGLE and name in seen:
            raise Problem(
                400,
                "invalid_header",
                "A header is there twice",
                f"a request has one {name.decode('latin-1')}",
            )
        seen.add(name)


@lru_cache(10)
def _loopback_hosts(port: int | None, scheme: str) -> list[str]:
    """Without a port on a socket that has none, and on the usual port of the scheme."""
    ported = [] if port is None else [f"{name}:{port}" for name in LOOPBACK]
    return [*ported, *LOOPBACK] if port is None or port == _PORTS.get(scheme) else ported


def _port_in(host: str) -> int | None:
    _, colon, digits = host.rpartition(":")
    return int(digits) if colon and digits.isdigit() else None


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


@lru_cache(1000)
def _is_loopback(client: str) -> bool:
    try:
        return ip_address(client).is_loopback
    except ValueError:
        return False


def _is_unix_socket(scope: Mapping[str, Any]) -> bool:
    """Whether a request without an address came by a socket in the file system, which has no port. No address
    is known either of a client that has reset its connection, and that one may be anywhere."""
    served = scope.get("server")
    return served is not None and served[1] is None


def _public(url: str) -> tuple[str, str]:
    """The scheme and the host of an address, as a browser writes them."""
    found = urlsplit(url)
    if found.scheme not in _PORTS or not found.hostname or found.query or found.fragment or found.username:
        raise InvalidError(f"a public URL is of the form https://host/path, not {url!r}")
    name = f"[{found.hostname}]" if ":" in found.hostname else found.hostname
    port = "" if found.port in (None, _PORTS[found.scheme]) else f":{found.port}"
    return found.scheme, f"{name}{port}"


def _checked_origin(origin: str) -> str:
    found = urlsplit(origin)
    if not found.scheme or not found.netloc or f"{found.scheme}://{found.netloc}" != origin:
        raise InvalidError(f"an origin is of the form https://host, as a browser writes it, not {origin!r}")
    return origin


def _foreign(origin: str) -> Problem:
    return Problem(
        403,
        "foreign_origin",
        "Pages of other sites may not call this server",
        f"the request was made by a page of {origin[:100]!r}",
        next="open the page of this server itself; behind a proxy start it with --public-url",
    )


def _foreign_cookie(detail: str) -> Problem:
    return Problem(
        403,
        "foreign_request",
        "A cookie alone is not enough",
        detail,
        next="programs send Authorization: Bearer TOKEN",
    )
