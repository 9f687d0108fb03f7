"""The store as a share sees it: one session, on one path, without what stands beside the conversation.

A route that serves a share gets these in the place of the store and of its session. What is not offered here
cannot be reached by a share, whatever a route does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import msgspec

from clew.core.conversation.history import read_path, standing_at
from clew.core.conversation.points import Point, path_of
from clew.core.log.ids import parse_entry_id
from clew.core.log.tree import locate
from clew.core.redact.redactor import Redactor
from clew.errors import CheckpointNotFoundError, EntryNotFoundError, InvalidError, SessionNotFoundError
from clew.model import Context, Head, Page, Tree, UsageTotals
from clew.server.problems import Problem
from clew.session import Session

if TYPE_CHECKING:
    from clew.backends.contract import Reader
    from clew.core.log.rows import SessionRow
    from clew.model import Checkpoint, Entry, SessionInfo
    from clew.server.access.principal import Principal
    from clew.server.call import Answer
    from clew.server.routing import Route
    from clew.store import Store

FORMATS: Final = ("markdown", "html", "json")
"""To which a shared session may be exported: the others hold what a share does not show."""
EVENTS: Final = "text/event-stream"
START: Final = Head("", -1)


class SharedStore:
    """A store with one session."""

    def __init__(self, store: Store, principal: Principal) -> None:
        self._store = store
        self._principal = principal

    def __repr__(self) -> str:
        return f"<a share of {self._principal.session!r}>"

    def __getattr__(self, name: str) -> NoReturn:
        raise Problem(403, "shared_only", "A share shows one session only", f"it does not offer {name!r}")

    def get(self, id: str) -> SharedSession:
        """By its id only: an alias says something about it, too."""
        found = self._store.find(id) if id == self._principal.session else None
        if found is None or found.id != id:
            raise SessionNotFoundError(id)
        return SharedSession(found, self._principal)

    def find(self, id: str) -> SharedSession | None:
        try:
            return self.get(id)
        except SessionNotFoundError:
            return None

    def list(self, **_: Any) -> Page:
        """For exporters, which look for subagents: there are none."""
        return Page((), None)

    def export_pieces(self, id: str, format: str, **options: Any) -> Iterator[bytes]:
        """In a format for readers, without secrets if the share says so."""
        from clew.exporters import pieces

        session = self.get(id)
        if format not in FORMATS:
            raise InvalidError(f"a share exports {', '.join(FORMATS)}, not {format!r}")
        kept = {name: value for name, value in options.items() if name in ("tools", "thinking")}
        kept["redact"] = self._principal.redact or options.get("redact", False)
        return pieces(self, session.id, format, kept)  # type: ignore[arg-type]


class SharedSession(Session):
    """A session up to the place that is shared, or live; it can only be read."""

    def __init__(self, session: Session, principal: Principal) -> None:
        super().__init__(session._scope, session._access)
        self._shared_at = _place(principal.head)
        self._redactor = Redactor() if principal.redact else None

    @contextmanager
    def _look(self) -> Iterator[tuple[Reader, SessionRow]]:
        with super()._look() as (reader, row):
            yield reader, self._standing(reader, row)

    def _standing(self, reader: Reader, row: SessionRow) -> SessionRow:
        if self._shared_at is None:
            return row
        try:
            return standing_at(reader, row, self._shared_at)
        except CheckpointNotFoundError:  # it was purged, with all that was shared
            raise SessionNotFoundError(self.id) from None

    def _write(self, *_: Any, **__: Any) -> NoReturn:
        raise Problem(403, "shared_only", "A share shows one session only", "it can only be read")

    def _entry_pages(self, **options: Any) -> Iterator[list[Entry]]:
        if options.get("label") is not None:
            raise InvalidError("a share takes no `label`: what stands beside entries is not shared")
        for name in ("at", "before", "after"):
            options[name] = self._on_path(options.get(name))
        options["at"] = options["at"] or self._shared_at
        with self._look():
            pass  # the place that is shared may be gone
        for page in super()._entry_pages(**options):
            yield [self._shown(entry) for entry in page]

    def _on_path(self, point: Point | None) -> Head | int | None:
        """A point of the path that is shared. EntryNotFoundError: it lies elsewhere, or is a checkpoint."""
        if point is None:
            return None
        head = point if isinstance(point, Head) else parse_entry_id(getattr(point, "id", str(point)))
        with self._look() as (reader, row):
            segments = path_of(reader, row.head)
            if isinstance(point, int) and 0 <= point <= row.head.position:
                return Head(reader.get_branch(locate(segments, point)).uid, point)
            branch = None if head is None else reader.find_branch(head.branch)
            is_there = head is not None and branch is not None and head.position <= row.head.position
            if is_there and head and branch and locate(segments, head.position) == branch.branch:
                return head
        if head == START:
            return head
        raise EntryNotFoundError(self.id, point)

    def _shown(self, entry: Entry) -> Entry:
        """Without what others noted beside it, and without secrets if the share says so."""
        bare = msgspec.structs.replace(entry, annotations={})
        return bare if self._redactor is None else self._redactor.entry(bare)

    def context(self, **options: Any) -> Context:
        found = super().context(**{**options, "at": self._on_path(options.get("at"))})
        if self._redactor is None:
            return found
        return Context([self._redactor.value(one, "context") for one in found], found.report)

    @property
    def summary(self) -> str | None:
        found = super().summary
        return found if found is None or self._redactor is None else self._redactor.text(found, "summary")

    def messages(self, **options: Any) -> list[dict[str, Any]]:
        options = {"last": None, "before": None, "after": None, "newest_first": False, **options}
        pages = self._entry_pages(label=None, damaged="raise", **options)
        return [entry.message for page in pages for entry in page if entry.kind == "message"]

    def entry(self, id: str) -> Entry:
        """One entry, if it lies on the path that is shared."""
        place = self._on_path(id)
        if not isinstance(place, Head) or place.position < 0:
            raise EntryNotFoundError(self.id, id)
        with self._look() as (reader, row):
            segments = path_of(reader, row.head)
            return self._shown(read_path(reader, row.sid, segments, place.position, place.position)[0])

    @property
    def info(self) -> SessionInfo:
        """Of what the session is, what the conversation itself shows."""
        info = super().info
        fixed: dict[str, Any] = {}
        if self._shared_at is not None:
            with self._look() as (reader, row):
                path, position = path_of(reader, row.head), row.head.position
                last = read_path(reader, row.sid, path, position, position)
            ended = last[-1].time if last else info.created_at
            info = msgspec.structs.replace(info, preview="")
            fixed = {"status": "completed", "updated_at": ended}
        return msgspec.structs.replace(
            info,
            title=self._clean(info.title),
            preview=self._clean(info.preview),
            workspace=None,
            workspace_given=None,
            tags=(),
            endpoint=None,
            parent=None,
            metadata={},
            aliases=(),
            forked_from=None,
            run=None,
            epoch=0,
            expires_at=None,
            never_expires=False,
            idle_timeout=None,
            agent_branch=None,
            **fixed,
        )

    def _clean(self, text: Any) -> Any:
        return text if text is None or self._redactor is None else self._redactor.text(text, "session")

    def checkpoints(self) -> list[Checkpoint]:
        return []

    def outline(self, **_: Any) -> NoReturn:
        """It names checkpoints."""
        raise Problem(403, "shared_only", "A share shows one session only", "it has no outline")

    def usage(self, **_: Any) -> UsageTotals:  # type: ignore[override]
        """For exporters: nothing is known."""
        return UsageTotals()

    def tree(self) -> Tree:
        """The branches of the path, and nothing else of the tree."""
        tree = super().tree()
        with self._look() as (reader, row):
            own = {reader.get_branch(part.branch).uid for part in path_of(reader, row.head)}
        return Tree(
            self.id, tuple(one for one in tree.branches if one.id in own), {self.id: self.head}, {}, ()
        )


# -- without secrets


def without_secrets(answer: Answer, route: Route) -> Answer:
    """What a share is told, once more without all that looks like a secret; and without the hashes of what is
    stored, by which a short secret could be guessed."""
    clean = Redactor()
    answer.etag = None
    media_type = answer.media_type or route.media_type
    if answer.stream is not None:
        if media_type.startswith(EVENTS):
            answer.stream = _clean_frames(cast("AsyncIterator[bytes]", answer.stream), clean)
        return answer  # an export: `SharedStore.export_pieces` has done it
    if media_type.startswith("application/json"):
        raw = answer.value if isinstance(answer.value, bytes) else msgspec.json.encode(answer.value)
        answer.value = _cleaned(raw, clean)
    return answer


def _cleaned(raw: bytes, clean: Redactor) -> bytes:
    value = msgspec.json.decode(clean.raw(raw, "an answer"))
    if isinstance(value, dict):
        entries = value.get("data")
        for one in (value, *(entries if isinstance(entries, list) else ())):
            if isinstance(one, dict):
                one.pop("hash", None)
    return msgspec.json.encode(value)


async def _clean_frames(pieces: AsyncIterator[bytes], clean: Redactor) -> AsyncIterator[bytes]:
    """Frames of a stream. The data of each stand in one line, as JSON."""
    async for piece in pieces:
        if b"\ndata:" in piece or piece.startswith(b"data:"):
            yield b"\n".join(_clean_line(line, clean) for line in piece.split(b"\n"))
        else:
            yield piece


def _clean_line(line: bytes, clean: Redactor) -> bytes:
    name, colon, value = line.partition(b":")
    if name != b"data" or not colon:
        return line
    return b"data: " + _cleaned(value.strip(), clean)


def _place(text: str | None) -> Head | None:
    if text is None:
        return None
    return START if text == "start" else parse_entry_id(text) or START


def _refuse(self: SharedSession, *_: Any, **__: Any) -> NoReturn:
    raise Problem(403, "shared_only", "A share shows one session only", "this is not part of what is shared")


_OFFERED: Final = frozenset(
    {"checkpoints", "context", "entries", "head", "info", "messages", "summary", "tree", "usage"}
)
for _name in (Session._READS | Session._WRITES) - _OFFERED:
    setattr(SharedSession, _name, _refuse)
