"""Short ids of sessions: what is shown leads back, and what people type is found by an index."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import clew
from clew.cli.app import Refused
from clew.cli.names import beginnings
from clew.cli.store import deleted_id, session_of
from clew.errors import SessionDeletedError, SessionNotFoundError
from clew.importers import short_ids as names
from clew.importers.short_ids import meant, short_id, short_ids
from tests.cli.processes import Clew
from tests.support.rows import each_row

UUID = "0b1c2d3e-4f50-4a61-8b72-93a4b5c6d7e8"
NEAR = "0b1c2d3e-4fff-4a61-8b72-93a4b5c6d7e8"


def sessions(*ids: str) -> clew.Store:
    store = clew.open("memory:")
    for id in ids:
        store.session(id)
    return store


def found(store: clew.Store, text: str) -> list[str]:
    with store._engine.read() as reader:
        return [one.id for one in meant(reader, text)]


@each_row(
    ("id", "short"),
    [
        (f"claude-code:{UUID}", "0b1c2d3e"),
        (UUID, "0b1c2d3e"),
        (f"claude-code:{UUID}/agent-a1b2c3d4e5", "0b1c2d3e/a1b2"),
        (f"claude-code:{UUID}#fork-1", "0b1c2d3e#1"),
        ("claude-code:0b1c/agent-1", "0b1c/1"),
        ("cline:1719912345678", "17199123"),
        ("login-bug", "login-bug"),
        ("telegram:42", "telegram:42"),
        ("somebody-named-this-with-care", "somebody"),
        ("team:" + "x" * 30, "xxxxxxxx"),
    ],
)
def test_a_long_id_goes_by_eight_letters_of_what_its_program_calls_it(id: str, short: str) -> None:
    with sessions(id, "other") as store:
        assert short_id(store, id) == short
        assert found(store, short) == [id]


def test_an_id_is_cut_no_shorter_than_it_takes_to_tell_it_from_every_other() -> None:
    with sessions(f"claude-code:{UUID}", f"codex:{NEAR}") as store:
        assert list(short_ids(store, [f"claude-code:{UUID}", f"codex:{NEAR}"]).values()) == [
            "0b1c2d3e-4f5",
            "0b1c2d3e-4ff",
        ]
        store.delete(f"codex:{NEAR}")
        assert short_id(store, f"claude-code:{UUID}") == "0b1c2d3e-4f5"  # the trash counts


def test_an_alias_of_another_session_is_not_taken_for_a_short_id() -> None:
    with sessions(f"claude-code:{UUID}", "other") as store:
        store.get("other").add_alias("0b1c2d3e")
        assert short_id(store, f"claude-code:{UUID}") == "0b1c2d3e-"
        assert session_of(store, "0b1c2d3e").id == "other"


def test_two_programs_with_the_same_id_keep_their_names() -> None:
    ids = [f"claude-code:{UUID}", f"codex:{UUID}"]
    with sessions(*ids) as store:
        assert list(short_ids(store, ids).values()) == ids


def test_a_beginning_up_to_the_slash_means_the_parent() -> None:
    agents = [f"claude-code:{UUID}/agent-{number:04x}{number}" for number in range(40)]
    with sessions(f"claude-code:{UUID}", *agents, "zeta") as store:
        for text in ("0b1c", "claude-code:0b", UUID, f"claude-code:{UUID}"):
            assert session_of(store, text).id == f"claude-code:{UUID}"
        for text in ("0b1c/0007", "0b1c2d3e/agent-0007", f"{UUID}/0007", f"claude-code:0b1c/{'0007'}"):
            assert session_of(store, text).id == agents[7]
        with pytest.raises(Refused, match="sessions begin with '0b1c/'"):
            session_of(store, "0b1c/")


def test_a_fork_does_not_make_the_id_of_its_source_longer() -> None:
    source = f"claude-code:{UUID}"
    forks = [f"{source}#fork-{number}" for number in (1, 2, 10)]
    with sessions(
        source, *forks, f"{source}/agent-a1b2c3d4e5", "login", "login#fork-1", "login-bug"
    ) as store:
        assert list(short_ids(store, [source, *forks]).values()) == [
            "0b1c2d3e",
            "0b1c2d3e#1",
            "0b1c2d3e#2",
            "0b1c2d3e#10",
        ]
        assert found(store, "0b1c") == found(store, "claude-code:0b1c") == [source]
        assert found(store, "0b1c2d3e#1") == found(store, "0b1c2d3e#fork-1") == [forks[0]]
        assert found(store, "0b1c2d3e#10") == [forks[2]]
        assert found(store, "log") == ["login", "login-bug"]
        assert found(store, "login#1") == ["login#fork-1"]


def test_subagents_without_their_parent_are_found_one_by_one() -> None:
    with sessions(f"claude-code:{UUID}/agent-a1", f"claude-code:{UUID}/agent-b2") as store:
        with pytest.raises(Refused, match="2 sessions begin with '0b1c': 0b1c2d3e/a1, 0b1c2d3e/b2; type"):
            session_of(store, "0b1c")
        assert session_of(store, "0b1c/b").id.endswith("b2")


def test_the_id_of_a_removed_session_finds_no_other() -> None:
    with sessions("0b1c", "0b1c-next", f"claude-code:{UUID}", f"claude-code:{UUID}/agent-a1") as store:
        store.delete("0b1c")
        store.delete(f"claude-code:{UUID}")
        for text in ("0b1c", UUID, "0b1c2d"):
            with pytest.raises(SessionDeletedError):
                session_of(store, text)
        assert session_of(store, "0b1c-").id == "0b1c-next"
        assert deleted_id(store, "0b1c2d") == f"claude-code:{UUID}"
        with pytest.raises(SessionNotFoundError):
            deleted_id(store, "0b1c-")


def test_the_short_id_of_a_session_that_is_gone_means_no_other() -> None:
    """Neither its only fork or subagent, nor a session that came later and begins alike."""
    with sessions(f"claude-code:{UUID}", f"claude-code:{UUID}#fork-1", "login", "login#fork-10") as store:
        for id in (f"claude-code:{UUID}", "login"):
            store.delete(id, purge=True)
        for text in ("0b1c", "0b1c2d3e", UUID, "login", "login#1", "login#fork-1"):
            with pytest.raises(Refused, match=f"there is no session '{text}', only (0b1c|login)"):
                session_of(store, text)
        for text in ("0b1c2d3e#1", "0b1c2d3e#", "login#10", "login#fork-"):
            assert "#fork-1" in session_of(store, text).id

        store.create(f"codex:{NEAR}")
        store.delete(f"codex:{NEAR}")
        store.create("codex:0b1c2d3e-0000-4a61")
        with pytest.raises(Refused, match="3 sessions begin with '0b1c2d3e'"):
            session_of(store, "0b1c2d3e")
        assert session_of(store, "0b1c2d3e-0").id == "codex:0b1c2d3e-0000-4a61"


def test_an_id_that_holds_no_alias_is_found_by_what_follows_its_colon() -> None:
    with sessions(f"strange:{UUID}") as store:
        assert not store.get(f"strange:{UUID}").info.aliases
        assert session_of(store, UUID).id == f"strange:{UUID}"


def test_a_purge_without_a_question_names_the_whole_ids(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        store.session(f"claude-code:{UUID}")
        store.session(f"claude-code:{NEAR}")
    done = cli("rm", "--purge", "--yes", "0b1c2d3e-4f5", code=1)
    assert f"takes whole ids and aliases only; write claude-code:{UUID}, or" in done.err
    done = cli("rm", "--purge", "--yes", "0b1c", code=1)
    assert f"claude-code:{UUID}, claude-code:{NEAR}" in done.err


IDS = st.sets(
    st.builds(
        lambda program, name, agent: f"{program}{name}{agent}",
        st.sampled_from(["", "codex:", "claude-code:", "my:"]),
        st.text("ab-", min_size=1, max_size=40),
        st.sampled_from(["", "/agent-ab", "/agent-aabbaab", "/b", "#fork-1", "#fork-12", "/agent-ab#fork-1"]),
    ),
    min_size=1,
    max_size=25,
)


@given(IDS, st.data())
def test_every_short_id_leads_back_to_its_session(ids: set[str], data: st.DataObject) -> None:
    with sessions(*ids) as store:
        for id in data.draw(st.sets(st.sampled_from(sorted(ids)))):
            store.delete(id)
        living = [info.id for info in store.list(limit=100)]
        aliased = {id: id[::-1] for id in living if data.draw(st.booleans())}
        for id, alias in aliased.items():
            if store.find(alias) is None:
                store.get(id).add_alias(alias)
        shown = short_ids(store, ids)
        assert len(set(shown.values())) == len(ids)
        for id in ids:
            if id in living:
                assert session_of(store, shown[id]).id == id
            else:
                assert deleted_id(store, shown[id]) == id
        with store._engine.read() as reader:  # the same for many ids, which are not looked up one by one
            every = names.AllKeys(reader)
            assert {id: names._short(every, id) for id in ids} == shown


def test_ids_of_other_things_are_cut_as_far_as_the_others_allow() -> None:
    assert beginnings([UUID, NEAR, "short"]) == {
        UUID: "0b1c2d3e-4f5",
        NEAR: "0b1c2d3e-4ff",
        "short": "short",
    }
