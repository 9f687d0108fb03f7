"""S-17, S-18: every command there is, over a store in which every text tries to steer the terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import clew
from clew.cli import cli
from clew.cli.commands.agents.resume import AGENTS
from tests.cli.inside import in_pipe, on_terminal

# What acts on a terminal, forges a line, or turns the writing. Each text of the store has all of it.
ACTS = (
    "\x1b[2J\x1b]0;title\x07"  # clears the screen, sets its title
    "\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\"  # a link
    "\x1b]52;c;cm0gLXJmIH4K\x07"  # fills the clipboard
    "\x1bP+q\x1b\\\x1b_x\x1b\\\x1b^x\x1b\\\x9b31m\x90q\x9c"  # strings to the terminal, and in eight bits
    "a\rb\x08\x7f\x0b\x0c\x0e"  # overwrites
    "\u202eexe\u2066\u200f\u061c\u200b\u2060\ufeff"  # turns the writing, or is not seen
    "\u0085\u2028\u2029\U000e0041\ufff9"
)
FORGED = "\nclew: no problems found"
"""A line that looks like one of ours, if it begins one."""
HOSTILE = ACTS + FORGED
NAME = HOSTILE.replace("/", "")
"""Of a file."""
ID = f"id{HOSTILE}"
PLACE = f"{ID}@0"
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2028\u2029\u2060\u2066-\u2069\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)
OUR_OWN = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[hl]|\x1b\[[0-9]*[AGK]|\r")
"""Colours; and of a bar that shows how far something is: the cursor hidden, lines drawn anew."""


def commands() -> Iterator[str]:
    """Every command, and those of groups behind the name of the group."""
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        if isinstance(command, click.Group):
            yield from (f"{name} {inner}" for inner, one in command.commands.items() if not one.hidden)
        else:
            yield name


def tried(home: Path) -> dict[str, list[list[str]]]:
    """How each command is called: so that it prints as much as it can, and with hostile words."""
    root, missing = str(home / "root"), f"no{HOSTILE}"
    return {
        "ls": [[], ["--json"], ["--tag", f"tag{HOSTILE}"], ["--workspace", missing], ["--where", "k=v"]],
        "show": [[], [ID], [PLACE], [ID, "--json"], [ID, "--tools", "--thinking", "--full"], [missing],
                 [f"{ID}@{missing}"], [f"{ID}@point{HOSTILE}"]],
        "log": [[ID], ["--graph", ID], ["--graph", "--full", ID], ["--json", ID], ["--graph", "--json", ID]],
        "search": [["needle"], ["needle", "--tools"], ["needle", "--json"], ["needle", "--best"],
                   ["needle", "--session", missing], [f'"{HOSTILE}']],
        "tail": [[ID], ["--all"], ["--json", ID], [missing]],
        "stats": [[], [ID], [ID, "--json"], [missing]],
        "usage": [[], *(["--by", by] for by in ("model", "day", "session", "workspace", "vendor")), [ID]],
        "interrupted": [[], ["--json"]],
        "ui": [[]],
        "import": [[str(home / f"in{NAME}.jsonl"), "--dry-run"], [missing], [str(home), "--json"],
                   [str(home)], [str(home), "--format", missing]],
        "serve": [["--workers", "2"], ["--unix-socket", missing], ["--public-url", missing],
                  ["--port", missing], ["--cors", missing], ["--host", missing]],
        "token add": [[f"t{HOSTILE}", "--tag", f"tag{HOSTILE}", "--workspace", missing], [f"t{HOSTILE}"],
                      ["x", "--scope", missing], ["x", "--expires", missing]],
        "token ls": [[], ["--json"]],
        "token rm": [[missing], [f"t{HOSTILE}"]],
        "share new": [[ID], [ID, "--json"], [ID, "--at", missing], [missing]],
        "share ls": [[], ["--json"]],
        "share rm": [[missing]],
        "sync": [[], ["-v"], ["--json"], [missing], [str(home), "--dry-run", "-v"], [str(home), "-v"]],
        "watch": [["--status"], ["--install", "--dry-run", missing], ["--rm", "--dry-run"],
                  ["--status", "--json"]],
        "hooks install": [["--all", "--dry-run"], ["--all"], [missing]],
        "hooks status": [[], [missing], ["--json"]],
        "hooks rm": [["--all", "--dry-run"], ["--all"], [missing]],
        "mcp install": [["--all", "--dry-run"], ["--all"], [missing], ["codex", "--workspace", missing],
                        ["--all", "--project", "--dry-run"], ["--all", "--dry-run", "--skill"]],
        "mcp rm": [["--all", "--dry-run"], ["--all"], [missing]],
        "mcp status": [[], [missing], ["--json"], ["--project"]],
        "mcp hint": [[], ["--client", "codex"], ["--client", missing], ["--store", missing]],
        "resume": [[ID], [missing], [f"{ID}@{missing}"], [ID, "--directory", missing],
                   [ID, "--in", "pi", "--directory", root, "--dry-run"],
                   *([PLACE, "--in", agent, "--directory", root] for agent in AGENTS),
                   ["claude-code:c1", "--directory", root], ["claude-code:c1"]],
        "export": [["--all", "-o", str(home / "out")], [missing], [ID, "-f", missing],
                   [ID, "-o", str(home / f"out{NAME}.md")]],
        "copy": [[str(home / "a.db"), str(home / f"copy{NAME}.db")], [missing, missing],
                 [str(home / "a.db"), str(home / f"copy{NAME}.db"), "--session", missing]],
        "backup": [[str(home / f"b{NAME}.db")], [str(home / f"b{NAME}.db")], [missing]],
        "checkpoint": [[ID], [ID, f"new{HOSTILE}"], [ID, missing, "--rm"], [ID, "--json"],
                       [ID, f"files{HOSTILE}", "--files", root]],
        "rewind": [[ID, f"point{HOSTILE}", "--dry-run"], [ID, missing], [ID, "1", "--yes"], [missing, "1"],
                   [ID, f"filed{HOSTILE}", "--files", "--root", root, "--dry-run"]],
        "undo": [[ID, "--yes"], [missing]],
        "redo": [[ID, "--yes"], [missing]],
        "follow": [[ID], [ID, "--dry-run"], [missing]],
        "fork": [[ID, f"fork{HOSTILE}"], [f"{ID}@{missing}"], [missing]],
        "snapshot": [[root], [missing], ["/"]],
        "files": [[], ["--json"], [ID, f"d{NAME}/f{NAME}"], [missing, missing], ["--root", missing]],
        "cat": [[f"{ID}@filed{HOSTILE}", missing], [missing, missing]],
        "diff": [[f"{ID}@filed{HOSTILE}", root], [f"{ID}@filed{HOSTILE}", root, "--stat"], [missing],
                 [f"{ID}@filed{HOSTILE}", root, "--json"]],
        "restore": [[f"{ID}@filed{HOSTILE}", "--to", root, "--dry-run"], [missing], ["--undo", missing],
                    ["--finish", missing], ["--pending"], [f"{ID}@filed{HOSTILE}", "--to", root, "--yes"]],
        "gc": [["--dry-run"]],
        "title": [[ID], [ID, f"title{HOSTILE}"], [missing], [ID, "--json"]],
        "tag": [[ID], [ID, f"more{HOSTILE}"], [ID, "--rm", missing], [missing]],
        "close": [[ID], [missing]],
        "reopen": [[ID], [missing]],
        "rm": [[missing], [f"gone{HOSTILE}"], [f"failed{HOSTILE}", "--purge"]],
        "trash ls": [[], ["--json"]],
        "trash restore": [[missing], [f"gone{HOSTILE}"]],
        "trash empty": [[]],
        "sweep": [["--dry-run"], ["--rule", missing], ["--rule", "max_idle=1m", "--dry-run"]],
        "doctor": [[], ["--json"], ["--store", missing], ["--store", f"postgresql://{missing}"]],
        "secrets scan": [[], ["--all-rules"], [ID, "--json"], [missing]],
        "secrets policy": [[], ["all"], [missing]],
        "verify": [[], ["--json"], ["--quick"]],
        "repair": [["--to", str(home / f"whole{NAME}.db")], ["--to", str(home / f"whole{NAME}.db")]],
        "vacuum": [[]],
        "demo": [[missing]],
        "completion": [["bash"], [missing]],
        "config": [[], ["store", missing], ["pager", missing], ["store"], [missing], ["--unset", missing]],
        "help": [[missing], ["trash", missing], ["show", missing]],
        "version": [[], [missing]],
    }  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    root = home / "root" / f"d{NAME}"
    root.mkdir(parents=True)
    for name in (f"f{NAME}", "plain"):
        (root / name).write_text(f"needle {HOSTILE}\n")
    monkeypatch.chdir(home)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("CLEW_STORE", str(home / "a.db"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    fill(home)
    say(home)
    (root / f"f{NAME}").write_text(f"changed {HOSTILE}\n")
    (root / f"new{NAME}").touch()
    return home


def fill(home: Path) -> None:
    """A store in which everything that can be a text is hostile."""
    with clew.open(home / "a.db") as store:
        gone, failed = store.create(f"gone{HOSTILE}"), store.create(f"failed{HOSTILE}")
        s = store.create(
            ID,
            title=f"title{HOSTILE}",
            workspace=f"/w{HOSTILE}",
            tags=[f"tag{HOSTILE}"],
            model=f"model{HOSTILE}",
            metadata={f"key{HOSTILE}": f"value{HOSTILE}"},
        )
        s.add_alias(f"alias{HOSTILE}")
        s.append({"role": "user", "content": f"needle {HOSTILE}"})
        s.append({"role": f"role{HOSTILE}", "content": f"needle {HOSTILE}", f"key{HOSTILE}": HOSTILE})
        call = {
            "type": "tool_use",
            "id": f"t{HOSTILE}",
            "name": f"tool{HOSTILE}",
            "input": {HOSTILE: HOSTILE},
        }
        image = {"type": "image", "source": {"type": "url", "media_type": f"i{HOSTILE}", "url": HOSTILE}}
        s.append(
            {"role": "assistant", "content": [{"type": "thinking", "thinking": HOSTILE}, call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{HOSTILE}",
                                          "content": f"needle {HOSTILE}"}, image]},
        )  # fmt: skip
        s.checkpoint(f"point{HOSTILE}", state={f"key{HOSTILE}": HOSTILE})
        s.checkpoint(f"filed{HOSTILE}", files=str(home / "root"))
        s.set_summary(f"summary {HOSTILE}")
        s.compact(f"compacted {HOSTILE}")
        s.annotate(0, label=f"label{HOSTILE}", summary=f"summary{HOSTILE}")
        s.set_var(f"var{HOSTILE}", HOSTILE)
        s.add_event(f"event{HOSTILE}", {f"key{HOSTILE}": HOSTILE}, stream=f"stream{HOSTILE}")
        s.add_usage(model=f"model{HOSTILE}", vendor=f"vendor{HOSTILE}", input_tokens=1)
        s.fork(f"child{HOSTILE}", at=1).append({"role": "user", "content": HOSTILE})
        (home / f"in{NAME}.jsonl").write_text(store.export(ID, "jsonl") + "{broken\n")
        (home / f"odd{NAME}.jsonl").write_text("{broken\n")
        failed.start(f"request{HOSTILE}")
        failed.fail(f"error{HOSTILE}")
        store.delete(gone.id)
        store.create(f"running{HOSTILE}").start(HOSTILE)


def say(home: Path) -> None:
    """An agent of this machine, in whose files every text is hostile."""
    folder = home / ".claude" / "projects" / f"p{NAME}"
    folder.mkdir(parents=True)
    common = {
        "sessionId": "c1",
        "cwd": f"/w{HOSTILE}",
        "version": HOSTILE,
        "timestamp": "2026-11-02T10:00:00Z",
    }
    token = f"ghp_{'aB3d5fG7h' * 4} {HOSTILE}"
    lines: list[dict[str, object]] = [
        {
            "type": "user",
            "uuid": f"u{HOSTILE}",
            "parentUuid": None,
            "message": {"role": "user", "content": token},
        },
        {"type": "summary", "summary": HOSTILE, "leafUuid": f"u{HOSTILE}"},
        {"type": f"odd{HOSTILE}", "uuid": "u2", "parentUuid": f"u{HOSTILE}", "data": {HOSTILE: HOSTILE}},
    ]
    text = "".join(json.dumps({**line, **common}) + "\n" for line in lines)
    (folder / f"f{NAME}.jsonl").write_text(text + "{broken\n")
    (folder / f"torn{NAME}.jsonl").write_text("{broken\n")


def test_every_command_is_tried(home: Path) -> None:
    assert set(tried(home)) == set(commands())


def half_of(tried: dict[str, list[list[str]]], half: int) -> list[tuple[str, list[list[str]]]]:
    """The first or the second half of all commands, in their order: some show what others made."""
    middle = len(tried) // 3  # the first ones are called in more ways
    return list(tried.items())[middle:] if half else list(tried.items())[:middle]


def unsafe(printed: str) -> str | None:
    """What of it acts, or is a line that was forged."""
    found = UNSAFE.search(printed)
    if found is not None:
        return repr(printed[max(found.start() - 60, 0) : found.end() + 20])
    return next((line for line in printed.splitlines() if line == FORGED.strip()), None)


@pytest.mark.parametrize("half", [0, 1])
def test_s17_nothing_that_acts_gets_into_a_pipe_from_any_command(home: Path, half: int) -> None:
    """Some hundred commands, here and in the next test: that takes a second."""
    for name, calls in half_of(tried(home), half):
        for args in calls:
            assert unsafe(in_pipe(*name.split(), *args)) is None, (name, args)


@pytest.mark.parametrize("width", [60, 200])
@pytest.mark.parametrize("half", [0, 1])
def test_s17_nothing_but_our_own_colours_gets_to_a_terminal_from_any_command(
    home: Path, width: int, half: int
) -> None:
    """Some hundred commands: that takes a second."""
    for name, calls in half_of(tried(home), half):
        if name == "ui":
            continue  # it needs a keyboard; tests of its own look at its screen
        for args in [*calls, *([[ID], [ID, "-f", "json"]] if name == "export" else [])]:
            shown = OUR_OWN.sub("", on_terminal(*name.split(), *args, width=width))
            assert unsafe(shown) is None, (name, args)


def test_only_a_pipe_gets_what_is_stored_byte_for_byte(home: Path) -> None:
    assert "\u202e" in in_pipe("export", ID)
    place = f"{ID}@filed{HOSTILE}"
    assert "\x1b]52" in in_pipe("cat", place, f"d{NAME}/plain")
    assert UNSAFE.search(OUR_OWN.sub("", on_terminal("cat", place, f"d{NAME}/plain"))) is None
