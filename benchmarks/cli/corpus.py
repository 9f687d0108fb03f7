"""What `felt` works on: a large store, and the files of many sessions of other programs.

Both take a while to make, so they are kept between runs, under a name that changes with the format of stores
and with this file.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import clew
from benchmarks.imports.files import FORMATS, SESSION, talk, write
from clew.importers.contract import SourceEntry, SourceSession, SourceUsage

SESSIONS, MESSAGES = 20_000, 10
"""In the store, and in each session."""
FILES, BYTES = 1_200, 140_000_000
"""Of other programs."""
WORD = "zucchini"
"""Said in one session of a hundred."""
BORN = datetime(2026, 1, 1, tzinfo=UTC)
AGENTS = {
    "claude-code": ("anthropic", "claude-sonnet-4-5-20250929"),
    "codex": ("openai", "gpt-5-codex"),
    "gemini-cli": ("google", "gemini-2.5-pro"),
}
PLACES = {
    "Claude Code": ".claude/projects/-home-me-project",
    "Codex": ".codex/sessions/2025/06/01",
    "Gemini CLI": ".gemini/tmp/project/chats",
    "pi": ".pi/agent/sessions/--home-me-project--",
}
BODIES = 6
"""Different contents of files for each program."""


def version(folder: Path | None = None) -> str:
    """Changes with this file, and with the code in a folder."""
    digest = hashlib.sha256()
    for file in [Path(__file__), *(sorted(folder.glob("*.py")) if folder else ())]:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def large_store(kept: Path, sessions: int) -> Path:
    """An SQLite store of so many sessions, with the index of words built."""
    path = kept / f"store-{sessions}-{version(Path(clew.__file__).parent / 'backends' / 'sqlite')}.db"
    if not path.exists():
        for old in kept.glob(f"store-{sessions}-*"):
            old.unlink()
        # In memory first, where a commit costs nothing; then in one piece to the disk.
        with tempfile.TemporaryDirectory(dir=_fast()) as directory:
            draft = Path(directory) / "clew.db"
            with clew.open(str(draft)) as store:
                for number in range(sessions):
                    store.load(_session(number))
                store.search(WORD)
            shutil.copy(draft, path)
    return path


def name_of(number: int) -> str:
    """The id that a session has in the store; its first letters name no other."""
    agent = list(AGENTS)[number % len(AGENTS)]
    digits = hashlib.sha256(str(number).encode()).hexdigest()
    return f"{agent}:{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


def _session(number: int) -> SourceSession:
    words = random.Random(number)
    agent = list(AGENTS)[number % len(AGENTS)]
    vendor, model = AGENTS[agent]
    born = BORN + timedelta(minutes=17 * number)
    parent = name_of(number - len(AGENTS)) if number % 20 == 19 else None
    id = name_of(number) if parent is None else f"{parent}/agent-{number:x}"
    return SourceSession(
        id=id,
        entries=_entries(words, number, born, model),
        title=talk(words, 6).capitalize(),
        workspace=f"/home/me/project-{number % 40}",
        vendor=vendor,
        model=model,
        created_at=born,
        parent=parent,
        metadata={"agent": agent} | ({} if parent is None else {"parent": parent}),
    )


def _entries(words: random.Random, number: int, born: datetime, model: str) -> Iterator[SourceEntry]:
    for place in range(MESSAGES):
        text = talk(words, 40) + (f" {WORD}" if number % 100 == 0 and place == 4 else "")
        asks = place % 2 == 0
        yield SourceEntry(
            uid=f"m{place}",
            parent=f"m{place - 1}" if place else None,
            message={"role": "user" if asks else "assistant", "content": text},
            at=born + timedelta(seconds=20 * place),
            usage=None
            if asks
            else SourceUsage(
                id=f"c{number}-{place}",
                model=model,
                input_tokens=9000 + place,
                cache_read_tokens=8000,
                output_tokens=200,
                at=born + timedelta(seconds=20 * place),
            ),
            decoded=True,
        )


def files_of_agents(kept: Path, files: int, bytes: int) -> Path:
    """A home directory with the sessions of four programs."""
    home = kept / f"home-{files}-{version()}"
    if not home.exists():
        for old in kept.glob(f"home-{files}-*"):
            shutil.rmtree(old)
        with tempfile.TemporaryDirectory(dir=kept) as directory:
            draft = Path(directory) / "home"
            for number in range(files):
                _write_file(draft, number, _body(Path(directory), number, bytes // files))
            draft.rename(home)
    return home


def _body(directory: Path, number: int, average: int) -> bytes:
    """Half the files are small, some are ten times as large, as with real agents."""
    program = list(FORMATS)[number % len(FORMATS)]
    which = number // len(FORMATS) % BODIES
    file = directory / f"{program}-{which}.jsonl"
    if not file.exists():
        share = (0.2, 0.2, 0.2, 0.6, 1.2, 3.6)[which]
        write(file, FORMATS[program][1](400), int(average * share))
    return file.read_bytes()


def _write_file(home: Path, number: int, body: bytes) -> None:
    program = list(FORMATS)[number % len(FORMATS)]
    own = f"{number:08x}-0000-4000-8000-{number:012x}"
    place = home / PLACES[program] / FORMATS[program][0].replace(SESSION, own).replace("0b1c2d3e", own[:8])
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(
        body.replace(SESSION.encode(), own.encode()).replace(b'"msg_', f'"msg_{number}_'.encode())
    )


def _fast() -> str | None:
    return "/dev/shm" if os.path.isdir("/dev/shm") else None
