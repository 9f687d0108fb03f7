"""A command line, and stores for it to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clew
from tests.cli.processes import Clew


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


@pytest.fixture
def cli(tmp_path: Path) -> Clew:
    """No store yet."""
    return Clew(tmp_path)


@pytest.fixture
def story(cli: Clew) -> Clew:
    """A session that was rewound past two entries and goes on, a checkpoint, and a fork."""
    with clew.open(cli.store) as store:
        s = store.session("login-bug", tags=["work"], workspace="/srv/shop")
        s.append(user("The login page returns 500. Please fix it."))
        call = {"name": "read_file", "arguments": '{"path": "auth.py"}'}
        s.append(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "42: user = sessions[cookie]\n43: return user"},
        )
        s.append(assistant("Line 42 fails on an old cookie. Guard it, or a middleware?"))
        s.checkpoint("plan")
        s.append(assistant("I rewrote auth.py."), user("Stop! Now nobody can log in."))
        s.rewind("plan")
        s.append(user("Only guard line 42."), assistant("Done."))
        fork = s.fork(at="plan")
        fork.append(user("Try the middleware."), assistant("It works."))
    return cli
