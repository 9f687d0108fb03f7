"""The calls of the storage contract as values: what a client sends, and what a server does with it.

Each class is one method of `clew.backends.contract`. Its fields are the arguments, of strict types: whatever
does not fit is refused when it is decoded. `of()` carries it out (on the server), `answer` is the type of
what comes back, and `taken()` makes of that what the method returns (in the client).
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from clew.backends.http.calls import beside, log, objects, sessions
from clew.backends.http.calls.base import Call, Read, Write
from clew.backends.http.wire import MOST_CALLS, CallId
from clew.errors import CorruptError

T = TypeVar("T")


def _calls(kind: type) -> tuple[Any, ...]:
    modules = (sessions, log, beside, objects)
    found = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
    return tuple(one for one in found if issubclass(one, kind) and one.__module__ != kind.__module__)


READS: Final = _calls(Read)
WRITES: Final = _calls(Write)

AnyRead: Any = reduce(or_, READS)
AnyCall: Any = reduce(or_, READS + WRITES)


class ReadRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Calls that only read, each of which sees what is committed then."""

    calls: Annotated[list[AnyRead], Meta(max_length=MOST_CALLS)]


class Expected(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A call that was answered before, and the digest of its answer."""

    call: AnyRead
    digest: Annotated[str, Meta(max_length=64)]


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a transaction, or all of it."""

    transaction: CallId | None = None
    """The one that is open on the server; None: a new one."""
    expect: Annotated[list[Expected], Meta(max_length=MOST_CALLS)] = []
    """Compared first. If an answer is another now, nothing is done."""
    calls: Annotated[list[AnyCall], Meta(max_length=MOST_CALLS)] = []
    end: Literal["", "commit", "undo"] = ""
    commit: CallId | None = None
    """With end "commit": a name for it, by which its outcome can be asked for if the answer is lost."""


decode_read = msgspec.json.Decoder(ReadRequest).decode
decode_step = msgspec.json.Decoder(Step).decode
_decoders: dict[type, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind.answer) for kind in READS + WRITES
}


def answer_of(call: Call[T], raw: bytes | msgspec.Raw) -> T:
    """What the method of the contract returns. CorruptError: the server sent something else."""
    try:
        return call.taken(_decoders[type(call)].decode(raw))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        name = type(call).__struct_config__.tag
        raise CorruptError(f"the server's answer to {name} cannot be read: {error}") from error
