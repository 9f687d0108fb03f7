"""An agent of the Claude Agent SDK that goes back in time, with its conversation and its files.

    python examples/claude_agent.py

`scripted_claude.py` stands in for the `claude` program, so nothing leaves the machine. Leave `cli_path` and
`env` out of the options, and the same code drives the real one.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
import tempfile
from pathlib import Path

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    SessionKey,
    list_sessions_from_store,
    project_key_for_directory,
    query,
)

import clew
from clew.adapters.claude import ClewSessionStore


def scripted_program(home: Path) -> Path:
    program = home / "claude"
    script = Path(__file__).with_name("scripted_claude.py")
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, str(script)])} "$@"\n')
    program.chmod(0o700)
    return program


class Agent:
    """One agent in one directory. A new one goes on where the last one stopped."""

    def __init__(self, home: Path, program: Path) -> None:
        self.project = home / "project"
        self.project.mkdir(exist_ok=True)
        self.database = clew.open(home / "agents.db")
        self.store = ClewSessionStore(self.database)
        self.files = self.store.file_checkpoints(self.project)
        self.options = ClaudeAgentOptions(
            cwd=self.project,
            session_store=self.store,
            hooks=self.files.hooks,
            cli_path=program,
            env={"CLAUDE_CONFIG_DIR": str(home / "config")},
        )

    async def ask(self, prompt: str, session: str | None = None) -> str:
        """One turn; the id of the session comes back."""
        self.options.resume = session
        async for message in query(prompt=prompt, options=self.options):
            if isinstance(message, ResultMessage):
                print(f"> {prompt}\n{message.result}")
                session = message.session_id
        assert session is not None
        return session

    def key(self, session: str) -> SessionKey:
        return {"project_key": project_key_for_directory(str(self.project)), "session_id": session}


async def tell(home: Path, program: Path) -> None:
    agent = Agent(home, program)
    session = await agent.ask("write blue to colour.txt")
    await agent.ask("write red to colour.txt", session)
    agent.database.close()

    print("-- a new store object resumes")
    agent = Agent(home, program)
    await agent.ask("write big to size.txt", session)

    print("-- back to before the second prompt, with the files")
    key = agent.key(session)
    await agent.files.rewind(key, "prompt-2")
    print(sorted(f"{file.name}: {file.read_text()}" for file in agent.project.iterdir()))
    await agent.ask("write green to colour.txt", session)

    print("-- nothing is lost")
    (listed,) = await list_sessions_from_store(agent.store, directory=str(agent.project))
    tree = agent.store.session(key).tree()
    print(f"{listed.first_prompt!r} has {len(tree.branches)} branches")
    (hit,) = agent.database.search("red", role="user")
    print(f"found: {hit.snippet!r}, on the path: {hit.on_path}")
    agent.database.close()


def main(home: Path) -> None:
    asyncio.run(tell(home, scripted_program(home)))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(Path(directory))
