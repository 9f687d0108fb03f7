"""How a store is come by: with which rights, and over which wire. For `clew doctor`."""

from __future__ import annotations

from typing import Final

import msgspec
import psycopg

from clew.backends.postgres.address import parse_address
from clew.backends.postgres.connection import open_line
from clew.backends.postgres.failures import translate

_ROLE: Final = "SELECT rolname::text, rolsuper FROM pg_roles WHERE rolname = current_user"
_NEAR: Final = ("localhost", "127.0.0.1", "::1")


class Way(msgspec.Struct, frozen=True):
    role: str
    is_superuser: bool
    host: str
    is_near: bool
    """It does not leave this machine."""
    is_encrypted: bool
    is_verified: bool
    """The server has shown that it is the one that was named."""


def examine(url: str, timeout: float) -> Way:
    """Connect as a store does, and look. BackendUnavailableError and others if that is not possible."""
    address = parse_address(url)
    try:
        line = open_line(address.conninfo, timeout, prepares=False)
        try:
            ((role, is_superuser),) = line.ask(_ROLE, ())
            host = line.info.host
            return Way(
                role=role,
                is_superuser=is_superuser,
                host=host,
                is_near=host.startswith("/") or host in _NEAR,
                is_encrypted=line.pgconn.ssl_in_use,
                is_verified=line.info.get_parameters().get("sslmode") == "verify-full",
            )
        finally:
            line.close()
    except psycopg.Error as exc:
        error = translate(exc, address)
    raise error
