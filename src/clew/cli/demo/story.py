"""The narrator: prints what happens, and remembers what was said for the drawings."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any, Final

from rich.console import Console
from rich.panel import Panel
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

import clew
from clew.cli.demo.worker import assistant, call, result, user, worker
from clew.cli.views.graph import GLYPHS, START, Row, State, draw
from clew.core.work_folder import work_folder

PAUSE = 0.012
"""Seconds before each line of the story, so that a person can follow: about a second in all."""

SOON: Final = 0.001
"""Seconds until an interrupt that Python dropped comes again."""

COLOURS: Final = {"user": "bright_cyan", "assistant": "bright_green", "tool": "yellow"}
LANES: Final[dict[State, str]] = {"here": "bold", "elsewhere": "magenta", "left": "bright_black"}
LEGEND: Final[dict[State, str]] = {
    "here": "on its path",
    "elsewhere": "of another session",
    "left": "left behind, kept",
}


def words(message: dict[str, Any]) -> tuple[str, str]:
    """Who speaks, and what, in one line."""
    for made in message.get("tool_calls", ()):
        what = str(made["function"]["arguments"]).removeprefix('{"what": "').removesuffix('"}')
        return "assistant", f"→ {made['function']['name']}({what})"
    return str(message.get("role", "")), str(message.get("content", ""))


class Untrue(Exception):
    """The story claimed something that did not happen."""


class Story:
    """The narrator: prints what happens, and remembers what was said for the drawings."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.said: dict[str, tuple[str, str]] = {}
        self.chapters = 0
        self.claims = 0
        self.legend_shown = False

    def line(self, *parts: str | Text | tuple[str, str]) -> None:
        """One line of output, cut rather than wrapped, with a little time to read it."""
        if self.console.is_terminal:
            time.sleep(PAUSE)
        text = Text.assemble(*parts)
        text.rstrip()
        self.console.print(text, no_wrap=True, overflow="ellipsis")

    def chapter(self, title: str, *text: str) -> None:
        self.chapters += 1
        heading = Text.assemble((f" {self.chapters} ", "bold black on bright_cyan"), (f" {title} ", "bold"))
        self.line()
        self.console.print(Rule(heading, align="left", style="bright_black"))
        for sentence in text:
            self.line((f"     {sentence}", "italic"))
        self.line()

    def code(self, code: str) -> None:
        syntax = Syntax("", "python", theme="ansi_dark", background_color="default")
        highlighted = syntax.highlight(code)
        highlighted.rstrip()
        self.line(("  >>> ", "bright_black"), highlighted)

    def append(self, session: clew.Session, *messages: dict[str, Any]) -> None:
        for entry in session.append(*messages):
            who, text = self.said[entry.id] = words(entry.message)
            self.line("      ", (f"{who:<11}", COLOURS.get(who, "")), text)

    def note(self, text: str) -> None:
        self.line((f"      {text}", "bright_black"))

    def claim(self, holds: bool, text: str) -> None:
        """Say something that was checked."""
        if not holds:
            raise Untrue(text)
        self.claims += 1
        self.line(("    ✓ ", "bold bright_green"), text)

    def graph(self, session: clew.Session) -> None:
        rows = draw(session.tree(), fold=7)
        width = max(len(row.lanes) for row in rows)
        self.line()
        if not self.legend_shown:
            self.legend_shown = True
            parts = [(f"{GLYPHS[state]} {LEGEND[state]}   ", "bright_black italic") for state in GLYPHS]
            self.line("      ", *parts)
            self.line()
        for row in rows:
            self.line("      ", *self._lanes(row, width), *self._labels(row, self.console.width - width - 24))
        self.line()

    def _lanes(self, row: Row, width: int) -> tuple[tuple[str, str], ...]:
        """Entries in the colour of their state, everything that joins them in grey, padded to one width."""
        end = len(row.lanes) - (row.entry is not None)
        return (
            (row.lanes[:end], "bright_black"),
            (row.lanes[end:], LANES[row.state]),
            (" " * (width - len(row.lanes)), ""),
        )

    def _labels(self, row: Row, room: int) -> list[tuple[str, str]]:
        if row.entry is None:
            return [(f"     {row.folded} more", "bright_black italic")] if row.folded else []
        names = [(f"  ◆ {name}", "bold yellow") for name in row.checkpoints]
        names += [(f"  ◀ {id}", "bold bright_green") for id in row.heads]
        room -= sum(len(name) for name, _ in names)
        who, text = self.said.get(f"{row.entry.branch}.{row.entry.position}", ("", "…"))
        if row.entry == START:
            who, text = "", "(empty)"
        text = text if len(text) <= room else text[: room - 1].rstrip() + "…"
        grey = "bright_black" if row.state == "left" else ""
        position = (f" {row.entry.position:>3}  ", "bright_black")
        return [position, (f"{who:<11}", grey or COLOURS.get(who, "")), (text, grey), *names]


