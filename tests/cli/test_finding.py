"""Sessions by the beginning of their id, places in them."""

from __future__ import annotations

import pytest

import clew
from tests.cli.conftest import user
from tests.cli.processes import Clew


def meant(cli: Clew, text: str) -> str:
    """The id of the session that a text leads to."""
    (record,) = cli("title", text, "--json").records
    return str(record["id"])


@pytest.fixture
def many(cli: Clew) -> Clew:
    with clew.open(cli.store) as store:
        for id in ("alpha-1", "alpha-2", "beta", "claude-code:0b1c", "me@home", "beta@2"):
            store.session(id).append(user(id))
        store.get("beta").add_alias("second")
    return cli


def test_a_unique_beginning_is_enough(many: Clew) -> None:
    assert "claude-code:0b1c" == meant(many, "cl")
    assert "alpha-1" == meant(many, "alpha-1")


def test_what_follows_the_name_of_an_agent_is_enough(many: Clew) -> None:
    assert "claude-code:0b1c" == meant(many, "0b")


def test_an_alias_is_an_id_too(many: Clew) -> None:
    assert "beta" == meant(many, "second")


def test_an_ambiguous_beginning_names_the_candidates(many: Clew) -> None:
    done = many("show", "alpha", code=1)
    assert (
        "2 sessions begin with 'alpha': alpha-1 (alpha-1), alpha-2 (alpha-2); type more letters" in done.err
    )


def test_a_whole_id_wins_over_longer_ones(many: Clew) -> None:
    assert "beta" == meant(many, "beta")


def test_an_id_may_hold_an_at_sign(many: Clew) -> None:
    assert "me@home" == meant(many, "me@home")
    assert "beta@2" == meant(many, "beta@2")
    assert "me@home" == meant(many, "me@h")
    assert "▶ " in many("show", "me@home@0").out


def test_without_an_id_the_newest_session_is_meant(many: Clew) -> None:
    assert "beta@2" in many("show").lines[0]


def test_a_place_that_is_not_there_is_named(many: Clew) -> None:
    done = many("show", "beta@7", code=1)
    assert "no position 7" in done.err


def test_shown_ids_are_unique_and_can_be_typed(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        made = [store.create().id for _ in range(5)]
    shown = [line.split()[-1] for line in cli.on_terminal("ls", env={"TERM": "dumb"}).out.splitlines()[1:]]
    assert 5 == len(set(shown))
    for text in shown:
        [whole] = [id for id in made if id.startswith(text)]
        assert whole == meant(cli, text)
