"""One request, as the function that answers it sees it, and what that function may return."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import parse_qsl, urlencode

import msgspec
from blake3 import blake3

from clew.aio.session import AsyncSession
from clew.core.conversation import points
from clew.core.conversation.append import MessageLike, holds_key
from clew.core.conversation.points import Point
from clew.core.conversation.sessions import info_of
from clew.core.log.ids import check_id, is_id, parse_entry_id
from clew.core.log.keys import HASHED
from clew.core.log.lease import parse_secret
from clew.core.log.records import COPIED_FROM, PARENT
from clew.core.log.tree import locate
from clew.core.runs.access import Access, held_lease
from clew.errors import (
    CheckpointNotFoundError,
    HeadMovedError,
    KeyReusedError,
    SessionDeletedError,
    SessionNotFoundError,
)
from clew.model import Entry, Head, SessionInfo
from clew.server.access.principal import bound
from clew.server.access.shared import SharedStore
from clew.server.problems import Problem
from clew.session import Session
from clew.store import Store

if TYPE_CHECKING:
    from clew.backends.contract import Reader
    from clew.server.access.guard import Asked
    from clew.server.access.principal import Principal
    from clew.server.application import Server
    from clew.server.routing import Route

T = TypeVar("T")

LEASE: Final = "clew-lease"
ANY_LEASE: Final = "*"
"""Stands for: write all the same, whoever holds the lease."""
SMALL: Final = 64 * 1024
"""Bytes of a body that may be looked at between other requests; for more a thread is taken."""
START: Final = "start"
"""Stands for the place before the first entry, where a head has no entry."""
FAMILY: Final = (PARENT, COPIED_FROM)
"""Metadata by which a session belongs to another one."""
SETTINGS: Final = "~"
"""Between the head and the digest in the tag of a session."""
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


class Upload:
    """A body that does not fit into memory: `async for piece in upload`, once."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces


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
        self.root = ""
        """The path below which the application is mounted, or a proxy offers it."""
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
        """The Idempotency-Key as it was sent. No more of it than `hashed_key` is ever stored."""
        given = self.header("idempotency-key")
        if given is None:
            return None
        if given.startswith('"') and given.endswith('"') and len(given) > 1:
            given = given[1:-1]  # the draft of the header says that it is a string in quotes
        return check_id(given, "Idempotency-Key")

    def hashed_key(self, purpose: str = "") -> str | None:
        """A hash of the key and of its caller with the secret of the store: repeats of one caller are found
        by it, those of others are not, and nobody computes it. May read and write the store."""
        key = self.key
        return None if key is None else self.server.key_hashes.of(purpose, self.principal.id, key)

    @property
    def former_key(self) -> str | None:
        """The key as older versions of Clew stored it: in clear."""
        key = self.key
        return None if key is None else self.principal.former_key(key)

    def key_in(self, session: Session, is_held: Callable[[Reader, int, str], bool] = holds_key) -> str | None:
        """`hashed_key`; or `former_key`, if this session holds it: so a repeat finds what an older Clew did.
        Reads the store."""
        hashed, former = self.hashed_key(), self.former_key
        if hashed is None or former is None:
            return None
        with session._look() as (reader, row):
            is_old = not is_held(reader, row.sid, hashed) and is_held(reader, row.sid, former)
        return former if is_old else hashed

    def as_sent(self, error: KeyReusedError) -> KeyReusedError:
        """An error that names the key as it was sent, instead of its hash."""
        if self.key is None:
            return error
        former = self.principal.former_key(self.key)
        is_mine = error.key == former or error.key.startswith((HASHED, f"{former}/"))
        return KeyReusedError(error.session, self.key) if is_mine else error

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

    def check_lease(self, id: str) -> None:
        """LeaseLostError: the lease that the request names is not in force. For a request that may be about a
        session that is not there, or not any more."""
        given = self.header(LEASE)
        if given is not None and given != ANY_LEASE:
            lease_of(given)  # also where there is no session yet: what cannot be read is never passed over
        if given is not None and self.store.find(id) is not None:
            self.session(id)

    def change(self, session: Session, work: Callable[[Session], T]) -> T:
        """Do several things with a session as one; the function gets a handle for that. HeadMovedError unless
        the head is the one that If-Match names. It may be called more than once."""
        expected, access = self.expect, session._access

        def inside(store: Store) -> T:
            handle = store._scope.offered(Session)(store._scope, access)
            if self.principal.is_bound and not self.principal.sees(handle.info):
                raise SessionNotFoundError(session.id)
            check_head(handle, expected)
            return work(handle)

        return self.store.transact(inside)

    def point(self, session: Session, point: str | int | Head | None) -> Point | None:
        """A point of a session's tree. For a caller who may see some sessions only, it has to lie on a branch
        or on the path of this one: forks share a tree, and others may be another's."""
        if point == START and not any(one.name == START for one in session.checkpoints()):
            point = Head("", -1)
        if point is not None and self.principal.is_bound and self.principal.kind != "share":
            check_own_point(session, point)
        return point

    def point_of(self, session: Session, text: str | None) -> Point | None:
        """A point as a parameter: a number is a position; then come names of checkpoints, and ids."""
        is_position = text is not None and text.isascii() and text.isdecimal()
        return self.point(session, int(text[:20]) if text is not None and is_position else text)

    async def append(
        self,
        id: str,
        messages: Sequence[MessageLike],
        *,
        strict: bool = False,
        at: datetime | None = None,
    ) -> list[Entry]:
        """`Session.append` with the key, the head and the lease of the request.

        For a handler that is a coroutine. Requests that come while a commit is under way share the next one,
        and no thread waits for each of them.
        """
        known = self.server.known_session(id) if not self.principal.is_bound else None
        if known is not None:
            try:
                return await self._append(known, messages, strict, at)
            except SessionDeletedError:
                self.server.forget_session(id)  # another one may have this id now
        found = await self.server.in_thread(partial(self._find, id))
        self.server.know_session(id, found)
        return await self._append(found, messages, strict, at)

    async def _append(
        self, found: Session, messages: Sequence[MessageLike], strict: bool, at: datetime | None
    ) -> list[Entry]:
        session = self._under_lease(found)
        key = None if self.key is None else await self.server.in_thread(partial(self.key_in, session))
        if self.size <= SMALL:
            one = AsyncSession(self.server.bridge, session)
            return await one.append(*messages, key=key, expect=self.expect, strict=strict, at=at)
        append = partial(session.append, *messages, key=key, expect=self.expect, strict=strict, at=at)
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

    # -- what the caller makes of sessions

    def new_settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Settings for a session that this caller makes."""
        settings = self.principal.new_settings(given)
        self._check_family(settings.get("metadata") or {}, {})
        return settings

    def changed_settings(self, before: SessionInfo, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Settings that this caller gives to a session instead of those that it has."""
        settings = self.principal.changed_settings(before, changes)
        self._check_family(settings.get("metadata") or {}, before.metadata)
        return settings

    def fork_settings(self, made: SessionInfo) -> dict[str, Any]:
        """Settings that a fork gets which this caller makes, instead of those of its base; none: it keeps
        them."""
        if not self.principal.is_bound:
            return {}
        own = {name: value for name, value in made.metadata.items() if self._may_belong(name, value)}
        return self.principal.new_settings({"metadata": own})

    def _check_family(self, metadata: Mapping[str, Any], before: Mapping[str, Any]) -> None:
        """Refuse a base that is not the caller's to see, whether it is there or not: what belongs to a
        session stands in its pages, for all who see that one."""
        for name in FAMILY:
            if metadata.get(name) != before.get(name) and not self._may_belong(name, metadata.get(name)):
                raise bound(
                    f"this token sees no session {str(metadata[name])[:200]!r}",
                    f"leave out `{name}`, or name a session that the token sees",
                )

    def _may_belong(self, name: str, value: Any) -> bool:
        if (
            name not in FAMILY
            or not self.principal.is_bound
            or not isinstance(value, str)
            or not is_id(value)
        ):
            return True
        found = self.store.find(value)
        return found is not None and self.principal.sees(found.info)

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
        return self.root + path

    def next_page(self, cursor: str | int | None, name: str = "cursor") -> dict[str, str]:
        """The header that leads to the next page: the same request, but for its cursor. None: there is no
        next page."""
        if cursor is None:
            return {}
        asked = parse_qsl(self.query_string.decode("ascii"), keep_blank_values=True)
        query = urlencode([*((key, value) for key, value in asked if key != name), (name, cursor)])
        return {"link": f'<{self.url("/" + "/".join(self.parts))}?{query}>; rel="next"'}


