"""checkpoint, rewind, undo, redo, fork; title, tag, close, reopen."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

import clew
from clew.errors import CorruptError
from clew.files.objects.format import object_name
from clew.files.objects.store import ObjectReader
from tests.cli.golden import check_screen
from tests.cli.processes import Clew
from tests.support.owned import OWNED, written


def work_of(story: Clew, **files: str) -> Path:
    """A directory whose files are in the checkpoint with-files, where the session stands."""
    work = story.home / "work"
    work.mkdir()
    for name, text in files.items():
        (work / f"{name}.py").write_text(text)
    story("checkpoint", "login-bug", "with-files", "--files", "work")
    return work


def head(cli: Clew, id: str = "login-bug") -> tuple[int, int]:
    with clew.open(cli.store) as store:
        info = store.get(id).info
        return info.head.position, info.messages


def without_names(text: str) -> str:
    """Names of entries have letters that differ every time."""
    return re.sub(r"\b[0-9a-f]{4,6}\.(\d+)", r"NAME.\1", text)


def test_rewind_undo_and_redo_say_what_they_did_and_where_the_session_stands(story: Clew) -> None:
    done = story("rewind", "login-bug", "plan").out
    assert "rewound login-bug to plan (NAME.3): 4 messages, 2 fewer\n" == without_names(done)
    assert (3, 4) == head(story)
    undone = story("undo", "login-bug").out
    expected = "undid the rewind to plan (NAME.3): login-bug is back at NAME.5, 6 messages, 2 more\n"
    assert expected == without_names(undone)
    assert (5, 6) == head(story)
    redone = story("redo", "login-bug").out
    expected = "redid the rewind to plan (NAME.3): login-bug is at NAME.3 again, 4 messages, 2 fewer\n"
    assert expected == without_names(redone)
    assert (3, 4) == head(story)
    again = story("undo", "login-bug", "--json").records[0]
    assert ("undo", "rewind", 6) == (again["move"], again["of"]["kind"], again["messages"])


def test_a_rewind_of_a_session_that_an_agent_owns_says_what_moves_and_how_to_go_on(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        store.load(written(range(8)))
        rewound = cli("rewind", OWNED, "3", "--json").records[0]
        assert (7, f"clew resume {OWNED}") == (rewound["agent_branch"]["head"]["position"], rewound["resume"])
        cli("undo", OWNED)
        shown = without_names(cli.on_terminal("rewind", OWNED, "3").out)
        assert "This moved Clew's view only; codex stands at NAME.7." in shown
        assert "clew resume 1 continues from here in the agent" in shown, "by its short id"
        assert "new on the agent's branch" not in cli.on_terminal("ls").out
        store.load(written(range(10)))
    for width, words in ((60, "2 new"), (80, "2 new"), (120, "2 new on the agent's branch")):
        assert words in cli.on_terminal("ls", width=width).out, width
    assert "2 new on the agent's branch: clew follow 1" in cli.on_terminal("undo", OWNED).out
    cli("redo", OWNED)
    assert "would go from NAME.3 to NAME.9" in without_names(cli("follow", OWNED, "--dry-run").out)
    expected = "1 is with its agent again, at NAME.9: 10 messages, 6 more\n"
    assert expected == without_names(cli("follow", OWNED).out)
    again = cli("follow", OWNED, "--json").records[0]
    assert ("follow", 10, None) == (again["move"], again["messages"], again["resume"])
    assert "2 new" not in cli.on_terminal("ls").out
    cli("undo", OWNED)
    assert (3, 4) == head(cli, OWNED)


def test_undo_says_what_else_it_took_back(story: Clew) -> None:
    with clew.open(story.store) as store:
        s = store.get("login-bug")
        s.clear()
        s.compact("short")
    assert (
        "would undo the compaction: login-bug would go from " in story("undo", "login-bug", "--dry-run").out
    )
    assert "undid the compaction: login-bug is back at the beginning" in story("undo", "login-bug").out
    assert "undid the clearing of the conversation: " in story("undo", "login-bug").out
    assert "nothing to redo" not in story("redo", "login-bug").out


def test_the_history_of_moves_is_listed_newest_first_and_its_places_can_be_gone_to(story: Clew) -> None:
    story("rewind", "login-bug", "plan")
    story("undo", "login-bug")

    rows = story("undo", "login-bug", "--list").rows

    kinds = [[row[0], row[2], row[5]] for row in rows]
    assert [["3", "undo of 2", "redo"], ["2", "rewind", ""], ["1", "rewind", "undo"]] == kinds
    assert ["NAME.3", "NAME.5"] == [without_names(name) for name in rows[0][3:5]]
    assert rows == story("redo", "login-bug", "--list").rows
    left = rows[2][3]
    assert "Stop! Now nobody can log in." in story("show", f"login-bug@{left}").out
    story("rewind", "login-bug", left)
    with clew.open(story.store) as store:
        assert "Stop! Now nobody can log in." == store.get("login-bug").messages(last=1)[0]["content"]

    record = story("undo", "login-bug", "--list", "--json").records[0]
    assert (4, "rewind", "undo", left) == (record["number"], record["kind"], record["next"], record["to"])


def test_moves_with_files_on_terminals(story: Clew) -> None:
    """What a rewind would do and did, what undo and redo did, and their history."""
    screens: dict[str, dict[int, str]] = {"rewind-files": {}, "undo-list": {}}
    for width in (60, 80, 120):
        work = Path(mkdtemp(prefix="clew-screens-", dir="/tmp"))  # a name of the same length every time
        try:
            screens["rewind-files"][width] = _moved_files(story, work, width).replace(str(work), "/srv/shop")
        finally:
            shutil.rmtree(work)
        id = f"s{width}"
        screens["undo-list"][width] = story.on_terminal("undo", id, "--list", width=width).out
    for name, printed in screens.items():
        check_screen(name, printed)


def _moved_files(story: Clew, work: Path, width: int) -> str:
    id = f"s{width}"
    (work / "auth.py").write_text("old\n")
    (work / "gone.py").write_text("old\n")
    with clew.open(story.store) as store:
        session = store.get("login-bug").fork(id)
        session.checkpoint("with-files", files=work)
        session.append({"role": "user", "content": "on we go"})
    (work / "auth.py").write_text("new\n")
    (work / "gone.py").unlink()
    (work / "more.py").write_text("since\n")
    commands = (
        ("rewind", id, "with-files", "--files", "--dry-run"),
        ("rewind", id, "with-files", "--files", "--yes"),
        ("undo", id, "--yes"),
        ("redo", id, "--yes"),
    )
    printed = ""
    for command in commands:
        printed += f"$ clew {' '.join(command)}\n{story.on_terminal(*command, width=width).out}"
    return re.sub(r"[0-9a-f]{32}", "0" * 32, printed)


def test_a_session_that_never_moved_says_so(story: Clew) -> None:
    assert "has never moved" in story.on_terminal("undo", "login-bug#fork-1", "--list").out


def test_rewind_takes_a_position(story: Clew) -> None:
    story("rewind", "login-bug", "0")
    assert (0, 1) == head(story)


def test_a_dry_rewind_moves_nothing(story: Clew) -> None:
    dry = story("rewind", "login-bug", "plan", "--dry-run").out
    assert "login-bug would go from NAME.5 to plan (NAME.3)\n" == without_names(dry)
    assert (5, 6) == head(story)
    record = story("rewind", "login-bug", "plan", "--dry-run", "--json").records[0]
    assert (True, 3) == (record["dry_run"], record["to"]["position"])


def test_a_fork_begins_at_the_place_that_was_named(story: Clew) -> None:
    forked = story("fork", "login-bug@plan", "try-b").out
    assert "try-b begins at plan (NAME.3) of login-bug\n" == without_names(forked)
    assert (3, 4) == head(story, "try-b")
    assert (5, 6) == head(story)
    assert "login-bug#fork-2" == story("fork", "login-bug", "--json").records[0]["id"]


def test_checkpoints_are_set_listed_and_forgotten(story: Clew) -> None:
    assert "done is entry 5 of login-bug\n" == story("checkpoint", "login-bug", "done").out
    assert [["plan", "3"], ["done", "5"]] == [row[:2] for row in story("checkpoint", "login-bug").rows]
    story("checkpoint", "login-bug", "done", "--rm")
    assert ["plan"] == [record["name"] for record in story("checkpoint", "login-bug", "--json").records]
    assert "no checkpoint" in story("checkpoint", "login-bug", "done", "-d", code=1).err


def test_rewind_with_files_asks_and_brings_them_back(story: Clew) -> None:
    work = work_of(story, auth="old\n")
    (work / "auth.py").write_text("new\n")

    refused = story("rewind", "login-bug", "with-files", "--files", code=1)
    assert "  would restore  auth.py  (changed since the last snapshot)\n" in refused.err
    assert "add --yes" in refused.err
    assert "new\n" == (work / "auth.py").read_text()

    story("rewind", "login-bug", "with-files", "--files", "--yes")
    assert "old\n" == (work / "auth.py").read_text()
    assert "add --yes" in story("undo", "login-bug", code=1).err
    assert "old\n" == (work / "auth.py").read_text()
    story("undo", "login-bug", "--yes")
    assert "new\n" == (work / "auth.py").read_text()


def test_rewind_and_undo_say_what_became_of_the_files(story: Clew) -> None:
    work = work_of(story, auth="old\n")
    (work / ".gitignore").write_text("*.log\n")
    story("checkpoint", "login-bug", "with-files", "--files", "work")
    (work / "auth.py").write_text("new\n")
    for name in ("more.py", "a.log", "b.log"):
        (work / name).write_text("since\n")

    dry = story("rewind", "login-bug", "with-files", "--files", "--dry-run")
    planned = story("rewind", "login-bug", "with-files", "--files", "--dry-run", "--json").records[0]
    done = story("rewind", "login-bug", "with-files", "--files", "--yes")
    undone = story("undo", "login-bug", "--yes", "--json").records[0]

    since = "changed since the last snapshot)"
    assert dry.lines[:3] == [
        f"  would restore  auth.py  ({since}",
        f"  would delete   more.py  (new or {since}",
        f"{work}: would restore 1, delete 1, keep 2 (2 ignored)",
    ]
    assert done.lines[:3] == [
        f"  restored  auth.py  ({since}",
        f"  deleted   more.py  (new or {since}",
        f"{work}: restored 1, deleted 1, kept 2 (2 ignored)",
    ]
    assert [change["path"] for change in planned["files"]["changes"]] == ["auth.py", "more.py"]
    assert [change["path"] for change in undone["files"]["changes"]] == ["auth.py", "more.py"]
    assert [kept["path"] for kept in undone["files"]["kept"]] == []
    assert story("rewind", "login-bug", "plan", "--json").records[0]["files"] is None


def test_what_could_not_be_restored_is_said_and_ends_with_3(
    story: Clew, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = work_of(story, auth="old auth.py\n", users="old users.py\n")
    with clew.open(story.store) as store:
        store.get("login-bug").append({"role": "user", "content": "on we go"})
    cut = ObjectReader._cut

    def damaged(self: ObjectReader, name: bytes, place: Any) -> bytes:
        if name == object_name(b"old auth.py\n"):
            raise CorruptError("the object is damaged")
        return cut(self, name, place)

    monkeypatch.setattr(ObjectReader, "_cut", damaged)
    for command in (("rewind", "login-bug", "with-files", "--files"), ("restore", "login-bug@with-files")):
        for name in ("auth.py", "users.py"):
            (work / name).write_text("new\n")
        done = story(*command, "--yes", code=3)
        assert "auth.py" in done.out + done.err
        assert "failed 1" in done.out + done.err
        if command[0] == "rewind":
            assert done.lines[:2] == [
                "  failed    auth.py  (the stored content is damaged: the object is damaged)",
                "  restored  users.py  (changed since the last snapshot)",
            ]
        assert [(work / name).read_text() for name in ("auth.py", "users.py")] == ["new\n", "old users.py\n"]


def rewound(story: Clew) -> Path:
    """A directory whose files went back with the session."""
    work = work_of(story, auth="old\n", gone="old\n", run="old\n")
    (work / "auth.py").write_text("new\n")
    (work / "gone.py").unlink()
    (work / "more.py").write_text("since\n")
    (work / "run.py").chmod(0o755)
    story("rewind", "login-bug", "with-files", "--files", "--yes")
    return work


def test_undo_and_redo_show_the_directory_and_the_plan_and_ask(story: Clew) -> None:
    work = rewound(story)
    plan = [
        f"  {work}: would restore 3, delete 1",
        "  would restore  auth.py",
        "  would delete   gone.py",
        "  would restore  more.py  (it was gone)",
        "  would restore  run.py  (only its mode)",
    ]
    for verb, (first, then) in {"undo": ("old\n", "new\n"), "redo": ("new\n", "old\n")}.items():
        refused = story(verb, "login-bug", code=1)
        if verb == "undo":
            assert refused.err.splitlines()[:5] == plan
        assert "would restore 3, delete 1" in refused.err
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
    assert without_names(dry.lines[-1]) == (
        "would undo the rewind to with-files (NAME.5) with the files:"
        " login-bug would stay at with-files (NAME.5)"
    )
    assert f"{work}: would restore 3, delete 1" in dry.lines
    planned = story("undo", "login-bug", "--dry-run", "--json").records[0]
    assert (planned["dry_run"], planned["files"]["root"]) == (True, str(work))
    assert (work / "auth.py").read_text() == "old\n"


def test_the_command_that_a_rewind_of_files_names_brings_back_what_was_there(story: Clew) -> None:
    work = work_of(story, auth="old\n")
    (work / "auth.py").write_text("new\n")
    told = story("--store", str(story.store), "rewind", "login-bug", "with-files", "--files", "--yes").lines[
        -1
    ]
    for content in ("new\n", "old\n", "new\n"):  # by undo, redo, undo
        named = re.fullmatch(r"clew (.+) brings back what was there before \(snapshot (\w+)\)", told)
        assert named is not None
        assert story("cat", named[2], "auth.py").out == content
        told = story(*shlex.split(named[1]), "--yes", env={"CLEW_STORE": "/nowhere"}).lines[-1]
        assert (work / "auth.py").read_text() == content


def test_many_files_are_counted_and_json_has_all(story: Clew) -> None:
    work = work_of(story)
    for number in range(30):
        (work / f"{number}.py").write_text("since\n")
    dry = story("rewind", "login-bug", "with-files", "--files", "--dry-run")
    assert "  … and would delete 10 more; --json has all" == dry.lines[20]
    planned = story("rewind", "login-bug", "with-files", "--files", "--dry-run", "--json").records[0]
    assert 30 == len(planned["files"]["changes"])


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
    assert ["urgent"] == story("tag", "login-bug", "--rm", "work").lines
    assert ["urgent"] == story("tag", "login-bug", "--json").records[0]["tags"]
    assert ["urgent"] == story("tag", "login-bug").lines
    assert "urgent" in story.on_terminal("tag", "login-bug").out
    assert "" == story("tag", "login-bug", "--remove", "urgent").out
    assert "no tags; clew tag" in story.on_terminal("tag", "login-bug").out


def test_a_closed_session_can_be_reopened(story: Clew) -> None:
    assert "login-bug is closed\n" == story("close", "login-bug").out
    assert "login-bug is pending\n" == story("reopen", "login-bug").out


def test_what_a_lease_forbids_is_said_in_one_line(story: Clew) -> None:
    with clew.open(story.store) as store, store.get("login-bug").run(owner="somebody"):
        done = story("rewind", "login-bug", "plan", code=1)
    assert "somebody holds the lease of session 'login-bug'" in done.err
    assert "fork the session" in done.err
