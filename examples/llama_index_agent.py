"""LlamaIndex on a Clew store: resume, go back, fork, search.

    python examples/llama_index_agent.py

The model is a mock, so nothing leaves the machine. Give the engine a real one, and it is the same.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer

import clew
from clew.adapters.llama_index import ClewChatStore


def ask(chats: ClewChatStore, key: str, question: str) -> None:
    memory = ChatMemoryBuffer.from_defaults(chat_store=chats, chat_store_key=key, token_limit=3000)
    engine = SimpleChatEngine(llm=MockLLM(max_tokens=4), memory=memory, prefix_messages=[])
    engine.chat(question)
    print(f"{key}: {question} ({len(chats.get_messages(key))} messages)")


def main(path: Path) -> None:
    with clew.open(path) as store:
        chats = ClewChatStore(store)
        ask(chats, "ada", "Where is the heron?")
        chats.session("ada").checkpoint("heron")
        ask(chats, "ada", "And the owl?")

    with clew.open(path) as store:  # another day, another process
        chats = ClewChatStore(store)
        ada = chats.session("ada")
        ada.fork("ada-owl")
        ada.rewind("heron")  # the owl was never asked for
        ask(chats, "ada", "And the robin?")
        ask(chats, "ada-owl", "How does it hear so well?")
        print("keys:", chats.get_keys())
        print("found:", sorted((hit.session, hit.role) for hit in store.search("owl", role="user")))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(Path(directory) / "agents.db")
