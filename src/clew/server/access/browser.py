"""How a browser signs in: a code that works once, swapped for a cookie that scripts cannot read.

The code stands in the fragment of the address, which no browser sends anywhere. It is a small file in the
user's state directory, named by its hash: any process of the server finds it, and the one that removes it has
used it. The cookie is signed with a key that follows from the own token of the server, so it lasts over a
restart, and ends when that token is made anew.
"""

from __future__ import annotations

import base64
import hmac
import os
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from blake3 import blake3

from clew.core.disk import NotPrivateError, read_private, write_private
from clew.server.access.state import path_of

CODE_LASTS: Final = 120
"""Seconds."""
MOST_CODES: Final = 8
"""Of one server at a time; the oldest goes."""
COOKIE_LASTS: Final = 7 * 24 * 3600
"""Seconds."""

_CODE: Final = re.compile(r"[A-Za-z0-9_-]{22}")
_ONCE: Final = "once"
_OWN: Final = " own"
_COOKIE: Final = re.compile(r"1\.([a-z0-9]{3,10})\.([0-9]{1,12})\.([0-9a-f]{16})\.([A-Za-z0-9_-]{43})")


# -- one-time codes


def new_code(location: str, now: float, *, own: bool = False) -> str:
    """128 random bits, good for one sign-in as the owner within two minutes. `own`: only for programs of this
    user. Others may see the code, as the argument of a command."""
    _forget_codes(location, now)
    code = secrets.token_urlsafe(16)
    said = str(round(now + CODE_LASTS)) + (_OWN if own else "")
    write_private(_code_path(location, code), said.encode(), replace=True)
    return code


def take_code(location: str, code: str, now: float, is_own: Callable[[], bool] = lambda: False) -> bool:
    """Whether it is one, the first time. It is looked for by its hash, so the time tells nothing of it.
    `is_own`: whether a program of this user shows it."""
    if not _CODE.fullmatch(code):
        return False
    path = _code_path(location, code)
    try:
        said = read_private(path, 20).decode("ascii")
        until = int(said.removesuffix(_OWN))
        if said.endswith(_OWN) and not is_own():
            return False  # it stays good for the one whose it is
        os.unlink(path)  # only one of those who try it at once can do that
    except (OSError, NotPrivateError, ValueError):
        return False
    return now < until


def _code_path(location: str, code: str) -> str:
    return path_of(location, f"{blake3(code.encode()).hexdigest(16)}.{_ONCE}")


def _forget_codes(location: str, now: float) -> None:
    """Remove codes that are over, and the oldest if there are many."""
    directory, prefix = os.path.split(path_of(location, ""))
    found: list[tuple[float, str]] = []
    with suppress(FileNotFoundError):
        for entry in os.scandir(directory):
            if entry.name.startswith(prefix) and entry.name.endswith(f".{_ONCE}"):
                with suppress(FileNotFoundError):
                    found.append((entry.stat(follow_symlinks=False).st_mtime, entry.path))
    found.sort()
    kept = [path for made, path in found if made > now - CODE_LASTS][-(MOST_CODES - 1) :]
    for _, path in found:
        if path not in kept:
            with suppress(FileNotFoundError):
                os.unlink(path)


# -- cookies


class Cookie(NamedTuple):
    """What a cookie says, once its signature was found to be right."""

    id: str
    """Of the principal."""
    until: int
    """In seconds since 1970."""
    nonce: str


def cookie_name(port: int | None) -> str:
    """Browsers do not tell ports of one machine apart, so the name does."""
    return "clew" if port is None else f"clew-{port}"


def cookie_key(own_token: str) -> bytes:
    return blake3(own_token.encode(), derive_key_context="clew 2026 server cookies").digest()


def signed_cookie(key: bytes, id: str, until: int) -> str:
    said = f"1.{id}.{until}.{secrets.token_hex(8)}"
    return f"{said}.{_signature(key, said)}"


def read_cookie(key: bytes, text: str, now: float) -> Cookie | None:
    """None: it is not ours, was changed, or is over."""
    found = _COOKIE.fullmatch(text)
    if found is None or not hmac.compare_digest(_signature(key, text.rpartition(".")[0]), found[4]):
        return None
    return Cookie(found[1], int(found[2]), found[3]) if now < int(found[2]) else None


def _signature(key: bytes, said: str) -> str:
    return base64.urlsafe_b64encode(blake3(said.encode(), key=key).digest()).decode().rstrip("=")


def cookies_in(header: str, name: str) -> list[str]:
    """The values of this name. A page of another port could have set one of the same name: all are tried."""
    pairs = (part.strip().partition("=") for part in header.split(";"))
    return [value for key, _, value in pairs if key == name][:4]


def set_cookie(name: str, value: str, *, path: str, secure: bool, lasts: int) -> str:
    """The header that keeps a cookie, or, with an empty value, removes it."""
    ending = "; Secure" if secure else ""
    return f"{name}={value}; Path={path}; Max-Age={lasts}; HttpOnly; SameSite=Strict{ending}"
