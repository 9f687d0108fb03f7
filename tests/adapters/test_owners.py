"""Whose session it is: one rule for all adapters."""

from __future__ import annotations

from functools import partial

import pytest

import clew
from clew.adapters.common import find_own, open_own

OURS = {"framework": "ours", "key": "talk"}
FIND = partial(find_own, id="talk", framework="ours")
OPEN = partial(open_own, id="talk", metadata=OURS)


@pytest.fixture
def store(url: str) -> clew.Store:
    return clew.open(url)


def test_what_is_not_there_is_created_with_its_owner(store: clew.Store) -> None:
    with store:
        assert store.read(FIND) is None
        store.transact(partial(OPEN, tags=["state"], vendor="acme"))

        info = store.get("talk").info
        assert (info.metadata, info.tags, info.vendor) == (OURS, ("state",), "acme")
        found = FIND(store)
        assert found is not None
        assert found.id == OPEN(store).id == "talk"
        assert store.get("talk").info == info


def test_what_another_framework_made_is_refused_by_name_be_it_empty(store: clew.Store) -> None:
    with store:
        store.session("talk", metadata={"framework": "theirs"})

        for attempt in (lambda: store.read(FIND), lambda: store.transact(OPEN)):
            with pytest.raises(clew.SessionTakenError) as refused:
                attempt()
            assert str(refused.value) == "session 'talk' belongs to theirs, not to ours: use another id"
            assert (refused.value.session, refused.value.framework) == ("talk", "ours")
            assert refused.value.owner == "theirs"
        assert store.get("talk").info.metadata == {"framework": "theirs"}


@pytest.mark.parametrize("content", ["message", "cleared", "document"])
def test_what_nobody_owns_is_refused_if_anything_was_ever_in_it(store: clew.Store, content: str) -> None:
    with store:
        session = store.session("talk")
        if content == "document":
            session.set_document("mine", b"1")
        else:
            session.append({"role": "user", "content": "hi"})
        if content == "cleared":
            session.clear()

        for attempt in (lambda: store.read(FIND), lambda: store.transact(OPEN)):
            with pytest.raises(clew.SessionTakenError, match=r"'framework': 'ours'") as refused:
                attempt()
            assert refused.value.owner is None
        session.update(metadata={"framework": "ours"})  # as the error says
        assert store.read(FIND) is not None


def test_what_was_created_beforehand_and_is_empty_is_taken_when_it_is_written_to(store: clew.Store) -> None:
    with store:
        session = store.session("talk", title="Herons", tags=["birds"], metadata={"customer": 42})

        assert store.read(FIND) is None
        assert session.info.metadata == {"customer": 42}  # a look changes nothing
        store.transact(partial(OPEN, tags=["state"]))

        assert session.info.metadata == {"customer": 42, **OURS}
        assert (session.info.title, session.info.tags) == ("Herons", ("birds", "state"))
