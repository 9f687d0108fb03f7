"""Finding sessions: lists, filters, pages, the latest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from clew.errors import InvalidError, InvalidQueryError
from clew.model import Facets, Page
from clew.store import Store
from clew.testing.backend.base import Ticking, say
from tests.support.rows import each_row

HOSTILE_KEYS: list[Any] = [
    "",
    "a b",
    "a'",
    'a"',
    "a') OR ('1'='1",
    "x = 1; DROP TABLE sessions; --",
    "$.a",
    "a[0]",
    "1a",
    "a\0",
    "ä",
    "a" * 65,
    "a\n",
    "\ud800",
    5,
    None,
]
HOSTILE_VALUES = [
    "'",
    '"',
    "' OR 1=1 --",
    "%",
    "_",
    "*",
    "\0",
    "\\",
    "null",
    "é",
    "e\u0301",
    "\U0001f600",
    "",
]


class TestWhoseSessions:
    """By agent, by parent, without subagents, and within a span of time."""

    def test_the_agent_and_the_parent_are_told_and_can_be_listed_by(self, store: Store) -> None:
        """That of an importer goes before metadata `agent`, and this before the adapter; what is no text is
        none."""
        store.create("told", metadata={"agent": "my-bot", "framework": "strands"})
        store.create("adapter", metadata={"framework": "strands"})
        store.create("child", metadata={"agent": 5, "imported_from": {"format": "codex"}, "parent": "told"})
        store.create("build", metadata={"agent": "build", "imported_from": {"format": "x", "path": "/x"}})
        store.create("plain", metadata={"parent": 7})
        assert {info.id: (info.agent, info.parent) for info in store.list()} == {
            "told": ("my-bot", None),
            "adapter": ("strands", None),
            "child": ("codex", "told"),
            "build": ("x", None),
            "plain": (None, None),
        }
        agents = {"my-bot": ["told"], "strands": ["adapter"], "codex": ["child"], "x": ["build"], "build": []}
        for agent, ids in agents.items():
            assert _ids(store.list(agent=agent)) == ids
        assert _ids(store.list(where={"agent": "strands"})) == ["adapter"]
        assert _ids(store.list(where={"agent": "codex"})) == ["child"]
        assert store.verify().ok

    def test_subagents_of_one_session(self, store: Store) -> None:
        """`parent` lists the subagents of one session and no others."""
        store.create("p")
        store.create("p/1", metadata={"parent": "p"})
        store.create("p/2", metadata={"parent": "p"})
        store.create("q/1", metadata={"parent": "q"})
        assert _ids(store.list(parent="p")) == ["p/2", "p/1"]
        assert _ids(store.list(parent="p", where={"parent": "q"})) == []

    def test_a_subagent_is_left_out_where_its_parent_is_listed(self, store: Store) -> None:
        """One whose parent was never here, or was removed, is listed: else nothing would lead to it."""
        store.create("p")
        store.create("p/1", metadata={"parent": "p"})
        store.create("p/1/1", metadata={"parent": "p/1"})
        store.create("q/1", metadata={"parent": "q"})
        assert _ids(store.list(subagents=False)) == ["q/1", "p"]
        assert _ids(store.list()) == ["q/1", "p/1/1", "p/1", "p"]
        store.delete("p")
        store.create("p/2", metadata={"parent": "p"})
        assert _ids(store.list(subagents=False)) == ["p/2", "q/1"]

    def test_sessions_that_name_each_other_as_parents_are_all_listed(self, store: Store) -> None:
        """A ring of parents hides no session from a list without subagents."""
        store.create("a", metadata={"parent": "b"})
        store.create("b", metadata={"parent": "a"})
        store.create("c", metadata={"parent": "c"})
        store.create("d", metadata={"parent": "a"})
        assert _ids(store.list(subagents=False)) == ["d", "c", "b", "a"]

    @pytest.mark.parametrize("limit", [1, 2, 3, 7])
    def test_pages_without_subagents_lose_nothing(self, store: Store, limit: int) -> None:
        """Pages without subagents hold each other session once, whatever lies between them."""
        for number in range(9):
            store.create(f"p{number}")
            for child in range(number % 4):
                store.create(f"p{number}/{child}", metadata={"parent": f"p{number}"})
        expected = [f"p{number}" for number in reversed(range(9))]
        assert _all_pages(store, subagents=False, limit=limit) == expected

    def test_by_the_time_of_the_last_activity(self, store: Store) -> None:
        """`since` is included, `until` is not; pages stay within."""
        for id in "abcd":
            store.create(id)
        times = {info.id: info.updated_at for info in store.list()}
        assert _ids(store.list(since=times["b"], until=times["d"])) == ["c", "b"]
        first = store.list(since=times["b"], until=times["d"], limit=1)
        assert _ids(store.list(since=times["b"], until=times["d"], limit=1, cursor=first.cursor)) == ["b"]
        store.delete("a")
        gone = store.list(deleted=True)[0].deleted_at
        assert gone is not None
        assert _ids(store.list(deleted=True, since=gone)) == ["a"]
        assert _ids(store.list(deleted=True, until=gone)) == []
        with pytest.raises(InvalidQueryError, match="since must be a datetime with a time zone"):
            store.list(since=times["a"].replace(tzinfo=None))


class TestListing:
    """Newest activity first; a filter is a parameter; a cursor stays right while sessions change."""

    def test_newest_activity_comes_first(self, store: Store) -> None:
        """An append or a move brings a session to the front; ties are in the order of the ids."""
        for id in "abc":
            store.create(id)
        assert _ids(store.list()) == ["c", "b", "a"]
        say(store.get("a"), "x")
        assert _ids(store.list()) == ["a", "c", "b"]
        store.get("b").clear()
        assert _ids(store.list()) == ["b", "a", "c"]

    def test_ties_are_stable(self, store: Store, clock: Ticking) -> None:
        """Sessions of one moment come in the order of their ids, however they are paged."""
        clock.step = 0
        for id in ("d", "B", "a", "ä", "c"):
            store.create(id)

        assert _ids(store.list()) == ["B", "a", "c", "d", "ä"]
        assert _all_pages(store, limit=2) == ["B", "a", "c", "d", "ä"]

    def test_a_list_is_a_page(self, store: Store) -> None:
        """It has a length, can be indexed and iterated; `cursor` is None on the last one."""
        for id in "abc":
            store.create(id)
        page = store.list(limit=2)

        assert (len(page), page[0].id, page[-1].id) == (2, "c", "b")
        assert [info.id for info in page[:1]] == ["c"]
        assert page.cursor is not None
        rest = store.list(limit=2, cursor=page.cursor)
        assert (_ids(rest), rest.cursor) == (["a"], None)
        assert store.list(limit=3).cursor is None

    def test_a_cursor_stays_right_while_sessions_change(self, store: Store) -> None:
        """What nobody touches comes exactly once; what becomes active, is created or deleted between two
        pages is not seen twice and hides nothing."""
        for number in range(8):
            store.create(f"{number}")
        first = store.list(limit=3)
        assert _ids(first) == ["7", "6", "5"]
        say(store.get("2"), "active again")
        say(store.get("7"), "active again")
        store.create("new")
        store.delete("5")  # the very session at which the page ended
        store.delete("3")
        second = store.list(limit=3, cursor=first.cursor)
        assert _ids(second) == ["4", "1", "0"]
        assert second.cursor is None

    def test_a_cursor_belongs_to_no_store_object(self, store: Store) -> None:
        """It is plain text, the same for the same place, and can be used any number of times."""
        for id in "abc":
            store.create(id)
        cursor = store.list(limit=1).cursor

        assert isinstance(cursor, str)
        assert cursor.isascii()
        assert store.list(limit=1).cursor == cursor
        assert _ids(store.list(cursor=cursor)) == _ids(store.list(cursor=cursor)) == ["b", "a"]

    @each_row(
        "cursor",
        ["", "!", "AAAA", "ä", "W10", "WzEsIDJd", "WyJhIiwiYiJd", "\0", "\ud800", 5, b"WzEsImEiXQ"],
        ids=repr,
    )
    def test_a_bad_cursor_is_refused(self, store: Store, cursor: Any) -> None:
        """InvalidQueryError, whatever was made of it."""
        with pytest.raises(InvalidQueryError):
            store.list(cursor=cursor)

    def test_a_forged_cursor_can_do_no_harm(self, store: Store) -> None:
        """A well-formed cursor with a number beyond 64 bits is refused or leads nowhere."""
        from clew.backends.rows import make_cursor

        store.create("a")
        for moment in (-(2**80), -(2**63) - 1, 2**63, 2**80):
            try:
                page = store.list(cursor=make_cursor(moment, "a"))
            except InvalidQueryError:
                continue
            assert len(page) == (1 if moment > 0 else 0)

    # -- filters

    def test_sessions_are_found_by_tag(self, store: Store) -> None:
        """By one tag, or by all of several; never by a part of one."""
        store.create("a", tags=["bug", "ui"])
        store.create("b", tags=["bug"])
        store.create("c", tags=["bugs"])

        assert _ids(store.list(tag="bug")) == ["b", "a"]
        assert _ids(store.list(tag=["bug", "ui"])) == ["a"]
        assert _ids(store.list(tag=["bug", "x"])) == []
        assert _ids(store.list(tag=[])) == ["c", "b", "a"]

    def test_sessions_are_found_by_workspace(self, store: Store, tmp_path: Path) -> None:
        """However the directory is spelled: relative, through a symlink, as a path object."""
        link = tmp_path / "link"
        (tmp_path / "real").mkdir()
        link.symlink_to(tmp_path / "real")
        store.create("a", workspace=link)
        store.create("b", workspace=tmp_path)

        assert _ids(store.list(workspace=tmp_path / "real")) == ["a"]
        assert _ids(store.list(workspace=os.path.relpath(link))) == ["a"]
        assert _ids(store.list(workspace=f"{tmp_path}/")) == ["b"]

    def test_sessions_are_found_by_metadata_values(self, store: Store) -> None:
        """Text, numbers, true, false, null: each equal only to itself."""
        values: list[Any] = ["1", 1, 1.0, True, False, None, 0, -1, 10**30, 0.1, "true", "null"]
        for number, value in enumerate(values):
            store.create(f"{number:02}", metadata={"k": value, "other": "k"})

        for number, value in enumerate(values):
            assert _ids(store.list(where={"k": value})) == [f"{number:02}"], value
        assert _ids(store.list(where={"missing": None})) == []
        assert _ids(store.list(where={"k": 1, "other": "k"})) == ["01"]
        assert _ids(store.list(where={"k": 1, "other": "l"})) == []

    def test_filters_follow_what_changes(self, store: Store) -> None:
        """After `update` a session is found by its new values only; a deleted one not at all."""
        s = store.create("a", tags=["x"], metadata={"k": 1})
        s.update(tags=["y"], metadata={"l": 2})

        assert _ids(store.list(tag="x")) == _ids(store.list(where={"k": 1})) == []
        assert _ids(store.list(tag="y", where={"l": 2})) == ["a"]
        store.delete("a")
        assert _ids(store.list(tag="y")) == []
        assert _ids(store.list(tag="y", deleted=True)) == ["a"]

    def test_filters_and_pages_go_together(self, store: Store) -> None:
        """A page holds `limit` matching sessions, however many others lie between."""
        for number in range(12):
            store.create(f"{number:02}", tags=["even"] if number % 2 == 0 else [])

        assert _all_pages(store, limit=2, tag="even") == ["10", "08", "06", "04", "02", "00"]

    @each_row("key", HOSTILE_KEYS)
    def test_a_filter_key_that_is_no_name_is_refused(self, store: Store, key: Any) -> None:
        """S-02, I-24: keys are letters, digits and `_.-`, whatever a database would make of others."""
        store.session("a", metadata={"k": "v"})
        with pytest.raises(InvalidQueryError):
            store.list(where={key: "v"})
        assert _ids(store.list()) == ["a"]

    @pytest.mark.parametrize("value", HOSTILE_VALUES, ids=repr)
    def test_a_filter_value_is_only_data(self, store: Store, value: str) -> None:
        """S-02, I-24: it is compared, never read: metadata, tags and workspace alike."""
        store.create("plain", metadata={"k": "v"}, tags=["v"], workspace="/v")
        store.create("hostile", metadata={"k": value})
        if value and "\0" not in value:
            store.get("hostile").update(tags=[value])

        assert _ids(store.list(where={"k": value})) == ["hostile"]
        if value and "\0" not in value:
            assert _ids(store.list(tag=value)) == ["hostile"]
            assert _ids(store.list(workspace=f"/{value}")) == []

    @each_row("value", [[1], {"a": 1}, (1,), b"v", float("nan"), "\ud800"], ids=repr)
    def test_a_filter_value_that_is_no_scalar_is_refused(self, store: Store, value: Any) -> None:
        """Lists, objects and what is no JSON cannot be compared with."""
        with pytest.raises(InvalidError):
            store.list(where={"k": value})

    @each_row("bad", ["\ud800", "a\0b", ["a", 5], ["a", "\udfff"]], ids=ascii)
    def test_a_tag_that_no_session_could_have_is_refused(self, store: Store, bad: Any) -> None:
        """The same verdict on every backend, before storage is asked."""
        with pytest.raises(InvalidError):
            store.list(tag=bad)

    @each_row("bad", ["\ud800", "a\0b"], ids=repr)
    def test_a_workspace_that_no_session_could_have_is_refused(self, store: Store, bad: str) -> None:
        """By `list` and by `latest`, as by `create`."""
        with pytest.raises(InvalidError):
            store.list(workspace=bad)
        with pytest.raises(InvalidError):
            store.latest(workspace=bad)

    # -- the latest

    def test_latest_is_the_last_active_session_with_messages(self, store: Store, tmp_path: Path) -> None:
        """Empty sessions, cleared ones and those in the trash are passed over."""
        assert store.latest() is None
        store.create("empty")
        assert store.latest() is None
        here, there = store.create("here", workspace=tmp_path), store.create("there", workspace="/there")
        say(here, "x")
        say(there, "x")
        store.create("newer but empty", workspace=tmp_path)

        assert store.latest() == there
        assert store.latest(workspace=tmp_path) == here
        assert store.latest(workspace=tmp_path / "sub") is None
        there.clear()
        assert store.latest() == here
        store.delete("here")
        assert store.latest() is None


class TestByProjectModelAndCost:
    """What a page lets people filter by."""

    def test_by_the_name_of_the_directory(self, store: Store) -> None:
        """Directories of one name in several places are one project; pages lose nothing between them."""
        for number in range(7):
            place = ("/home/me/clew", "/srv/clew", "/home/me/other", "C:\\work\\clew")[number % 4]
            store.create(f"s{number}", workspace=place if number % 4 < 3 else None)
        store.create("none")
        assert _ids(store.list(project="clew")) == ["s5", "s4", "s1", "s0"]
        assert _all_pages(store, project="clew", limit=1) == ["s5", "s4", "s1", "s0"]
        assert _ids(store.list(project="clew", workspace="/srv/clew")) == ["s5", "s1"]
        assert _ids(store.list(project="other", workspace="/srv/clew")) == []
        assert _ids(store.list(project="me")) == _ids(store.list(project="")) == []
        store.delete("s4")
        assert _ids(store.list(project="clew", deleted=True)) == ["s4"]
        assert _ids(store.list(project="clew")) == ["s5", "s1", "s0"]

    def test_by_the_model(self, store: Store) -> None:
        """The setting `model`, not metadata of this name; it follows what the session says now."""
        store.create("a", model="gpt-5")
        store.create("b", model="gpt-5.1", metadata={"model": "gpt-5", ":model": "gpt-5"})
        store.create("c", metadata={"model": "gpt-5"})
        assert _ids(store.list(model="gpt-5")) == ["a"]
        store.get("c").update(model="gpt-5")
        store.get("a").update(model=None)
        assert _ids(store.list(model="gpt-5")) == ["c"]
        assert _ids(store.list(where={"model": "gpt-5"})) == ["c", "b"]
        assert store.verify().ok

    def test_by_what_it_cost_with_its_subagents(self, store: Store) -> None:
        """At least so much, exactly; a call without a price costs nothing that is known."""
        store.create("dear").add_usage(cost="2.50")
        store.create("cheap").add_usage(cost="2.499999999999")
        store.create("parent").add_usage(cost="1")
        store.create("child", metadata={"parent": "parent"}).add_usage(cost="1")
        store.create("grandchild", metadata={"parent": "child"}).add_usage(cost="0.5")
        store.create("unknown").add_usage(model="no such model", input_tokens=10**9)
        store.create("nothing")
        assert _ids(store.list(min_cost="2.5")) == ["parent", "dear"]
        assert _all_pages(store, min_cost="0.5", limit=1) == [
            "grandchild",
            "child",
            "parent",
            "cheap",
            "dear",
        ]
        assert _ids(store.list(min_cost=1, subagents=False)) == ["parent", "cheap", "dear"]
        assert len(store.list(min_cost=0)) == 7
        assert _ids(store.list(min_cost=100)) == []

    @each_row("cost", ["-1", "a lot", "NaN", 1.5, "1" * 9])
    def test_a_cost_that_is_no_amount_is_refused(self, store: Store, cost: Any) -> None:
        """The error names the value."""
        with pytest.raises(InvalidQueryError, match="min_cost"):
            store.list(min_cost=cost)


class TestUsageInLists:
    """What sessions have used, with what they had others do."""

    def test_each_session_comes_with_what_it_and_its_subagents_used(self, store: Store) -> None:
        """The same sums as `session.usage(subagents=True)`, at any depth; without `usage`, none."""
        parent = None
        for number in range(30):
            session = store.create(f"s{number:02}", metadata={"parent": parent} if parent else None)
            session.add_usage(input_tokens=number, output_tokens=1, cost="0.01", reasoning_tokens=1)
            session.add_usage(input_tokens=1, cache_read_tokens=2, cache_write_tokens=3)
            parent = session.id
        store.create("alone")
        page = store.list(usage=True, limit=100)
        assert len(page.usage) == len(page) == 31
        for info, used in zip(page, page.usage, strict=True):
            sums = store.get(info.id).usage(subagents=True)
            assert {name: getattr(used, name) for name in sums.__struct_fields__} == {
                name: getattr(sums, name) for name in sums.__struct_fields__
            }
            assert used.subagents == (0 if info.id == "alone" else 29 - int(info.id[1:]))
        assert store.usage(by="session", subagents=True).keys() == {"s00"}
        assert store.list(limit=1).usage == ()

    def test_a_subagent_in_the_trash_costs_what_it_cost_and_is_not_counted(self, store: Store) -> None:
        """Money that was spent stays spent."""
        store.create("p")
        store.create("c", metadata={"parent": "p"}).add_usage(cost=3)
        store.create("d", metadata={"parent": "c"}).add_usage(cost=4)
        store.delete("c")
        store.restore_deleted("d")
        used = store.list(usage=True, subagents=False, project=None)
        assert _costs(used) == {"p": (7, 1), "d": (4, 0)}
        trash = store.list(deleted=True, usage=True)
        assert (_ids(trash), int(trash.usage[0].cost)) == (["c"], 7)

    def test_sessions_that_name_each_other_count_each_other_once(self, store: Store) -> None:
        """A ring of parents ends."""
        store.create("a", metadata={"parent": "b"}).add_usage(cost=1)
        store.create("b", metadata={"parent": "a"}).add_usage(cost=2)
        store.create("c", metadata={"parent": "c"}).add_usage(cost=4)
        assert _costs(store.list(usage=True)) == {"c": (4, 0), "b": (3, 1), "a": (3, 1)}


class TestFacets:
    """What lists can be filtered by."""

    def test_the_most_frequent_come_first(self, store: Store) -> None:
        """Ties by name; sessions in the trash do not count; a value counts a session once."""
        for number in range(4):
            store.create(
                f"s{number}",
                workspace=("/a/clew", "/b/clew", "/b/clew", "/c/other")[number],
                model="m1" if number else "m0",
                tags=["starred", "starred", "x"] if number < 2 else ["a"],
                metadata={"agent": "codex"} if number < 3 else {"framework": "adk"},
            )
        store.create("gone", workspace="/a/clew", model="m0", tags=["gone"], metadata={"agent": "gone"})
        store.delete("gone")
        store.get("s3").start()
        found = store.facets()
        assert [(one.value, one.sessions, one.workspace) for one in found.projects] == [
            ("clew", 3, "/b/clew"),
            ("other", 1, "/c/other"),
        ]
        assert [(one.value, one.sessions) for one in found.agents] == [("codex", 3), ("adk", 1)]
        assert [(one.value, one.sessions) for one in found.models] == [("m1", 3), ("m0", 1)]
        assert [(one.value, one.sessions) for one in found.tags] == [("a", 2), ("starred", 2), ("x", 2)]
        assert [(one.value, one.sessions) for one in found.statuses] == [("pending", 3), ("running", 1)]

    def test_every_value_lists_as_many_sessions_as_it_says(self, store: Store) -> None:
        """A count is what the filter then shows."""
        for number in range(12):
            store.create(
                f"s{number}",
                workspace=f"/w{number % 2}/p{number % 3}",
                model=f"m{number % 4}",
                tags=[f"t{number % 5}"],
                metadata={"agent": f"a{number % 2}"},
            )
        found = store.facets()
        for values, filter in (
            (found.projects, "project"),
            (found.agents, "agent"),
            (found.models, "model"),
            (found.tags, "tag"),
            (found.statuses, "status"),
        ):
            assert sum(one.sessions for one in values) == 12
            for one in values:
                given: dict[str, Any] = {filter: one.value}
                assert len(store.list(**given)) == one.sessions, given

    def test_some_of_them_of_some_sessions(self, store: Store) -> None:
        """Filters and limits hold for facets, too."""
        for number in range(6):
            store.create(f"s{number}", workspace="/w" if number % 2 else "/v", tags=["t", f"t{number}"])
        store.create("other", workspace="/w", model="m")
        assert [one.value for one in store.facets(limit=1).tags] == ["t"]
        found = store.facets(workspace="/w", tag="t")
        assert [(one.value, one.sessions) for one in found.tags] == [
            ("t", 3),
            ("t1", 1),
            ("t3", 1),
            ("t5", 1),
        ]
        assert (found.models, [one.value for one in found.projects]) == ((), ["w"])

    def test_an_empty_store_has_none(self, store: Store) -> None:
        """There is no value to choose from."""
        assert store.facets() == Facets(projects=(), agents=(), models=(), tags=(), statuses=())


def _ids(page: Page) -> list[str]:
    return [info.id for info in page]


def _costs(page: Page) -> dict[str, tuple[int, int]]:
    """What each session cost with its subagents, and how many these are."""
    return {info.id: (int(used.cost), used.subagents) for info, used in zip(page, page.usage, strict=True)}


def _all_pages(store: Store, **options: Any) -> list[str]:
    """The ids on all pages."""
    page = store.list(**options)
    ids = _ids(page)
    while page.cursor is not None:
        page = store.list(cursor=page.cursor, **options)
        ids += _ids(page)
    return ids
