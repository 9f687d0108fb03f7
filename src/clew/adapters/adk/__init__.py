"""Google ADK: a session service on a Clew store.

    service = ClewSessionService(clew.open("agents.db"))               # pip install '.[adk]'
    runner = Runner(agent=agent, app_name="shop", session_service=service)

Each ADK session is a Clew session, and its events are the messages: `clew ls`, `show`, `search`, `rewind`,
`fork` and `export` work on them. The state of a session follows its events: after a rewind it is the state of
that point.
"""

from clew.adapters.common import missing, require

try:
    require("adk")
    from clew.adapters.adk.service import ClewSessionService
except ImportError as exc:
    raise missing("adk", exc) from exc

__all__ = ["ClewSessionService"]
