"""LangGraph: its checkpoints in a Clew store.

    graph = builder.compile(checkpointer=ClewSaver(clew.open()))       # pip install '.[langgraph]'

A thread is a session. Its messages are the conversation of the session, each stored once, so the thread can
be listed, shown, searched and exported; everything else of a checkpoint is in documents beside it.
"""

from clew.adapters.common import missing, require

try:
    require("langgraph")
    from clew.adapters.langgraph.saver import ClewSaver
except ImportError as exc:
    raise missing("langgraph", exc) from exc

__all__ = ["ClewSaver"]
