"""checkpoint, rewind, undo, redo, fork; title, tag, close, reopen."""

from __future__ import annotations

from pathlib import Path

import pytest

import clew
from tests.cli.processes import Clew


def head(cli: Clew, id: str = "login-bug") -> tuple[int, int]:
    with clew.open(cli.store) as store:
        info = store.get(id).info
        return info.head.position, info.messages


def test_rewind_undo_and_redo_move_the_head_and_say_where_it_stands(story: Clew) -> None:
    assert (
        "login-bug stands at entry 3 with 4 messages; it was at entry 5 with 6\n"
        == story("rewind", "login-bug", "plan").out
    )
    assert (3, 4) == head(story)
    assert "stands at entry 5 with 6" in story("undo", "login-bug").out
    assert (5, 6) == head(story)
    story("redo", "login-bug")
    assert (3, 4) == head(story)


def test_rewind_takes_a_position(story: Clew) -> None:
    story("rewind", "login-bug", "0")
    assert (0, 1) == head(story)


def test_a_dry_rewind_moves_nothing(story: Clew) -> None:
    assert "would go from entry 5 to entry 3" in story("rewind", "login-bug", "plan", "--dry-run").out
    assert (5, 6) == head(story)
    record = story("rewind", "login-bug", "plan", "--dry-run", "--json").records[0]
    assert (True, 3) == (record["dry_run"], record["to"]["position"])


def test_a_fork_begins_at_the_place_that_was_named(story: Clew) -> None:
    assert "try-b begins at entry 3 of login-bug\n" == story("fork", "login-bug@plan", "try-b").out
    assert (3, 4) == head(story, "try-b")
    assert (5, 6) == head(story)
    assert "login-bug#fork-2" == story("fork", "login-bug", "--json").records[0]["id"]


def test_checkpoints_are_set_listed_and_forgotten(story: Clew) -> None:
    assert "done is entry 5 of login-bug\n" == story("checkpoint", "login-bug", "done").out
    assert [["plan", "3"], ["done", "5"]] == [row[:2] for row in story("checkpoint", "login-bug").rows]
    story("checkpoint", "login-bug", "done", "--delete")
    assert ["plan"] == [record["name"] for record in story("checkpoint", "login-bug", "--json").records]
    assert "no checkpoint" in story("checkpoint", "login-bug", "done", "-d", code=1).err


def test_rewind_with_files_asks_and_brings_them_back(story: Clew) -> None:
    work = story.home / "work"
    work.mkdir()
    (work / "auth.py").write_text("old\n")
    story("checkpoint", "login-bug", "with-files", "--files", "work")
    (work / "auth.py").write_text("new\n")

    refused = story("rewind", "login-bug", "with-files", "--files", code=1)
    assert "M  auth.py" in refused.err
    assert "add --yes" in refused.err
    assert "new\n" == (work / "auth.py").read_text()

    story("rewind", "login-bug", "with-files", "--files", "--yes")
    assert "old\n" == (work / "auth.py").read_text()
    assert "add --yes" in story("undo", "login-bug", code=1).err
    assert "old\n" == (work / "auth.py").read_text()
    story("undo", "login-bug", "--yes")
    assert "new\n" == (work / "auth.py").read_text()


def test_rewind_and_undo_say_what_became_of_the_files(story: Clew) -> None:
    work = story.home / "work"
    work.mkdir()
    (work / ".gitignore").write_text("*.log\n")
    (work / "auth.py").write_text("old\n")
    story("checkpoint", "login-bug", "with-files", "--files", "work")
    (work / "auth.py").write_text("new\n")
    for name in ("more.py", "a.log", "b.log"):
        (work / name).write_text("since\n")

    dry = story("rewind", "login-bug", "with-files", "--files", "--dry-run")
    planned = story("rewind", "login-bug", "with-files", "--files", "--dry-run", "--json").records[0]
    done = story("rewind", "login-bug", "with-files", "--files", "--yes")
    undone = story("undo", "login-bug", "--yes", "--json").records[0]

    counted = "1 restored, 1 deleted, 2 kept (2 ignored)"
    assert f"{work}: would be: {counted}" in dry.lines
    assert {"M  auth.py", "D  more.py"} < {line.split("  changed")[0] for line in dry.lines}
    assert [change["path"] for change in planned["files"]["changes"]] == ["auth.py", "more.py"]
    assert f"{work}: {counted}" in done.lines
    assert [change["path"] for change in undone["files"]["changes"]] == ["auth.py", "more.py"]
    assert [kept["path"] for kept in undone["files"]["kept"]] == []
    assert story("rewind", "login-bug", "plan", "--json").records[0]["files"] is None


