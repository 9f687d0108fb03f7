"""clew verify, repair, vacuum, sweep, doctor, version."""

from __future__ import annotations

import os
import platform
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
from typing import Final, Literal

import click
import msgspec

import clew
from clew.backends.registry import parse
from clew.cli.app import ERROR, PARTLY, Plain, Settings, command
from clew.cli.completion import SCRIPTS, Shell
from clew.cli.output import Output, agreed, on_copy, on_files, progress, yes_option
from clew.cli.store import opened
from clew.cli.text import ago, count, one_line, size
from clew.cli.views.restoring import say_unfinished, unfinished
from clew.core.messages.shell import quoted
from clew.core.retention.rules import COUNTS, LENGTHS
from clew.errors import ClewError
from clew.model.times import span

# ── `clew doctor`, `version`, `completion` and `demo` ─────────────────────────────────────────────

PARTS: Final = ("apsw", "msgspec", "blake3", "click", "rich", "psycopg", "obstore", "genai-prices")


@command("version", "clew version", "clew version --json", kind=Plain)
@click.pass_obj
def version_command(settings: Settings) -> None:
    """Piped: name and version."""
    out = Output(settings)
    found = versions()
    if out.json:
        out.record(found)
        return
    for name, number in found.items():
        out.line(f"{name:<13} {number}") if out.is_terminal else out.row(name, number)


def versions() -> dict[str, str]:
    import apsw

    found = {
        "clew": clew.__version__,
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
    }
    for name in PARTS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@command(
    "completion",
    "clew completion bash >> ~/.bashrc",
    "clew completion zsh >> ~/.zshrc",
    "clew completion fish > ~/.config/fish/completions/clew.fish",
    kind=Plain,
)
@click.argument("shell", type=click.Choice(list(SCRIPTS)))
def completion_command(shell: Shell) -> None:
    """It completes commands, options, values and the ids of sessions. Scripts that an older version printed
    get no answer: print them again.
    """
    click.echo(SCRIPTS[shell], nl=False)


@command("demo", "clew demo", kind=Plain)
def demo_command() -> int:
    """It takes some seconds, in a store of its own that is removed at the end.

    Exit code 1 if something that it shows is not so.
    """
    from clew.cli.demo.story import main

    return main()


# -- doctor

LITTLE: Final = 512 * 1024 * 1024
"""Bytes of free disk that are too few to be at ease."""
PATIENCE: Final = 5.0
"""Seconds for the connection to a server."""
GLANCE: Final = 0.6
"""Seconds for what is stored: a doctor is asked often, and `clew verify` looks at all of it."""
MARKS: Final = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "bold red")}


class Finding(msgspec.Struct, frozen=True):
    """What a check found."""

    check: str
    state: Literal["ok", "warning", "problem"]
    text: str
    next: str | None = None


@command("doctor", "clew doctor", "clew doctor --store agents.db")
@click.pass_obj
def doctor_command(settings: Settings) -> int:
    """It looks at versions, durability, permissions, disk space, leases, interrupted restores and stored
    content; at how agents and the service start Clew; of a store on a server also at the rights of the role
    and the encryption of the connection.

    Piped: check, state (ok, warning, problem), text and next step, separated by tabs. Exit code 1 if there
    is a problem.
    """
    out = Output(settings)
    worst = 0
    for finding in _findings(settings):
        if finding.state == "problem":
            worst = ERROR
        if out.json:
            out.record(finding)
        elif not out.is_terminal:
            out.row(finding.check, finding.state, finding.text, finding.next)
        else:
            _print(finding)
    return worst


def _print(finding: Finding) -> None:
    from rich.text import Text

    from clew.cli.output import print_line, terminal
    from clew.cli.text import one_line

    sign, colour = MARKS[finding.state]
    line = Text.assemble((f"{sign} ", colour), (f"{finding.check:<12} ", "bold"), one_line(finding.text))
    print_line(terminal(), line)
    if finding.next:
        print_line(terminal(), Text(f"  → {one_line(finding.next)}", style="bright_black"))


