"""What of an address may be shown. It may be mistyped, so this does not rely on taking it apart."""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "***"
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SECRET: Final = r"(?:pas|psw|pwd|secret|token|key|credential|signature)"
_CALLS_SECRET: Final = re.compile(_SECRET, re.IGNORECASE)
_NAME: Final = re.compile(r"[\w-]+")
_ADDRESS: Final = re.compile(r"(?<!\S)\S*://\S*[:=]\S*")
_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")
_NAMED: Final = re.compile(
    rf"({_SECRET}[\w-]{{0,200}}\s{{0,20}}(?:=|%3d)\s{{0,20}})"
    r"('(?:[^'\\]|\\.)*'?|[^&\s]*)",
    re.IGNORECASE,
)
"""A password by its name, as in a query or in the settings of a driver."""


def masked(address: str) -> str:
    """The address without what may be a password: everything from the first colon behind the scheme to the
    last @, and what the name of a setting calls a secret."""
    scheme = _SCHEME.match(address)
    begin = scheme.end() if scheme else 0
    colon, end = address.find(":", begin), address.rfind("@")
    if 0 <= colon < end:
        address = f"{address[: colon + 1]}{MASK}{address[end:]}"
    return masked_settings(address)


def masked_settings(text: str) -> str:
    """The text without what the name of a setting in it calls a secret."""
    return _NAMED.sub(rf"\1{MASK}", text)


def masked_addresses(text: str) -> str:
    """A sentence in which there may be addresses."""
    return _ADDRESS.sub(lambda found: masked(found[0]), text)


def is_secret(name: str) -> bool:
    """Whether a setting of this name is a password or leads to one."""
    return _NAME.fullmatch(name) is not None and _CALLS_SECRET.search(name) is not None


def may_hold_password(path: str) -> bool:
    """Whether a plain path is more likely the address of a server with its beginning mistyped, or the
    settings of a driver: it must be shown nowhere, and no file be made of it."""
    if _DRIVE.match(path):  # a drive
        return False
    return masked(path) != path
