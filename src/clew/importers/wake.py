"""Hooks of agents wake the watcher: where they leave their word, and how it is read.

A watcher makes a place of its own in the wake directory, and removes it when it ends. A hook writes one small
file into each place whose watcher is alive, and does nothing if there is none. The file says which session
of which agent did something, and never what: the session's own file is the truth.

    <wake directory>/<pid of the watcher>.<random>/<agent>.<number>

A file has a line for each value, as the agent wrote it: `"session_id":"…"`, with `transcript_path`, `cwd` and
`hook_event_name`, and `"files":true` where snapshots of files were asked for. All of this is checked before
it is used: what is too large, no file, of another user, or names a place where that agent keeps no sessions,
is passed over.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from clew.core.disk import DIRECTORY_FLAGS, FILE_FLAGS, make_directories

AGENTS: Final = ("claude-code", "codex", "gemini-cli", "opencode", "pi")
"""Agents that have hooks, by the names of their formats."""
LARGEST: Final = 8 * 1024
"""Bytes of one file. What hooks write is far smaller."""
MOST: Final = 4096
"""Files that one call reads. More of them wait for the next call."""
_LONGEST: Final = 4096
_SESSION: Final = 256
_LINE: Final = re.compile(rb'[{,\s]*"(\w+)"\s*:\s*("(?:[^"\\]|\\.)*"|true)\s*')
_NAME: Final = re.compile(rf"({'|'.join(AGENTS)})\.(\d{{1,20}})")
_PLACE: Final = re.compile(r"(\d{1,10})\.[0-9a-f]{8,32}")
_UNPLAIN: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_TURN_ENDS: Final = frozenset({"Stop", "StopFailure", "AfterAgent", "session.idle", "agent_end"})
_ENDS: Final = frozenset({"SessionEnd", "session_shutdown"})
"""A session that ends in the middle of a turn fires nothing else."""


class Wake(NamedTuple):
    """What a hook said."""

    agent: str
    """One of AGENTS: the name of a format."""
    event: str
    """As the agent calls it, such as "Stop"; of events that nobody here knows, too."""
    session: str | None
    """The agent's own id of the session."""
    transcript: str | None
    """The file or database of the session, with its links resolved. It lies where this agent keeps sessions.
    It may not be there yet. None: none was named, or it lies elsewhere."""
    cwd: str | None
    """The directory that the agent works in: an absolute path, which may not be there."""
    files: bool
    """Snapshots of the files of `cwd` were asked for (`clew hooks install --files`)."""


def is_turn_end(wake: Wake) -> bool:
    """Whether the agent has come to the end of a turn: the files are as it left them."""
    return wake.event in _TURN_ENDS or wake.event in _ENDS


# -- where


def wake_directory() -> Path:
    """Where watchers have their places: in $XDG_RUNTIME_DIR if that is the user's own, else where the state
    of programs is kept. It need not be there."""
    runtime = os.environ.get("XDG_RUNTIME_DIR") or ""
    if os.path.isabs(runtime) and _is_own(runtime):
        return Path(runtime, "clew", "wake")
    return _in_state()


def _in_state() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or ""
    base = Path(state) if os.path.isabs(state) else Path(os.path.expanduser("~"), ".local", "state")
    return base / "clew" / "wake"


def _directories() -> list[Path]:
    """Where watchers may have their places, if they run with another environment, as services do."""
    found = [wake_directory(), _in_state()]
    if os.name == "posix" and "XDG_RUNTIME_DIR" not in os.environ:
        found.append(Path(f"/run/user/{os.geteuid()}/clew/wake"))
    return list(dict.fromkeys(found))


@contextmanager
def listening(directory: Path | None = None) -> Iterator[Path]:
    """A place for the wakes of this process, until the block ends: give it to `read_wakes`. What watchers
    left that are not alive is removed. OSError: the place cannot be made, or is not ours alone."""
    base = wake_directory() if directory is None else directory
    make_directories(base)
    if not _is_own(base, private=True):
        raise PermissionError(1, "it is not a private directory of this user", str(base))
    for place, pid in _places(base):
        if not _is_alive(pid):
            _remove(place)
    place = base / f"{os.getpid()}.{secrets.token_hex(4)}"
    place.mkdir(0o700)
    try:
        yield place
    finally:
        _remove(place)
        try:
            base.rmdir()
        except OSError:  # another watcher is there
            pass


def listeners(directory: Path | None = None) -> list[int]:
    """The process ids of the watchers that hooks wake."""
    bases = _directories() if directory is None else [directory]
    own = [base for base in bases if _is_own(base, private=True)]
    return sorted({pid for base in own for _, pid in _places(base) if _is_alive(pid)})