def check_own_point(session: Session, point: Point) -> None:
    """CheckpointNotFoundError: it lies on a branch of another session of the same tree."""
    with session._look() as (reader, row):
        branch, position = points.resolve(reader, row, point)
        is_own = not branch or reader.get_branch(branch).owner == row.sid
        if not is_own and locate(points.path_of(reader, row.head), position) != branch:
            raise CheckpointNotFoundError(session.id, point)


def check_head(session: Session, expected: Head | None) -> None:
    """HeadMovedError: the session stands elsewhere."""
    if expected is not None and expected != (actual := session.head):
        raise HeadMovedError(expected, actual)


def head_tag(head: Head) -> str:
    """A head as an entity tag."""
    return f'"{head.branch}.{head.position}"' if head.position >= 0 else f'"{START}"'


def session_tag(info: SessionInfo) -> str:
    """All that is known of a session, as an entity tag: it begins with that of its head, so that it can be
    sent wherever that one can. Weak: two answers that say the same may be encoded differently."""
    info = msgspec.structs.replace(info, forked_from=None)  # which never changes, and is not told to all
    digest = blake3(msgspec.json.encode(info)).hexdigest(8)
    return f'W/"{head_tag(info.head)[1:-1]}{SETTINGS}{digest}"'


def head_of_tag(tag: str) -> Head:
    """The same the other way round."""
    found = _TAG.fullmatch(tag.strip())
    text = found[1].partition(SETTINGS)[0] if found else ""
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