# ── A small agent's story: converse, go wrong, rewind, fork, crash, resume, compact, undo ─────────
# The crash is a real process and a real kill -9. The story runs in one SQLite file in a temporary directory
# and checks what it claims: a claim that does not hold ends it with exit code 1.

ENOUGH: Final = 61
"""Acknowledged entries after which the worker is killed. Odd: its last one is a call without a result."""


def tell(console: Console, directory: Path) -> None:
    story = Story(console)
    path = directory / "agents.db"
    began = time.monotonic()
    story.line()
    story.line(("  clew ", "bold bright_cyan"), "a small agent's story, in one SQLite file")
    with clew.open(path) as store:
        s = converse(story, store)
        go_wrong_and_rewind(story, s)
        fork(story, s)
    acknowledged = crash(story, path, s.id)
    with clew.open(path) as store:
        s = resume(story, store, acknowledged)
        compact_and_undo(story, store, s)
        end(story, store, time.monotonic() - began)


def converse(story: Story, store: clew.Store) -> clew.Session:
    story.chapter("Converse", "An agent gets a job. Each append is on the disk before it returns.")
    story.code('store = clew.open("agents.db")')
    story.code('s = store.session("login-bug")')
    s = store.session("login-bug")
    story.code("s.append(...)")
    story.append(s, user("The login page returns 500. Please fix it."))
    story.append(s, call("c1", "read_file", "auth.py"), result("c1", "42: user = sessions[cookie].user"))
    story.append(s, assistant("Line 42 fails on an old cookie. Guard it, or a middleware?"))
    story.code('s.checkpoint("plan", state={"suspect": "auth.py:42"})')
    s.checkpoint("plan", state={"suspect": "auth.py:42"})
    return s


def go_wrong_and_rewind(story: Story, s: clew.Session) -> None:
    story.chapter(
        "Go wrong, and rewind", "The agent does too much. Going back is one call, and removes nothing."
    )
    story.append(s, call("c2", "write_file", "auth.py"), result("c2", "pytest: 31 failed"))
    story.append(s, user("Stop! Now nobody can log in."))
    wrong = s.info
    story.code('s.rewind("plan")')
    s.rewind("plan")
    story.graph(s)
    story.claim(
        (wrong.messages, s.info.messages) == (7, 4),
        "The path has 4 messages again. The other 3 stay: undo leads back to them.",
    )
    story.append(s, user("Only guard line 42."), call("c3", "edit_file", "auth.py:42"))
    story.append(s, result("c3", "pytest: 57 passed"), assistant("Done: one line, and the tests pass."))


def fork(story: Story, s: clew.Session) -> None:
    story.chapter("Fork", "The other way, to compare: a session of its own from the same point.")
    story.code('other = s.fork(at="plan")')
    other = s.fork(at="plan")
    story.append(other, user("Try the middleware."), assistant("It works; 40 lines more."))
    story.graph(s)
    story.claim(
        s.messages()[:4] == other.messages()[:4] and (s.info.messages, other.info.messages) == (8, 6),
        f"{other.id} has 6 messages; 4 of them are shared, none is copied.",
    )


def crash(story: Story, path: Path, id: str) -> dict[int, str]:
    """Let a worker append, kill it, and return what it had been told is stored: position → hash."""
    story.chapter(
        "Crash",
        "This process closes the store. A worker takes over: it runs tests, keeps",
        "each call and each result, and reports every append that returned.",
    )
    story.code('worker = subprocess.Popen([..., "--worker", "agents.db", "login-bug"])')
    acknowledged: dict[int, str] = {}
    with worker(path, id) as process:
        assert process.stdout is not None
        for line in process.stdout:
            position, digest = line.split()
            acknowledged[int(position)] = digest
            if len(acknowledged) == ENOUGH:
                os.kill(process.pid, signal.SIGKILL)
        code = process.wait()
    story.code("os.kill(worker.pid, signal.SIGKILL)")
    story.claim(
        code == -signal.SIGKILL and len(acknowledged) >= ENOUGH,
        f"kill -9 in the middle of its work, after {len(acknowledged)} acknowledged entries.",
    )
    return acknowledged