def _places(base: Path) -> list[tuple[Path, int]]:
    try:
        names = os.listdir(base)
    except OSError:
        return []
    return [(base / name, int(found[1])) for name in names if (found := _PLACE.fullmatch(name))]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return pid > 0
    return pid > 0


def _is_own(path: str | Path, *, private: bool = False) -> bool:
    """Whether it is a directory of this user, no link, in which no other may write (`private`: nor read)."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return False
    others = 0o077 if private else 0o022
    is_ours = os.name != "posix" or found.st_uid == os.geteuid()
    return stat.S_ISDIR(found.st_mode) and is_ours and not found.st_mode & others


def _remove(place: Path) -> None:
    """With what is in it; directories that others put there stay."""
    try:
        for name in os.listdir(place):
            _unlink(place / name)
        place.rmdir()
    except OSError:
        pass


def _unlink(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        pass


# -- read


def read_wakes(directory: Path, places: Mapping[str, Sequence[Path]] | None = None) -> list[Wake]:
    """What hooks said since the last time, oldest first, each thing once. The files are removed. `places`:
    where each agent keeps its sessions; None: as its reader knows. Never raises for what is in there."""
    found = []
    try:
        fd = os.open(directory, DIRECTORY_FLAGS)
    except OSError:
        return []
    try:
        if os.name == "posix" and os.fstat(fd).st_uid != os.geteuid():
            return []
        for name in os.listdir(fd):
            if matched := _NAME.fullmatch(name):
                found.append((name, matched[1], int(matched[2])))
            if len(found) >= MOST:
                break
        read = [
            (when, number, agent, text) for name, agent, number in found for when, text in _taken(fd, name)
        ]
    except OSError:
        return []
    finally:
        os.close(fd)
    known: dict[str, list[str]] = {}
    wakes: dict[Wake, None] = {}
    for _, _, agent, text in sorted(read, key=lambda one: one[:2]):
        if agent not in known:
            known[agent] = _real(places.get(agent, ()) if places is not None else _known_places(agent))
        wake = _wake(agent, text, known[agent])
        if wake is not None:
            wakes.pop(wake, None)
            wakes[wake] = None
    return list(wakes)


def _taken(directory: int, name: str) -> Iterator[tuple[int, bytes]]:
    """When a file was written, and what is in it; nothing if it is none of a hook. It is gone then."""
    try:
        fd = os.open(name, FILE_FLAGS, dir_fd=directory)
    except OSError:  # a link, or it went away
        fd = -1
    try:
        if fd >= 0:
            found = os.fstat(fd)
            is_ours = os.name != "posix" or found.st_uid == os.geteuid()
            if stat.S_ISREG(found.st_mode) and is_ours and found.st_size <= LARGEST:
                yield found.st_mtime_ns, os.read(fd, LARGEST)
    except OSError:
        pass
    finally:
        if fd >= 0:
            os.close(fd)
    try:
        os.unlink(name, dir_fd=directory)
    except OSError:
        pass


def _wake(agent: str, text: bytes, places: Sequence[str]) -> Wake | None:
    said = _values(text)
    event = said.get("hook_event_name")
    if not isinstance(event, str) or not _is_plain(event, _SESSION):
        return None
    session, cwd = said.get("session_id"), said.get("cwd")
    path = said.get("agent_transcript_path") or said.get("transcript_path")
    return Wake(
        agent=agent,
        event=event,
        session=session if isinstance(session, str) and _is_plain(session, _SESSION) else None,
        transcript=_transcript(path, places) if isinstance(path, str) else None,
        cwd=cwd if isinstance(cwd, str) and _is_plain(cwd, _LONGEST) and os.path.isabs(cwd) else None,
        files=said.get("files") is True,
    )


def _values(text: bytes) -> dict[str, object]:
    """The first value of each key: agents write their own fields before all others."""
    values: dict[str, object] = {}
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        if found is None:
            continue
        try:
            values.setdefault(found[1].decode("ascii"), msgspec.json.decode(found[2]))
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return values


def _is_plain(text: str, longest: int) -> bool:
    """Whether it is a text that can be a name: no line ends, no codes of terminals, no half characters."""
    return 0 < len(text) <= longest and not _UNPLAIN.search(text)


def _transcript(path: str, places: Sequence[str]) -> str | None:
    if not _is_plain(path, _LONGEST) or not os.path.isabs(path):
        return None
    try:
        real = os.path.realpath(path)
    except (OSError, ValueError):
        return None
    is_known = any(real == place or real.startswith(place.rstrip(os.sep) + os.sep) for place in places)
    return real if is_known else None


def _real(places: Sequence[Path]) -> list[str]:
    return [os.path.realpath(place) for place in places]


def _known_places(agent: str) -> list[Path]:
    from clew.importers.detect import reader_of

    return reader_of(agent).known_places(Path.home())
