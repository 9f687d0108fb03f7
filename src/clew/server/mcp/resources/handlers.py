"""Resources as the protocol asks for them: listed, described by templates, read, and completed."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import anyio.to_thread
import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from clew.errors import ClewError, InvalidError, NotFoundError
from clew.model import SessionInfo
from clew.server.mcp.places import escaped
from clew.server.mcp.prompts import SESSION_OF
from clew.server.mcp.resources import uris
from clew.server.mcp.text import Text
from clew.server.mcp.view import HERE, Scope, View

if TYPE_CHECKING:
    from clew.server.mcp.factory import Context, ViewOf

log = logging.getLogger("clew.mcp")
T = TypeVar("T")

MARKDOWN: Final = "text/markdown"
DAY: Final = 24 * 60 * 60 * 1000
"""Milliseconds for which a client may keep an entry. What it says never changes, and a client that kept it
had read it; so an entry that is removed from the store meanwhile becomes known to nobody else. Sessions and
trees are read anew each time: they go on."""
PAGE: Final = 50
"""Sessions that are listed at once."""
MOST_COMPLAINT: Final = 1000
"""Letters of an error, which may quote what was sent."""
MOST_COMPLETIONS: Final = 100
"""As the protocol says."""
MOST_LOOKED_AT: Final = 1000
"""Sessions among which ids are looked for, the newest ones."""
RESOURCE_NOT_FOUND: Final = -32002
"""Up to the revision 2025-11-25; later ones have no code of their own for it."""

TEMPLATES: Final = (
    types.ResourceTemplate(
        uri_template=uris.SESSION,
        name="session",
        title="A session",
        description="The latest messages of a session, and where to read those before.",
        mime_type=MARKDOWN,
    ),
    types.ResourceTemplate(
        uri_template=uris.ENTRY,
        name="entry",
        title="An entry of a session",
        description="One message, with whole calls and results of tools.",
        mime_type=MARKDOWN,
    ),
    types.ResourceTemplate(
        uri_template=uris.TREE,
        name="tree",
        title="The tree of a session",
        description="Branches, checkpoints, forks and subagents of a session.",
        mime_type=MARKDOWN,
    ),
)


class Resources:
    """Answers the requests about resources."""

    def __init__(self, view_of: ViewOf) -> None:
        self._view_of = view_of

    async def list(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        cursor = None if params is None else params.cursor
        return await answered(partial(listed, self._view_of(context), cursor))

    async def templates(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[*TEMPLATES], ttl_ms=DAY, cache_scope="private"
        )

    async def read(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        view = self._view_of(context)
        try:
            return await answered(partial(read, view, params.uri))
        except NotFoundError:
            raise missing(context, params.uri) from None

    async def complete(self, context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        if not _names_a_session(params):
            return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))
        view = self._view_of(context)
        return await answered(partial(completed, view, params.argument.value))


def listed(view: View, cursor: str | None) -> types.ListResourcesResult:
    """The newest sessions where the caller works. InvalidError: this is no cursor."""
    scope = _scope(view)
    if scope is None:
        return types.ListResourcesResult(resources=[], ttl_ms=0, cache_scope="private")
    page = view.store.list(workspace=scope.workspace, tag=scope.tags or None, limit=PAGE, cursor=cursor)
    text = view.text()
    return types.ListResourcesResult(
        resources=[_resource(text, info) for info in page],
        next_cursor=page.cursor,
        ttl_ms=0,
        cache_scope="private",
    )


def _resource(text: Text, info: SessionInfo) -> types.Resource:
    facts = [text.title(info.agent), info.status, f"{info.messages} messages"]
    return types.Resource(
        uri=uris.session_uri(info.id),
        name=escaped(info.id),
        title=text.title(info.title or info.preview),
        description=", ".join(filter(None, facts)),
        mime_type=MARKDOWN,
        annotations=types.Annotations(last_modified=info.updated_at.isoformat(timespec="seconds")),
    )


def read(view: View, uri: str) -> types.ReadResourceResult:
    """NotFoundError: there is no such resource, or it is not the caller's to see."""
    named = meant_by(view, uri)
    page = _page(view, named)
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=uri, mime_type=MARKDOWN, text=page)],
        ttl_ms=0 if named.entry is None else DAY,
        cache_scope="private",
    )


def meant_by(view: View, uri: str) -> uris.Named:
    """NotFoundError: it is no address of ours, or the caller may read nothing."""
    named = uris.named(uri) if view.may("read") else None
    if named is None:
        raise NotFoundError(uri)
    return named


def _scope(view: View) -> Scope | None:
    return view.scope(HERE) if view.may("read") else None


def _page(view: View, named: uris.Named) -> str:
    # Slow to load, and many clients read no resource.
    from clew.server.mcp.resources.pages import entry_page, session_page, tree_page

    if named.entry is not None:
        return entry_page(view, named.session, named.entry)
    return tree_page(view, named.session) if named.is_tree else session_page(view, named.session)


def _names_a_session(params: types.CompleteRequestParams) -> bool:
    match params.ref:
        case types.ResourceTemplateReference(uri=uri):
            return params.argument.name == "id" and any(one.uri_template == uri for one in TEMPLATES)
        case types.PromptReference(name=name):
            return SESSION_OF.get(name) == params.argument.name


def completed(view: View, start: str) -> types.CompleteResult:
    """Ids that begin so, of the newest sessions where the caller works."""
    found: list[str] = []
    scope, cursor, looked_at = _scope(view), None, 0
    while scope is not None and looked_at < MOST_LOOKED_AT and len(found) <= MOST_COMPLETIONS:
        page = view.store.list(workspace=scope.workspace, tag=scope.tags or None, limit=200, cursor=cursor)
        # One with characters that act is not offered: it would have to be told as it is.
        found += [one.id for one in page if one.id.startswith(start) and escaped(one.id) == one.id]
        cursor, looked_at = page.cursor, looked_at + len(page)
        if cursor is None:
            break
    values, has_more = found[:MOST_COMPLETIONS], len(found) > MOST_COMPLETIONS or cursor is not None
    return types.CompleteResult(completion=types.Completion(values=values, has_more=has_more))


# -- errors


async def answered(work: Callable[[], T]) -> T:
    """What a function answers in a thread. NotFoundError passes; what else goes wrong is an error of the
    protocol."""
    return await anyio.to_thread.run_sync(partial(_guarded, work))


def _guarded(work: Callable[[], T]) -> T:
    try:
        return work()
    except NotFoundError:
        raise
    except InvalidError as error:
        said, _ = Text(reveals=False).part(str(error), MOST_COMPLAINT)
        raise MCPError(types.INVALID_PARAMS, said) from error
    except Exception as error:
        # Whatever it is, the client hears that it failed, and the log says why.
        number = secrets.token_hex(6)
        log.exception("a request failed (%s)", number)
        what = f"{type(error).__name__}: " if isinstance(error, ClewError) else ""
        raise MCPError(types.INTERNAL_ERROR, f"{what}the log of the server says why ({number})") from error


def missing(context: Context, uri: str) -> MCPError:
    """What is not there, and what is not this caller's to see, is told alike."""
    is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    code = types.INVALID_PARAMS if is_modern else RESOURCE_NOT_FOUND
    return MCPError(code, "there is no such resource; resources/list names those of here", {"uri": uri})
