"""From an address to a backend, with passwords masked in what is shown."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from clew.backends.contract import Backend
from clew.errors import InvalidUrlError

# ── What of an address may be shown. It may be mistyped, so this does not rely on taking it apart ───

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


# ── From the address of a store to its backend. A new backend is one line here ────────────────────

SCHEMES: Final = {
    "http": ("clew.backends.http.backend", "HttpBackend"),
    "https": ("clew.backends.http.backend", "HttpBackend"),
    "jsonl": ("clew.backends.jsonl", "JsonlBackend"),
    "memory": ("clew.backends.memory", "MemoryBackend"),
    "postgres": ("clew.backends.postgres", "PostgresBackend"),
    "postgresql": ("clew.backends.postgres", "PostgresBackend"),
    "sqlite": ("clew.backends.sqlite", "SqliteBackend"),
}

KINDS: Final[dict[str, tuple[Any, str]]] = {
    "insecure": (bool, "True or False"),
    "partitions": (int, "a number"),
    "pgbouncer": (bool, "True or False"),
    "pool": (int, "a number"),
    "read_only": (bool, "True or False"),
    "sharded": (bool, "True or False"),
    "timeout": ((int, float), "a number of seconds"),
}
"""Of the options of all backends: what is not a text."""

OF_FILES: Final = frozenset({"jsonl", "sqlite"})
"""Schemes whose addresses are paths."""

DRIVERS: Final = {"http": "urllib3>=2", "https": "urllib3>=2", "postgresql": "psycopg[binary]>=3.2"}
"""What pip installs for a scheme, if that is not the package itself. A package is named, not an extra of
Clew: that works for an install from a checkout too."""


def connect(url: str | os.PathLike[str] | None = None, **options: Any) -> Backend:
    """Open the backend that an address names; without one, the user's own store."""
    scheme, path, given = parse(url)
    return backend_of(scheme, path, {**given, **options})


def backend_of(scheme: str, path: str, options: dict[str, Any]) -> Backend:
    """Open the backend of a scheme; path and options are as `parse` gives them."""
    module, name = SCHEMES[scheme]
    try:
        factory = getattr(import_module(module), name)
    except ModuleNotFoundError as exc:
        driver = DRIVERS.get(scheme, exc.name)
        raise InvalidUrlError(
            f"{scheme} addresses need the package {exc.name}: pip install '{driver}'"
        ) from exc
    _check_options(factory, scheme, options)
    return cast("Backend", factory(*([path] if path else []), **options))


def _check_options(factory: Any, scheme: str, options: dict[str, Any]) -> None:
    """An option that is not known, or of the wrong kind, is named; never the address, which may hold a
    password."""
    known = factory.__init__.__kwdefaults__ or {}
    for name, value in options.items():
        if name not in known:
            there_is = f"there is {', '.join(sorted(known))}" if known else "it has none"
            raise InvalidUrlError(f"a {scheme} store has no option {name!r}; {there_is}")
        kinds, said = KINDS.get(name, (str, "a text"))
        is_right = isinstance(value, kinds) and (kinds is bool or not isinstance(value, bool))
        if not is_right and not (value is None and known[name] is None):
            shown = MASK if is_secret(name) else repr(value)
            raise InvalidUrlError(f"{name} of a {scheme} store is {said}, not {shown}")
        if name == "timeout" and value is not None and not value >= 0:
            raise InvalidUrlError(f"timeout of a {scheme} store is {said} from 0 on, not {value!r}")


