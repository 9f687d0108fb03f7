"""`clew serve --open`: the page in the user's browser, signed in."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from clew.server.process.serve import Started

_ANYWHERE: Final = ("0.0.0.0", "::")
"""Hosts to listen on, which no browser can go to."""


def open_page(started: Started, on_failure: Callable[[], None]) -> None:
    """Open the page with a code of its own; the one that is shown works all the same. Nobody waits for the
    browser: some of them end only when their window is closed. `on_failure`: none was found.

    The address is an argument of the browser's command, which on Linux all users of the machine can see: so
    the code is good for programs of this user only. Other systems do not show it.
    """
    from time import time

    from clew.server.access.browser import new_code
    from clew.server.access.peer import CAN_TELL

    code = new_code(started.store, time(), own=CAN_TELL)
    url = f"{reachable(started.urls[0])}/#once={code}"

    def run() -> None:
        if not (has_screen() and _open(url)):
            on_failure()

    threading.Thread(target=run, name="clew-browser", daemon=True).start()


def reachable(url: str) -> str:
    """An address at which a browser of this machine finds a server that listens everywhere."""
    parts = urlsplit(url)
    if parts.hostname not in _ANYWHERE:
        return url
    host = "127.0.0.1" if parts.hostname == _ANYWHERE[0] else "[::1]"
    return parts._replace(netloc=f"{host}:{parts.port}").geturl()


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
