"""`clew mcp`: the server of one client, on standard input and output.

Standard output carries JSON-RPC and nothing else: the SDK keeps it for itself, and whatever else is printed
goes to standard error.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

import clew
from clew.core.conversation.sessions import normalised
from clew.server.mcp.current import named_in
from clew.server.mcp.factory import make_server
from clew.server.mcp.view import View

if TYPE_CHECKING:
    from clew.server.process.following import Follower


def serve(
    address: str | None,
    *,
    workspace: Path | None = None,
    sees_all: bool = False,
    writes: bool = False,
    reveals: bool = False,
    sync: bool = False,
    session: str | None = None,
) -> None:
    """Serve until the client closes standard input. The store is made if need be.

    Args:
        address: Of the store; None: the user's own.
        workspace: What `here` means; None: the directory of this process.
        sees_all: Sessions of all workspaces are searched, unless a question names one.
        writes: Offer `checkpoint` and `remember`.
        reveals: Tell secrets.
        session: The session of the client; None: as the environment says.
        sync: Follow the agents of this machine, as `clew watch` does, unless another process does.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="clew mcp: %(message)s")
    # A read of standard input cannot be interrupted from inside. The store takes no harm: every write is
    # whole or not there.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with clew.open(address) as store:
        view = View(
            store=store,
            workspace=normalised(workspace or os.getcwd()),
            sees_all=sees_all,
            looks_everywhere=sees_all,
            writes=writes,
            takes_files=True,
            reveals=reveals,
            session=session or named_in(os.environ),
        )
        follower = _following(store, address) if sync else None
        try:
            anyio.run(_run, make_server(lambda context: view))
        except* BrokenPipeError:
            pass  # the client is gone, and reads nothing any more
        finally:
            if follower is not None:
                follower.stop()


async def _run(server: Server[Any]) -> None:
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


def _following(store: clew.Store, address: str | None) -> Follower:
    from clew.server.process.access_log import Log
    from clew.server.process.following import Follower

    follower = Follower(store, address, Log(is_quiet=True, is_threaded=False))
    follower.start()
    return follower