def parse(url: str | os.PathLike[str] | None) -> tuple[str, str, dict[str, Any]]:
    """Scheme, path and options of an address."""
    if url is None:
        url = os.environ.get("CLEW_STORE") or default_path()
    if not isinstance(url, str):
        return _of_path(os.fspath(url))
    if not url:
        raise InvalidUrlError("the address of a store must not be empty")
    if url in ("memory:", "memory://", ":memory:"):
        return "memory", "", {}
    if url.startswith("memory:"):
        raise InvalidUrlError(f"{masked(url)}: a memory store is just memory:, without path or options")
    if "://" not in url:
        if (scheme := url.partition(":")[0]) in SCHEMES and ":" in url:
            raise InvalidUrlError(
                f"{masked(url)}: an address begins with {scheme}://; for a file of this name, pass a Path"
            )
        if may_hold_password(url) and not Path(url).exists():
            raise InvalidUrlError(
                f"{masked(url)} is no path: the address of a server begins with postgresql://;"
                " for a file of this name, pass a Path"
            )
        return _of_path(url)
    if url.startswith(("postgresql://", "postgres://")):
        return "postgresql", url, {}  # the backend knows which of its options are the driver's
    if url.startswith(("https://", "http://")):
        return url.partition(":")[0], url, {}
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit(url.partition(":")[0] + ":")
    if parts.scheme not in SCHEMES:
        known = ", ".join(f"{scheme}:" for scheme in sorted(SCHEMES))
        raise InvalidUrlError(f"no backend for {parts.scheme}: addresses; there is {known} and plain paths")
    path = _path_of(url, parts)
    return parts.scheme, path, dict(_option(name, value, url) for name, value in parse_qsl(parts.query))


def _path_of(url: str, parts: SplitResult) -> str:
    """`sqlite:///srv/agents.db` is an absolute path, as in any URL; `sqlite://./agents.db` a relative one."""
    if parts.netloc and parts.netloc not in (".", ".."):
        raise InvalidUrlError(
            f"{masked(url)}: a {parts.scheme} address has three slashes before an absolute path; one that is"
            f" relative to the current directory is"
            f" {masked(f'{parts.scheme}://./{parts.netloc}{parts.path}')}"
        )
    path = unquote(parts.path)
    if not path.strip("/"):
        raise InvalidUrlError(f"{masked(url)} names no file")
    if parts.netloc:
        return parts.netloc + path
    relative = path.lstrip("/")
    is_meant = relative.startswith(("./", "../")) or (Path(relative).exists() and not Path(path).exists())
    if is_meant and not parts.path.startswith("//"):  # three slashes began a relative path once
        meant = relative if relative.startswith(("./", "../")) else f"./{relative}"
        raise InvalidUrlError(
            f"{masked(url)} is the absolute path {masked(path)}; for {masked(os.path.abspath(relative))}"
            f" write {masked(f'{parts.scheme}://{meant}')}"
        )
    return f"/{relative}"


def whole(address: str) -> str:
    """An address that means the same in every directory."""
    scheme, path, _ = parse(address)
    if scheme not in OF_FILES or os.path.isabs(path):
        return address
    if not address.startswith(f"{scheme}:"):
        return os.path.abspath(path)
    options = address.partition("?")[2]
    return f"{scheme}://{quote(os.path.abspath(path))}{f'?{options}' if options else ''}"


def _of_path(path: str) -> tuple[str, str, dict[str, Any]]:
    """A file is an SQLite store; a directory that holds a JSONL store, or nothing, is one of those."""
    if not Path(path).is_dir():
        return "sqlite", path, {}
    if not (Path(path, "clew.json").exists() or _is_empty(path)):
        raise InvalidUrlError(
            f"{path} is a directory and holds no JSONL store; for SQLite name a file, such as {path}/clew.db"
        )
    return "jsonl", path, {}


def _is_empty(path: str) -> bool:
    with os.scandir(path) as files:
        return next(files, None) is None


def _option(name: str, value: str, url: str) -> tuple[str, Any]:
    try:
        match name:
            case "timeout":
                return name, float(value)
            case "read_only":
                return name, {"true": True, "1": True, "false": False, "0": False}[value]
            case _:
                return name, value
    except (ValueError, KeyError):
        pass  # its message repeats the value, which may be a password in the wrong place
    raise InvalidUrlError(f"{masked(url)}: {masked(value)!r} is no value for {name}")


def default_path() -> str:
    """The user's own store, where this system keeps the data of programs."""
    home = Path.home()
    if sys.platform == "darwin":
        base = home / "Library" / "Application Support"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    return str(base / "clew" / "clew.db")
