"""Our server in the settings of a client that are JSON: put in, found, taken out. All else stays as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clew.errors import InvalidError
from clew.importers.settings import json_text
from clew.importers.settings.json_text import BOM, Node, NotJsonError
from clew.server.mcp.install.clients import SERVER, Client
from clew.server.mcp.install.program import is_ours


class ForeignServerError(InvalidError):
    """A server of our name is not ours."""

    def __init__(self, path: Path, line: int) -> None:
        super().__init__(
            f"{path}:{line}: there is a server {SERVER!r} that does not start `clew mcp`; "
            "give it another name, then try again"
        )


def entry_in(text: str, client: Client, path: Path) -> dict[str, Any] | None:
    """Our entry. None: there is none. ForeignServerError: it is not ours. InvalidError: the settings are not
    as the client wants them."""
    node = _servers(text, client, path)
    found = None if node is None else node.value.get(SERVER)
    if found is None:
        return None
    entry = found.plain()
    if not isinstance(entry, dict) or not is_ours(words_of(entry)):
        raise ForeignServerError(path, text.count("\n", 0, found.start) + 1)
    return entry


def words_of(entry: dict[str, Any]) -> list[object]:
    """What an entry starts, in the shape of any client."""
    command, args = entry.get("command"), entry.get("args")
    words = command if isinstance(command, list) else [command]
    return [*words, *args] if isinstance(args, list) else words


def with_entry(text: str, client: Client, path: Path, entry: dict[str, Any]) -> str:
    """The settings with our entry. What others added to it stays."""
    old = entry_in(text, client, path)
    new = text if text.lstrip(BOM).strip() else "{}\n"
    if old is None:
        new = _with_server(new, client, path, entry)
    else:
        for key, value in entry.items():
            servers = _servers(new, client, path)
            assert servers is not None
            node = servers.value[SERVER]
            if key not in node.value:
                new = json_text.with_member(new, node, key, value)
            elif node.value[key].plain() != value:
                new = json_text.with_value(new, node.value[key], value)
    _check(text, new, client, path)
    return new


def without_entry(text: str, client: Client, path: Path) -> str:
    """The settings without our entry, and without an object that only it was in."""
    if entry_in(text, client, path) is None:
        return text
    root = _root(text, client, path)
    nodes = [root, *_nodes(root, client)]
    keys = [*_keys(root, client), SERVER]
    depth = len(keys) - 1
    while depth and len(nodes[depth].value) == 1 and not nodes[depth].is_commented:
        depth -= 1
    new = json_text.without_member(text, nodes[depth], keys[depth])
    _check(text, new, client, path)
    return new


def is_empty(text: str, client: Client, path: Path) -> bool:
    """Whether nothing is set, and nothing is said in a comment."""
    root = _root(text, client, path)
    said = [value for key, value in root.plain().items() if key not in ("$schema", "version")]
    return not any(said) and not root.is_commented


def _with_server(text: str, client: Client, path: Path, entry: dict[str, Any]) -> str:
    """With a new last server."""
    root = _root(text, client, path)
    keys = _keys(root, client)
    nodes = [root, *_nodes(root, client)]
    value: Any = entry
    for key in reversed([*keys, SERVER][len(nodes) :]):
        value = {key: value}
    return json_text.with_member(text, nodes[-1], [*keys, SERVER][len(nodes) - 1], value)


def _keys(root: Node, client: Client) -> tuple[str, ...]:
    """Where servers stand in this file. OpenCode 2 reads what OpenCode 1 wrote; a file of its own kind has
    one object more."""
    if client.name == "opencode":
        servers = root.plain().get("mcp")
        own = servers.get("servers") if isinstance(servers, dict) else None
        if isinstance(own, dict) and "type" not in own:
            return (*client.keys, "servers")
    return client.keys


def _nodes(root: Node, client: Client) -> list[Node]:
    """The objects on the way to our entry, as far as they are there."""
    found = []
    node = root
    for key in _keys(root, client):
        if key not in node.value:
            break
        node = node.value[key]
        found.append(node)
    return found


def _servers(text: str, client: Client, path: Path) -> Node | None:
    """The object that holds servers. None: there is none yet."""
    if not text.lstrip(BOM).strip():
        return None
    root = _root(text, client, path)
    nodes = _nodes(root, client)
    return nodes[-1] if len(nodes) == len(_keys(root, client)) else None


def _root(text: str, client: Client, path: Path) -> Node:
    """The settings, if they have the shape that the client wants."""
    try:
        root = json_text.parse(text, comments=client.takes_comments, last_commas=client.takes_last_commas)
    except NotJsonError as exc:
        raise InvalidError(
            f"{path}:{exc.line}: it is not valid JSON: {exc.reason}; correct it, then try again"
        ) from exc
    if not isinstance(root.value, dict):
        raise InvalidError(f"{path}:1: the settings are not an object in braces; correct it, then try again")
    node = root
    for key in client.keys:
        if key not in node.value:
            break
        node = node.value[key]
        if not isinstance(node.value, dict):
            line = text.count("\n", 0, node.start) + 1
            raise InvalidError(
                f'{path}:{line}: "{key}" is not an object in braces; correct it, then try again'
            )
    return root


def _check(before: str, after: str, client: Client, path: Path) -> None:
    """A change may touch nothing but our entry."""
    if _foreign(before, client, path) != _foreign(after, client, path):
        raise InvalidError(f"{path} is written in a way that this cannot change; nothing was changed")


def _foreign(text: str, client: Client, path: Path) -> dict[str, Any]:
    """The settings without our entry, and without the objects on the way to it if they are empty."""
    if not text.lstrip(BOM).strip():
        return {}
    root = _root(text, client, path)
    plain: dict[str, Any] = root.plain()
    keys = [*_keys(root, client), SERVER]
    objects = [plain]
    for key in keys[:-1]:
        if key not in objects[-1]:
            break
        objects.append(objects[-1][key])
    if len(objects) == len(keys):
        objects[-1].pop(SERVER, None)
    while len(objects) > 1 and not objects[-1]:
        objects.pop()
        del objects[-1][keys[len(objects) - 1]]
    return plain
