"""aider: one Markdown file, many sessions; who said what is told by how a line begins."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import clew
from clew.importers.programs import aider
from tests.importers.readers import Read, in_tokyo, land, read_file, read_one
from tests.support.rows import each_row

START = "\n# aider chat started at 2026-05-22 10:11:12\n\n"
INTRO = "> Aider v0.86.0  \n> Main model: gpt-5 with diff edit format  \n\n"


def history(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / ".aider.chat.history.md"
    file.write_text(text, encoding="utf-8")
    return file


def read_text(folder: Path, text: str) -> Read:
    return read_one(aider, history(folder, START + text))


def test_prompts_answers_and_output_are_told_apart(tmp_path: Path) -> None:
    text = INTRO + "#### fix it  \n#### please  \n\nSure.\n\nDone.\n\n> Applied edit to a.py  \n"
    read = read_text(tmp_path / "repo", text)
    assert read.said() == [
        ("system", "Aider v0.86.0\nMain model: gpt-5 with diff edit format"),
        ("user", "fix it\nplease"),
        ("assistant", "Sure.\n\nDone."),
        ("system", "Applied edit to a.py"),
    ]
    assert read.session.workspace == str(tmp_path / "repo")
    assert read.session.id == "aider:repo:2026-05-22 10:11:12"
    assert read.session.updates() == {"model": "gpt-5"}


@each_row("typed", ["/undo", "/add a.py", "!ls", "/ask", "<blank>", "/run x  \n#### y"])
def test_a_command_for_aider_is_no_turn(tmp_path: Path, typed: str) -> None:
    with clew.open("memory:") as store:
        read = read_text(tmp_path, f"#### {typed}  \n\n> Done.  \n\n#### fix it  \n\nSure.\n")
        assert [entry.human for entry in read.entries] == [False, None, None, None]
        land(store, aider, tmp_path / ".aider.chat.history.md")
        (info,) = store.list()
        assert (info.user_turns, info.title) == (1, "fix it")


@each_row(
    "typed", ["/ask why?", "/code do it", "/ok", "see /undo", "fix  \n#### /undo", "/drop  \n\n#### fix it"]
)
def test_what_a_command_says_to_the_model_is_a_turn(tmp_path: Path, typed: str) -> None:
    assert read_text(tmp_path, f"#### {typed}  \n\nSure.\n").entries[0].human is None


def test_the_time_of_a_session_is_local_time(tmp_path: Path) -> None:
    with in_tokyo():
        read = read_text(tmp_path, "#### hi\n")
    assert read.session.created_at == datetime(2026, 5, 22, 1, 11, 12, tzinfo=UTC)
    assert read.entries[0].at == read.session.created_at


def test_each_start_is_a_session_even_two_in_one_second(tmp_path: Path) -> None:
    text = START + "#### one\n" + START + "#### two\n" + START.replace(":12", ":13") + "#### three\n"
    sessions, problems = read_file(aider, history(tmp_path / "r", text))
    assert [read.session.id for read in sessions] == [
        "aider:r:2026-05-22 10:11:12",
        "aider:r:2026-05-22 10:11:12#2",
        "aider:r:2026-05-22 10:11:13",
    ]
    assert [read.said() for read in sessions] == [[("user", "one")], [("user", "two")], [("user", "three")]]
    assert problems == []


def test_sessions_that_nobody_reads_are_passed_over(tmp_path: Path) -> None:
    file = history(tmp_path, START + "#### one\n" + START.replace(":12", ":13") + "#### two\n")
    sessions = aider.read(file, lambda _: None, lambda _: None)
    next(sessions)
    assert [entry.message["content"] for entry in next(sessions).entries] == ["two"]


def test_quotes_in_code_are_the_models(tmp_path: Path) -> None:
    text = "#### mail\n\n```text\n> quoted\n```\n\n> Tokens: 1k sent, 20 received.\n"
    assert read_text(tmp_path, text).said() == [
        ("user", "mail"),
        ("assistant", "```text\n> quoted\n```"),
        ("system", "Tokens: 1k sent, 20 received."),
    ]


def test_a_prompt_behind_code_that_was_never_closed_is_still_a_prompt(tmp_path: Path) -> None:
    text = "#### one\n\n```python\nx = 1\n\n#### two\n\n> ok\n"
    assert [who for who, _ in read_text(tmp_path, text).said()] == ["user", "assistant", "user", "system"]


def test_rounded_tokens_and_the_cost_of_a_message_are_counted(tmp_path: Path) -> None:
    told = (
        "> Tokens: 6.1k sent, 1.0k cache write, 3k cache hit, 156 received. "
        "Cost: $0.0087 message, $0.01 session.  \n"
    )
    (usage,) = read_text(tmp_path, INTRO + "#### hi\n\nhello\n\n" + told).usage.values()
    assert (usage.input_tokens, usage.cache_write_tokens, usage.cache_read_tokens) == (6100, 1000, 3000)
    assert (usage.output_tokens, usage.cost, usage.model) == (156, "0.0087", "gpt-5")


def test_a_grown_file_gives_the_old_entries_the_same_names(tmp_path: Path) -> None:
    before = read_text(tmp_path, "#### one\n\nfirst\n")
    after = read_text(tmp_path, "#### one\n\nfirst\n\n#### two\n")
    assert [entry.uid for entry in after.entries[:2]] == [entry.uid for entry in before.entries]


def test_bytes_that_are_no_text_are_told_with_their_line(tmp_path: Path) -> None:
    file = history(tmp_path, "")
    file.write_bytes(START.encode() + b"#### caf\xe9\n")
    (read,), problems = read_file(aider, file)
    assert read.said() == [("user", "caf\ufffd")]
    assert [problem.line for problem in problems] == [4]
