"""The store over HTTP: `clew serve`, and the same as an ASGI application for your own server.

    from clew.server import app

    application = app(clew.open("agents.db"))

Needs `clew[server]`. Every route is a thin face of a call of the library: docs/reference/http-api.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew.aio import AsyncStore
    from clew.server.application import Server
    from clew.store import Store


def app(store: Store | AsyncStore, **settings: Any) -> Server:
    """An ASGI application that serves a store. It may be mounted below any path of another application.

    Args:
        store: A store that is open. The application does not close it.
        settings: Those of `clew.server.process.settings.Settings`.
    """
    from clew.server.application import Server
    from clew.server.process.settings import Settings
    from clew.store import Store

    return Server(store if isinstance(store, Store) else store.blocking, Settings(**settings))
