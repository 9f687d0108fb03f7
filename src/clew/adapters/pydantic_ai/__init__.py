"""Conversations of Pydantic AI in a Clew store: `ClewConversationStore`.

    from clew.adapters.pydantic_ai import ClewConversationStore      # pip install '.[pydantic-ai]'

    conversations = ClewConversationStore(clew.open("agents.db"))
    conversation = await conversations.load("chat-1") or Conversation(conversation_id="chat-1")
    result = await agent.run("Hello", conversation=conversation)
    await conversations.save(result)

A conversation is a session: its history is the path to the head, its branches are branches, and a fork shares
all messages before it. Each message is stored once, and each save is one commit.
"""

from clew.adapters.common import missing, require

try:
    require("pydantic-ai")
    from clew.adapters.pydantic_ai.store import ClewConversationStore
except ImportError as exc:
    raise missing("pydantic-ai", exc) from exc

__all__ = ["ClewConversationStore"]