def _findings(settings: Settings) -> Iterator[Finding]:
    found = versions()
    yield Finding(
        "engine",
        "ok",
        f"clew {found['clew']}, Python {found['python']}, SQLite {found['sqlite']}, {_system()}",
    )
    yield from _starts()
    try:
        with opened(settings) as store:
            yield Finding("store", "ok", store.location)
            yield _durability(store)
            yield from _place(settings)
            yield from _way(settings)
            yield from _leases(store)
            yield from _restores(store)
            yield _whole(store)
    except ClewError as exc:
        from clew.cli.app import described

        yield Finding("store", "problem", described(exc))


def _system() -> str:
    return f"{platform.system()} {platform.release()}"


def _starts() -> Iterator[Finding]:
    """What starts Clew in the way of earlier versions, which runs a clew.py of the current directory."""
    from clew.core.own_program import runs_the_current_directory
    from clew.importers.follow import service
    from clew.server.mcp.install.clients import CLIENTS
    from clew.server.mcp.install.install import status

    places: list[Path | None] = [None]
    with suppress(FileNotFoundError):  # the current directory may be gone
        places.append(Path.cwd())
    for project, client in product(places, CLIENTS.values()):
        with suppress(OSError):  # settings that this user may not see
            found = status(client, project=project)
            if found.state == "outdated":
                where = "" if project is None else " --project"
                text = f"{client.title} runs a clew.py of the directory that it works in: {found.path}"
                yield Finding("agents", "problem", text, f"clew mcp install {quoted(client.name)}{where}")
    with suppress(ClewError, OSError):
        path = service.service([], os.environ, home=Path.home()).path
        if service.is_ours(path) and runs_the_current_directory(service.command_of(path)):
            text = f"the service of clew watch runs a clew.py of the directory it is started in: {path}"
            yield Finding("service", "problem", text, "clew watch --install")


def _durability(store: clew.Store) -> Finding:
    level = store.capabilities.durability
    match level:
        case "full":
            return Finding("durability", "ok", "what is acknowledged survives a power cut")
        case "process":
            text = "what is acknowledged survives a killed process, not a power cut"
        case _:
            text = "everything is gone when the process ends"
    return Finding("durability", "warning", text, "leave durability out of the address, or use another store")


def _place(settings: Settings) -> Iterator[Finding]:
    """Permissions and room, for stores on this machine's disk."""
    scheme, name, _ = parse(settings.store)
    if scheme not in ("sqlite", "jsonl"):
        return
    path = Path(name).resolve()
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        wanted = "700" if path.is_dir() else "600"
        text = f"other users may read {path} (mode {mode:o})"
        yield Finding("permissions", "warning", text, f"chmod {wanted} {quoted(str(path))}")
    elif not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        yield Finding(
            "permissions", "warning", f"{path} can only be read", "clew copy it to where you may write"
        )
    else:
        yield Finding("permissions", "ok", f"only you may read {path}")
    disk = shutil.disk_usage(path.parent)
    state: Literal["ok", "warning"] = "warning" if disk.free < LITTLE else "ok"
    step = "free some space; clew gc and clew vacuum give some back" if state == "warning" else None
    yield Finding("disk", state, f"{size(disk.free)} free of {size(disk.total)}", step)


def _way(settings: Settings) -> Iterator[Finding]:
    """Rights and encryption, for stores on a server."""
    scheme, url, _ = parse(settings.store)
    if scheme != "postgresql":
        return
    from clew.backends.postgres.connection import check_connection

    way = check_connection(url, PATIENCE)
    if way.is_superuser:
        text = f"the role {way.role} is a superuser: its password opens everything on the server"
        yield Finding(
            "role", "warning", text, "give the store a role of its own: docs/how-to/use-postgresql.md"
        )
    else:
        yield Finding("role", "ok", f"the role {way.role} is not a superuser")
    if way.is_local:
        yield Finding("wire", "ok", "the server is on this machine")
    elif not way.is_encrypted or not way.is_verified:
        what = "the identity of the server is not checked" if way.is_encrypted else "nothing is encrypted"
        yield Finding(
            "wire", "warning", f"{what} on the way to {way.host}", "add sslmode=verify-full to the address"
        )
    else:
        yield Finding("wire", "ok", f"encrypted on the way to {way.host}, whose identity was checked")


