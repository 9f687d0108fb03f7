"""Exports and imports: a session as a file, and a file as sessions. No path of the server's disk is named."""

from __future__ import annotations

import errno
import os
import re
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, cast

import msgspec

from clew.core.work_folder import work_folder
from clew.errors import DiskFullError, InvalidError, InvalidQueryError, SessionNotFoundError
from clew.exporters.file import file_stem
from clew.importers import READERS
from clew.model import Page, SessionInfo
from clew.model.transfer import ImportReport
from clew.server.access.guard import attachment
from clew.server.access.principal import bound
from clew.server.call import Answer, Call, Upload
from clew.server.routes.files import begun
from clew.server.routing import Routes
from clew.server.wire.transfer import ExportQuery, ImportQuery
from clew.session import Session
from clew.store import Store

if TYPE_CHECKING:
    from clew.server.access.principal import Principal

routes = Routes()

LINES: Final = "application/x-ndjson"
KINDS: Final = {
    "json": ("application/json", "json"),
    "markdown": ("text/markdown; charset=utf-8", "md"),
    "html": ("text/html; charset=utf-8", "html"),
    "ductwork": ("application/json", "json"),
    "openrouter": ("application/json", "json"),
    "opencode": ("application/json", "json"),
}
"""Media type and end of the name of each format; all others are lines of JSON."""
TO_READ: Final = ("json", "markdown", "html")
_ODD: Final = re.compile(r"[^\w.@+=,-]", re.ASCII)


# -- out


@routes.get(
    "/sessions/{id}/export",
    slow=True,
    media_type=LINES,
    other_types=tuple(dict.fromkeys(kind for kind, _ in KINDS.values())),
)
def export_session(call: Call, id: str, query: ExportQuery) -> Answer:
    """A session as a file, sent piece by piece.

    An option that the format does not have is refused. `tingly-box` is a database, which this cannot send.
    """
    session = call.session(id)
    if query.format == "tingly-box":
        raise InvalidQueryError("tingly-box is a database, not a text: clew export writes it on the machine")
    options: dict[str, Any] = {
        name: value
        for name, value, usual in (
            ("redact", query.redact, False),
            ("at", call.point_of(session, query.at), None),
            ("whole", query.whole, False),
            ("tools", query.tools, True),
            ("thinking", query.thinking, True),
        )
        if value != usual
    }
    store = call.store
    if call.principal.is_bound and call.principal.kind != "share":
        visible = VisibleStore(store, call.principal)
        if query.format not in TO_READ and visible.get(session.id).hides_base:
            raise bound(
                f"an export to {query.format} names the session that this one was forked from",
                f"export it to {', '.join(TO_READ)}",
            )
        store = cast("Store", visible)
    pieces = store.export_pieces(session.id, query.format, **options)
    media_type, ending = KINDS.get(query.format, (LINES, "jsonl"))
    return Answer(
        stream=begun(pieces),
        media_type=media_type,
        headers=attachment(f"{_stem(call, session, redact=query.redact)}.{ending}", media_type=media_type),
    )


def _stem(call: Call, session: Session, *, redact: bool) -> str:
    """What the file is called: by its title if a program made the id, and nothing is to be left out of it."""
    if redact or call.principal.redact or session.id.partition(":")[0] not in READERS:
        return session.id
    return file_stem(session.id, session.info.title)


class VisibleSession(Session):
    """A session that is not told to be a fork of one that the caller may not see."""

    def __init__(self, session: Session, store: VisibleStore) -> None:
        super().__init__(session._scope, session._access)
        self._store = store

    @property
    def info(self) -> SessionInfo:
        info = super().info
        if info.forked_from is None or self._store.find(info.forked_from.session) is not None:
            return info
        return msgspec.structs.replace(info, forked_from=None)

    @property
    def hides_base(self) -> bool:
        return self.info.forked_from is None and super().info.forked_from is not None


class VisibleStore:
    """A store with the sessions that a caller may see: pages show subagents, which may be another's."""

    def __init__(self, store: Store, principal: Principal) -> None:
        self._store = store
        self._principal = principal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, id: str) -> VisibleSession:
        found = self.find(id)
        if found is None:
            raise SessionNotFoundError(id)
        return found

    def find(self, id: str) -> VisibleSession | None:
        found = self._store.find(id)
        if found is None or not self._principal.sees(found.info):
            return None
        return VisibleSession(found, self)

    def list(self, **query: Any) -> Page:
        filters = self._principal.within(query.pop("workspace", None), query.pop("tag", None) or ())
        if filters is None:
            return Page((), None)
        return self._store.list(workspace=filters[0], tag=filters[1], **query)

    def export_pieces(self, id: str, format: str, **options: Any) -> Any:
        from clew.exporters import pieces

        return pieces(cast("Store", self), id, format, options)


# -- in


@routes.post("/import", answer=ImportReport, slow=True)
async def import_file(call: Call, query: ImportQuery, body: Upload) -> ImportReport:
    """Bring the sessions of a file into the store: a file of Clew, or of one of the agents that it knows.

    Send the file as it is. What is known already is not brought again; what has grown adds what is new.
    Definite secrets are replaced as `GET /redaction` says. The report lists what could not be read. Whatever
    the file says, nothing else is read from the disk of the server.
    """
    with work_folder("import") as folder:  # for its owner alone
        # Agents keep files that belong together some folders apart. These are all empty.
        place = Path(folder, "0", "0", "0", "0", _plain(query.name))
        await _keep(call, body, place)
        return await call.server.in_thread(partial(_import, call.store, place, query), slow=True)


def _plain(name: str) -> str:
    """The name of a file in a folder of its own: no path leads out of it."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return _ODD.sub("_", last).lstrip(".")[:120] or "upload"


async def _keep(call: Call, body: Upload, place: Path) -> None:
    """Write what comes to the disk."""
    file = await call.server.in_thread(partial(_new, place))
    try:
        async for piece in body:
            await call.server.in_thread(partial(_write, file, piece))
    finally:
        await call.server.in_thread(file.close)


def _new(place: Path) -> IO[bytes]:
    place.parent.mkdir(mode=0o700, parents=True)
    return os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _write(file: IO[bytes], piece: bytes) -> None:
    try:
        file.write(piece)
        file.flush()
    except OSError as exc:
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError("there is no space to keep the file while it is imported") from exc
        raise


def _import(store: Store, place: Path, query: ImportQuery) -> ImportReport:
    from clew.importers.reading.files import suffix_of

    if not place.stat().st_size:
        raise InvalidError("the file is empty: send its content as the body")
    if not place.suffix:
        place = place.rename(place.with_suffix(suffix_of(place)))
    return store.import_path(
        place,
        query.format,
        dry_run=query.dry_run,
        rename=query.rename,
        strict=query.strict,
        name=place.name,
    )
