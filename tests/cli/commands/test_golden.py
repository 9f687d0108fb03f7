"""What `log --graph` and `show` print, letter by letter but for times and made-up ids."""

from __future__ import annotations

import re
from typing import Any

import pytest

import clew
from tests.cli.golden import SGR, check_screen, settled
from tests.cli.processes import Clew
from tests.support.rows import each_row


def without_times(text: str) -> str:
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\dZ)?", "TIME", text)
    return re.sub(r"[0-9a-f]{32}", "BRANCH", text)


@each_row("width", [30, 45, 80])
def test_nothing_is_wider_than_the_terminal(story: Clew, width: int) -> None:
    for args in (["ls"], ["show", "login-bug"], ["log", "--graph", "login-bug"], ["log", "login-bug"]):
        lines = SGR.sub("", story.on_terminal(*args, width=width).out).splitlines()
        assert max(map(len, lines)) <= width, args


@pytest.mark.parametrize("command", [("log",), ("log", "--graph")], ids=["log", "graph"])
def test_log_on_terminals(agents: Clew, command: tuple[str, ...]) -> None:
    """A session with a fork and something left behind, and one with a subagent."""
    for id in ("login-bug", "parent"):
        name = "-".join((*command, id)).replace("--", "")
        widths = (*WIDTHS, 200)
        check_screen(name, {width: agents.on_terminal(*command, id, width=width).out for width in widths})


def test_what_a_rewind_left_is_reached_by_the_name_that_the_graph_shows(story: Clew) -> None:
    left = next(line for line in story("log", "--graph", "login-bug").lines if "left behind" in line)
    name = left.split()[2]
    said = "Stop! Now nobody can log in."
    assert said in story("show", f"login-bug@{name}").out
    story("fork", f"login-bug@{name}", "left")
    story("rewind", "login-bug", name)
    with clew.open(story.store) as store:
        assert [said, said] == [store.get(id).messages(last=1)[0]["content"] for id in ("left", "login-bug")]


def test_log_graph_reversed_begins_with_the_oldest(story: Clew) -> None:
    drawn = settled(story("log", "--graph", "--reverse", "login-bug").out).splitlines()
    assert "●    aaaa.0  user       The login page returns 500. Please fix it." == drawn[0]
    assert ["├─╮", "│ ·  aaaa.4  assistant  I rewrote auth.py."] == drawn[4:6]


def test_log_graph_of_what_hangs_below_a_head(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        s = store.session("s")
        s.append({"role": "user", "content": "a"}, {"role": "user", "content": "b"})
        s.rewind(0)
    drawn = settled(cli("log", "--graph").out).splitlines()
    assert ["  ·  aaaa.1  left behind  user       b", "╭─╯", "●    aaaa.0  ◀ s  user       a"] == drawn


def test_log_graph_leaves_out_the_middle_of_long_runs(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        store.session("s").append(*({"role": "user", "content": str(number)} for number in range(100)))
    assert "┆  91 more" in cli("log", "--graph", "s").lines
    assert 100 == len(cli("log", "--graph", "--full", "s").lines)


def test_log_is_newest_first_with_the_names_of_checkpoints(story: Clew) -> None:
    rows = [line.split("\t") for line in without_times(story("log", "login-bug").out).splitlines()]
    assert ["5", "BRANCH.5", "assistant", "TIME", "", "Done."] == rows[0]
    assert ["3", "BRANCH.3", "assistant", "TIME", "plan"] == rows[2][:5]
    assert ["0", "1"] == [row[0] for row in story("log", "--reverse", "login-bug").rows[:2]]


@pytest.fixture
def agents(story: Clew) -> Clew:
    """A session of a program that asked a subagent, ran tests and changed a file."""

    def call(id: str, name: str, **arguments: str) -> dict[str, object]:
        part = {"type": "tool_use", "id": id, "name": name, "input": arguments}
        return {"role": "assistant", "content": [part]}

    def result(id: str, text: str) -> dict[str, object]:
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]}

    def said(role: str, text: str) -> dict[str, object]:
        return {"role": role, "content": text}

    thought = {"type": "thinking", "thinking": "It may be older than the last release.", "signature": "s"}
    first = {"role": "assistant", "content": [thought, {"type": "text", "text": "I ask an agent first."}]}
    task = {"description": "Find readers of cookies", "prompt": "Find them.", "subagent_type": "Explore"}
    edit = {"file_path": "/srv/shop/auth.py", "old_string": "a\nb", "new_string": "a\nc\nd"}
    tests = "\x1b[31mF\x1b[0m.\n\x1b]0;owned\x07E  assert None\n\x1b[1;31m1 failed\x1b[0m, 1 passed in 0.1s"
    where: Any = {"workspace": "/srv/shop", "model": "claude-opus-4-5"}
    program = {"agent": "claude-code"}
    below = {**program, "parent": "parent", "agent_meta": {"toolUseId": "t1"}}
    with clew.open(story.store) as store:
        parent = store.session("parent", title="Guard old cookies", metadata=program, **where)
        parent.append(
            said("user", "Old cookies break the login. Find all places that read them, and guard them."),
            first,
            call("t1", "Task", **task),
            result("t1", "Only auth.py reads cookies."),
            call("t2", "Edit", **edit),
            result("t2", "The file was updated."),
            call("t3", "Bash", command="pytest -q"),
            result("t3", tests),
            said("assistant", "One test fails still."),
        )
        child = store.session("parent/agent-0123456789abcdef", title="Find readers", metadata=below, **where)
        child.append(said("user", "Find them."), said("assistant", "Only auth.py reads cookies."))
    return story


