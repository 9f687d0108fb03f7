"""`clew watch`: follow the agents of this machine, here or as a service."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

import click
import msgspec

import clew
from clew import errors
from clew.cli.app import ERROR, INTERRUPTED, OK, Refused, Settings, command
from clew.cli.output import Output, terminal_size
from clew.cli.text import ago, clew_command, count, from_home, iso, local, now, one_line, size
from clew.core.messages.shell import quoted

if TYPE_CHECKING:
    from clew.importers.follow.lease import Following, Lease
    from clew.importers.follow.service import Done, Service
    from clew.model.transfer import ImportedSession, ImportProgress, ImportReport

_SHOWN: Final = 4
"""Agents, or places, that a line names."""
_MOST_SAID: Final = 1_000
_FIELD: Final = 12
"""Columns for the name of a field of --status."""
_COMFORTABLE: Final = 80
"""Columns of a terminal on which fields stand below each other."""


@command(
    "watch",
    "clew watch                     follow every known agent of this machine",
    "clew watch ~/logs/agents       follow a directory",
    "clew watch --install           do it in the background, from every login on",
    "clew watch --status            show how the watcher is doing",
    "clew watch --json | jq .title  print JSON for programs",
)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(readable=False))
@click.option(
    "--install", "action", flag_value="install", help="Install a service that runs it, and start it"
)
@click.option("--rm", "action", flag_value="uninstall", help="End that service, and remove it")
@click.option("--uninstall", "action", flag_value="uninstall", hidden=True)
@click.option("--status", "action", flag_value="status", help="Show whether it runs, and how it is doing")
@click.option("--dry-run", is_flag=True, help="With --install or --rm: show what would be done")
@click.option("-q", "--quiet", is_flag=True, help="Print only what goes wrong")
@click.pass_obj
def watch_command(
    settings: Settings, paths: tuple[str, ...], action: str | None, dry_run: bool, quiet: bool
) -> int:
    """Without PATH it follows the usual places of all known agents, also of those that come later. First it
    brings what is there, then what agents write, a moment after they wrote it. Their files are only read.
    While no agent writes it does nothing.

    One process follows for each store; a second one says so and ends. It may be ended at any time: the next
    one goes on where it was. SIGHUP makes a service look at everything again. clew sync may run beside it.

    A line for each session that got something: time, agent, project, title and the number of new messages.
    Piped: time, id, agent, project, number and title, separated by tabs. With --json: an object for each.
    """
    if dry_run and action not in ("install", "uninstall"):
        raise click.UsageError("--dry-run goes with --install or --rm")
    if paths and action in ("uninstall", "status"):
        raise click.UsageError(f"--{'rm' if action == 'uninstall' else action} takes no path")
    out = Output(settings)
    match action:
        case "install" | "uninstall":
            return _change_service(out, settings, paths, action, dry_run=dry_run)
        case "status":
            return _show_status(out, settings)
    return _follow(out, settings, paths, quiet=quiet)


# -- following


def _follow(out: Output, settings: Settings, paths: Sequence[str], *, quiet: bool) -> int:
    from clew.importers.follow.lease import Following, HeldError, Lease

    try:
        lease = Lease(settings.store)
    except HeldError as exc:
        raise Refused(_held(settings, exc.holder)) from None
    try:
        with clew.open(settings.store) as store:
            since = datetime.now(UTC).timestamp()
            following = Following(
                pid=os.getpid(), since=since, store=store.location, version=clew.__version__
            )
            lease.tell(following)
            return _Follower(out, settings, store, lease, following, paths, quiet=quiet).run()
    finally:
        lease.end()


def _held(settings: Settings, holder: Following | None) -> str:
    if holder is None or not holder.pid:
        return "another process follows the agents already"
    since = local(datetime.fromtimestamp(holder.since, UTC))
    return (
        f"process {holder.pid} follows the agents already, since {since}; "
        f"{clew_command(settings, 'watch')} --status shows it"
    )


class _Follower:
    """A watcher, and what it says on a terminal or to a pipe."""

    def __init__(
        self,
        out: Output,
        settings: Settings,
        store: clew.Store,
        lease: Lease,
        following: Following,
        paths: Sequence[str],
        *,
        quiet: bool,
    ) -> None:
        from clew.cli.output import ImportLine
        from clew.importers.follow.watcher import Watcher
        from clew.importers.sync import Sync

        self._out = out
        self._store = store
        self._lease = lease
        self._is_quiet = quiet
        self._signal = 0
        self._said: set[str] = set()
        """Troubles that were told: each is told once, until it is another one."""
        self._line = ImportLine("Looking for sessions")
        self._is_first = True
        self._sync = Sync(lambda *, writes: store, paths or None, on_progress=self._on_progress)
        self._watcher = Watcher(
            store,
            self._sync,
            following=following,
            ignored=_our_places(settings),
            on_report=self._on_report,
            on_state=self._on_state,
        )

    def run(self) -> int:
        # A terminal that is closed sends it too: there the watcher ends, as every program does.
        hung_up = self._end if sys.stdout.isatty() or sys.stderr.isatty() else self._rescan
        with _handled({signal.SIGINT: self._end, signal.SIGTERM: self._end, signal.SIGHUP: hung_up}):
            self._say_start()
            with self._line:
                self._watcher.run()
        if not self._is_quiet and not self._out.json and self._signal != signal.SIGHUP:
            click.echo("clew: stopped; what was brought is kept", err=True)
        return INTERRUPTED if self._signal == signal.SIGINT else OK

    # -- signals

    def _end(self, number: int, frame: FrameType | None) -> None:
        if self._signal:  # the second time it is meant
            raise KeyboardInterrupt
        self._signal = number
        self._watcher.stop()

    def _rescan(self, number: int, frame: FrameType | None) -> None:
        self._watcher.rescan()

    def _on_progress(self, at: ImportProgress) -> None:
        self._watcher.check()
        self._line.on_progress(at)

    # -- what is said

    def _say_start(self) -> None:
        if self._is_quiet:
            return
        there = [root for root in self._sync.roots if os.path.exists(root.path)]
        if self._out.json:
            places = [{"format": root.format, "path": str(root.path)} for root in there]
            self._out.record({"event": "following", "store": self._store.location, "places": places})
        else:
            agents = list(dict.fromkeys(root.format or from_home(str(root.path)) for root in there))
            named = _some(agents) if agents else "no agent yet: none of their usual places is there"
            text = f"Following {named}. Store: {from_home(self._store.location)}"
            if self._out.is_terminal:
                self._out.texts([one_line(f"{text}. Ctrl-C ends it.")])
            else:
                click.echo(one_line(text), err=True)
        sys.stdout.flush()

    def _on_report(self, report: ImportReport) -> None:
        self._line.end()
        is_first, self._is_first = self._is_first, False
        self._tell_problems(report)
        if self._is_quiet:
            return
        grown = [one for one in report.sessions if one.entries or one.state == "new"]
        if is_first and self._out.is_terminal:
            if grown:
                brought = sum(one.entries for one in grown)
                self._out.line(f"Brought {count(len(grown), 'session')} with {count(brought, 'message')}.")
        else:
            for session in grown:
                self._tell(session)
        sys.stdout.flush()

    def _tell(self, session: ImportedSession) -> None:
        found = self._store.find(session.id)
        if found is None:
            return
        info = found.info
        project = os.path.basename(info.workspace or "")
        at = now()
        if self._out.json:
            self._out.record(
                {
                    "event": "session",
                    "at": iso(at),
                    "session": info.id,
                    "agent": info.agent,
                    "format": session.format,
                    "workspace": info.workspace,
                    "title": info.title,
                    "state": session.state,
                    "entries": session.entries,
                    "messages": info.messages,
                    "source": session.source,
                }
            )
        elif not self._out.is_terminal:
            self._out.row(iso(at), info.id, info.agent, project, session.entries, info.title)
        else:
            self._out.line(_session_line(at, info, project, session.entries))

    def _on_state(self, following: Following) -> None:
        self._lease.tell(following)
        for reason, roots in _by_reason(following.polled).items():
            are = "is" if len(roots) == 1 else "are"
            self._warn(f"{_some(roots)} {are} looked at every few seconds: {reason}")
        if following.trouble is not None and not following.trouble.path:
            self._warn(following.trouble.reason)

    def _tell_problems(self, report: ImportReport) -> None:
        for source in report.sources:
            for problem in source.problems[:1] if source.read else ():
                self._warn(f"{from_home(problem.path)}: {problem.reason}")

    def _warn(self, text: str) -> None:
        if text in self._said:
            return
        if len(self._said) >= _MOST_SAID:
            self._said.clear()
        self._said.add(text)
        self._line.end()
        click.echo(f"clew: {one_line(text)}", err=True)


def _session_line(at: datetime, info: clew.SessionInfo, project: str, entries: int) -> str:
    """It fits on the terminal: the title gives way."""
    agent, project = one_line(info.agent or ""), _cut(one_line(project), 20)
    width = 12 if terminal_size().columns >= _COMFORTABLE else 0
    head = f"{at.astimezone():%H:%M:%S}  {agent:<{width}}  {project:<{width}}  "
    tail = f"  +{count(entries, 'message')}"
    left = terminal_size().columns - len(head) - len(tail)
    title = _cut(one_line(info.title or "(no title)"), max(left, 10))
    return f"{head}{title}{tail}"


def _cut(text: str, width: int) -> str:
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def _by_reason(polled: Mapping[str, str]) -> dict[str, list[str]]:
    """Why places are polled, and which."""
    found: dict[str, list[str]] = {}
    for root, reason in polled.items():
        found.setdefault(reason, []).append(from_home(root))
    return found


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _our_places(settings: Settings) -> list[str]:
    """Files that we write ourselves: they are no news."""
    from clew.backends.registry import parse
    from clew.importers.follow.lease import state_directory
    from clew.importers.wake import wake_directory

    scheme, place, _ = parse(settings.store)
    ours = [str(state_directory()), str(wake_directory())]
    return [*ours, place] if scheme in ("sqlite", "jsonl") else ours


@contextmanager
def _handled(handlers: dict[signal.Signals, Callable[[int, FrameType | None], None]]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# -- the service


def _service(settings: Settings, paths: Sequence[str]) -> Service:
    from clew.core.own_program import own_program
    from clew.importers.follow import service

    words = [*own_program(), "watch", "--quiet", *_store_words(settings)]
    if paths:
        words += ["--", *map(os.path.abspath, paths)]
    return service.service(words, os.environ, home=Path.home())


def _store_words(settings: Settings) -> list[str]:
    """What names the store to a process that has the file of settings, but none of our variables."""
    from clew.backends.registry import masked_addresses, whole
    from clew.cli.config import file_setting

    address = settings.store or os.environ.get("CLEW_STORE")
    if not address or address == file_setting("store"):
        return []
    if masked_addresses(address) != address:
        raise Refused(
            "the address of the store holds a password, which does not belong into the file of a service; "
            "clew config store ADDRESS keeps it where only you can read it"
        )
    return ["--store", whole(address)]


def _change_service(
    out: Output, settings: Settings, paths: Sequence[str], action: str, *, dry_run: bool
) -> int:
    from clew.importers.follow import service

    found = _service(settings, paths)
    commands = found.start if action == "install" else [*found.stop, *found.after]
    if dry_run:
        return _show_change(out, found, action, commands)
    is_there = os.path.lexists(found.path)
    done = service.install(found) if action == "install" else service.uninstall(found)
    if out.json:
        out.record({"action": action, "path": str(found.path), "changed": done.changed, "left": done.left})
    elif action == "uninstall" and not is_there:
        out.line("No service of clew is installed.")
    else:
        verb = (
            "Wrote" if action == "install" and done.changed else "Kept" if action == "install" else "Removed"
        )
        out.line(f"{verb} {from_home(str(found.path))}.")
        _say_left(out, settings, done, action)
    return ERROR if done.left and action == "install" else OK


def _say_left(out: Output, settings: Settings, done: Done, action: str) -> None:
    if done.left:
        click.echo(f"clew: {one_line(done.reason)}; what is left to do:", err=True)
        for words in done.left:
            out.line(f"  {' '.join(map(quoted, words))}")
    elif action == "install":
        out.line("The watcher runs, and starts with every login.")
        out.line(f"  {clew_command(settings, 'watch')} --status   how it is doing")
    else:
        out.line("The watcher is stopped. What it brought is kept.")


def _show_change(out: Output, found: Service, action: str, commands: list[list[str]]) -> int:
    from clew.importers.follow import service

    if os.path.lexists(found.path) and not service.is_ours(found.path):
        raise Refused(f"{found.path} was not made by clew; move it away first")
    if out.json:
        text = found.text if action == "install" else None
        out.record({"action": action, "path": str(found.path), "text": text, "commands": commands})
        return OK
    out.line(f"Would {'write' if action == 'install' else 'remove'} {from_home(str(found.path))}")
    if action == "install":
        out.line()
        for line in found.text.splitlines():
            out.line(f"  {line}")
    out.line()
    out.line("Would run")
    for words in commands:
        out.line(f"  {' '.join(map(quoted, words))}")
    return OK


# -- how it is doing


def _show_status(out: Output, settings: Settings) -> int:
    """Exit code 1: no process follows."""
    from clew.core.disk import size_of
    from clew.core.own_program import runs_the_current_directory
    from clew.importers.follow import service
    from clew.importers.follow.lease import holder_of

    holder = holder_of(settings.store)
    try:
        found = _service(settings, ())
        installed = str(found.path) if service.is_ours(found.path) else None
        is_active = installed is not None and service.is_active(found)
        is_outdated = installed is not None and runs_the_current_directory(service.command_of(found.path))
    except (errors.InvalidError, Refused):
        installed, is_active, is_outdated = None, False, False
    waiting = size_of(Path(holder.wake)) if holder and holder.wake else 0
    if out.json:
        told = None if holder is None else {**msgspec.structs.asdict(holder), "wake_bytes": waiting}
        out.record(
            {
                "running": holder is not None,
                "service": installed,
                "active": is_active,
                "outdated": is_outdated,
                "watcher": told,
            }
        )
        return OK if holder else ERROR
    lines = [*_status_lines(settings, holder, installed, is_active=is_active, waiting=waiting)]
    if is_outdated:
        start = clew_command(settings, "watch")
        lines.append(("Outdated", f"runs a clew.py of its directory; {start} --install renews it"))
    width = terminal_size().columns if out.is_terminal else sys.maxsize
    out.texts(part for name, value in lines for part in _field(name, one_line(value), width))
    return OK if holder else ERROR


def _field(name: str, value: str, width: int) -> Iterator[str]:
    """What is too long goes on below its beginning."""
    from textwrap import wrap

    room = max(width - _FIELD, 24)
    for part in wrap(value, room, break_on_hyphens=False) if len(value) > room else [value]:
        yield f"{name:<{_FIELD}}{part}"
        name = ""


def _status_lines(
    settings: Settings, holder: Following | None, installed: str | None, *, is_active: bool, waiting: int
) -> Iterator[tuple[str, str]]:
    start = clew_command(settings, "watch")
    if holder is None:
        yield "Watcher", f"not running; {start} starts it, {start} --install for good"
    else:
        yield (
            "Watcher",
            f"{_STATES.get(holder.state, holder.state)}, process {holder.pid}, since {_when(holder.since)}",
        )
        yield "Store", from_home(holder.store)
        awaited = f"; {count(holder.awaited, 'other place')} not there yet" if holder.awaited else ""
        yield "Follows", f"{count(holder.sources, 'file')} in {count(holder.places, 'place')}{awaited}"
        news = f", the last one at {_when(holder.last_news)}" if holder.last_news else ""
        yield "Brought", f"{count(holder.messages, 'message')}{news}"
        if holder.snapshots:
            yield "Files", f"{count(holder.snapshots, 'snapshot')} at ends of turns"
        yield "Last pass", _when(holder.last_pass) if holder.last_pass else "none yet"
        yield (
            "Hooks",
            f"wake it in {from_home(holder.wake)} ({size(waiting)})" if holder.wake else "cannot wake it",
        )
        if holder.trouble is not None:
            place = f"{from_home(holder.trouble.path)}: " if holder.trouble.path else ""
            yield "Last error", f"{_when(holder.trouble.at)}: {place}{holder.trouble.reason}"
        for reason, roots in _by_reason(holder.polled).items():
            yield "Polled", f"{_some(roots)}: {reason}"
    if installed is None:
        yield "Service", "not installed"
    else:
        yield "Service", f"{from_home(installed)}, {'running' if is_active else 'not running'}"


_STATES: Final = {"starting": "starting", "following": "running", "retrying": "waiting for the store"}


def _when(moment: float) -> str:
    at = datetime.fromtimestamp(moment, UTC)
    return f"{local(at)[-5:]} ({ago(at)})" if now() - at < timedelta(hours=12) else local(at)
