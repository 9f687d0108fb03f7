"""The pages about the server run as a person types them: against a real `clew serve`, with real clients.

A page becomes one shell script. Its Python is a program of its own, its TypeScript one file that is checked
by the compiler and run by Node at the end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, Block, check_printed, name, parts, server_pages
from tests.support.needs import need
from tests.support.npm import installed

TYPESCRIPT = "5.9.3"
MARK = "@@ block"
TUTORIAL = DOCS / "tutorial" / "a-store-for-the-team.md"
FOR_TYPESCRIPT = DOCS / "how-to" / "use-from-typescript.md"
APART = (TUTORIAL, FOR_TYPESCRIPT)
"""Pages that need something else than a server."""

Home = dict[str, str]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """The environment of a person who has installed Clew."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name_, words in (("python", ""), ("clew", "-m clew")):
        (programs / name_).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (programs / name_).chmod(0o755)
    kept = {key: os.environ[key] for key in ("PYTHONPATH", "LANG") if key in os.environ}
    return {**kept, "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path), "TZ": "UTC"}


@pytest.fixture
def served(home: Home, tmp_path: Path) -> Iterator[Home]:
    """The same, beside a server that runs."""
    home["CLEW_STORE"] = str(tmp_path / "served.db")
    with subprocess.Popen(
        ["clew", "serve", "--port", "0", "--json"], env=home, cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        started = json.loads(process.stdout.readline())
        made = subprocess.run(
            ["clew", "token", "add", "reader-of-the-page", "--scope", "store", "--json"],
            env=home, cwd=tmp_path, stdout=subprocess.PIPE, check=True,
        )  # fmt: skip
        yield {**home, "CLEW_URL": started["url"], "CLEW_TOKEN": json.loads(made.stdout)["token"]}
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


def stem(page: Path) -> str:
    return page.stem


def blocks_of(page: Path) -> list[Block]:
    return [
        part
        for part in parts(page)
        if isinstance(part, Block) and part.language in ("bash", "python", "typescript")
    ]


def script_of(found: list[Block]) -> str:
    """The page as a program for bash."""
    lines = ["set -eu", "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT"]
    for at, block in enumerate(found):
        lines.append(f"echo '{MARK} {at}'")
        if block.language == "bash":
            lines.append(block.code)
        elif block.language == "python":
            given = (
                'import os; CLEW_URL = os.environ.get("CLEW_URL"); CLEW_TOKEN = os.environ.get("CLEW_TOKEN")'
            )
            lines += ["python - <<'END OF PYTHON'", given, block.code, "END OF PYTHON"]
        else:
            lines += ["cat >> agent.ts <<'END OF TYPESCRIPT'", block.code, "END OF TYPESCRIPT"]
    return "\n".join(lines) + "\n"


def run(page: Path, env: Home, place: Path) -> dict[int, list[str]]:
    """What each block printed."""
    if "jq " in page.read_text("utf-8"):
        need("jq")
    done = subprocess.run(
        ["bash", "-c", script_of(blocks_of(page))],
        env=env, cwd=place, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{name(page)}: {done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    printed: dict[int, list[str]] = {}
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            printed[int(line.removeprefix(MARK))] = []
        else:
            printed[max(printed)].append(line)
    return printed


def check(page: Path, printed: dict[int, list[str]]) -> None:
    for at, block in enumerate(blocks_of(page)):
        if block.language != "typescript":
            check_printed(page, block, printed[at])


@pytest.mark.parametrize("page", [page for page in server_pages() if page not in APART], ids=stem)
def test_a_page_does_what_it_says(page: Path, served: Home, tmp_path: Path) -> None:
    check(page, run(page, served, tmp_path))


def test_the_tutorial_of_a_team_does_what_it_says(home: Home, tmp_path: Path) -> None:
    check(TUTORIAL, run(TUTORIAL, home, tmp_path))


def test_the_typescript_of_its_page_is_typed_and_prints_what_it_says(served: Home, tmp_path: Path) -> None:
    check(FOR_TYPESCRIPT, run(FOR_TYPESCRIPT, served, tmp_path))
    modules = installed("typescript", TYPESCRIPT)
    types = installed("@types/node", "24.10.1")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    compiled = subprocess.run(
        [
            "node", str(modules / "typescript/bin/tsc"), "--strict", "--target", "es2022",
            "--module", "nodenext", "--typeRoots", str(types / "@types"), "--types", "node", "agent.ts",
        ],
        env=served, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert compiled.returncode == 0, compiled.stdout
    done = subprocess.run(
        ["node", "agent.js"], env=served, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    expected = [line for block in blocks_of(FOR_TYPESCRIPT) for line in block.expected]
    assert done.stdout.splitlines() == expected
