"""P18: what of a session's content can still be found in the files of a store."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

import clew
from tests.faults.crash.common import message

SECRET = "secret"
ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


class Words:
    """Random words that stand nowhere else; those of the secret session are remembered."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.spoken: list[str] = []

    def some(self, size: int) -> str:
        return "".join(self._random.choices(ALPHABET, k=size))

    def marker(self, size: int = 24) -> str:
        self.spoken.append(self.some(max(size, 24)))
        return self.spoken[-1]

    def size(self) -> int:
        return self._random.choice((30, 200, 900, 2500, 6000))


def fill(store: clew.Store, words: Words, *, rounds: int = 6, others: int = 6) -> None:
    """Interleave a secret session with many others, so that pages hold several and are split often."""
    secret = store.create(
        SECRET,
        title=words.marker(),
        tags=[words.marker()],
        workspace=f"/{words.marker()}",
        vendor=words.marker(),
        endpoint=words.marker(),
        model=words.marker(),
        metadata={words.marker(): words.marker(), "n": {"deep": words.marker()}},
    )
    sessions = [store.create(f"other-{number}") for number in range(others)]
    for turn in range(rounds):
        for session in sessions:
            session.append(message(words.some(words.size())))
        _speak(secret, words, turn)
        for session in sessions:  # notes of all sessions lie together
            session.annotate(session.head, note=words.some(words.size()))
        for session in sessions[::3]:
            session.set_var(f"v{turn}", words.some(200))
            session.checkpoint(f"c{turn}")
    _move_about(secret, words)


def _speak(secret: clew.Session, words: Words, turn: int) -> None:
    size = words.size()
    secret.append(message(words.marker(size)), key=words.marker())
    if turn % 3 == 0:
        secret.append(message(words.marker(20_000)))  # compressed
        secret.append(message(words.marker() * 2000), message(words.marker(40_000)))  # so are these
    secret.set_var(words.marker(), {"value": words.marker(300)})
    secret.annotate(secret.head, label=words.marker(), note=words.marker(words.size()))
    secret.checkpoint(words.marker(), state={"state": words.marker()})
    secret.add_alias(words.marker())


def _move_about(secret: clew.Session, words: Words) -> None:
    """Leave abandoned branches, replaced values and moved names behind."""
    secret.compact(words.marker(200))
    secret.set_summary(words.marker(50))
    secret.rewind(3)
    secret.append(message(words.marker(500)))
    secret.update(title=words.marker(), metadata={"k": words.marker()}, tags=[words.marker()])
    secret.set_var("again", words.marker(2000))
    secret.set_var("again", words.marker(10))
    secret.annotate(2, label=words.marker(), note=words.marker())
    secret.annotate(2, label=words.marker(), note=None)
    secret.replace([message(words.marker(700))])
    secret.undo()


def needles(path: Path, words: Words) -> set[bytes]:
    """All that must not be found: the words, pieces of each stored body as it lies there, and hashes."""
    found = {word[start : start + 24].encode() for word in words.spoken for start in _starts(len(word), 24)}
    connection = apsw.Connection(str(path))
    for digest, body in connection.execute(_BODIES):
        found.add(digest)
        found |= {body[start : start + 24] for start in _starts(len(body), 24)}
    connection.close()
    return {needle for needle in found if len(needle) >= 24 and not needle.startswith(b'{"role"')}


_BODIES = """
    SELECT entries.digest, entries.body FROM sessions
    JOIN branches USING (tree) JOIN entries ON entries.key >> 32 = branches.branch
    WHERE sessions.id = 'secret'
"""


def _starts(length: int, size: int) -> Iterator[int]:
    """Where to take pieces: close enough that every page of an overflow chain has some."""
    yield from range(0, max(length - size, 1), 300)
    yield max(length - size, 0)


def traces(directory: Path, wanted: set[bytes]) -> dict[str, int]:
    """How many of the needles are in which file."""
    found: dict[str, int] = {}
    for file in sorted(directory.rglob("*")):
        if file.is_file():
            content = file.read_bytes()
            count = sum(needle in content for needle in wanted)
            if count:
                found[file.name] = count
    return found


def others_of(store: clew.Store) -> dict[str, Any]:
    """What a purge must not touch."""
    return {
        info.id: (info, store.get(info.id).messages(), store.get(info.id).vars())
        for info in store.list(limit=1000)
        if info.id != SECRET
    }
