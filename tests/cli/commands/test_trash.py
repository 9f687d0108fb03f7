"""rm and trash: what is destructive shows what it will do, and asks."""

from __future__ import annotations

from pathlib import Path

import clew
from tests.cli.processes import Clew


def ids(cli: Clew, *, deleted: bool = False) -> list[str]:
    with clew.open(cli.store) as store:
        return sorted(info.id for info in store.list(deleted=deleted))


def test_rm_puts_in_the_trash_and_says_how_to_get_it_back(story: Clew) -> None:
    done = story("rm", "login-bug")
    assert "login-bug is in the trash; clew trash restore login-bug brings it back\n" == done.out
    assert ["login-bug"] == ids(story, deleted=True)

    assert ["login-bug"] == [row[0] for row in story("trash", "ls").rows]
    assert "login-bug is back with 6 messages\n" == story("trash", "restore", "login").out
    assert ["login-bug", "login-bug#fork-1"] == ids(story)


def test_a_purge_asks_and_a_no_leaves_everything(story: Clew) -> None:
    done = story.on_terminal("rm", "--purge", "login-bug", typed="n\n")
    assert 1 == done.code
    assert "login-bug  6 messages" in done.out
    assert "Remove 1 session for good? [y/N]" in done.out
    assert "nothing was done" in done.out
    assert "login-bug" in ids(story)


def test_a_purge_that_was_agreed_to_is_for_good(story: Clew) -> None:
    assert 0 == story.on_terminal("rm", "--purge", "login-bug", typed="y\n").code
    assert ["login-bug#fork-1"] == ids(story)
    assert [] == ids(story, deleted=True)


def test_without_a_terminal_a_purge_needs_yes(story: Clew) -> None:
    assert "add --yes" in story("rm", "--purge", "login-bug", code=1).err
    assert "login-bug" in ids(story)
    story("rm", "--purge", "--yes", "login-bug")
    assert ["login-bug#fork-1"] == ids(story)


def test_a_session_comes_back_with_its_subagents(story: Clew) -> None:
    with clew.open(story.store) as store:
        for name in ("helper", "other", "again"):
            store.session(f"login-bug/{name}", metadata={"parent": "login-bug"})
        for id in ("login-bug/helper", "login-bug/again", "login-bug"):
            store.delete(id)
        store.session("login-bug/again")

    lines = story("trash", "restore", "login-bug").out.splitlines()

    back = ["login-bug", "login-bug/helper", "login-bug/other"]
    assert sorted(line.split()[0] for line in lines) == back


def test_what_is_in_the_trash_can_be_purged(story: Clew) -> None:
    story("rm", "login-bug")
    story("rm", "--purge", "-y", "login-bug")
    assert [] == ids(story, deleted=True)


def test_a_removed_session_is_not_taken_for_another_that_begins_like_it(story: Clew) -> None:
    story("rm", "login-bug")
    done = story("rm", "login-bug", code=1)
    assert "session 'login-bug' was deleted; clew trash restore may bring it back" in done.err
    assert ["login-bug#fork-1"] == ids(story)


def test_emptying_the_trash_names_what_goes(story: Clew) -> None:
    story("rm", "login-bug", "login-bug#fork-1")
    refused = story("trash", "empty", code=1)
    assert "login-bug#fork-1" in refused.err
    assert "2 sessions removed for good\n" == story("trash", "empty", "--yes").out
    assert [] == ids(story, deleted=True)
    assert "0 sessions removed for good\n" == story("trash", "empty").out