def _leases(store: clew.Store) -> Iterator[Finding]:
    running = store.list(status="running", limit=10_000).sessions
    stuck = [info for info in running if store.get(info.id).lease is None]
    for info in stuck[:5]:
        text = f"{info.id} is running, but no worker holds its lease; active {ago(info.updated_at)}"
        yield Finding(
            "leases", "warning", text, "clew interrupted lists the sessions whose worker was killed"
        )
    if not stuck:
        yield Finding("leases", "ok", f"{count(len(running), 'session')} at work, none is stuck")


def _restores(store: clew.Store) -> Iterator[Finding]:
    found = unfinished(store)
    for one in found:
        yield Finding("restores", "problem", one.text, one.step)
    if not found:
        yield Finding("restores", "ok", "none was cut off")


def _whole(store: clew.Store) -> Finding:
    with progress("looking") as told:
        report = store.verify(full=False, time_limit=GLANCE, on_progress=on_files(told))
    if not report.ok:
        text = f"{count(len(report.problems), 'problem')}, such as: {report.problems[0]}"
        return Finding(
            "content", "problem", text, "clew verify lists them, clew repair --to NEW saves the rest"
        )
    if not report.complete:
        text = f"no problem in the oldest {count(report.sessions, 'session')}"
        return Finding("content", "ok", text, "clew verify --quick looks at all of them")
    seen = f"{count(report.sessions, 'session')} and {count(report.objects, 'object')} found, none is missing"
    return Finding("content", "ok", seen)


# ── `clew verify`, `repair`, `vacuum` and `sweep`, with retention rules as they are typed ─────────


@command(
    "verify",
    "clew verify                           read everything and compare it with its hash",
    "clew verify --quick                   check only that nothing is missing",
)
@click.option("--quick", is_flag=True, help="Check check only that nothing is missing")
@click.option(
    "--time-limit",
    type=float,
    metavar="SECONDS",
    help="Stop after this many seconds, and report what was found",
)
@click.pass_obj
def verify_command(settings: Settings, quick: bool, time_limit: float | None) -> int:
    """It also checks the trash, and changes nothing. Prints one problem per line. A restore of files that was
    interrupted is mentioned.

    Exit code 1 if there is a problem, 3 if the time limit ended the check early.
    """
    out = Output(settings)
    with opened(settings) as store:
        with progress("verifying") as told:
            report = store.verify(full=not quick, time_limit=time_limit, on_progress=on_files(told))
        say_unfinished(store)
    if out.json:
        out.record(report)
    else:
        for problem in report.problems:
            out.line(one_line(problem))
        seen = f"{count(report.sessions, 'session')}, {count(report.entries, 'entry')}"
        what = f"{seen}, {count(report.objects, 'object')} ({size(report.bytes)})"
        verdict = (
            "no problems found"
            if report.ok
            else f"{count(len(report.problems), 'problem')}; clew repair --to NEW"
        )
        click.echo(f"{what}: {verdict}{'' if report.complete else ' (not all was looked at)'}", err=True)
    if not report.ok:
        return ERROR
    return 0 if report.complete else PARTLY


