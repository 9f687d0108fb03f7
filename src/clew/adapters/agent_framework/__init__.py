"""Microsoft Agent Framework on a Clew store: history, sessions and workflow checkpoints.

    from clew.adapters.agent_framework import ClewHistoryProvider      # pip install '.[agent-framework]'

    agent = Agent(client, context_providers=[ClewHistoryProvider(store)])

`ClewHistoryProvider` keeps the messages of agents, `ClewAgentSessionStore` whole `AgentSession`s,
`ClewCheckpointStorage` the checkpoints of workflows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.adapters.common import missing, require

try:
    require("agent-framework")
    from clew.adapters.agent_framework.checkpoints import ClewCheckpointStorage
    from clew.adapters.agent_framework.history import ClewHistoryProvider
except ImportError as exc:
    raise missing("agent-framework", exc) from exc

if TYPE_CHECKING:
    from clew.adapters.agent_framework.sessions import ClewAgentSessionStore

__all__ = ["ClewAgentSessionStore", "ClewCheckpointStorage", "ClewHistoryProvider"]


def __getattr__(name: str) -> Any:
    # Importing this class makes the framework warn that its session stores are experimental. Programs that do
    # not use it must not get that warning, so it is imported when it is asked for.
    if name == "ClewAgentSessionStore":
        try:
            from clew.adapters.agent_framework.sessions import ClewAgentSessionStore
        except ImportError as exc:
            raise missing("agent-framework", exc) from exc

        return ClewAgentSessionStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
