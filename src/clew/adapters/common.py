"""What adapters share: extras, ids, sessions that are theirs, remembered histories, JSON text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from math import inf, isfinite, nan
from typing import Any, Final, NamedTuple

import msgspec
from blake3 import blake3

import clew
from clew.core.log.ids import is_id
from clew.core.messages.codec import prepare

# ── The packages of the frameworks: what to say if one is missing, too old or broken ──────────────

NEEDED: Final = {
    "adk": ("google-adk", "2.13"),
    "agent-framework": ("agent-framework-core", "1.23"),
    "claude": ("claude-agent-sdk", "0.2.182"),
    "langgraph": ("langgraph-checkpoint", "4.3.1"),
    "llama-index": ("llama-index-core", "0.14.25"),
    "openai-agents": ("openai-agents", "0.24"),
    "pydantic-ai": ("pydantic-ai-slim", "2.66"),
    "strands": ("strands-agents", "1.62"),
}
"""For each extra its package and the oldest version that works, as in pyproject.toml."""

_VERSION_NUMBER: Final = re.compile(r"\d+")


def require(extra: str) -> None:
    """Raise ImportError if the framework is older than the oldest that works.

    An older one may be imported all the same, and fail when it is used.
    """
    package, needed = NEEDED[extra]
    try:
        is_old = _numbers(version(package)) < _numbers(needed)
    except PackageNotFoundError:  # its modules may be there all the same
        return
    if is_old:
        raise ImportError("an older one fails when it is used")


def missing(extra: str, error: ImportError) -> ImportError:
    """The error to raise if a framework cannot be imported: it is missing, too old, or broken."""
    package, needed = NEEDED[extra]
    try:
        installed = version(package)
    except PackageNotFoundError:
        told = f"this adapter needs {error.name or package}: pip install '{package}>={needed}'"
    else:
        reason = str(error).partition(" (")[0]  # without the path of a file
        if _numbers(installed) < _numbers(needed):
            told = (
                f"this adapter needs {package} {needed} or newer, and {installed} is installed ({reason}): "
                f"pip install --upgrade '{package}>={needed}'"
            )
        else:
            told = (
                f"{package} {installed} is installed, but cannot be imported ({reason}): "
                f"pip install --force-reinstall {package}"
            )
    return ImportError(told, name=error.name)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in _VERSION_NUMBER.findall(version)[:3]]


# ── Values of a framework as JSON text, and back; also values that JSON cannot express ────────────
# NaN and Infinity are kept as an object that names them, and come back as numbers. Some frameworks keep such
# numbers, others silently write null.
# Half of a surrogate pair is escaped, so that the store can replace it and flag the entry.

_NUMBER: Final = "__clew_float__"
"""The only key of an object that stands for such a number."""
_NUMBERS: Final = {"nan": nan, "inf": inf, "-inf": -inf}


def encode(value: Any) -> bytes:
    """The JSON text of a value of JSON's types. TypeError for any other value."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(_wrapped(value), separators=(",", ":")).encode()
    except ValueError:
        return encode(_wrapped(value))


def decode(text: bytes) -> Any:
    """The value of such a text."""
    return restored(json.loads(text))


def encode_model(model: Any, dump_json: Callable[[Any], bytes], dump_python: Callable[[Any], Any]) -> bytes:
    """The JSON text of a Pydantic model. `dump_json` and `dump_python` (in its mode "json") dump the
    model."""
    try:
        text = dump_json(model)
    except ValueError:  # half a surrogate pair
        return encode(_put_back(model, dump_python(model)))
    if b"null" not in text or not _has_odd_numbers(model):
        return text
    return encode(_put_back(model, json.loads(text)))


def dump_model(model: Any) -> dict[str, Any]:
    """A model of Pydantic as a value that the store can keep."""
    told: dict[str, Any] = model.model_dump(mode="json")
    return _wrapped(_put_back(model, told)) if _has_odd_numbers(model) else told


def with_numbers(text: bytes) -> bytes:
    """Text from the store with NaN and Infinity in the form that Pydantic reads."""
    if _NUMBER.encode() not in text:
        return text
    return json.dumps(decode(text)).encode()


def mended(text: bytes) -> bytes:
    """The text as the store will keep it: halves of surrogate pairs are replaced."""
    return prepare(text).body if b"\\ud" in text else text


