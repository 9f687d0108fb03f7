"""What a user may set: settings and aliases of sessions."""

from __future__ import annotations

import os
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from clew.errors import (
    AliasExistsError,
    InvalidError,
    SessionExistsError,
)
from clew.session import Session
from clew.store import Store
from tests.support.rows import each_row


class TestSettings:
    """Settings come back as they were given; an alias leads to one session."""

    def test_settings_come_back(self, store: Store) -> None:
        """Vendor, endpoint, model, tags in their order without repetition, metadata of any JSON."""
        metadata = {"z": 1, "a": [None, True, 1.5, {"n": 10**40}], "ü\0": "\U0001f600"}
        info = store.create(
            "a", tags=["b", "a", "b"], vendor="v", endpoint="e", model="m", metadata=metadata
        ).info

        assert (info.vendor, info.endpoint, info.model, info.tags) == ("v", "e", "m", ("b", "a"))
        assert info.metadata == metadata
        assert list(info.metadata) == ["z", "a", "ü\0"]

    def test_update_sets_what_is_given_and_nothing_else(self, store: Store) -> None:
        """What is not named stays; None empties; tags and metadata are replaced as a whole."""
        s = store.create("a", title="t", vendor="v", model="m", tags=["x"], metadata={"k": 1, "l": 2})
        s.update(model="n", tags=["y"], metadata={"k": 3})
        info = s.info
        assert (info.title, info.vendor, info.model, info.tags) == ("t", "v", "n", ("y",))
        assert info.metadata == {"k": 3}

        s.update(vendor=None, tags=[])
        assert (s.info.vendor, s.info.tags, s.info.model) == (None, (), "n")

    def test_single_keys_of_the_metadata_can_be_set(self, store: Store, s: Session) -> None:
        """The others stay; None takes a key away; lists find the session by the new value."""
        s.update(metadata={"chat": 42, "request": "old"})
        s.set_metadata(request="fix it", big=2**70)
        assert s.info.metadata == {"chat": 42, "request": "fix it", "big": 2**70}
        s.set_metadata(big=None, unknown=None)
        s.set_metadata()

        assert s.info.metadata == {"chat": 42, "request": "fix it"}
        found = store.list(where={"request": "fix it", "chat": 42})
        assert [info.id for info in found] == ["s"]
        with pytest.raises(InvalidError):
            s.set_metadata(request=float("nan"))

    def test_metadata_may_be_any_mapping(self, store: Store) -> None:
        """I-14: it is copied; changing it afterwards changes nothing."""
        given = {"k": ["v"]}
        s = store.create("a", metadata=MappingProxyType(given))
        given["k"].append("w")
        s.info.metadata["k"] = "changed"

        assert s.info.metadata == {"k": ["v"]}

    @each_row(
        "settings",
        [
            {"title": "x" * 501},
            {"title": "\ud800"},
            {"title": 5},
            {"tags": "text"},
            {"tags": [""]},
            {"tags": ["a\0"]},
            {"tags": [5]},
            {"metadata": [1]},
            {"metadata": {"a": float("nan")}},
            {"metadata": {1: "a"}},
            {"metadata": {"a": "\ud800"}},
            {"model": b"m"},
            {"vendor": "\udfff"},
            {"workspace": "a\0b"},
            {"workspace": ""},
            {"workspace": "\ud800"},
        ],
        ids=repr,
    )
    def test_bad_settings_are_refused_everywhere(self, store: Store, settings: dict[str, Any]) -> None:
        """The same verdict from `create`, `session` and `update`; nothing is changed."""
        s = store.session("there")
        before = s.info
        for call in (store.create, lambda **given: store.session("new", **given), s.update):
            with pytest.raises(InvalidError):
                call(**settings)

        assert [info.id for info in store.list()] == ["there"]
        assert s.info == before

    def test_the_workspace_is_kept_as_given_and_normalised(self, store: Store, tmp_path: Path) -> None:
        """Absolute, without `..`, symlinks resolved; whether it exists or not."""
        real = tmp_path / "real"
        (real / "sub").mkdir(parents=True)
        link = tmp_path / "link"
        link.symlink_to(real)
        given = f"{link}/sub/../sub"

        info = store.create("a", workspace=given).info
        assert info.workspace == os.path.realpath(real / "sub")
        assert info.workspace_given == given

        by_path = store.create("b", workspace=link / "missing")
        assert by_path.info.workspace == os.path.realpath(real / "missing")
        by_path.update(workspace=None)
        emptied = by_path.info
        assert (emptied.workspace, emptied.workspace_given) == (None, None)

    def test_an_empty_workspace_is_not_the_present_directory(self, store: Store) -> None:
        """Whoever asks by one is refused, as is whoever sets one; a dot is the present directory."""
        here = store.create("here", workspace=".")
        for ask in (store.list, store.latest, lambda **given: store.search("x", **given)):
            with pytest.raises(InvalidError, match="empty"):
                ask(workspace="")

        assert [info.id for info in store.list(workspace=".")] == ["here"]
        assert here.info.workspace == os.getcwd()

    # -- aliases

    def test_an_alias_leads_to_its_session(self, store: Store, s: Session) -> None:
        """For `get`, `find`, `session` and `delete`; a session may have several."""
        s.add_alias("chat:42")
        s.add_alias("b")
        s.add_alias("b")

        assert store.get("chat:42") == s == store.find("b")
        assert store.session("b") == s
        assert store.get("chat:42").id == "s"
        assert s.info.aliases == ("chat:42", "b")
        assert len(store.list()) == 1
        assert store.delete("b") is True
        assert store.find("s") is None

    def test_an_alias_leads_to_one_session(self, store: Store, s: Session) -> None:
        """AliasExistsError if it leads elsewhere; `move=True` moves it."""
        other = store.create("other")
        s.add_alias("x")
        with pytest.raises(AliasExistsError) as caught:
            other.add_alias("x")
        assert (caught.value.alias, caught.value.session) == ("x", "s")
        assert store.get("x") == s

        other.add_alias("x", move=True)

        assert store.get("x") == other
        assert (s.info.aliases, other.info.aliases) == ((), ("x",))

    def test_an_alias_and_an_id_are_never_the_same(self, store: Store, s: Session) -> None:
        """The id of a session is no alias of another, not even with `move`; an alias is no new id."""
        other = store.create("other")
        for move in (False, True):
            with pytest.raises(AliasExistsError):
                other.add_alias("s", move=move)
        s.add_alias("x")
        with pytest.raises(SessionExistsError):
            store.create("x")
        with pytest.raises(SessionExistsError):
            other.fork("x")
        s.add_alias("s")
        assert s.info.aliases == ("x",)

    def test_a_name_that_is_no_setting_is_refused(self, store: Store, s: Session) -> None:
        """By Python's own error, which names the nearest setting; nothing is written."""
        given: Any = {"titel": "x"}
        for call, method in ((store.session, "session"), (store.create, "create")):
            with pytest.raises(
                TypeError, match=rf"{method}\(\) has no setting 'titel': did you mean 'title'"
            ):
                call("new", **given)
        with pytest.raises(TypeError, match=r"update\(\) has no setting 'colour': The settings are title, "):
            s.update(colour="red")  # type: ignore[call-arg]

        assert store.find("new") is None

    def test_a_removed_alias_is_free(self, store: Store, s: Session) -> None:
        """`remove_alias` says whether it led here."""
        other = store.create("other")
        s.add_alias("x")

        assert other.remove_alias("x") is False
        assert s.remove_alias("x") is True
        assert s.remove_alias("x") is False
        assert store.find("x") is None
        assert s.info.aliases == ()
        assert store.create("x").id == "x"
