"""One request, as the function that answers it sees it, and what that function may return."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qsl, urlencode

import msgspec

from clew.aio.session import AsyncSession
from clew.core.conversation import points
from clew.core.conversation.append import MessageLike
from clew.core.conversation.sessions import info_of
from clew.core.log.ids import parse_entry_id
from clew.core.log.lease import parse_secret
from clew.core.runs.access import Access, held_lease
from clew.errors import SessionDeletedError, SessionNotFoundError
from clew.model import Entry, Head
from clew.server.access.shared import SharedStore
from clew.server.problems import Problem
from clew.session import Session
from clew.store import Store

if TYPE_CHECKING:
    from clew.server.access.guard import Asked
    from clew.server.access.principal import Principal
    from clew.server.app import Server
    from clew.server.routing import Route

LEASE: Final = "clew-lease"
ANY_LEASE: Final = "*"
"""Stands for: write all the same, whoever holds the lease."""
SMALL: Final = 64 * 1024
"""Bytes of a body that may be looked at between other requests; for more a thread is taken."""
START: Final = "start"
"""Stands for the place before the first entry, where a head has no entry."""
_TAG: Final = re.compile(r'(?:W/)?"([\x21\x23-\x7e\x80-\xff]*)"')


class Answer(msgspec.Struct, kw_only=True):
    """More than a value: with a status, headers, or as a stream."""

    value: Any = None
    """Is encoded as JSON; bytes are sent as they are."""
    status: int | None = None
    """None: that of the route."""
    headers: dict[str, str] = {}
    etag: str | None = None
    """Names the value; a client that has it already gets 304. In quotes, as head_tag() writes it."""
    media_type: str | None = None
    stream: Iterator[bytes] | AsyncIterator[bytes] | None = None
    deadline: float | None = None
    """Of a stream: seconds for the client to take one piece. None: as long as it likes."""


class Call:
    """A request that was let in."""

    def __init__(
        self,
        server: Server,
        route: Route,
        headers: Mapping[str, str],
        principal: Principal,
        parts: list[str],
        asked: Asked,
    ) -> None:
        self.server = server
        self.store: Store = server.store
        """As the caller may see it: for a share it has one session, which can only be read."""
        if principal.kind == "share":
            self.store = cast("Store", SharedStore(server.store, principal))
        self.route = route
        self.principal = principal
        self.asked = asked
        self.client = asked.client
        """The address of the caller, for limits and the log."""
        self.parts = parts
        """Of the path, as they were sent."""
        self.query_string = b""
        self.size = 0
        """Bytes of the body."""
        self._headers = headers

    @property
    def headers(self) -> Mapping[str, str]:
        """By their names in lower case."""
        return self._headers

    def header(self, name: str) -> str | None:
        """By its name in lower case."""
        return self._headers.get(name)

    @property
    def key(self) -> str | None:
        """The Idempotency-Key: repeats of one caller are found by it, those of others are not."""
        given = self.header("idempotency-key")
        if given is None:
            return None
        if given.startswith('"') and given.endswith('"') and len(given) > 1:
            given = given[1:-1]  # the draft of the header says that it is a string in quotes
        return self.principal.own_key(given)

    @property
    def expect(self) -> Head | None:
        """If-Match, as the head that the caller knows; None: there is none, or it is `*`."""
        given = self.header("if-match")
        if given is None or given.strip() == "*":
            return None
        return head_of_tag(given)

    def session(self, id: str) -> Session:
        """The session of this id or alias, under the lease that the request names, if it names one; of a
        request that writes: LeaseLostError if that lease is not in force any more.
        SessionNotFoundError: there is none, or it is not the caller's to see."""
        found = self._under_lease(self._find(id))
        if found._access.fence and self.route.method != "GET":
            # Most operations compare it in their transactions; this is for those that have no need of one.
            with found._look() as (reader, _):
                held_lease(reader, found._access)
        return found

    async def append(self, id: str, messages: Sequence[MessageLike], *, strict: bool = False) -> list[Entry]:
        """`Session.append` with the key, the head and the lease of the request.

        For a handler that is a coroutine. Requests that come while a commit is under way share the next one,
        and no thread waits for each of them.
        """
        known = self.server.known_session(id) if not self.principal.is_bound else None
        if known is not None:
            try:
                return await self._append(known, messages, strict)
            except SessionDeletedError:
                self.server.forget_session(id)  # another one may have this id now
        found = await self.server.in_thread(partial(self._find, id))
        self.server.know_session(id, found)
        return await self._append(found, messages, strict)

    async def _append(self, found: Session, messages: Sequence[MessageLike], strict: bool) -> list[Entry]:
        session = self._under_lease(found)
        if self.size <= SMALL:
            one = AsyncSession(self.server.bridge, session)
            return await one.append(*messages, key=self.key, expect=self.expect, strict=strict)
        append = partial(session.append, *messages, key=self.key, expect=self.expect, strict=strict)
        return await self.server.in_thread(append)

    def _find(self, id: str) -> Session:
        found = self.store.get(id)
        if self.principal.is_bound and not self.principal.sees(found.info):
            raise SessionNotFoundError(id)
        return found

    def check_visible(self, id: str) -> None:
        """SessionNotFoundError: there is no such session, in use or in the trash, that is this caller's.
        What is not there and what is another's are told alike."""
        with self.server.store._engine.read() as reader:
            row = points.find(reader, id) or points.find_deleted(reader, id)
            info = None if row is None else info_of(reader, row, reader.get_details(row.sid), None)
        if info is None or not self.principal.sees(info):
            raise SessionNotFoundError(id)

    def _under_lease(self, session: Session) -> Session:
        given = self.header(LEASE)
        if given is None or self.principal.kind == "share":
            return session
        if given == ANY_LEASE:
            return session.outside_lease()
        epoch, fence = lease_of(given)
        return session._handle(Access(session._sid, session.id, session._scope.host, epoch, fence))

    def url(self, path: str) -> str:
        """A path of this server, as a client has to ask for it."""
        return self.server.settings.root_path.rstrip("/") + path

    def next_page(self, cursor: str | int | None, name: str = "cursor") -> dict[str, str]:
        """The header that leads to the next page: the same request, but for its cursor. None: there is no
        next page."""
        if cursor is None:
            return {}
        asked = parse_qsl(self.query_string.decode("ascii"), keep_blank_values=True)
        query = urlencode([*((key, value) for key, value in asked if key != name), (name, cursor)])
        return {"link": f'<{self.url("/" + "/".join(self.parts))}?{query}>; rel="next"'}


def head_tag(head: Head) -> str:
    """A head as an entity tag."""
    return f'"{head.branch}.{head.position}"' if head.position >= 0 else f'"{START}"'


def head_of_tag(tag: str) -> Head:
    """The same the other way round."""
    found = _TAG.fullmatch(tag.strip())
    text = found[1] if found else ""
    if text == START:
        return Head("", -1)
    head = parse_entry_id(text)
    if head is None:
        raise Problem(
            400,
            "invalid_header",
            "A header cannot be read",
            f"If-Match is the ETag of a head, not {tag[:80]!r}",
            next='send what the ETag header of the last answer said, with its quotes, as "b7.41"',
        )
    return head


def lease_of(header: str) -> tuple[int, int]:
    """Epoch and fence of a lease, as the answer to a new run gave them."""
    found = parse_secret(header)
    if found is None:
        raise Problem(
            400,
            "invalid_header",
            "A header cannot be read",
            "Clew-Lease is not of the form that a run was given",
            next="send the `secret` of the answer to POST …/runs; or * to write whoever holds the lease",
        )
    return found
