"""Run the tests that reach a plant, tier by tier, until one fails."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from tests.planted.copy import PROFILE, Copy
from tests.planted.plants import Plant
from tests.support.tiers import TIERS

FEW: Final = 120
"""Tests near the planted module that are run before all others."""
LITTLE: Final = 3
"""Letters of a word that says nothing, like "the"."""
MANY: Final = 200
"""More tests than this are run in several processes."""
ALWAYS: Final = ("-p", "no:randomly", "-p", "no:cacheprovider", f"--hypothesis-profile={PROFILE}")
"""The same tests in the same order, with the same examples, on every run."""
RANDOM: Final = re.compile(r"Falsifying example|@reproduce_failure|site-packages/hypothesis/")
"""What Hypothesis writes: whether its next examples find the bug too is a matter of luck."""
AGAIN: Final = 2
"""How often a test that failed with a bug is run with it again."""
FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (.+)$", re.MULTILINE)
PASSED, SOME_FAILED, NOTHING_RUN = 0, 1, 5


class Caught(NamedTuple):
    """The tests that found a plant; empty: none did."""

    surely: str
    by_chance: str


class Hunt:
    """One copy of the checkout, and what is known of its tests."""

    def __init__(self, copy: Copy, say: Callable[[str], None], workers: int = 2) -> None:
        self.copy = copy
        self._say = say
        self._workers = workers

    # -- which tests reach which plant

    def reach(
        self, tier: str, plants: Sequence[tuple[int, Plant]], where: Sequence[str]
    ) -> dict[int, list[str]]:
        """Run a tier once with a probe at each plant; the tests that reached it and pass without it."""
        notes = self.copy.root / "reached.txt"
        notes.write_text("")
        changed = self.copy.add_probes(plants, notes)
        try:
            code, output = self.pytest(
                "--tier", tier, "-n", str(self._workers), "--dist", "worksteal", *where
            )
        finally:
            for file in changed[:-1]:
                self.copy.restore(file)
            (self.copy.source / changed[-1]).unlink()
        if code not in (PASSED, SOME_FAILED):
            raise RuntimeError(f"pytest ended with {code}:\n{output[-4000:]}")
        bad = {line.partition(" - ")[0] for line in FAILED.findall(output)}
        if bad:
            self._say(
                f"{len(bad)} tests fail without any plant, and are not asked: {', '.join(sorted(bad)[:5])}"
            )
        found: dict[int, list[str]] = {number: [] for number, _ in plants}
        for line in notes.read_text().splitlines():
            number, _, test = line.partition(" ")
            test = test.rpartition(" ")[0]  # without "(call)"
            if number.isdecimal() and test not in bad and test not in found.get(int(number), [test]):
                found[int(number)].append(test)
        return found

    def ids(self, tier: str, where: Sequence[str]) -> set[str]:
        """The tests of a tier."""
        code, output = self.pytest("--tier", tier, "--collect-only", *where)
        if code not in (PASSED, NOTHING_RUN):
            raise RuntimeError(f"collecting tier {tier} ended with {code}:\n{output[-4000:]}")
        return {line for line in output.splitlines() if "::" in line}

    # -- one plant

    def find(self, plant: Plant, tests: Iterable[str]) -> Caught:
        """The first of these tests that fails with the bug each time, and passes without it; and the first
        that finds the bug by chance: with random examples, or not on every run."""
        wanted = nearest(plant, tests)
        passed_over: set[str] = set()
        chance = ""
        for part in (wanted[:FEW], wanted[FEW:]):
            while left := [test for test in part if test not in passed_over]:
                code, output = self._run_with(plant, left)
                if code == PASSED:
                    break
                failed = first_failed(output, left)
                again = left if failed is None else [failed]
                if self._run(again)[0] != PASSED:
                    self._say(f"  {failed or 'a test'} fails without the bug too")
                elif RANDOM.search(output) or any(
                    self._run_with(plant, again)[0] == PASSED for _ in range(AGAIN)
                ):
                    chance = chance or failed or f"pytest ended with {code}"
                else:
                    return Caught(failed or f"pytest ended with {code}", chance)
                passed_over |= set(again)
        return Caught("", chance)

    def _run_with(self, plant: Plant, tests: Sequence[str]) -> tuple[int, str]:
        self.copy.plant(plant)
        try:
            return self._run(tests)
        finally:
            self.copy.restore(plant.file)

    def _run(self, tests: Sequence[str]) -> tuple[int, str]:
        names = self.copy.root / "tests.txt"
        names.write_text("\n".join(tests) + "\n")
        many = ("-n", str(self._workers), "--dist", "worksteal") if len(tests) > MANY else ()
        return self.pytest("-x", *many, f"@{names}")

    def pytest(self, *arguments: str) -> tuple[int, str]:
        """Run it in the copy; its exit code and what it wrote. What it leaves behind is ended with it."""
        command = [str(self.copy.python), "-m", "pytest", "-q", *ALWAYS, *arguments]
        programs = self.copy.python.parent
        environment = {
            **os.environ,
            "COLUMNS": "10000",
            "VIRTUAL_ENV": str(programs.parent),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        }
        environment.pop("CI", None)  # what is missing on this machine is skipped
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            run = subprocess.Popen(
                command, cwd=self.copy.root, env=environment, stdout=output, stderr=output, process_group=0
            )
            try:
                code = run.wait()
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(run.pid, signal.SIGKILL)
                run.wait()
            output.seek(0)
            return code, output.read()


def first_failed(output: str, tests: Iterable[str]) -> str | None:
    """The first of these tests that pytest names as failed; None: it names none of them."""
    known = set(tests)
    for line in FAILED.findall(output):
        parts = line.split(" - ")
        for end in range(len(parts), 0, -1):  # a parameter may hold the dash that ends the name
            if (name := " - ".join(parts[:end])) in known:
                return name
    return None


def nearest(plant: Plant, tests: Iterable[str]) -> list[str]:
    """Tests in folders with names of the planted path first, and those with words of the plant's name."""
    places = set(Path(plant.file).with_suffix("").parts) | {f"test_{Path(plant.file).stem}.py"}
    words = _words(plant.name)

    def far(test: str) -> int:
        return -len(places & set(test.partition("::")[0].split("/"))) - len(words & _words(test))

    return sorted(dict.fromkeys(tests), key=far)


def _words(text: str) -> set[str]:
    return {word for word in re.findall("[a-z]+", text.lower()) if len(word) > LITTLE}


def upto(tier: str) -> Sequence[str]:
    return TIERS[: TIERS.index(tier) + 1]