@command("repair", "clew repair --to rescued.db")
@click.option("--to", required=True, metavar="ADDRESS", help="Write this new store; it must not be there yet")
@click.pass_obj
def repair_command(settings: Settings, to: str) -> int:
    """It lists what cannot be read. The damaged store is not changed. The new one is there when it is whole:
    after a repair that was killed, run it again. Exit code 3 if something is lost.
    """
    out = Output(settings)
    with opened(settings) as store, progress("repairing") as told:
        report = store.repair(to=to, on_progress=on_copy(told))
    if out.json:
        out.record(report)
        return 0 if report.ok else PARTLY
    for lost in report.lost:
        where = " ".join(str(part) for part in (lost.session, lost.position, lost.name) if part is not None)
        out.line(f"lost: {lost.kind} {where}: {lost.reason}")
    brought = f"{count(report.sessions, 'session')}, {count(report.entries, 'entry')}"
    out.line(f"{brought} and {count(report.snapshots, 'snapshot')} saved in {report.location}")
    return 0 if report.ok else PARTLY


@command("vacuum", "clew vacuum")
@click.pass_obj
def vacuum_command(settings: Settings) -> None:
    """It takes as long as a copy of the store, and removes nothing."""
    out = Output(settings)
    with opened(settings) as store, progress("vacuum"):
        freed = store.vacuum()
    if out.json:
        out.record({"bytes": freed})
    else:
        out.line(f"{size(freed)} given back")


@command(
    "sweep",
    "clew sweep --dry-run                  show what the rules would do now",
    "clew sweep",
    "clew sweep --rule max_idle=90d        apply this rule, this once",
)
@click.option(
    "--rule",
    multiple=True,
    metavar="NAME=VALUE",
    help="Apply this rule instead of the store's, this once; repeat it for more",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing")
@click.option("--scrub", is_flag=True, help="Rewrite the store too, so that no removed byte is left")
@yes_option
@click.pass_obj
def sweep_command(settings: Settings, rule: tuple[str, ...], dry_run: bool, scrub: bool, yes: bool) -> None:
    """Rules expire sessions, move them to the trash, remove them for good, and remove messages. A rule is
    written as max_idle=90d, max_messages=500 or keep_tags=a,b. Without rules nothing is removed.
    Piped: verb, session, messages and reason, separated by tabs.
    """
    out = Output(settings)
    rules = rules_of(rule)
    with opened(settings) as store:
        report = store.sweep(rules=rules, dry_run=True)
        if not dry_run:
            if report.actions:
                lines = [f"{action.verb}  {action.session}: {action.reason}" for action in report.actions]
                agreed(f"Make {count(len(lines), 'change')}?", lines, yes=yes)
            with progress("sweeping"):
                report = store.sweep(rules=rules, scrub=scrub)
    if out.json:
        out.record(report)
        return
    for action in report.actions:
        out.row(action.verb, action.session, action.messages or None, action.reason)
    if not report.actions:
        click.echo("nothing is due", err=True)


# -- retention rules as they are typed: max_idle=30d, max_messages=500, keep_tags=a,b

_NAMES: Final = (*LENGTHS, *(name for name in COUNTS if name != "max_events"), "trash_expired", "keep_tags")


def rules_of(given: Iterable[str]) -> clew.Retention | None:
    """The rules of these `NAME=VALUE`; None: there are none."""
    found: dict[str, object] = {}
    for one in given:
        name, _, value = one.partition("=")
        if name not in _NAMES:
            raise click.UsageError(
                f"{one!r} is not a rule: write NAME=VALUE, with one of {', '.join(_NAMES)}"
            )
        found[name] = _value(one, name, value)
    return clew.Retention(**found) if found else None  # type: ignore[arg-type]  # checked by the sweep


def _value(given: str, name: str, value: str) -> object:
    if name == "keep_tags":
        return tuple(tag for tag in value.split(",") if tag)
    if name == "trash_expired":
        if value not in ("", "yes", "no"):
            raise click.UsageError(f"{given!r}: write trash_expired=yes or trash_expired=no")
        return value != "no"
    if name in LENGTHS:
        length = span(value)
        if length is None:
            raise click.UsageError(f"{given!r} is not a length of time: write 90m, 12h, 30d or 2w")
        return length
    if not (value.isascii() and value.isdecimal()):
        raise click.UsageError(f"{given!r} is not a number: write {name}=500")
    return int(value)