def rewound(story: Clew) -> Path:
    """A directory whose files went back with the session."""
    work = story.home / "work"
    work.mkdir()
    (work / "auth.py").write_text("old\n")
    (work / "gone.py").write_text("old\n")
    (work / "run.sh").write_text("old\n")
    story("checkpoint", "login-bug", "with-files", "--files", "work")
    (work / "auth.py").write_text("new\n")
    (work / "gone.py").unlink()
    (work / "more.py").write_text("since\n")
    (work / "run.sh").chmod(0o755)
    story("rewind", "login-bug", "with-files", "--files", "--yes")
    return work


def test_undo_and_redo_show_the_directory_and_the_plan_and_ask(story: Clew) -> None:
    work = rewound(story)
    plan = ["  M  auth.py", "  D  gone.py", "  A  more.py", "  m  run.sh"]
    for verb, (first, then) in {"undo": ("old\n", "new\n"), "redo": ("new\n", "old\n")}.items():
        refused = story(verb, "login-bug", code=1)
        if verb == "undo":
            assert [line.split("  changed")[0] for line in refused.err.splitlines()[1:5]] == plan
        assert "1 created, 1 overwritten, 1 removed, 1 with another mode" in refused.err
        assert f"Change 4 paths in {work}?" in refused.err
        assert "add --yes" in refused.err
        assert (work / "auth.py").read_text() == first

        story.on_terminal(verb, "login-bug", typed="n\n")
        assert (work / "auth.py").read_text() == first
        story.on_terminal(verb, "login-bug", typed="y\n")
        assert (work / "auth.py").read_text() == then


def test_a_dry_undo_only_says_what_it_would_do(story: Clew) -> None:
    work = rewound(story)
    dry = story("undo", "login-bug", "--dry-run")
    assert "login-bug would go from entry 5 to entry 5" in dry.lines
    assert f"{work}: would be: 3 restored, 1 deleted" in dry.lines
    planned = story("undo", "login-bug", "--dry-run", "--json").records[0]
    assert (planned["dry_run"], planned["files"]["root"]) == (True, str(work))
    assert (work / "auth.py").read_text() == "old\n"


@pytest.mark.parametrize(
    "command",
    [
        ("undo", "login-bug"),
        ("rewind", "login-bug", "with-files", "--files"),
        ("restore", "login-bug@with-files"),
        ("diff", "login-bug@with-files"),
    ],
)
def test_s50_the_store_of_somebody_else_aims_no_command_at_a_directory(
    story: Clew, command: tuple[str, ...]
) -> None:
    work = rewound(story)
    stranger = {"CLEW_STATE_DIR": str(story.home / "stranger")}
    yes = () if command[0] == "diff" else ("--yes",)

    refused = story(*command, *yes, code=1, env=stranger)

    assert f"{str(work)!r} is refused" in refused.err
    assert ("--root DIRECTORY" if yes else "clew diff login-bug@with-files DIRECTORY") in refused.err
    assert (work / "auth.py").read_text() == "old\n"
    if yes:
        (work / "auth.py").write_text("mine\n")
        story(*command, "--yes", "--root", "work", env=stranger)
        assert (work / "auth.py").read_text() != "mine\n"


def test_root_is_for_files_only(story: Clew) -> None:
    assert "--root is for --files" in story("rewind", "login-bug", "plan", "--root", "work", code=2).err


def test_a_title_is_shown_set_and_cleared(story: Clew) -> None:
    assert "The bug\n" == story("title", "login-bug", "The bug").out
    assert "The bug\n" == story("title", "login-bug").out
    cleared = story("title", "login-bug", "--clear", "--json").records[0]
    assert cleared["title"].startswith("The login page")
    assert cleared["title_is_auto"]


def test_tags_are_added_and_removed(story: Clew) -> None:
    assert ["urgent", "work"] == sorted(story("tag", "login-bug", "urgent").lines)
    assert ["urgent"] == story("tag", "login-bug", "--remove", "work").lines
    assert ["urgent"] == story("tag", "login-bug", "--json").records[0]["tags"]


def test_a_closed_session_can_be_reopened(story: Clew) -> None:
    assert "login-bug is closed\n" == story("close", "login-bug").out
    assert "login-bug is pending\n" == story("reopen", "login-bug").out


def test_what_a_lease_forbids_is_said_in_one_line(story: Clew) -> None:
    with clew.open(story.store) as store, store.get("login-bug").run(owner="somebody"):
        done = story("rewind", "login-bug", "plan", code=1)
    assert "somebody holds the lease of session 'login-bug'" in done.err
    assert "fork the session" in done.err
