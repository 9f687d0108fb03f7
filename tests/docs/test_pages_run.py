"""Every block of Python in README, tutorial and how-to runs, in order, and prints what it says."""

from __future__ import annotations

import asyncio
import io
import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.docs.pages import Block, blocks, check_printed, name, pages_that_run


@pytest.fixture(autouse=True)
def no_event_loop_is_left() -> Iterator[None]:
    """A framework whose calls do not await may leave a loop open, which another test would be blamed for."""
    yield
    with warnings.catch_warnings(), suppress(RuntimeError):
        warnings.simplefilter("ignore", DeprecationWarning)
        asyncio.get_event_loop().close()
    asyncio.set_event_loop(None)


@pytest.mark.parametrize("page", pages_that_run(), ids=name)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One namespace for the page, in an empty directory, with a store of its own as the default.

    A page about a framework imports it, which takes a second or two.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_STORE", str(tmp_path / "default.db"))
    port = free_port()
    found = [block._replace(code=block.code.replace("8753", port)) for block in blocks(page, "python")]
    assert found or blocks(page, "bash"), f"{name(page)} shows no code and no command"

    namespace: dict[str, Any] = {"__name__": "page"}
    try:
        for block in found:
            run(page, block, namespace)
    finally:
        for value in namespace.values():
            # A client that is left to the collector of garbage would be blamed on another test.
            if isinstance(value, clew.Store) or type(value).__module__ == "openai":
                value.close()


def free_port() -> str:
    """For a page that serves: others may use the one that it names."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


def run(page: Path, block: Block, namespace: dict[str, Any]) -> None:
    # Empty lines before it make the traceback name the line of the page.
    source = "\n" * (block.line - 1) + block.code
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(source, page, "exec"), namespace)  # noqa: S102 (our own pages)
    check_printed(page, block, printed.getvalue().splitlines())


def test_the_first_code_of_the_readme_is_short() -> None:
    """Twelve lines show what Clew is."""
    [first, *_] = blocks(pages_that_run()[0], "python")
    lines = [line for line in first.code.splitlines() if line.strip()]
    assert len(lines) <= 12


def test_a_page_that_prints_something_else_is_noticed(tmp_path: Path) -> None:
    block = Block(1, "python", "print(1 + 1)  # prints: 3")
    with pytest.raises(AssertionError, match="not '3'"):
        run(pages_that_run()[0], block, {})


def test_pages_do_not_leave_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own store is out of reach: `clew.open()` without an address opens $CLEW_STORE."""
    monkeypatch.setenv("CLEW_STORE", str(tmp_path / "default.db"))
    with clew.open() as store:
        assert store.location == os.path.join(tmp_path, "default.db")
