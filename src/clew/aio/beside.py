"""`Beside` for tasks. What each method promises is written there."""

from __future__ import annotations

from clew.aio.bridge import Bridge
from clew.model import Json
from clew.session import Session


class AsyncBeside:
    """Variables and documents of a session, with `await`."""

    _bridge: Bridge
    _session: Session

    async def set_var(self, name: str, value: Json) -> None:
        await self._bridge.call(self._session.set_var, name, value)

    async def get_var(self, name: str, default: Json = None) -> Json:
        return await self._bridge.call(self._session.get_var, name, default)

    async def vars(self) -> dict[str, Json]:
        return await self._bridge.call(self._session.vars)

    async def delete_var(self, name: str) -> bool:
        return await self._bridge.call(self._session.delete_var, name)

    async def set_document(self, name: str, content: bytes) -> None:
        await self._bridge.call(self._session.set_document, name, content)

    async def get_document(self, name: str) -> bytes | None:
        return await self._bridge.call(self._session.get_document, name)

    async def documents(
        self,
        prefix: str = "",
        *,
        after: str | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[tuple[str, bytes]]:
        return await self._bridge.call(
            self._session.documents, prefix, after=after, limit=limit, newest_first=newest_first
        )

    async def delete_document(self, name: str) -> bool:
        return await self._bridge.call(self._session.delete_document, name)
