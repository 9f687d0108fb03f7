"""What every call is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from clew.backends.contract import Reader, Transaction
from clew.backends.http.wire import MOST_ROWS, ROOM

Limit: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_ROWS)]
Text: TypeAlias = Annotated[str, Meta(max_length=16_384)]
"""Of ids, names and settings; each kind has narrower rules of its own."""
ObjectName: TypeAlias = Annotated[bytes, Meta(max_length=64)]
T = TypeVar("T")


def _tag(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


class Call(msgspec.Struct, Generic[T], array_like=True, forbid_unknown_fields=True, tag=_tag, gc=False):
    """One call, as ["get_session", 7]."""

    answer: ClassVar[Any] = None

    def of(self, on: Transaction) -> Any:
        """Carry it out; what is sent back."""
        raise NotImplementedError

    def taken(self, answer: Any) -> T:
        """What the method of the contract returns. CorruptError: the answer cannot be one."""
        return answer  # type: ignore[no-any-return]


class Read(Call[T], Generic[T]):
    """A call that changes nothing."""

    def of(self, on: Reader) -> Any:
        raise NotImplementedError


class Write(Call[Any]):
    """A call that changes something."""

    answer: ClassVar[Any] = tuple[int | None, bool]
    """What the method returns, if that is a number, and whether anything changed."""

    def of(self, on: Transaction) -> tuple[int | None, bool]:
        before = on.writes
        result = self.do(on)
        return result, on.writes != before

    def do(self, on: Transaction) -> int | None:
        raise NotImplementedError


def within(found: Sequence[T], size: Callable[[T], int]) -> Sequence[T]:
    """Those that come to ROOM, at least one."""
    room = ROOM
    for index, each in enumerate(found):
        room -= size(each)
        if room <= 0:
            return found[: index + 1]
    return found
