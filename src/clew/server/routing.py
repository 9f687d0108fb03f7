"""Which function answers a request. Paths are taken apart before they are decoded: a slash that is part of an
id (`%2F`) stays in its id."""

from __future__ import annotations

import base64
import binascii
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_type_hints
from urllib.parse import quote, unquote, unquote_to_bytes

from clew.core.log.grants import Scope
from clew.server.problems import Problem

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

API: Final = "/api/v1"
ENCODED: Final = "~"
"""An id may also be sent as this and its base64url: for clients that cannot send some characters."""

Handler = TypeVar("Handler", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Route:
    """A method and a path, and the function that answers them."""

    method: Method
    path: str
    """As `/api/v1/sessions/{id}`. A name with `*`, as `{path*}`, stands for all that follows."""
    handler: Callable[..., Any]
    scope: Scope | None
    """What a caller needs; None: nothing, not even a token."""
    answer: Any
    """The type of what it answers; None: nothing, or bytes."""
    status: int
    query: Any
    body: Any
    """Types of what the request brings: a Struct, `bytes`, or None."""
    is_async: bool
    is_slow: bool
    """It may take longer than other requests: exports, imports, streams."""
    is_private: bool
    """It is not part of the documented API."""
    media_type: str
    """Of the answer."""
    other_types: tuple[str, ...]
    """Media types that it may have instead, by what was asked for."""
    max_body: int | None
    """Bytes of a request, unpacked; None: as the settings say."""

    @cached_property
    def names(self) -> list[str]:
        """Of the parameters in the path."""
        return [part[1:-1].rstrip("*") for part in self.path.split("/") if part.startswith("{")]


class Routes:
    """Collects the routes of a module: `@routes.get("/sessions")` in front of a function."""

    def __init__(self, prefix: str = API) -> None:
        self._prefix = prefix
        self.all: list[Route] = []

    def add(
        self,
        method: Method,
        path: str,
        *,
        answer: Any = None,
        scope: Scope | None = "read",
        status: int = 200,
        slow: bool = False,
        private: bool = False,
        media_type: str = "application/json",
        other_types: tuple[str, ...] = (),
        max_body: int | None = None,
    ) -> Callable[[Handler], Handler]:
        def register(handler: Handler) -> Handler:
            hints = get_type_hints(handler)
            self.all.append(
                Route(
                    method=method,
                    path=self._prefix + path,
                    handler=handler,
                    scope=scope,
                    answer=answer,
                    status=status,
                    query=hints.get("query"),
                    body=hints.get("body"),
                    is_async=inspect.iscoroutinefunction(handler),
                    is_slow=slow,
                    is_private=private,
                    media_type=media_type,
                    other_types=other_types,
                    max_body=max_body,
                )
            )
            return handler

        return register

    def get(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        return self.add("GET", path, **options)

    def post(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        return self.add("POST", path, **{"scope": "write", **options})

    def put(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        return self.add("PUT", path, **{"scope": "write", **options})

    def patch(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        return self.add("PATCH", path, **{"scope": "write", **options})

    def delete(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        return self.add("DELETE", path, **{"scope": "write", **options})


class Router:
    """All routes of a server, as a tree of the parts of their paths."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = list(routes)
        self._root: dict[str, Any] = {}
        for route in self.routes:
            node = self._root
            for part in filter(None, route.path.split("/")):
                name = part if not part.startswith("{") else "{*}" if part.endswith("*}") else "{}"
                node = node.setdefault(name, {})
            known: dict[str, Route] = node.setdefault("", {})
            if route.method in known:
                raise ValueError(f"two routes for {route.method} {route.path}")
            known[route.method] = route

    @cached_property
    def description(self) -> dict[str, Any]:
        """All of them as OpenAPI 3.1."""
        from clew.server.openapi import document

        return document(self.routes)

    def find(self, method: str, parts: list[str]) -> tuple[Route, dict[str, str]]:
        """The route of a request and the values in its path; 404 or 405 if there is none."""
        node, values = self._root, []
        for at, part in enumerate([] if parts == [""] else parts):
            if part in node and part not in ("", "{}", "{*}"):
                node = node[part]
            elif "{}" in node:
                node = node["{}"]
                values.append(decoded(part))
            elif "{*}" in node:
                node = node["{*}"]
                values.append("/".join(decoded(one, "surrogateescape") for one in parts[at:]))
                break
            else:
                raise not_found()
        known: dict[str, Route] = node.get("", {})
        if not known:
            raise not_found()
        if method not in known:
            allowed = ", ".join(sorted(known))
            raise Problem(
                405,
                "method_not_allowed",
                "The method is not allowed here",
                f"this path takes {allowed}, not {method[:20]}",
                headers={"allow": allowed},
            )
        route = known[method]
        return route, dict(zip(route.names, values, strict=True))


def not_found() -> Problem:
    return Problem(
        404,
        "no_such_route",
        "There is nothing at this path",
        "no route of this server has this path",
        next="/api/v1/openapi.json lists the paths; percent-encode ids",
    )


def parts_of(raw_path: bytes, root_path: str) -> list[str]:
    """The parts of a path as they were sent, below the path at which the application is mounted."""
    parts = raw_path.partition(b"?")[0].decode("latin-1").removeprefix("/").split("/")
    root = [unquote(part) for part in root_path.strip("/").split("/") if part]
    if root and [unquote(part) for part in parts[: len(root)]] == root:
        return parts[len(root) :] or [""]
    return parts


def decoded(part: str, errors: str = "strict") -> str:
    """The text that one part of a path stands for. `errors`: what bytes become that are not UTF-8, as in the
    name of a file."""
    if part.startswith(ENCODED) and (text := _from_base64(part[1:])) is not None:
        return text
    try:
        return unquote_to_bytes(part).decode(errors=errors)
    except UnicodeDecodeError as exc:
        raise Problem(
            400, "invalid_path", "The path cannot be read", f"{part[:80]!r} is not percent-encoded UTF-8"
        ) from exc


def _from_base64(text: str) -> str | None:
    """None: this is not the one right way to write some text in base64url."""
    try:
        found = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    return found if encoded(found)[1:] == text else None


def part_of(text: str) -> str:
    """A text as one part of a path, readable where that is safe: what clients take for steps up a tree, and
    what begins as the other way to write an id, is not."""
    return encoded(text) if text in (".", "..") or text.startswith(ENCODED) else quote(text, safe="")


def encoded(text: str) -> str:
    """A text as a part of a path that needs no percent-encoding."""
    return ENCODED + base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