def test_emptying_the_trash_spares_a_living_session_of_the_same_id(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        store.session("s").append({"role": "user", "content": "old"})
        store.delete("s")
        store.session("s").append({"role": "user", "content": "new"})
    assert "1 session removed for good\n" == cli("trash", "empty", "--yes").out
    with clew.open(cli.store) as store:
        assert ["new"] == [message["content"] for message in store.get("s").messages()]
        assert [] == list(store.list(deleted=True))


def test_several_are_removed_or_none(story: Clew) -> None:
    story("rm", "login-bug", "nobody", code=1)
    assert ["login-bug", "login-bug#fork-1"] == ids(story)


def test_a_purge_without_a_question_takes_whole_ids_only(cli: Clew) -> None:
    """Imported sessions are also shown and typed without the name of their agent."""
    with clew.open(cli.store) as store:
        for id in ("claude-code:0b1c", "claude-code:0b1d"):
            store.session(id).append({"role": "user", "content": id})
    cli("rm", "0b1c")
    done = cli("rm", "--purge", "--yes", "0b1c", code=1)
    assert "'0b1c' is not a whole id" in done.err
    assert "; write claude-code:0b1c, or leave out --yes\n" in done.err
    assert ["claude-code:0b1c"] == ids(cli, deleted=True)
    assert "claude-code:0b1c  (in the trash)" in cli("rm", "--purge", "0b1c", code=1).err, "it asks"

    cli("rm", "--purge", "--yes", "claude-code:0b1c")
    assert ["claude-code:0b1d"] == ids(cli)
    assert [] == ids(cli, deleted=True)


def test_subagents_are_named_before_they_go_along(cli: Clew) -> None:
    """Into the trash, out of it, and for good."""
    with clew.open(cli.store) as store:
        for id, parent in (("p", None), ("p/agent-1", "p"), ("p/agent-2", "p/agent-1"), ("q", None)):
            store.session(id, metadata={"parent": parent} if parent else None)
    dry = cli("rm", "p", "--dry-run").out
    assert dry.startswith("would put p in the trash, with 2 subagents\n  p/agent-1  0 messages")
    assert cli("rm", "--purge", "p", "--dry-run").out.startswith("would remove p for good, with 2 subagents")
    assert cli("rm", "p", "--dry-run", "--json").records[0]["subagents"] == ["p/agent-1", "p/agent-2"]
    assert ["p", "p/agent-1", "p/agent-2", "q"] == ids(cli)

    assert "p is in the trash, with 2 subagents; clew trash restore p brings it back" in cli("rm", "p").out
    assert ["q"] == ids(cli)
    back = cli("trash", "restore", "p").out
    assert [line.split(" is back")[0] for line in back.splitlines()] == ["p", "p/agent-1", "p/agent-2"]

    asked = cli("rm", "--purge", "p", code=1).err
    assert "Remove 3 sessions for good?" in asked
    assert "p/agent-2" in asked
    assert cli("rm", "--purge", "--yes", "p", "--json").records == [
        {"id": "p", "done": "purged", "subagents": ["p/agent-1", "p/agent-2"]}
    ]
    assert ["q"] == ids(cli)


def test_a_purge_takes_an_id_in_the_trash_before_an_alias_of_a_living_session(cli: Clew) -> None:
    """And an alias of what is in the trash does not lead to a living session that took its id."""
    with clew.open(cli.store) as store:
        store.session("a").append({"role": "user", "content": "trashed"})
        store.delete("a")
        store.session("b").add_alias("a")
        store.session("c").add_alias("old-c")
        store.delete("c")
        store.create("c").append({"role": "user", "content": "living"})
    cli("rm", "--purge", "--yes", "a", "old-c")
    assert ["b", "c"] == ids(cli)
    assert [] == ids(cli, deleted=True)


UUID = "0b1c2d3e-4f50-4a61-8b72-93a4b5c6d7e8"


def test_every_command_takes_the_short_id_that_ls_shows(cli: Clew, tmp_path: Path) -> None:
    """A dry run too; `rm` takes nothing shorter."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("then")
    with clew.open(cli.store) as store:
        session = store.session(f"claude-code:{UUID}", workspace=tmp_path / "work")
        session.append({"role": "user", "content": "hello"})
        session.checkpoint("plan", files=tmp_path / "work")
        session.append({"role": "assistant", "content": "hi"})
    short = "0b1c2d3e"
    place = ("--root", "work")
    for typed in (
        ("rewind", short, "plan", "--files", *place, "--dry-run"),
        ("rewind", short, "plan", "--files", *place, "--yes"),
        ("undo", short, "--dry-run"),
        ("undo", short, "--yes"),
        ("redo", short, "--dry-run"),
        ("redo", short, "--yes"),
        ("restore", f"{short}@plan", "--to", "work", "--dry-run"),
        ("restore", f"{short}@plan", "--to", "work", "--yes"),
        ("checkpoint", short, "plan", "--rm"),
        ("rm", short, "--dry-run"),
        ("rm", short),
        ("trash", "restore", short),
    ):
        cli(*typed)
    dry = cli.on_terminal("rm", short, "--dry-run").out
    assert f"would put {short} in the trash" in dry, "on a terminal it is called so"
    assert "'0b1c' is too short to remove a session by; write 0b1c2d3e" in cli("rm", "0b1c", code=1).err
    assert "write 0b1c2d3e" in cli("rm", "claude-code:0b1c", code=1).err
    assert [f"claude-code:{UUID}"] == ids(cli)


def test_a_snapshot_is_restored_by_the_beginning_of_its_id(cli: Clew, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    file = tmp_path / "work" / "a.txt"
    file.write_text("then")
    id = cli("snapshot", "work", "--json").records[0]["id"]
    file.write_text("now")
    assert "then" in cli("diff", id[:12]).out
    cli("restore", id[:12], "--yes", "--on-conflict", "overwrite")
    assert "then" == file.read_text()
