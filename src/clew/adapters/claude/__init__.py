"""The Claude Agent SDK: a `SessionStore` that keeps transcripts as Clew sessions.

    store = ClewSessionStore(clew.open())                              # pip install '.[claude]'
    options = ClaudeAgentOptions(session_store=store, resume=session_id)

A transcript is one session, with one entry for each line. The transcript of a subagent is a session of its
own, whose metadata names its `parent`. `load` gives the path to the head: rewind a session, and the agent
resumes there.
"""

from clew.adapters.common import missing, require

try:
    require("claude")
    from clew.adapters.claude.files import FileCheckpoints
    from clew.adapters.claude.store import ClewSessionStore
except ImportError as exc:
    raise missing("claude", exc) from exc

__all__ = ["ClewSessionStore", "FileCheckpoints"]
