"""Sessions by the beginning of their id, places in them."""

from __future__ import annotations

import pytest

import clew
from tests.cli.conftest import user
from tests.cli.processes import Clew


@pytest.fixture
def many(cli: Clew) -> Clew:
    with clew.open(cli.store) as store:
        for id in ("alpha-1", "alpha-2", "beta", "claude-code:0b1c", "me@home", "beta@2"):
            store.session(id).append(user(id))
        store.get("beta").add_alias("second")
    return cli


def test_a_unique_beginning_is_enough(many: Clew) -> None:
    assert "session claude-code:0b1c" == many("show", "cl").lines[0]
    assert "session alpha-1" == many("show", "alpha-1").lines[0]


def test_what_follows_the_name_of_an_agent_is_enough(many: Clew) -> None:
    assert "session claude-code:0b1c" == many("show", "0b").lines[0]


def test_an_alias_is_an_id_too(many: Clew) -> None:
    assert "session beta" == many("show", "second").lines[0]


def test_an_ambiguous_beginning_names_the_candidates(many: Clew) -> None:
    done = many("show", "alpha", code=1)
    assert (
        "2 sessions begin with 'alpha': alpha-1 (alpha-1), alpha-2 (alpha-2); type more letters" in done.err
    )


def test_a_whole_id_wins_over_longer_ones(many: Clew) -> None:
    assert "session beta" == many("show", "beta").lines[0]


def test_an_id_may_hold_an_at_sign(many: Clew) -> None:
    assert "session me@home" == many("show", "me@home").lines[0]
    assert "session beta@2" == many("show", "beta@2").lines[0]
    assert "session me@home" == many("show", "me@h").lines[0]
    assert "▶[0]" in many("show", "me@home@0").out


def test_without_an_id_the_newest_session_is_meant(many: Clew) -> None:
    assert "session beta@2" == many("show").lines[0]


def test_a_place_that_is_not_there_is_named(many: Clew) -> None:
    done = many("show", "beta@7", code=1)
    assert "no position 7" in done.err


def test_shown_ids_are_unique_and_can_be_typed(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        made = [store.create().id for _ in range(5)]
    shown = [line.split()[0] for line in cli.on_terminal("ls", env={"TERM": "dumb"}).out.splitlines()[1:]]
    assert 5 == len(set(shown))
    for text in shown:
        [whole] = [id for id in made if id.startswith(text)]
        assert f"session {whole}" == cli("show", text).lines[0]


def test_ls_filters_by_status_tag_workspace_and_metadata(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        store.session("a", tags=["x", "y"], workspace=cli.home, metadata={"chat": "42"})
        store.session("b", tags=["x"]).close()
    wanted = {
        ("--tag", "x"): ["b", "a"],
        ("--tag", "x", "--tag", "y"): ["a"],
        ("--status", "closed"): ["b"],
        ("--workspace", str(cli.home)): ["a"],
        ("--here",): ["a"],
        ("--where", 'chat="42"'): ["a"],
        ("--where", "chat=forty"): [],
        ("-n", "1"): ["b"],
        ("-n", "0"): ["b", "a"],
    }
    for args, ids in wanted.items():
        assert ids == [row[0] for row in cli("ls", *args).rows], args
