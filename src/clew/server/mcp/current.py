"""Which session is the caller's own: the one that runs while it asks. It does not look for itself.

Some clients say it: Codex with every call, Claude Code in the environment of the programs that it starts.
Of the others it is known only that their session was active a moment ago.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from clew.core.log.ids import is_id
from clew.core.log.records import is_anothers
from clew.model import SessionInfo
from clew.server.mcp.view import HERE, View

RECENT: Final = timedelta(minutes=10)
"""A session that was active since then may be the caller's."""
MOST: Final = 50
"""Sessions that are looked at."""
VARIABLES: Final = {"CLEW_SESSION": "", "CLAUDE_CODE_SESSION_ID": "claude-code:", "CODEX_THREAD_ID": "codex:"}
"""Where the environment names a session, and what Clew puts before the name."""
_CODEX: Final = "x-codex-turn-metadata"


def named_in(environment: Mapping[str, str]) -> str | None:
    """The session that the environment of this process names."""
    return next(
        (start + environment[name] for name, start in VARIABLES.items() if environment.get(name)), None
    )


def named_by(meta: Mapping[str, Any] | None) -> str | None:
    """The session that a request names in its `_meta`."""
    found = (meta or {}).get(_CODEX)
    if isinstance(found, str):
        try:
            found = msgspec.json.decode(found)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            return None
    id = found.get("session_id") if isinstance(found, dict) else None
    return f"codex:{id}" if isinstance(id, str) and id else None


def own_sessions(view: View) -> list[SessionInfo]:
    """The caller's own sessions, newest activity first: the one that is known to be, or all that were active
    a moment ago, where the caller works; but none that another made with a bound token."""
    named = named_session(view)
    if named is not None:
        return [named]
    scope = view.scope(HERE)
    if scope is None:
        return []
    since = datetime.now(UTC) - RECENT
    page = view.store.list(workspace=scope.workspace, tag=scope.tags or None, since=since, limit=MOST)
    return [one for one in page if not is_anothers(one.metadata, view.principal.id)]


def named_session(view: View) -> SessionInfo | None:
    """The session that the caller is known to be. None: it is not named, or not there to be seen."""
    found = view.store.find(view.session) if view.session is not None and is_id(view.session) else None
    return found.info if found is not None and view.sees(found.info) else None