WIDTHS = (60, 80, 120)


def test_show_tells_the_conversation(agents: Clew) -> None:
    for name, id in {"show": "parent", "show-agent": "parent/0123", "show-native": "login-bug"}.items():
        check_screen(name, {width: agents.on_terminal("show", id, width=width).out for width in WIDTHS})


def test_show_in_a_pipe_is_the_same_text_without_colours(agents: Clew) -> None:
    piped = agents("show", "parent").out
    assert settled(piped) == settled(agents.on_terminal("show", "parent", width=120).out)
    assert "\x1b" not in piped


def test_show_full_has_every_line_and_colours_but_nothing_else_that_acts(agents: Clew) -> None:
    printed = agents.on_terminal("show", "parent", "--full", width=100).out
    assert "\x1b[31mF\x1b[0m." in printed
    assert "\x1b[1;31m1 failed\x1b[0m, 1 passed" in printed
    assert "owned" not in printed
    check_screen("show-full", {100: printed})


def test_show_of_prompts_is_what_the_user_said(agents: Clew) -> None:
    told = agents("show", "parent", "--prompts").out
    assert "Old cookies break the login." in told
    assert "I ask an agent first." not in told
    assert "Only auth.py" not in told
    assert ["user"] == [record["role"] for record in agents("show", "parent", "--prompts", "--json").records]


def test_the_call_of_a_subagent_and_the_subagent_lead_to_each_other(agents: Clew) -> None:
    told = agents("show", "parent").out
    child = re.search(r"↳ (\S+)  Find readers", told)
    assert child is not None
    back = re.search(r"^Subagent: +of (\S+)", agents("show", child[1]).out, re.MULTILINE)
    assert back is not None
    assert "▶ " in agents("show", back[1], "-C", "0").out
    assert "Find readers of cookies" in agents("show", back[1], "-C", "0").out


def test_a_result_that_was_asked_for_is_shown_by_itself(agents: Clew) -> None:
    told = agents("show", "parent@7", "-C", "1").out
    assert re.search(r"^▶ [0-9a-f]{4}\.7  tool", told, re.MULTILINE)
    assert "E  assert None" in told


def test_show_around_a_place_marks_it(story: Clew) -> None:
    told = settled(story("show", "login-bug@plan", "-C", "1").out)
    heads = [line for line in told.splitlines() if re.match("(▶ )?[ab]{4}", line)]
    moment = "~~~~~~TIME~~~~~~"
    assert [
        f"aaaa.2  tool  {moment}",
        f"▶ aaaa.3  assistant  {moment}  ◆ plan",
        f"bbbb.4  user  {moment}",
    ] == heads


def test_show_reaches_what_a_rewind_left_behind(story: Clew) -> None:
    with clew.open(story.store) as store:
        [left] = [b for b in store.get("login-bug").tree().branches if b.first == 0]
    told = story("show", f"login-bug@{left.id}.5", "-C", "1").out
    assert "Stop! Now nobody can log in." in told
    assert "I rewrote auth.py." in told
    assert "Only guard line 42." not in told


def test_show_without_tools_leaves_out_calls_and_results(story: Clew) -> None:
    told = story("show", "login-bug", "--no-tools").out
    assert "read_file" not in told
    assert "sessions[cookie]" not in told
    assert "Only guard line 42." in told


def test_show_json_has_the_message_as_it_came(cli: Clew) -> None:
    raw = b'{"role":"user",  "content":"big", "n":12345678901234567890123}'
    with clew.open(cli.store) as store:
        store.session("s").append(raw)
    printed = cli("show", "s", "--json")
    fields = "session, id, position, kind, role, at, hash, epoch, redacted, annotations, message"
    assert set(fields.split(", ")) == set(printed.records[0])
    assert raw.decode() in printed.out
