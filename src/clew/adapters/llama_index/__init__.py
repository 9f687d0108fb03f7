"""LlamaIndex: chat stores on a Clew store.

    from clew.adapters.llama_index import ClewChatStore                # pip install '.[llama-index]'

    chats = ClewChatStore(clew.open("agents.db"))
    memory = ChatMemoryBuffer.from_defaults(chat_store=chats, chat_store_key="ada")

For the newer `Memory` there is `ClewDBChatStore`, which also knows which messages are archived.

Each key is a session, and each message one entry of its log, written once. Messages that are set or deleted
begin a new branch: `chats.session("ada").undo()` brings the old messages back.
"""

from clew.adapters.common import missing, require

try:
    require("llama-index")
    from clew.adapters.llama_index.chat import ClewChatStore
    from clew.adapters.llama_index.db import ClewDBChatStore
except ImportError as exc:
    raise missing("llama-index", exc) from exc

__all__ = ["ClewChatStore", "ClewDBChatStore"]
