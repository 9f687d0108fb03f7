"""F-11, F-12: flipped bits in every file, tails torn at every byte: found or harmless, never silent."""

from __future__ import annotations

import os
import random
import shutil
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

import clew
from tests.faults.campaign import Result, told_by
from tests.faults.plants import plant
from tests.faults.subjects import Subject
from tests.faults.workload.deep import BATCH, Deep, deep_view, fill
from tests.faults.workload.steps import message
from tests.support.children import Child

Tell = Callable[[Any], None]
TAILS: Sequence[bytes] = (b"\0", b"\0" * 512, b"\0" * 4096, b"garbage", b"\n", b'{"half": ', b"\xff" * 300)


class Sound:
    """A sound store, its files, and all the stages that it went through."""

    def __init__(self, subject: Subject, *, is_closed: bool, each: bool = False) -> None:
        """`each`: all stages are needed; else the last one alone."""
        self.subject = subject.at(subject.place / "sound")
        self.work = subject.place / "damaged"
        os.environ["XDG_CACHE_HOME"] = str(subject.place / "cache")
        self.subject.place.mkdir(parents=True)
        child = Child(_fill, self.subject, subject.place / "files", is_closed, each)
        self.stages = msgspec.convert(told_by(child)[-1], list[Deep])
        self.sizes = {path: path.stat().st_size for path in self.subject.files()}

    def damage(self, path: Path, change: Callable[[bytearray], None]) -> Subject:
        """A copy in which one file is changed."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.subject.place, self.work)
        victim = self.work / path.relative_to(self.subject.place)
        content = bytearray(victim.read_bytes())
        change(content)
        victim.write_bytes(content)
        return self.subject.at(self.work)


def _fill(tell: Tell, subject: Subject, files: Path, is_closed: bool, each: bool) -> None:
    store = subject.open()
    stages = fill(store, files, each=each)
    if is_closed:
        store.close()
    tell(stages)


def _verdict(subject: Subject, sound: Sound) -> tuple[str, str]:
    """Read all of a damaged store: what it is, and in words what is wrong with that, if anything."""
    read: Deep | None = None
    found = ""
    try:
        with subject.open() as store:
            try:
                read = deep_view(store, sound.work.with_name("restored"))
            except clew.ClewError as error:
                found = error.code
            problems = store.verify(full=True).problems
    except clew.ClewError as error:
        return f"refused: {error.code}", ""
    except Exception:  # noqa: BLE001 (whatever it is, it is not ours)
        return "leak", traceback.format_exc(limit=-4)
    finally:
        shutil.rmtree(sound.work.with_name("restored"), ignore_errors=True)
    if found:
        return f"found on reading: {found}", ""
    if problems:
        return "found by verify", ""
    if read == sound.stages[-1]:
        return "harmless", ""
    assert read is not None
    return _silent(read, sound)


def _silent(read: Deep, sound: Sound) -> tuple[str, str]:
    """Nobody noticed, and something is different."""
    right = sound.stages[-1]
    is_older = any((read.log, read.counted) == (stage.log, stage.counted) for stage in sound.stages[:-1])
    if not sound.subject.is_sealed and is_older:
        return "an earlier state", ""
    if not sound.subject.is_sealed and (read.log, read.counted, read.files) == (
        right.log,
        right.counted,
        right.files,
    ):
        return "unnoticed beside the log", ""
    parts = [
        f"{part} of {name!r}"
        for part in ("log", "counted", "beside", "files")
        for name in {**getattr(right, part), **getattr(read, part)}
        if getattr(right, part).get(name) != getattr(read, part).get(name)
    ]
    return "silent", f"nobody noticed that this is different: {parts[:5]}{' (an earlier state)' * is_older}"


def flip_bits(subject: Subject, *, samples: int, seed: int) -> Result:
    """Flip single bits: files take turns, in a store that was closed and in one that was not."""
    result = Result()
    for is_closed in (True, False):
        place = subject.at(subject.place / ("closed" if is_closed else "open"))
        sound = Sound(place, is_closed=is_closed, each=not subject.is_sealed)
        _note(result, Child(_flip_all, sound, samples // 2, seed))
    return result


def _note(result: Result, child: Child) -> None:
    """What was found of each damage."""
    for kind, where, words in told_by(child):
        result.cycles += 1
        result.saw(kind)
        if words:
            result.found(where, [words])


def _flip_all(tell: Tell, sound: Sound, samples: int, seed: int) -> None:
    chooser = random.Random(seed)
    victims = [path for path, size in sound.sizes.items() if size]
    for number in range(samples):
        path = victims[number % len(victims)]
        bit = chooser.randrange(sound.sizes[path] * 8)

        def flip(content: bytearray, bit: int = bit) -> None:
            content[bit // 8] ^= 1 << bit % 8

        kind, words = _verdict(sound.damage(path, flip), sound)
        where = f"bit {bit} of {path.relative_to(sound.subject.place)} (seed {seed}, {number})"
        tell([kind, where, words])


# -- tails


def tear_tails(
    subject: Subject, *, every: int = 1, first: int = 0, few: bool = False, planted: str = ""
) -> Result:
    """P5: cut the files that only grow within their last 400 bytes, and append what a crash may leave:
    the store opens, shows all but what was torn, and goes on. `few`: one cut and one tail of each file."""
    result = Result()
    sound = Sound(subject, is_closed=False)
    _note(result, Child(_tear_all, sound, every, first % every, few, planted))
    return result


def _tear_all(tell: Tell, sound: Sound, every: int, first: int, few: bool, planted: str) -> None:
    plant(planted)
    appended = [
        path for path, size in sound.sizes.items() if size and path.name.endswith(sound.subject.appended)
    ]
    for number, path in enumerate(appended):
        name = path.relative_to(sound.subject.place)
        cuts, tails = range(1 + first, min(sound.sizes[path], 400), every), TAILS
        if few:
            cuts, tails = cuts[number % len(cuts) :][:1], TAILS[number % len(TAILS) :][:1]
        for cut in cuts:
            torn = sound.damage(path, lambda content, cut=cut: content.__delitem__(slice(-cut, None)))  # type: ignore[misc]
            words = _opens(torn, sound)
            tell(["cut", f"{name} without its last {cut} bytes", words])
            if planted and words:
                return
        for tail in tails:
            grown = sound.damage(path, lambda content, tail=tail: content.extend(tail))  # type: ignore[misc]
            words = _opens(grown, sound, is_whole=True)
            tell(["tail", f"{name} with {len(tail)} x {tail[:9]!r} behind it", words])


def _opens(subject: Subject, sound: Sound, *, is_whole: bool = False) -> str:
    """What is wrong with a store whose tail is torn: nothing but its last records may be missing."""
    right = sound.stages[-1]
    try:
        with subject.open() as store:
            found = deep_view(store, None)
            if is_whole and (found.log, found.counted) != (right.log, right.counted):
                return "something is missing, though nothing was torn"
            for name in found.log:
                if (line := _not_a_prefix(found.log[name], right.log.get(name, []))) != "":
                    return f"{name!r}: {line}"
            batch = [each for each in store.get("s0").messages() if str(each["content"]).startswith(BATCH)]
            if len(batch) not in (0, 3):
                return f"P2: {len(batch)} messages of a batch of 3 are there"
            before = {name: store.get(name).messages() for name in found.log}
            for name in found.log:
                store.get(name).append(message("goes on"))
        with subject.open() as store:
            for name, messages in before.items():
                if store.get(name).messages() != [*messages, message("goes on")]:
                    return f"{name!r} does not go on"
            return "; ".join(store.verify(full=True).problems)
    except Exception:  # noqa: BLE001 (whatever it is, this store does not open)
        return traceback.format_exc(limit=-4)


def _not_a_prefix(found: list[Any], right: list[Any]) -> str:
    entries = found[:-2]  # the last two are its messages, read in other ways
    return "" if entries == right[: len(entries)] else "its entries are not those that were written"
