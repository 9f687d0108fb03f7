"""A store to look at: several agents, projects and months, subagents, branches, files, one session that runs.

    python -m tools.pictures.demo_store DIRECTORY            # as if it was all done until now
    clew --store DIRECTORY/clew.db serve --open

Nothing in it is real. With a time of its own (`--now 2026-11-14T16:40:00+00:00`) it is the same each time,
except for the names of entries.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from clew.backends.registry import connect
from clew.store import Store
from tools.pictures import stories
from tools.pictures.tale import Clock, Tale

NOW: Final = datetime(2026, 11, 14, 16, 40, tzinfo=UTC)
"""When the pictures are taken."""


class Small(NamedTuple):
    """A session of which the list and the usage show something."""

    hours: float
    """Ago."""
    agent: str
    model: str
    project: str
    prompt: str
    answer: str
    calls: int
    """Of the model, beside those that are told."""
    tags: tuple[str, ...] = ()


def small_sessions() -> Iterator[Small]:
    """Newest first."""
    text = Path(__file__).with_name("small_sessions.txt").read_text("utf-8")
    lines = [line.strip() for line in text.splitlines() if line and not line.startswith("#")]
    for first, prompt, answer in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        hours, agent, model, project, calls, *tags = first.split()
        named = tuple(tag.removeprefix("#") for tag in tags)
        yield Small(float(hours), agent, model, project, prompt, answer, int(calls), named)


def make(directory: Path, now: datetime) -> Path:
    """Write the store and its files into a directory; gives the path of the store."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "clew.db"
    clock = Clock(now)
    with Store(connect(f"sqlite:///{path}", durability="process"), clock=clock) as store:
        for small in reversed([*small_sessions()]):
            clock.set(now - timedelta(hours=small.hours))
            tell(store, clock, small)
        clock.set(now - timedelta(hours=33))
        stories.tides(store, clock)
        clock.set(now - timedelta(hours=24))
        stories.certificates(store, clock)
        clock.set(now - timedelta(hours=3))
        stories.image_size(store, clock)
        clock.set(now - timedelta(hours=1, minutes=10))
        stories.harbor(store, clock, directory / "projects" / "harbor")
        clock.set(now - timedelta(minutes=12))
        stories.running(store, clock)
        assert clock.at < now, clock.at
    return path


def tell(store: Store, clock: Clock, small: Small) -> None:
    """One prompt, two calls, one answer."""
    tale = Tale(
        store, clock, agent=small.agent, model=small.model, project=small.project,
        name=small.prompt, title=None, tags=small.tags,
    )  # fmt: skip
    tale.user(small.prompt)
    if small.agent != "support-bot":
        tale.run(
            "git log --oneline -3",
            "a91c3e0 tests: two boats at one berth\n77f01bd berths: one query\n0c2be14 README",
        )
    tale.work(small.calls, 90_000)
    tale.say(small.answer)
    tale.session.complete()


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("directory", type=Path, help="an empty directory, or one that does not exist yet")
    options.add_argument("--now", type=datetime.fromisoformat, default=datetime.now(UTC))
    given = options.parse_args()
    if given.directory.exists() and any(given.directory.iterdir()):
        options.error(f"{given.directory} is not empty")
    print(make(given.directory, given.now))


if __name__ == "__main__":
    main()
