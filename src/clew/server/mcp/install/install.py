"""Let a client start `clew mcp`, say whether it does, take it out again.

Up to four files are ours or have something of ours: the settings of the client, a skill, and for the hint
the settings that hold hooks and the script that they run. Two of them may be one file. All are read, and what
they will become is known, before the first is written.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from shlex import quote as quoted
from typing import Any, Final, Literal, NamedTuple

from clew.backends.registry import default_path
from clew.core.own_program import runs_the_current_directory
from clew.errors import InvalidError
from clew.importers.hooks.install import obstacles
from clew.importers.settings import file as settings_file
from clew.importers.settings.backup import Backup, Change
from clew.importers.settings.file import Found
from clew.server.mcp.install import entries, hooks, toml_text
from clew.server.mcp.install.clients import CLIENTS, SERVER, Client
from clew.server.mcp.install.entries import ForeignServerError
from clew.server.mcp.install.own_files import MARK, SKILL, hint_script, is_outdated_script
from clew.server.mcp.install.program import Program, Wish, address_of, command_line, find_program

State = Literal["installed", "outdated", "broken", "not installed", "not found", "unreadable"]
_SHARED: Final = 0o644
_EXECUTABLE: Final = 0o700


class Outcome(NamedTuple):
    """What was done for a client, or would be."""

    client: Client
    path: Path
    """Its settings."""
    changes: list[Change]
    """None: all was so already."""
    backups: list[Path]
    """Where files lie as they were."""
    command: list[str]
    """What the client starts now."""
    notes: list[str]
    is_restored: bool = False
    """What changed is byte for byte as it was before we came."""


class Status(NamedTuple):
    """What is with a client."""

    client: Client
    path: Path
    state: State
    command: Sequence[str] = ()
    """What it starts."""
    skill: bool = False
    hint: bool = False
    notes: Sequence[str] = ()


class _Part(NamedTuple):
    """Something of ours in a file."""

    is_wanted: bool
    put: Callable[[str], str]
    take: Callable[[str], str]
    is_in: Callable[[str], bool]
    is_empty: Callable[[str], bool]
    """Whether nothing of others is in what is left."""


class _File(NamedTuple):
    """A file, and what of ours comes into it."""

    name: str
    """Of its record."""
    path: Path
    parts: list[_Part]
    project: Path | None = None
    """The project that it is in, and must not lead out of."""
    is_program: bool = False

    @property
    def mode(self) -> int | None:
        """Of a new file; None: only the user may read it."""
        return _EXECUTABLE if self.is_program else None if self.project is None else _SHARED


class _Step(NamedTuple):
    """What happens to one file."""

    file: _File
    found: Found
    kept: Backup
    after: bytes | None
    """None: there is no file then."""
    had_ours: bool
    has_ours: bool
    is_restored: bool = False

    @property
    def is_change(self) -> bool:
        is_program = self.file.is_program and self.after is not None
        return self.after != self.found.data or (is_program and self.found.mode & 0o500 != 0o500)

    @property
    def change(self) -> Change:
        before = None if self.found.data is None else self.found.text
        return Change(self.file.path, before, None if self.after is None else self.after.decode())


def own_directory() -> Path:
    """Where our scripts and backups lie."""
    return Path(default_path()).absolute().parent / "mcp"


def script_of(client: Client) -> Path:
    """What the hook of a client runs."""
    return own_directory() / f"{client.name}.sh"


# -- install and remove


def install(
    client: Client,
    wish: Wish,
    *,
    project: Path | None = None,
    skill: bool = True,
    hint: bool | None = None,
    dry_run: bool = False,
) -> Outcome:
    """Put our server into the settings of a client.

    Args:
        client: Which one.
        wish: How `clew mcp` is started.
        project: Into the settings of this project. None: into those of the user.
        skill: With a skill file; False: without, and ours goes if it is there.
        hint: With a hook that tells a new session of past ones. None: as before.
        dry_run: Change nothing; say what would change.

    Raises:
        InvalidError: The settings cannot be changed without harm; then nothing is.
    """
    if os.name != "posix":
        raise InvalidError(f"{client.title} is set up by this on Linux and macOS only")
    if project is None and not client.is_here():
        raise InvalidError(
            f"{client.title} was not found: there is no {client.traces(Path.home())[0]} and no program "
            f"{client.program}; start it once, then try again"
        )
    if hint and client.hint is None:
        raise InvalidError(f"{client.title} has no hook that adds text to a new session; leave out --hint")
    if hint and project is not None:
        raise InvalidError("a hint is for you alone, not for a project; leave out --hint or --project")
    program = find_program(is_shared=project is not None)
    words = command_line(client, program, wish, is_project=project is not None)
    store = None if wish.store is None else address_of(wish.store)
    script = hint_script(client.name, client.title, program.words, store)
    files = _files(client, project, client.entry(words), script, skill=skill, hint=hint)
    steps = [_step(file) for file in files]
    notes = _notes(client, program, wish, project, hint=bool(hint))
    return _carried_out(client, project, steps, words, notes, dry_run=dry_run)


def _notes(client: Client, program: Program, wish: Wish, project: Path | None, *, hint: bool) -> list[str]:
    """What is good to know."""
    is_anywhere = project is None and wish.workspace is None and not wish.sees_all
    notes = [
        client.note,
        client.directory_note if is_anywhere else "",
        client.project_note if project is not None else "",
        client.hint_note if hint else "",
    ]
    if program.is_of_environment:
        shared = "" if project is None else ", and others who read this file have no such program"
        notes.append(
            f"the settings name {program.words[0]}: clew is not on your PATH outside of this virtual "
            f"environment; when that goes away, install again{shared}"
        )
    return [note for note in notes if note]


def remove(client: Client, *, project: Path | None = None, dry_run: bool = False) -> Outcome:
    """Take everything of ours out. If nothing else was changed since it came, files are as they were before,
    byte for byte. InvalidError: as `install`."""
    files = _files(client, project, {}, "", skill=False, hint=False, is_wanted=False)
    steps = [_step(file) for file in reversed(files)]
    return _carried_out(client, project, steps, [], [], dry_run=dry_run)


def _carried_out(
    client: Client,
    project: Path | None,
    steps: Sequence[_Step],
    command: list[str],
    notes: list[str],
    *,
    dry_run: bool,
) -> Outcome:
    changes = [step.change for step in steps if step.is_change]
    path = client.path(project)
    changes.sort(key=lambda change: change.path != path)
    is_restored = bool(changes) and all(step.is_restored for step in steps if step.is_change)
    backups = [] if dry_run else [kept for step in steps if (kept := _apply(step)) is not None]
    return Outcome(client, path, changes, backups, command, notes, is_restored)


def _step(file: _File) -> _Step:
    """What is to be done; nothing is written yet."""
    found = settings_file.read(file.path, file.project)
    kept = Backup(own_directory(), file.name)
    text = found.text
    here = [found.data is not None and part.is_in(text) for part in file.parts]
    is_wanted = any(part.is_wanted for part in file.parts)
    if not any(here) and not is_wanted:
        return _Step(file, found, kept, found.data, had_ours=False, has_ours=False)
    original = None if is_wanted else kept.original(found)
    if original is not None:
        return _Step(file, found, kept, original.data, had_ours=True, has_ours=False, is_restored=True)
    for part in file.parts:
        text = part.put(text) if part.is_wanted else part.take(text)
    is_needless = kept.is_made(found) and all(part.is_empty(text) for part in file.parts)
    after = text.encode() if is_wanted or (text and not is_needless) else None
    return _Step(file, found, kept, after, had_ours=any(here), has_ours=is_wanted)


def _apply(step: _Step) -> Path | None:
    """Where the file lies as it was, if that was kept now, or is kept because others changed the file."""
    kept, found = step.kept, step.found
    if step.has_ours:
        if not step.is_change:
            return None
        assert step.after is not None
        if step.file.mode is not None and (found.data is None or step.file.is_program):
            found = found._replace(mode=step.file.mode)
        kept.change(found, step.after, has_ours=step.had_ours)
        return kept.copy
    if step.had_ours:
        kept.put_back(found, step.after)
    is_needless = step.is_restored or (not step.had_ours and found.data is not None)
    copy = None if is_needless else kept.copy
    if kept.exists:
        kept.forget(with_copy=is_needless)
    return copy


# -- the files


def _files(
    client: Client,
    project: Path | None,
    entry: dict[str, Any],
    script: str,
    *,
    skill: bool,
    hint: bool | None,
    is_wanted: bool = True,
) -> list[_File]:
    """In the order in which they are written: what others name is there first."""
    path = client.path(project)
    name = _record_name(client.name, path, project)
    settings = _File(name, path, [_server(client, path, entry, is_wanted)], project)
    files = [settings]
    if client.hint is not None and project is None and (hint is not None or _is_hinted(client)):
        files = _hint_files(client, script, hint is not False, settings)
    place = client.skill(project)
    if skill or not _is_skill_of_others(client, project):
        name = _record_name("skill", place, place)
        files.insert(0, _File(name, place, [_whole(place, SKILL, skill)], project))
    return files


def _hint_files(client: Client, script: str, hint: bool, settings: _File) -> list[_File]:
    agent = client.hint
    assert agent is not None
    command = str(script_of(client))
    hook = _Part(
        hint,
        lambda text: hooks.with_hook(text, agent, command),
        lambda text: hooks.without_hook(text, agent),
        lambda text: hooks.is_in(text, agent),
        lambda text: hooks.is_empty(text, agent),
    )
    part = _whole(script_of(client), script, hint)
    program = _File(f"{client.name}.script", script_of(client), [part], is_program=True)
    if agent.path == settings.path:
        return [program, settings._replace(parts=[*settings.parts, hook])]
    return [program, _File(f"{client.name}.hooks", agent.path, [hook]), settings]


def _is_hinted(client: Client) -> bool:
    """Whether our hook is there. Settings that cannot be read are no obstacle to what is elsewhere."""
    try:
        return _has_hook(client)
    except InvalidError:
        return False


def _has_hook(client: Client) -> bool:
    if client.hint is None:
        return False
    found = settings_file.read(client.hint.path)
    return found.data is not None and hooks.is_in(found.text, client.hint)


def _server(client: Client, path: Path, entry: dict[str, Any], is_wanted: bool) -> _Part:
    shape = toml_text if client.is_toml else entries

    def is_in(text: str) -> bool:
        try:
            return shape.entry_in(text, client, path) is not None
        except ForeignServerError:
            if is_wanted:
                raise
            return False

    return _Part(
        is_wanted,
        lambda text: shape.with_entry(text, client, path, entry),
        lambda text: shape.without_entry(text, client, path) if is_in(text) else text,
        is_in,
        lambda text: shape.is_empty(text, client, path),
    )


def _whole(path: Path, content: str, is_wanted: bool) -> _Part:
    """A file that is all ours."""

    def put(text: str) -> str:
        if text and MARK not in text:
            raise InvalidError(f"{path} is there, and Clew did not write it; move it away, then try again")
        return content

    return _Part(is_wanted, put, lambda text: "", lambda text: MARK in text, lambda text: not text)


def _is_skill_of_others(client: Client, project: Path | None) -> bool:
    """Whether another client that starts `clew mcp` reads the same skill."""
    place = client.skill(project)
    others = [one for one in CLIENTS.values() if one.name != client.name and one.skill(project) == place]
    return any(_entry_of(one, project) is not None for one in others)


def _entry_of(client: Client, project: Path | None) -> dict[str, Any] | None:
    """Our entry in its settings. None: there is none, or they cannot be read."""
    try:
        return _entry_at(client, client.path(project), project)
    except InvalidError:
        return None


def _entry_at(client: Client, path: Path, project: Path | None) -> dict[str, Any] | None:
    found = settings_file.read(path, project)
    shape = toml_text if client.is_toml else entries
    return None if found.data is None else shape.entry_in(found.text, client, path)


def _record_name(name: str, path: Path, project: Path | None) -> str:
    """There may be many projects."""
    return name if project is None else f"{name}.{sha256(os.fsencode(path)).hexdigest()[:12]}"


# -- status


def status(client: Client, *, project: Path | None = None) -> Status:
    """Whether a client starts `clew mcp`, and whether that can work."""
    path = client.path(project)
    if project is None and not client.is_here():
        return Status(client, path, "not found")
    try:
        entry = _entry_at(client, path, project)
        has_hint = project is None and _has_hook(client)
        skill = settings_file.read(client.skill(project), project).text
        script = settings_file.read(script_of(client))
    except InvalidError as exc:
        is_foreign = isinstance(exc, ForeignServerError)
        return Status(client, path, "not installed" if is_foreign else "unreadable", notes=[str(exc)])
    has_skill = MARK in skill
    notes = []
    if has_skill and skill != SKILL:
        notes.append(f"{client.skill(project)} is of another version; {_again(client, project)}")
    if has_hint and (script.data is None or script.mode & 0o500 != 0o500):
        notes.append(f"{script.path} is missing; {_again(client, project)}")
    if has_hint and client.hint is not None and not hooks.is_flat(client.hint):
        notes += obstacles(client.hint, settings_file.read(client.hint.path))
    words = [] if entry is None else [str(word) for word in entries.words_of(entry)]
    is_outdated = runs_the_current_directory(words) or (has_hint and is_outdated_script(script.text))
    if is_outdated:
        notes.insert(
            0,
            f"{client.title} would run a clew.py of the directory that it works in, whoever wrote it; "
            f"{_again(client, project)}",
        )
    if entry is None:
        state: State = "outdated" if is_outdated else "not installed"
        return Status(client, path, state, [], has_skill, has_hint, notes)
    is_broken = shutil.which(words[0]) is None
    if is_broken:
        notes.insert(0, f"there is no program {words[0]}; {_again(client, project)}")
    if entry.get("enabled") is False or entry.get("disabled") is True:
        notes.append(f"the server {SERVER} is switched off in the settings of {client.title}")
    state = "outdated" if is_outdated else "broken" if is_broken else "installed"
    return Status(client, path, state, words, has_skill, has_hint, notes)


def _again(client: Client, project: Path | None) -> str:
    where = "" if project is None else " --project"
    return f"clew mcp install {quoted(client.name)}{where} puts it right"
