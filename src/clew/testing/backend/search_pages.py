"""Search is complete: all that was appended before is found once, in order."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from clew.backends.contract import Backend
from clew.errors import InvalidError, InvalidQueryError, SessionNotFoundError
from clew.model import Retention, utc
from clew.model.search import SearchPage
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import START, Conformance, Ticking, say, user
from clew.testing.backend.search import positions
from clew.testing.rows import each_row


class SearchPageConformance(Conformance):
    """What is there is found; what is gone is not; filters, order and pages."""

    # -- completeness

    def test_all_that_was_appended_before_is_found(self, store: Store, s: Session) -> None:
        """Whether there was a search in between or not."""
        for number in range(12):
            say(s, f"word n{number}")
            if number % 3 == 0:
                assert positions(store.search("word"))[0] == number

        assert positions(store.search("word")) == list(range(11, -1, -1))

    def test_what_was_written_before_a_move_is_found(self, store: Store, s: Session) -> None:
        """The head may be where it was at the last search: there is more behind it now."""
        say(s, "word", "word")
        head = s.head
        assert positions(store.search("word")) == [1, 0]
        say(s, "word")
        s.rewind(1)
        assert s.head == head

        assert [(hit.position, hit.on_path) for hit in store.search("word")] == [
            (2, False), (1, True), (0, True)
        ]  # fmt: skip

    def test_what_was_appended_without_waiting_is_found_once_it_is_there(
        self, store: Store, s: Session
    ) -> None:
        """A flush is enough."""
        s.append_nowait(user("word"))
        store.flush()

        assert positions(store.search("word")) == [0]

    def test_many_at_the_same_moment_are_all_found(self, store: Store, s: Session) -> None:
        """A batch has one time; pages go on where they ended."""
        s.append(*(user(f"word n{number}") for number in range(1500)))

        assert positions(store.search("word", limit=1000))[:3] == [1499, 1498, 1497]
        assert _all(lambda cursor: store.search("word", limit=400, cursor=cursor)) == list(
            range(1499, -1, -1)
        )

    def test_searching_writes_nothing_that_anybody_sees(self, store: Store, s: Session) -> None:
        """No session changes by being found."""
        say(s, "word")
        before = s.info, store.stats().entries, s.tree()

        store.search("word")

        assert (s.info, store.stats().entries, s.tree()) == before

    def test_a_search_leaves_nothing_to_catch_up_with(
        self, backend: Backend, store: Store, s: Session
    ) -> None:
        """What one search has indexed the next one need not; a backend without an index never has any."""
        for number in range(2):
            say(s, f"word n{number}")
            store.search("word")
            with backend.read() as reader:
                assert reader.unsearched_trees() == []

    # -- who can show it

    def test_a_message_that_several_share_is_found_once(self, store: Store, s: Session) -> None:
        """In the session that wrote it; asked for in a fork, in the fork."""
        say(s, "word one", "word two")
        fork = s.fork("fork", at=0)
        say(fork, "word three")

        assert [(hit.session, hit.position) for hit in store.search("word")] == [
            ("fork", 1), ("s", 1), ("s", 0)
        ]  # fmt: skip
        assert [(hit.session, hit.position) for hit in store.search("word", session="fork")] == [
            ("fork", 1), ("fork", 0)
        ]  # fmt: skip
        assert [(hit.session, hit.position) for hit in store.search("word", session="s")] == [
            ("s", 1),
            ("s", 0),
        ]

    def test_what_was_rewound_past_is_found_and_says_so(self, store: Store, s: Session) -> None:
        """Unless another session has it on its path."""
        say(s, "word one", "word two")
        s.fork("fork")
        say(s, "word three")
        s.rewind(0)

        assert [(hit.session, hit.position, hit.on_path) for hit in store.search("word")] == [
            ("s", 2, False), ("fork", 1, True), ("s", 0, True)
        ]  # fmt: skip
        first = store.search("word")[0]
        s.rewind(first.entry_id)
        assert store.search("word")[0].on_path

    def test_the_trash_is_not_searched(self, store: Store, s: Session) -> None:
        """What a fork still shows is found there; what comes back from the trash is found again."""
        say(s, "word one")
        s.fork("fork")
        say(s, "word two")
        store.delete("s")

        assert [(hit.session, hit.position) for hit in store.search("word")] == [("fork", 0)]
        store.restore_deleted("s")
        assert [(hit.session, hit.position) for hit in store.search("word")] == [("s", 1), ("s", 0)]

    def test_what_was_purged_is_not_found(self, store: Store, s: Session) -> None:
        """Found before or not; what a fork shares with it stays."""
        say(s, "word shared")
        s.fork("fork")
        say(s, "word mine")
        assert len(store.search("word")) == 2
        say(s, "word mine")

        store.delete("s", purge=True)

        assert [(hit.session, hit.position) for hit in store.search("word")] == [("fork", 0)]
        say(store.get("fork"), "word new")
        assert [(hit.session, hit.position) for hit in store.search("word")] == [("fork", 1), ("fork", 0)]

    def test_what_a_rule_removed_is_not_found(self, store: Store, s: Session) -> None:
        """The others still are."""
        say(s, *(f"word n{number}" for number in range(6)))
        assert len(store.search("word")) == 6
        store.set_retention(Retention(max_messages=2))
        store.sweep()

        assert positions(store.search("word")) == [5, 4]
        assert positions(store.search("n1")) == []

    # -- filters

    def test_sessions_can_be_chosen(self, store: Store) -> None:
        """By id or alias, workspace, tags, and by several of these."""
        for id, workspace, tags in (("a", "/w/1", ["x"]), ("b", "/w/2", ["x", "y"]), ("c", "/w/1", [])):
            say(store.create(id, workspace=workspace, tags=tags), "word")
        store.get("a").add_alias("other-name")

        def found(**filters: Any) -> list[str]:
            return [hit.session for hit in store.search("word", **filters)]

        assert found() == ["c", "b", "a"]
        assert found(session="b") == ["b"]
        assert found(session="other-name") == ["a"]
        assert found(workspace="/w/1") == ["c", "a"]
        assert found(workspace="/w/3") == []
        assert found(tag="x") == ["b", "a"]
        assert found(tag=["x", "y"]) == ["b"]
        assert found(tag="x", workspace="/w/1") == ["a"]
        assert found(session="c", tag="x") == []

    def test_sessions_can_be_chosen_by_project_agent_and_model(self, store: Store) -> None:
        """Exactly: a project is the last part of the path, wherever it lies."""
        for id, workspace, agent, model in (
            ("a", "/w/shop", "codex", "m"),
            ("b", "/v/shop", "codex", "m-2"),
            ("c", "/w/shopping", "pi", "m"),
            ("d", None, "pi", None),
        ):
            session = store.create(id, workspace=workspace, model=model, metadata={"agent": agent})
            say(session, "word")

        def found(**filters: Any) -> list[str]:
            return [hit.session for hit in store.search("word", **filters)]

        assert found(project="shop") == ["b", "a"]
        assert found(project="shop", workspace="/v/shop") == ["b"]
        assert found(project="w") == []
        assert found(agent="pi") == ["d", "c"]
        assert found(model="m") == ["c", "a"]
        assert found(project="shop", agent="codex", model="m", where={"agent": "codex"}) == ["a"]
        assert found(session="c", project="shop") == []

    def test_only_sessions_that_are_chosen_show_what_several_share(self, store: Store, s: Session) -> None:
        """A fork with the tag shows what its base, without it, has written."""
        say(s, "word")
        s.fork("fork").update(tags=["x"])
        say(s, "word")

        assert [(hit.session, hit.position) for hit in store.search("word", tag="x")] == [("fork", 0)]

    def test_times_can_be_bounded(self, store: Store, s: Session, clock: Ticking) -> None:
        """`since` is included, `until` is not, to the microsecond."""
        clock.step = 0
        times = [START + 1000 * number for number in range(5)]
        for now in times:
            clock.now = now
            say(s, "word")

        def found(**bounds: Any) -> list[int]:
            return positions(store.search("word", **bounds))

        assert found(since=utc(times[2])) == [4, 3, 2]
        assert found(since=utc(times[2]) + timedelta(microseconds=1)) == [4, 3]
        assert found(until=utc(times[2])) == [1, 0]
        assert found(until=utc(times[2]) + timedelta(microseconds=1)) == [2, 1, 0]
        assert found(since=utc(times[1]), until=utc(times[3])) == [2, 1]
        assert found(since=utc(times[3]), until=utc(times[1])) == []

    @each_row(
        "wrong",
        [
            {"role": "human"}, {"order": "oldest"}, {"limit": 0}, {"limit": True}, {"limit": 1001},
            {"tag": ""}, {"cursor": "nonsense"}, {"cursor": "é"}, {"since": "yesterday"}, {"session": ""},
        ],
    )  # fmt: skip
    def test_filters_that_are_none_are_refused(self, store: Store, wrong: dict[str, Any]) -> None:
        """With the value that was given."""
        with pytest.raises(InvalidError):
            store.search("word", **wrong)

    def test_a_session_that_is_not_there_is_an_error(self, store: Store) -> None:
        """It would be found in nothing: a misspelt id must not look like that."""
        with pytest.raises(SessionNotFoundError, match="nobody"):
            store.search("word", session="nobody")

    # -- order and pages

    def test_the_newest_come_first_whoever_said_it(self, store: Store) -> None:
        """Across sessions, in the order of time."""
        for number in range(10):
            say(store.session("ab"[number % 2]), f"word {number}")

        hits = store.search("word").hits

        assert [hit.snippet for hit in hits] == [f"word {number}" for number in range(9, -1, -1)]
        assert [hit.at for hit in hits] == sorted((hit.at for hit in hits), reverse=True)

    def test_the_order_is_that_of_time_not_that_of_searching(self, store: Store, clock: Ticking) -> None:
        """What was said earlier comes behind, also if it was stored later, or when a clock was set back."""
        say(store.session("new"), "word")
        assert len(store.search("word")) == 1
        clock.now -= 3_600_000_000
        say(store.session("old"), "word", "word")

        assert [(hit.session, hit.position) for hit in store.search("word")] == [
            ("new", 0), ("old", 1), ("old", 0)
        ]  # fmt: skip

    @pytest.mark.parametrize("order", ["newest", "best"])
    def test_pages_give_each_hit_once(self, store: Store, order: Any) -> None:
        """And the last one says that it is the last."""
        for number in range(25):
            say(store.session("abc"[number % 3]), "word " * (number % 4 + 1) + "other " * (number % 5))
        whole = [hit.entry_id for hit in store.search("word", order=order, limit=100)]

        for limit in (1, 7, 24, 25, 26):
            found: list[str] = []
            cursor: str | None = None
            while True:
                page = store.search("word", order=order, limit=limit, cursor=cursor)
                found += [hit.entry_id for hit in page]
                cursor = page.cursor
                if cursor is None:
                    break
                assert len(page) == limit
            assert found == whole

    @pytest.mark.parametrize("order", ["newest", "best"])
    def test_hits_that_are_alike_in_everything_are_on_one_page_each(
        self, store: Store, clock: Ticking, order: Any
    ) -> None:
        """The same words at the same time and position, in sessions that have nothing else in common."""
        clock.step = 0
        for number in range(7):
            say(store.session(f"s{number}"), "word")
        whole = [hit.session for hit in store.search("word", order=order)]
        assert sorted(whole) == [f"s{number}" for number in range(7)]

        for limit in (1, 2, 3):
            found: list[str] = []
            cursor: str | None = None
            while len(found) < 7:
                page = store.search("word", order=order, limit=limit, cursor=cursor)
                found += [hit.session for hit in page]
                cursor = page.cursor
                if cursor is None:
                    break
            assert found == whole

    def test_what_is_appended_between_pages_shifts_nothing(self, store: Store, s: Session) -> None:
        """The next page goes on where the last one ended."""
        say(s, *(f"word {number}" for number in range(6)))
        first = store.search("word", limit=2)
        say(s, "word new")

        assert positions(store.search("word", limit=2, cursor=first.cursor)) == [3, 2]

    def test_a_page_goes_on_when_its_last_hit_was_purged(self, store: Store, s: Session) -> None:
        """Nothing of the others is lost."""
        say(s, "word", "word")
        say(store.session("gone"), "word")
        cursor = store.search("word", limit=1).cursor
        store.delete("gone", purge=True)

        assert positions(store.search("word", cursor=cursor)) == [1, 0]

    def test_the_best_come_first_when_asked_for(self, store: Store, s: Session) -> None:
        """Many hits in few words; of equals the newest."""
        say(s, "word", "word and " + "much else " * 40, "word word", "word")

        assert positions(store.search("word", order="best")) == [2, 3, 0, 1]

    def test_a_cursor_belongs_to_its_order(self, store: Store, s: Session) -> None:
        """It means nothing in the other one."""
        say(s, "word", "word")
        cursor = store.search("word", limit=1).cursor

        with pytest.raises(InvalidQueryError, match="another order"):
            store.search("word", order="best", cursor=cursor)


def _all(page_at: Callable[[str | None], SearchPage]) -> list[int]:
    found: list[int] = []
    cursor: str | None = None
    while True:
        page = page_at(cursor)
        found += positions(page)
        cursor = page.cursor
        if cursor is None:
            return found
