"""A service that keeps `clew watch` running: a unit of the user's systemd, or an agent of launchd.

The texts are made by pure functions. A file is ours if it says so in its second line at the latest; a file of
another hand is never written over and never removed.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from clew.core.disk import create_file
from clew.errors import InvalidError

MARK: Final = "Made by clew watch"
UNIT: Final = "clew-watch.service"
LABEL: Final = "clew.watch"
PASSED_ON: Final = (
    "CLAUDE_CONFIG_DIR",
    "CLEW_CONFIG",
    "CODEX_HOME",
    "GEMINI_CLI_HOME",
    "PI_CODING_AGENT_DIR",
    "PI_CODING_AGENT_SESSION_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
)
"""Variables that say where agents, and Clew, keep their files: a service does not have those of a shell."""
_PLAIN: Final = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_START: Final = re.compile(r"^ExecStart=:(.*)$", re.MULTILINE)
_ESCAPED: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class Service(NamedTuple):
    """What there is to install on a system."""

    path: Path
    text: str
    start: list[list[str]]
    """The commands that start it now and at every login,"""
    stop: list[list[str]]
    """that end it for good, before its file is removed,"""
    after: list[list[str]]
    """and after that."""
    is_running: list[str]
    """Ends with 0 if it runs."""
    manager: str
    """The program that all of these call."""


def service(
    command: Sequence[str], environment: Mapping[str, str], *, home: Path, platform: str = sys.platform
) -> Service:
    """InvalidError: there is no such thing on this system."""
    if platform == "darwin":
        user = f"gui/{os.getuid()}"
        path = home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
        log = home / "Library" / "Logs" / "clew-watch.log"
        return Service(
            path=path,
            text=launchd_agent(command, environment, log),
            start=[["launchctl", "bootstrap", user, str(path)]],
            stop=[["launchctl", "bootout", f"{user}/{LABEL}"]],
            after=[],
            is_running=["launchctl", "print", f"{user}/{LABEL}"],
            manager="launchctl",
        )
    if platform == "linux":
        configured = environment.get("XDG_CONFIG_HOME", "")
        base = Path(configured) if os.path.isabs(configured) else home / ".config"
        call = ["systemctl", "--user"]
        return Service(
            path=base / "systemd" / "user" / UNIT,
            text=systemd_unit(command, environment),
            start=[[*call, "daemon-reload"], [*call, "enable", UNIT], [*call, "restart", UNIT]],
            stop=[[*call, "disable", "--now", UNIT]],
            after=[[*call, "daemon-reload"]],
            is_running=[*call, "--quiet", "is-active", UNIT],
            manager="systemctl",
        )
    raise InvalidError(
        "services can be installed with systemd and launchd only; start clew watch at login yourself"
    )


def systemd_unit(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """The text of a unit of the user's own systemd."""
    settings = "".join(
        f"Environment={_quoted(f'{name}={environment[name]}')}\n"
        for name in PASSED_ON
        if environment.get(name)
    )
    return f"""\
# {MARK}; clew watch --rm removes it.
# Changes of your own: systemctl --user edit clew-watch
[Unit]
Description=Clew: follow the sessions of AI agents

[Service]
Type=exec
ExecStart=:{" ".join(map(_quoted, command))}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=10
Nice=10
NoNewPrivileges=yes
{settings}
[Install]
WantedBy=default.target
"""


def _quoted(word: str) -> str:
    """A word as systemd reads it: % begins a name of its own, and a backslash an escape. With the colon
    before the command a dollar is a dollar."""
    text = "".join(_ESCAPED.get(letter, letter) for letter in word).replace("%", "%%")
    return text if _PLAIN.fullmatch(text) else f'"{text}"'


def launchd_agent(command: Sequence[str], environment: Mapping[str, str], log: Path) -> str:
    """The text of an agent of launchd."""
    import plistlib

    content = {
        "Label": LABEL,
        "ProgramArguments": list(command),
        "EnvironmentVariables": {name: environment[name] for name in PASSED_ON if environment.get(name)},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ProcessType": "Background",
        "ThrottleInterval": 10,
        "StandardErrorPath": str(log),
    }
    head, _, rest = plistlib.dumps(content, sort_keys=False).decode().partition("\n")
    return f"{head}\n<!-- {MARK}, which can remove it again -->\n{rest}"


def command_of(path: Path) -> list[str]:
    """Return the words that an installed service starts; none if its file cannot be read as one of ours."""
    import plistlib
    import shlex

    try:
        data = path.read_bytes()
        if path.suffix == ".plist":
            words = plistlib.loads(data)["ProgramArguments"]
        else:
            [line] = _START.findall(data.decode())
            words = [word.replace("%%", "%") for word in shlex.split(line)]
    except (OSError, ValueError, LookupError, TypeError, plistlib.InvalidFileException):
        return []
    return [word for word in words if isinstance(word, str)] if isinstance(words, list) else []


# -- what is installed

Run = Callable[[Sequence[str]], "Outcome"]


class Outcome(NamedTuple):
    code: int
    output: str


def run(command: Sequence[str]) -> Outcome:
    """A command of the system's manager of services."""
    import subprocess

    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        return Outcome(1, str(exc))
    return Outcome(done.returncode, (done.stderr or done.stdout).strip())


class Done(NamedTuple):
    """What was done, and what is left to do by hand."""

    changed: bool
    left: list[list[str]]
    reason: str = ""
    """Why something is left."""


def is_ours(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return MARK in file.readline(1000) + file.readline(1000)
    except FileNotFoundError:
        return False


def install(service: Service, run: Run = run) -> Done:
    """Write the file, and start the service. InvalidError: there is another file of this name."""
    _refuse_foreign(service.path)
    before = service.path.read_text(encoding="utf-8", errors="replace") if service.path.exists() else None
    if before != service.text:
        _write(service.path, service.text)
    return _carried_out(service, service.start, run, changed=before != service.text)


def _write(path: Path, text: str) -> None:
    """All of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    new.unlink(missing_ok=True)
    try:
        with open(create_file(new), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def uninstall(service: Service, run: Run = run) -> Done:
    """End the service, and remove its file, if it is ours."""
    if not os.path.lexists(service.path):
        return Done(False, [])
    _refuse_foreign(service.path)
    stopped = _carried_out(service, service.stop, run, changed=True)
    service.path.unlink()
    after = _carried_out(service, service.after, run, changed=True)
    return Done(True, stopped.left + after.left, stopped.reason or after.reason)


def is_active(service: Service, run: Run = run) -> bool:
    return shutil.which(service.manager) is not None and run(service.is_running).code == 0


def _refuse_foreign(path: Path) -> None:
    if os.path.lexists(path) and (path.is_symlink() or not is_ours(path)):
        raise InvalidError(f"{path} was not made by clew; move it away first")


def _carried_out(service: Service, commands: list[list[str]], run: Run, *, changed: bool) -> Done:
    """Until one of them fails; that one and those behind it are left."""
    if shutil.which(service.manager) is None:
        return Done(changed, commands, f"there is no {service.manager} here" if commands else "")
    for number, command in enumerate(commands):
        outcome = run(command)
        if outcome.code:
            return Done(changed, commands[number:], f"{service.manager} says: {outcome.output}")
    return Done(changed, [])
