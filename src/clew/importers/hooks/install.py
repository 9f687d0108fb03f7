"""Install hooks for an agent, say whether they are there, remove them.

Beside the settings of the agent there is one directory of ours: `hooks`, where the user's own store is. It
holds for each agent a script that its hooks run, the settings as they were before, and a record of both. The
settings never name a program of an environment that may go away.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from shlex import quote as quoted
from typing import Final, Literal, NamedTuple

from clew.backends.registry import default_path
from clew.core.disk import make_directories
from clew.errors import InvalidError
from clew.importers.hooks import merge, scripts
from clew.importers.hooks.agents import Agent
from clew.importers.settings import file as settings_file
from clew.importers.settings.backup import Backup, Change
from clew.importers.settings.file import Found

State = Literal["installed", "not installed", "changed", "not found", "unreadable"]
_EXECUTABLE: Final = 0o700


class Outcome(NamedTuple):
    """What was done for an agent, or would be."""

    agent: Agent
    changes: list[Change]
    """None: all was so already."""
    backup: Path | None
    """Where the settings lie as they were."""
    is_restored: bool = False
    """The settings are byte for byte as they were before the hooks came."""


class Status(NamedTuple):
    """What is with an agent."""

    agent: Agent
    state: State
    files: bool
    """Snapshots of files were asked for."""
    notes: list[str]
    """What is wrong, or left to do."""


def hooks_directory() -> Path:
    """Where our scripts and backups lie."""
    return Path(default_path()).absolute().parent / "hooks"


def script_of(agent: Agent) -> Path:
    """What the hooks of an agent run."""
    return hooks_directory() / f"{agent.name}.sh"


# -- install


def install(agent: Agent, *, files: bool | None, dry_run: bool = False) -> Outcome:
    """Put our hooks in. `files`: ask for snapshots of files; None: as before. InvalidError: the settings
    cannot be changed without harm; then nothing is."""
    if os.name != "posix":
        raise InvalidError("hooks need a POSIX shell; clew watch follows agents without hooks, too")
    if not agent.is_here():
        raise InvalidError(
            f"{agent.title} was not found: there is no {agent.path.parent} and no program {agent.program}; "
            "start it once, then try again"
        )
    found = settings_file.read(agent.path)
    files = status(agent).files if files is None else files
    after = _with_ours(agent, found, files)
    script = None if agent.handler is None else settings_file.read(script_of(agent))
    changes = []
    if script is not None and (script.text != _script(agent, files) or script.mode != _EXECUTABLE):
        changes.append(Change(script.path, _text_of(script), _script(agent, files)))
    is_new = after != found.text or found.data is None
    if is_new:
        changes.insert(0, Change(agent.path, _text_of(found), after))
    if dry_run or not changes:
        return Outcome(agent, changes, None)
    make_directories(hooks_directory())
    if script is not None:
        settings_file.replace(script._replace(mode=_EXECUTABLE), _script(agent, files).encode())
    if not is_new:
        return Outcome(agent, changes, None)
    kept = _backup(agent)
    kept.change(found, after.encode(), has_ours=_has_ours(agent, found))
    return Outcome(agent, changes, kept.copy)


def _with_ours(agent: Agent, found: Found, files: bool) -> str:
    if agent.handler is not None:
        return merge.with_hooks(found.text, agent, str(script_of(agent)))
    _refuse_foreign(agent, found)
    return _extension(agent, files)


def _refuse_foreign(agent: Agent, found: Found) -> None:
    if found.data is not None and scripts.MARK not in found.text:
        raise InvalidError(f"{agent.path} is there, and Clew did not write it; move it away, then try again")


def _has_ours(agent: Agent, found: Found) -> bool:
    if agent.handler is None:
        return scripts.MARK in found.text
    return bool(merge.found_in(found.text, agent))


# -- remove


def remove(agent: Agent, *, dry_run: bool = False) -> Outcome:
    """Take our hooks out. If nothing else was changed since they came, the file is as it was before, byte for
    byte. InvalidError: as `install`."""
    found = settings_file.read(agent.path)
    kept = _backup(agent)
    script = settings_file.read(script_of(agent))
    changes = [] if script.data is None else [Change(script.path, script.text, None)]
    is_ours = found.data is not None and _has_ours(agent, found)
    after, is_restored = _without_ours(agent, found, kept) if is_ours else (found.data, False)
    if is_ours:
        changes.insert(0, Change(agent.path, found.text, None if after is None else after.decode()))
    if dry_run or not (changes or kept.exists):
        return Outcome(agent, changes, None, is_restored)
    if is_ours:
        kept.put_back(found, after)
    if script.data is not None:
        settings_file.remove(script)
    is_needless = is_restored or (not is_ours and found.data is not None)
    copy = None if is_needless else kept.copy
    kept.forget(with_copy=is_needless)
    return Outcome(agent, changes, copy, is_restored)


def _without_ours(agent: Agent, found: Found, kept: Backup) -> tuple[bytes | None, bool]:
    """What to leave of the file (None: nothing), and whether this is exactly what was there."""
    original = kept.original(found)
    if original is not None:
        return original.data, True
    if agent.handler is None:
        return None, False
    text = merge.without_hooks(found.text, agent)
    return (None if kept.is_made(found) and merge.is_empty(text, agent) else text.encode()), False


# -- status


def status(agent: Agent) -> Status:
    """Whether our hooks are there, and whole."""
    if not agent.is_here():
        return Status(agent, "not found", files=False, notes=[])
    try:
        found = settings_file.read(agent.path)
        return _extension_status(agent, found) if agent.handler is None else _settings_status(agent, found)
    except InvalidError as exc:
        return Status(agent, "unreadable", files=False, notes=[str(exc)])


def _extension_status(agent: Agent, found: Found) -> Status:
    if found.data is None:
        return Status(agent, "not installed", files=False, notes=[])
    if scripts.MARK not in found.text:
        return Status(agent, "not installed", False, [f"{agent.path} is there, and Clew did not write it"])
    files = scripts.asks_for_files(found.text)
    if found.text == _extension(agent, files):
        return Status(agent, "installed", files, [])
    return Status(agent, "changed", files, [f"{agent.path} is not as Clew writes it; {_again(agent)}"])


def _settings_status(agent: Agent, found: Found) -> Status:
    ours = merge.found_in(found.text, agent)
    if not ours:
        return Status(agent, "not installed", files=False, notes=[])
    script = settings_file.read(script_of(agent))
    files = scripts.asks_for_files(script.text)
    wanted = merge.handlers_of(agent, str(script_of(agent)))
    missing = [event for event in wanted if event not in ours]
    wrong = ""
    if missing:
        wrong = f"{len(missing)} of {len(wanted)} hooks are missing: {', '.join(missing)}"
    elif ours != {event: [handler] for event, handler in wanted.items()}:
        wrong = "the hooks are not as Clew writes them"
    elif script.data is None:
        wrong = f"{script.path} is missing"
    elif script.text != _script(agent, files) or script.mode & 0o500 != 0o500:
        wrong = f"{script.path} is not as Clew writes it"
    if wrong:
        return Status(agent, "changed", files, [f"{wrong}; {_again(agent)}"])
    return Status(agent, "installed", files, obstacles(agent, found))


def obstacles(agent: Agent, found: Found) -> list[str]:
    """Why hooks that are in the settings may not run."""
    return _switched_off(agent, merge.values_of(found.text, agent)) + _untrusted(agent, found)


def _untrusted(agent: Agent, found: Found) -> list[str]:
    """Codex keeps in its config.toml which hooks the user trusts, by file, event and place in the list."""
    if agent.name != "codex":
        return []
    try:
        config = tomllib.loads(settings_file.read(agent.path.with_name("config.toml")).text)
    except (InvalidError, tomllib.TOMLDecodeError):
        return []
    hooks = config.get("hooks")
    states = hooks.get("state") if isinstance(hooks, dict) else None
    trusted = set(states) if isinstance(states, dict) else set()
    places = merge.places_of(found.text, agent)
    files = (agent.path, found.path)
    missing = [place for place in places if not trusted & {f"{file}:{place}" for file in files}]
    wait = f"{len(missing)} of {len(places)} hooks wait for your trust: type /hooks in Codex, then t"
    return [wait] if missing else []


def _switched_off(agent: Agent, settings: dict[str, object]) -> list[str]:
    config = settings.get("hooksConfig")
    if settings.get("disableAllHooks") is True:
        return [f"{agent.title} runs no hooks: disableAllHooks is on in its settings"]
    if isinstance(config, dict) and config.get("enabled") is False:
        return [f"{agent.title} runs no hooks: hooksConfig.enabled is off in its settings"]
    return []


def _again(agent: Agent) -> str:
    return f"clew hooks install {quoted(agent.name)} puts it right"


# -- our own files


def _script(agent: Agent, files: bool) -> str:
    return scripts.shell_script(agent.name, _places(), files=files)


def _extension(agent: Agent, files: bool) -> str:
    return scripts.extension(agent.name, agent.events, _places(), files=files)


def _places() -> list[str]:
    """Where a watcher may listen, if the environment of a hook does not say."""
    return [f"/run/user/{os.geteuid()}", os.path.join(os.path.expanduser("~"), ".local", "state")]


def _backup(agent: Agent) -> Backup:
    return Backup(hooks_directory(), agent.name)


def _text_of(found: Found) -> str | None:
    return None if found.data is None else found.text
