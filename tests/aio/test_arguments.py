"""The async face passes on what it is given: each argument under its name, and the answer as it came."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import clew
from clew import AsyncRun, AsyncSession, AsyncStore
from clew.backends.memory import MemoryBackend
from tests.support.rows import each_row

FACES = ((clew.Store, AsyncStore), (clew.Session, AsyncSession), (clew.Run, AsyncRun))
MORE_THAN_ONE_CALL = {
    "add_event", "add_events", "append", "close", "entries", "export_pieces", "get", "run", "transact",
    "turn", "watch",
}  # fmt: skip
"""Tested by what they do."""

each_method = each_row(
    ("sync", "aio", "name"),
    [
        (sync, aio, name)
        for sync, aio in FACES
        for name in dir(sync)
        if not name.startswith("_") and name not in MORE_THAN_ONE_CALL
    ],
    ids=lambda row: f"{row[1].__name__}.{row[2]}",
)


@each_method
def test_every_argument_reaches_the_sync_face(sync: type, aio: type, name: str) -> None:
    """A session that comes back has the face of the one that was asked."""
    method = inspect.getattr_static(sync, name)
    behind = Mock()
    if isinstance(method, property):
        assert _answer(aio, behind, lambda handle: getattr(handle, name)) == getattr(behind, name)
        return
    gives = method.__annotations__["return"]
    is_session = re.search(r"\b(Session|Run)\b", gives) is not None
    answer = [Mock()] if is_session and "list" in gives else Mock()
    getattr(behind, name).return_value = answer
    args, options = _given(method)

    found = _answer(aio, behind, lambda handle: getattr(handle, name)(*args, **options))

    getattr(behind, name).assert_called_once_with(*args, **options)
    if is_session:
        sessions = found if isinstance(found, list) else [found]
        assert all(isinstance(session, AsyncSession) for session in sessions)
        found = [session._session for session in sessions]
        answer = answer if isinstance(answer, list) else [answer]
    assert found == (None if gives == "None" else answer)


def _given(method: Callable[..., object]) -> tuple[list[object], dict[str, object]]:
    """A value of its own for each parameter."""
    args, options = list[object](), dict[str, object]()
    for parameter in list(inspect.signature(method).parameters.values())[1:]:
        if parameter.kind is parameter.KEYWORD_ONLY:
            options[parameter.name] = object()
        elif parameter.kind is parameter.VAR_KEYWORD:
            options["title"] = object()
        else:
            args.append(object())
    return args, options


def _answer(aio: type, behind: Mock, ask: Callable[[Any], Any]) -> Any:
    """What the async face over a sync one gives."""

    async def work() -> Any:
        async with AsyncStore(MemoryBackend()) as store:
            if aio is AsyncStore:
                handle: Any = AsyncStore.over(store.blocking)
                handle._store = behind
            else:
                handle = aio(store._bridge, behind)
            found = ask(handle)
            return await found if inspect.isawaitable(found) else found

    return asyncio.run(work())