def restored(value: Any) -> Any:
    """A value from the store, with NaN and Infinity as numbers again."""
    if isinstance(value, dict):
        if value.keys() == {_NUMBER}:
            name = value[_NUMBER]
            return _NUMBERS.get(name, value) if isinstance(name, str) else value
        return {name: restored(each) for name, each in value.items()}
    return [restored(each) for each in value] if isinstance(value, list) else value


def _wrapped(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _wrapped(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_wrapped(each) for each in value]
    if isinstance(value, float) and not isfinite(value):
        return {_NUMBER: repr(float(value))}
    return value


# -- Pydantic writes null for such a number, so it is taken from the model


def _parts(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, (list, tuple)):
        return enumerate(value)
    if hasattr(type(value), "model_fields"):
        return [*vars(value).items(), *(value.__pydantic_extra__ or {}).items()]
    if is_dataclass(value):
        return [(field.name, getattr(value, field.name, None)) for field in fields(value)]
    return ()


def _has_odd_numbers(value: Any) -> bool:
    if isinstance(value, float):
        return not isfinite(value)
    return any(_has_odd_numbers(part) for _, part in _parts(value))


def _put_back(value: Any, told: Any) -> Any:
    """The dumped value `told`, with each null that stands for a number replaced by that number."""
    if isinstance(value, float):
        return value if told is None and not isfinite(value) else told
    for name, part in _parts(value):
        if (isinstance(told, dict) and name in told) or (isinstance(told, list) and name < len(told)):
            told[name] = _put_back(part, told[name])
    return told


# ── Sessions ──────────────────────────────────────────────────────────────────────────────────────
# Sessions of a framework in a store: both faces of the store, ids, and which framework owns a session.

_ESCAPED: Final = str.maketrans({"%": "%25", "/": "%2F", "\0": "%00"})
_HASHED: Final = "~"
"""The first character of an id that stands for a text that cannot be an id itself."""
_PAGE: Final = 500

_OWN: Final[set[tuple[str, str, str]]] = set()
"""Sessions, with one of their branches, that are known to belong to a framework: to check each time would
cost a round trip for each message. No other session ever has the same branch."""
_MOST_OWN: Final = 10_000


def faces(store: clew.Store | clew.AsyncStore) -> tuple[clew.Store, clew.AsyncStore]:
    """The blocking face and the async face of a store."""
    if isinstance(store, clew.AsyncStore):
        return store.blocking, store
    if isinstance(store, clew.Store):
        return store, clew.AsyncStore.over(store)
    raise clew.InvalidError(
        f"an adapter needs a store, as clew.open() gives, not {type(store).__name__}: {store!r:.80}"
    )


def session_id(*parts: str) -> str:
    """The id of a session that a framework names by one or several texts.

    One text is its own id. Several are escaped and joined by "/", so that no two lists of texts get the same
    id. A text that is too long, empty or otherwise not an id is replaced by its hash.
    """
    id = parts[0] if len(parts) == 1 else "/".join(part.translate(_ESCAPED) for part in parts)
    if is_id(id) and not id.startswith(_HASHED):
        return id
    return _HASHED + blake3(_distinct(parts)).hexdigest()


def _distinct(parts: Sequence[str]) -> bytes:
    texts = [part.encode("utf-8", "surrogatepass") for part in parts]
    return b"".join(b"%d:%s" % (len(text), text) for text in texts)


def find_own(store: clew.Store, id: str, framework: str) -> clew.Session | None:
    """The session of this id, for reading, changing or deleting it; None: this framework has none yet.

    SessionTakenError if the session belongs to another framework or program.
    """
    session = store.find(id)
    return session if session is not None and _is_own(session, framework) else None


def open_own(
    store: clew.Store, id: str, metadata: Mapping[str, Any], *, tags: Sequence[str] = (), **settings: Any
) -> clew.Session:
    """The session of this id, created with these settings if there is none.

    `metadata` names the framework. An empty session without a framework becomes one of this framework, and
    keeps its title, its tags and its own metadata.
    SessionTakenError if the session belongs to another framework or program.
    """
    # Nearly always it is there: then its settings need not be checked.
    session = store.find(id) or store.session(id, metadata=metadata, tags=tags, **settings)
    if not _is_own(session, metadata["framework"]):
        info = session.info
        session.update(metadata={**info.metadata, **metadata}, tags=[*info.tags, *tags])
    return session


def listed(
    store: clew.Store, where: Mapping[str, Any], *, deleted: bool = False
) -> Iterator[clew.SessionInfo]:
    """All sessions with this metadata, newest activity first; `deleted`: those in the trash."""
    cursor: str | None = None
    while True:
        page = store.list(where=where, limit=_PAGE, cursor=cursor, deleted=deleted)
        yield from page
        cursor = page.cursor
        if cursor is None:
            return


def _is_own(session: clew.Session, framework: str) -> bool:
    """False: it is empty and belongs to no framework. SessionTakenError if it belongs to another one."""
    known = framework, session.id, session.head.branch
    if known in _OWN:
        return True
    owner = session.info.metadata.get("framework")
    if owner is None and not session.tree().branches and not session.documents(limit=1):
        return False
    if owner != framework:
        raise clew.errors.SessionTakenError(session.id, framework, None if owner is None else str(owner))
    if session.head.branch:
        if len(_OWN) >= _MOST_OWN:
            _OWN.clear()
        _OWN.add(known)
    return True


# ── The history of a session: its latest messages, the way back, and a copy in memory ─────────────

BEGINNING: Final = clew.Head("", -1)
"""The head of a session that has no entries."""


def entry_at(head: clew.Head) -> str:
    """The id of the entry at which a session stands; empty: before the first entry."""
    return f"{head.branch}.{head.position}" if head.branch else ""


def messages_in(session: clew.Session) -> list[clew.Entry]:
    """The entries on the path that are messages."""
    return [entry for entry in session.entries() if entry.kind == "message"]


def count_of(value: object) -> int:
    """A number of tokens as a framework tells it; 0 for anything that is not one."""
    return value if type(value) is int and value > 0 else 0


def newest(session: clew.Session, count: int) -> list[clew.Entry]:
    """The latest entries that are messages, newest first."""
    latest = list(session.entries(last=count, newest_first=True))
    messages = [entry for entry in latest if entry.kind == "message"]
    if len(messages) == len(latest):
        return messages
    # There are marks among them, such as summaries: read further.
    path = (entry for entry in session.entries(newest_first=True) if entry.kind == "message")
    return list(islice(path, count))


def rewind_before(session: clew.Session, entry: clew.Entry) -> None:
    """Go back to before an entry of the path. The entry and all behind it stay on a branch."""
    session.rewind(entry.position - 1 if entry.position else BEGINNING)


# -- a copy in memory

MOST_BYTES: Final = 32 * 2**20
"""The most bytes of a history in memory; a longer one is read from the store each time."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class _Kept(NamedTuple):
    head: clew.Head
    removals: list[clew.model.Removal]
    """The newest line of the log of removals when the history was read."""
    texts: tuple[bytes, ...]
    """JSON lists of messages, one for each read that brought new ones."""
    size: int


class Remembered:
    """The history of one session, as it was read last. Safe to use from any thread.

    Frameworks ask for the whole history in every turn. The copy is text, so each caller gets new messages.
    The history is read again as a whole after a rewind, a clear or a replace, and after a retention rule
    removed something.
    """

    def __init__(self) -> None:
        self._kept: _Kept | None = None

    def messages(self, store: clew.Store, session: clew.Session | None) -> list[dict[str, Any]]:
        """All messages on the path. Call it inside `store.read(…)`, so that all is of one moment."""
        if session is None:
            self._kept = None
            return []
        head, removals = session.head, store.removals(limit=1)
        kept = self._kept
        if kept is not None and kept.removals == removals:
            new = [] if kept.head == head else _since(session, kept.head)
            if new is not None:
                self._keep(head, removals, kept, new)
                return [message for text in kept.texts for message in _decode(text)] + new
        messages = session.messages()
        self._keep(head, removals, None, messages)
        return messages

    def _keep(
        self,
        head: clew.Head,
        removals: list[clew.model.Removal],
        before: _Kept | None,
        new: list[dict[str, Any]],
    ) -> None:
        texts, size = ((), 0) if before is None else (before.texts, before.size)
        if new:
            text = _encode(new)
            texts, size = (*texts, text), size + len(text)
        self._kept = _Kept(head, removals, texts, size) if head.position >= 0 and size <= MOST_BYTES else None


def _since(session: clew.Session, head: clew.Head) -> list[dict[str, Any]] | None:
    """The messages behind a place; None: the place is no longer on the path."""
    try:
        return session.messages(after=head)
    except clew.errors.EntryNotFoundError:
        return None
