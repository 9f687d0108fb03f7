"""The page of a server in the user's browser: of the one that just started, or of one that runs already."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from time import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from clew.server.access.state import Running
    from clew.server.process.serve import Started

_WAIT: Final = 5.0
"""Seconds that a server has to say that it is there."""


def open_page(started: Started, on_failure: Callable[[], None]) -> None:
    """Open the page of a new server. Nobody waits for the browser: some of them end only when their window is
    closed. `on_failure`: none was found."""
    url = _own_address(started.local or started.urls[0], started.store)

    def run() -> None:
        if not (has_screen() and _open(url)):
            on_failure()

    threading.Thread(target=run, name="clew-browser", daemon=True).start()


def open_running(server: Running, location: str) -> bool:
    """Open the page of a server that runs already. False: no browser was found."""
    return has_screen() and _open(_own_address(server.local or server.url, location))


def _own_address(url: str, location: str) -> str:
    """An address with a code of its own; one that is shown elsewhere works all the same.

    The address is an argument of the browser's command, which on Linux all users of the machine can see: so
    the code is good for programs of this user only. Other systems do not show it.
    """
    from clew.server.access.browser import new_code
    from clew.server.access.peer import CAN_TELL

    return f"{url}/#once={new_code(location, time(), own=CAN_TELL)}"


def find_server(location: str) -> Running | None:
    """The server of a store that runs on this machine, has a page, and answers. It is asked without a token:
    what listens there now may be another program."""
    from clew.server.access.state import running

    found = running(location)
    return found if found is not None and found.page and found.local and _answers(found.local) else None


def _answers(url: str) -> bool:
    """Whether a server of this user answers there."""
    from http.client import HTTPConnection, HTTPException

    from clew.server.access.peer import CAN_TELL, is_own_user

    parts = urlsplit(url)
    try:
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=_WAIT)
        try:
            connection.connect()
            ours, theirs = connection.sock.getsockname()[:2], connection.sock.getpeername()[:2]
            connection.request("GET", f"{parts.path}/health")
            is_there = connection.getresponse().status == 200
            return is_there and (not CAN_TELL or is_own_user(theirs, ours))
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError):
        return False


def has_screen() -> bool:
    """Whether a browser has a screen of its own. Without one, Python would start a browser for terminals in
    the terminal of the server; $BROWSER is the user's word, whatever it names."""
    if sys.platform in ("darwin", "win32"):
        return True
    return any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))


def _open(url: str) -> bool:
    import webbrowser

    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError, ValueError):  # also of a $BROWSER that cannot be read
        return False