def resume(story: Story, store: clew.Store, acknowledged: dict[int, str]) -> clew.Session:
    story.chapter("Resume", "Open the file again. No recovery step, no flag, no repair tool.")
    story.code("s = store.latest()")
    s = store.latest()
    assert s is not None
    stored = {}
    for entry in s.entries(after=min(acknowledged) - 1):
        story.said[entry.id] = words(entry.message)
        stored[entry.position] = entry.hash
    missing = acknowledged.items() - stored.items()
    story.claim(
        not missing, f"All {len(acknowledged)} acknowledged entries are there, each with the hash it had."
    )
    more = len(stored) - len(acknowledged)
    story.claim(
        more in (0, 1),
        "One more got stored before the worker could report it." if more else "Nothing else is there.",
    )
    story.code("s.context().report.repairs")
    context = s.context()
    calls = [made["id"] for message in context for made in message.get("tool_calls", ())]
    answers = [message["tool_call_id"] for message in context if message["role"] == "tool"]
    for repair in context.report.repairs:
        story.note(repair)
    story.claim(calls == answers, "Every call that a model gets has its result. The log stays as it was.")
    story.append(s, user("What happened?"), assistant("The sweep was interrupted; no test failed."))
    return s


def compact_and_undo(story: Story, store: clew.Store, s: clew.Session) -> None:
    story.chapter("Compact, and undo", "What the model gets may shrink. What is stored does not.")
    full = len(s.messages())
    story.code('s.compact("Line 42 is guarded. The sweep passed until it was stopped.")')
    mark = s.compact("Line 42 is guarded. The sweep passed until it was stopped.")
    story.said[mark.id] = ("", "[compaction]")
    views = (len(s.context()), len(s.messages()))
    story.claim(views == (1, full), f"context() has 1 message now; messages() has {full}, as before.")
    story.graph(s)
    entries = store.stats().entries
    story.code("s.undo(); s.undo()")
    s.undo()
    s.undo()
    story.claim(
        s.messages()[-1] == user("Stop! Now nobody can log in."),
        "The compaction is taken back, then the rewind of the process before.",
    )
    story.code("s.redo(); s.redo()")
    s.redo()
    s.redo()
    story.claim(
        (len(s.context()), len(s.messages()), store.stats().entries) == (1, full, entries),
        "And forward again. Four moves, and not one entry was written or removed.",
    )


def end(story: Story, store: clew.Store, seconds: float) -> None:
    stats = store.stats()
    story.claim(stats.entries == len(story.said), "Every entry of this story is in the store, and no other.")
    table = Table.grid(padding=(0, 3))
    table.add_column(style="bright_black")
    for name, value in (
        ("sessions", f"{stats.sessions}, sharing one tree"),
        ("entries", f"{stats.entries}, of which {stats.messages} are messages"),
        ("claims", f"{story.claims} made, {story.claims} checked"),
        ("kill -9", "1, and nothing lost"),
        ("time", f"{seconds:.1f} s"),
    ):
        table.add_row(name, value)
    panel = Panel(
        table, title=" the thread is whole ", border_style="bright_green", padding=(1, 3), expand=False
    )
    story.line()
    for segments in story.console.render_lines(panel, story.console.options.update(width=52)):
        story.line("    ", *(Text(part.text, part.style or "") for part in segments))
    story.line()
    story.note("Next: docs/tutorial/first-agent.md")
    story.line()


WIDTH: Final = 100


def _later(dropped: sys.UnraisableHookArgs) -> None:
    """Python drops an interrupt that arrives while an object is cleaned up: let it come again soon after."""
    if dropped.exc_type is KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, SOON)
    else:
        sys.__unraisablehook__(dropped)


def _interrupt(_: int, frame: FrameType | None) -> None:
    """Python drops what is raised in that hook, too: on a busy machine the timer may be over before it."""
    while frame is not None:
        if frame.f_code is _later.__code__:
            signal.setitimer(signal.ITIMER_REAL, SOON)
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def main() -> int:
    console = Console(highlight=False)
    console.width = min(console.width, WIDTH)
    if isinstance(sys.stdout.encoding, str) and not sys.stdout.encoding.lower().startswith("utf"):
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal without lanes
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGALRM, _interrupt)
    sys.unraisablehook = _later
    try:
        with work_folder("demo") as directory:
            tell(console, directory)
    except KeyboardInterrupt:
        console.print("\ninterrupted; the temporary store is removed")
        return 130
    except Untrue as exc:
        console.print(f"\n[bold red]✗ This did not hold:[/] {exc}")
        return 1
    finally:
        sys.unraisablehook = sys.__unraisablehook__
    return 0
