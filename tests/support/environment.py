"""Environment variables of the person who runs the tests: none of them may change a result.

Without this a terminal that calls itself dumb, a pager of one's own, or a real agent that runs the tests as
one of its tools would make tests fail.
"""

from __future__ import annotations

import os
from typing import Final

PREFIXES: Final = (
    # how a terminal looks, and which programs a person likes
    *("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "COLUMNS", "LINES", "RICH_", "TEXTUAL"),
    *("PAGER", "LESS", "EDITOR", "VISUAL", "BROWSER", "DISPLAY", "WAYLAND_DISPLAY"),
    # language, time and directories
    *("LANG", "LC_", "TZ", "SOURCE_DATE_EPOCH", "XDG_"),
    # agents and their keys; servers and repositories
    *("CLAUDE", "CODEX_", "GEMINI_", "OPENCODE_", "PI_CODING_", "ANTHROPIC_", "OPENAI_", "GOOGLE_"),
    *("AWS_", "PG", "GIT_", "NOTIFY_SOCKET", "WATCHDOG_"),
    # Clew's own, but for those that say how to run the tests
    *("CLEW_PAGER", "CLEW_SESSION", "CLEW_STORE", "CLEW_TOKEN", "CLEW_URL"),
)


def forget_variables_of_the_user() -> None:
    """Remove every variable that could change what Clew, or a program that it starts, does or shows."""
    for name in [name for name in os.environ if name.startswith(PREFIXES)]:
        del os.environ[name]
