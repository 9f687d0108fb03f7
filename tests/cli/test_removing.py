"""rm and trash: what is destructive shows what it will do, and asks."""

from __future__ import annotations

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
    """A purge is by id: it would take the living one too."""
    with clew.open(cli.store) as store:
        store.session("s").append({"role": "user", "content": "old"})
        store.delete("s")
        store.session("s").append({"role": "user", "content": "new"})
    done = cli("trash", "empty", "--yes")
    assert "s stays" in done.out
    with clew.open(cli.store) as store:
        assert ["new"] == [message["content"] for message in store.get("s").messages()]


def test_several_are_removed_or_none(story: Clew) -> None:
    story("rm", "login-bug", "nobody", code=1)
    assert ["login-bug", "login-bug#fork-1"] == ids(story)
