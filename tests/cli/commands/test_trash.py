"""rm and trash: what is destructive shows what it will do, and asks."""

from __future__ import annotations

from pathlib import Path

import clew
from tests.cli.processes import Clew
from tests.support.rows import each_row


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

    assert [line.split()[0] for line in lines] == ["login-bug", "login-bug/helper"]


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


def test_a_purge_of_what_is_in_the_trash_does_not_take_a_subagent_whose_id_begins_like_it(cli: Clew) -> None:
    """Imported sessions are also shown and typed without the name of their agent."""
    with clew.open(cli.store) as store:
        for id in ("claude-code:0b1c", "claude-code:0b1c/agent-1"):
            store.session(id).append({"role": "user", "content": id})
    cli("rm", "claude-code:0b1c")

    done = cli("rm", "--purge", "--yes", "0b1c", code=1)
    assert "'0b1c' is not a whole id" in done.err
    assert "; write claude-code:0b1c\n" in done.err
    assert ["claude-code:0b1c/agent-1"] == ids(cli)
    assert ["claude-code:0b1c"] == ids(cli, deleted=True)

    cli("rm", "--purge", "--yes", "claude-code:0b1c")
    assert ["claude-code:0b1c/agent-1"] == ids(cli)
    assert [] == ids(cli, deleted=True)


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


@each_row(
    "typed",
    [
        ("rm", "login"),
        ("rm", "--purge", "--yes", "login"),
        ("checkpoint", "login-bug#", "plan", "--delete"),
        ("rewind", "login-bug#", "plan", "--files", "--yes"),
        ("undo", "login-bug#"),
        ("redo", "login-bug#"),
        ("restore", "login-bug#@plan", "--yes"),
    ],
    ids=lambda typed: " ".join(typed),
)
def test_what_removes_something_or_changes_files_takes_whole_ids(story: Clew, typed: tuple[str, ...]) -> None:
    """The error has the whole ids that fit, to be copied."""
    with clew.open(story.store) as store:
        before = [(info.id, info.head, store.get(info.id).checkpoints()) for info in store.list()]
    done = story(*typed, code=1)
    assert "is not a whole id" in done.err
    assert "; write login-bug" in done.err
    with clew.open(story.store) as store:
        assert before == [(info.id, info.head, store.get(info.id).checkpoints()) for info in store.list()]


def test_a_snapshot_is_restored_by_its_whole_id(cli: Clew, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    file = tmp_path / "work" / "a.txt"
    file.write_text("then")
    id = cli("snapshot", "work", "--json").records[0]["id"]
    file.write_text("now")
    assert id in cli("restore", id[:12], "--yes", "--on-conflict", "overwrite", code=1).err
    assert "now" == file.read_text()
    assert "then" in cli("diff", id[:12]).out, "a look may be taken by the beginning"
