"""Sessions of Strands agents in a Clew store.

    from clew.adapters.strands import ClewSessionRepository    # pip install '.[strands]'

    repository = ClewSessionRepository(clew.open("agents.db"))
    manager = RepositorySessionManager(session_id="chat-1", session_repository=repository)
    agent = Agent(session_manager=manager)

`ClewStorage` is the other way: the `Storage` of a `SnapshotSessionManager`, or of a whole agent.

An agent of a session is one session of the store, `chat-1/default`, and each message one entry of its log.
A message that Strands changes is written on a new branch: `repository.session("chat-1").undo()` brings the
old message back.
"""

from clew.adapters.common import missing, require

try:
    require("strands")
    from clew.adapters.strands.repository import ClewSessionRepository
    from clew.adapters.strands.storage import ClewStorage
except ImportError as exc:
    raise missing("strands", exc) from exc

__all__ = ["ClewSessionRepository", "ClewStorage"]
