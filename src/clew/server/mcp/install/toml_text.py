"""Our server in the settings of Codex, which are TOML: put in, found, taken out. All else stays as it is.

A new entry comes to the end of the file, as text: there it is valid whatever stands before it.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from clew.errors import InvalidError
from clew.server.mcp.install.clients import SERVER, Client
from clew.server.mcp.install.entries import ForeignServerError, words_of
from clew.server.mcp.install.program import is_ours


def entry_in(text: str, client: Client, path: Path) -> dict[str, Any] | None:
    """As that of JSON."""
    servers = _values(text, path).get(client.keys[0], {})
    if not isinstance(servers, dict):
        raise InvalidError(f"{path}: {client.keys[0]} is not a table; correct it, then try again")
    entry = servers.get(SERVER)
    if entry is None:
        return None
    if not isinstance(entry, dict) or not is_ours(words_of(entry)):
        raise ForeignServerError(path, 1 + text.count("\n", 0, max(text.find(SERVER), 0)))
    return entry


def with_entry(text: str, client: Client, path: Path, entry: dict[str, Any]) -> str:
    """As that of JSON."""
    old = entry_in(text, client, path)
    if old is not None and old | entry == old:
        return text
    if old is None:
        new = _appended(text, client, entry)
    else:
        document = _document(text, path)
        for key, value in entry.items():
            document[client.keys[0]][SERVER][key] = value
        new = _dumped(document)
    _check(text, new, client, path, entry if old is None else old | entry)
    return new


def without_entry(text: str, client: Client, path: Path) -> str:
    """As that of JSON."""
    if entry_in(text, client, path) is None:
        return text
    document = _document(text, path)
    servers = document[client.keys[0]]
    del servers[SERVER]
    if not servers:
        del document[client.keys[0]]
    new = _dumped(document)
    if text.startswith(new.rstrip("\r\n")) and new.endswith(("\n\n", "\r\n\r\n")):
        new = new.removesuffix("\n").removesuffix("\r")  # the line before it was ours, too
    _check(text, new, client, path, None)
    return new


def is_empty(text: str, client: Client, path: Path) -> bool:
    """Whether nothing is set, and nothing is said in a comment."""
    return not text.strip()


def _appended(text: str, client: Client, entry: dict[str, Any]) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [f"[{client.keys[0]}.{SERVER}]"]
    # What JSON writes of texts and of lists of them is TOML, too.
    lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
    before = text if not text or text.endswith("\n") else text + newline
    return before + (newline if text.strip() else "") + newline.join(lines) + newline


def _values(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as exc:
        raise InvalidError(f"{path}: it is not valid TOML: {exc}; correct it, then try again") from exc


def _document(text: str, path: Path) -> Any:
    """To be changed in place."""
    try:
        import tomlkit
        from tomlkit.exceptions import TOMLKitError
    except ModuleNotFoundError as exc:
        raise InvalidError("a package is missing: tomlkit; pip install tomlkit") from exc
    try:
        document = tomlkit.parse(text)
    except TOMLKitError as exc:
        raise _unchangeable(path) from exc
    if tomlkit.dumps(document) != text:
        raise _unchangeable(path)
    return document


def _dumped(document: Any) -> str:
    import tomlkit

    return tomlkit.dumps(document)


def _unchangeable(path: Path) -> InvalidError:
    return InvalidError(
        f"{path} is written in a way that this cannot change; nothing was changed; change the table "
        f"mcp_servers.{SERVER} by hand"
    )


def _check(before: str, after: str, client: Client, path: Path, entry: dict[str, Any] | None) -> None:
    """A change may touch nothing but our entry."""
    old = _values(before, path)
    try:
        new = tomllib.loads(after)
    except tomllib.TOMLDecodeError as exc:
        raise _unchangeable(path) from exc
    servers = new.get(client.keys[0], {})
    if servers.get(SERVER) != entry or _foreign(old, client) != _foreign(new, client):
        raise _unchangeable(path)


def _foreign(values: dict[str, Any], client: Client) -> dict[str, Any]:
    rest = {key: value for key, value in values.items() if key != client.keys[0]}
    servers = {key: value for key, value in values.get(client.keys[0], {}).items() if key != SERVER}
    return rest | {client.keys[0]: servers} if servers else rest
