"""Who is human: what a program said in the name of the user is no turn of his, wherever turns are counted."""

from __future__ import annotations

from clew.model import Json, Retention
from clew.model.source import SourceEntry, SourceSession
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Ticking, assistant, say, texts, user
from clew.testing.backend.search import positions
from clew.testing.chain import check_store
from tests.behaviour.values import DAY, ONE_DAY
from tests.behaviour.views import done
from tests.faults.history.checker import log_of
from tests.support.rows import named

RESULT: dict[str, Json] = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "found"}],
}


def injected(text: str) -> tuple[dict[str, Json], bool]:
    return user(text), False


def loaded(
    store: Store, *messages: dict[str, Json] | tuple[dict[str, Json], bool], id: str = "x:1"
) -> Session:
    """A session of another program; a pair is a message that no person said."""
    entries = []
    for number, given in enumerate(messages):
        message, human = given if isinstance(given, tuple) else (given, None)
        parent = f"e{number - 1}" if number else None
        entries.append(SourceEntry(uid=f"e{number}", parent=parent, message=message, human=human))
    store.load(SourceSession(id=id, entries=entries))
    return store.get(id)


class TestSpeakers:
    """A message that an importer found to be no person's is told apart for good."""

    def test_what_no_person_said_is_marked_and_stays_as_it_was(self, store: Store) -> None:
        """The message comes back as it came; in a fork too it is known as no person's."""
        s = loaded(store, injected("a hook ran"), user("fix the door"), assistant("done"))
        assert [entry.injected for entry in s.entries()] == [True, False, False]
        assert s.messages() == [user("a hook ran"), user("fix the door"), assistant("done")]
        assert [entry.injected for entry in s.fork("f").entries()] == [True, False, False]

    def test_only_what_looks_like_a_users_message_is_marked(self, store: Store) -> None:
        """Results of tools and what the assistant says are no person's anyway."""
        s = loaded(store, (RESULT, False), (assistant("a"), False), injected("b"))
        assert [entry.injected for entry in s.entries()] == [False, False, True]

    def test_it_is_no_turn_and_gives_no_title_and_no_preview(self, store: Store) -> None:
        """These are of what people say, also after a rewind."""
        s = loaded(
            store, injected("a hook ran"), user("fix the door"), assistant("done"), injected("time is up")
        )
        assert (s.info.user_turns, s.info.title, s.info.preview) == (1, "fix the door", "fix the door")
        s.rewind(0)
        assert (s.info.user_turns, s.info.preview) == (0, "")
        say(s, "mine")
        assert (s.info.user_turns, s.info.preview) == (1, "mine")

    def test_title_and_preview_are_the_words_of_the_person_in_a_prompt(self, store: Store) -> None:
        """Not what an agent put around them, whether they were loaded, appended or rewound to."""
        around = "<environment_details>\na.py\n</environment_details>"
        task, remark = user(f"<task>\nfix it\n</task>\n{around}"), user(f"{around}\nnot so")
        s = loaded(store, task, assistant("done"))
        assert (s.info.title, s.info.preview) == ("fix it", "fix it")
        s.append(remark)
        assert s.info.preview == "not so"
        s.rewind(1)
        assert s.info.preview == "fix it"
        assert s.fork("f").info.title == "fix it"
        other = store.create("y")
        other.append(task)
        assert (other.info.title, other.info.preview) == ("fix it", "fix it")
        assert other.messages() == [task]

    def test_what_is_appended_is_told_by_its_shape(self, store: Store) -> None:
        """Whoever appends is believed: only an importer knows better."""
        s = loaded(store, injected("a hook ran"))
        s.append(user("a hook ran"))
        assert ([entry.injected for entry in s.entries()], s.info.user_turns) == ([True, False], 1)

    def test_hashes_and_counters_are_right(self, store: Store) -> None:
        """Who spoke is under the hash, as what was said is."""
        s = loaded(store, injected("a"), user("b"), injected("c"), (RESULT, False))
        assert store.verify(full=True).problems == ()
        check_store(store)
        assert [record.parent for record in log_of(s, str)] == [None, *[e.id for e in s.entries()][:-1]]
        plain = loaded(store, user("a"), user("b"), user("c"), RESULT, id="x:2")
        assert s.info.hash != plain.info.hash

    # -- search

    def test_role_user_means_that_a_human_wrote_it(self, store: Store) -> None:
        """What was said in his name is found as `other`, and without a role."""
        loaded(store, injected("the door"), user("the door"), assistant("the door"), injected("the door"))
        roles = {0: "other", 1: "user", 2: "assistant", 3: "other"}
        expected: dict[str | None, list[int]] = {
            "user": [1],
            "other": [3, 0],
            "assistant": [2],
            None: [3, 2, 1, 0],
        }
        for order in ("newest", "best"):
            for role, found in expected.items():
                with named(f"{order} {role}"):
                    page = store.search("door", role=role, order=order)  # type: ignore[arg-type]
                    assert sorted(positions(page), reverse=True) == found
                    assert all(hit.role == roles[hit.position] for hit in page)

    def test_what_comes_with_a_later_load_is_told_apart_too(self, store: Store) -> None:
        """When part of the session is in the index already."""
        loaded(store, injected("door"), user("door"))
        assert positions(store.search("door", role="user")) == [1]
        loaded(store, injected("door"), user("door"), injected("door"))
        assert positions(store.search("door", role="user")) == [1]
        assert sorted(positions(store.search("door", role="other"))) == [0, 2]

    # -- sessions in which nobody spoke

    def test_a_session_with_nothing_but_injected_messages_is_silent(
        self, store: Store, clock: Ticking
    ) -> None:
        """As is that of a subagent; but one in which a person spoke on a branch left behind is not."""
        loaded(store, injected("look around"), assistant("done"), id="x:agent")
        loaded(store, injected("a hook ran"), user("hi"), id="x:person")
        store.get("x:person").clear()
        store.set_retention(Retention(silent_after=ONE_DAY))
        clock.now += 2 * DAY
        assert done(store.sweep()) == [("trash", "x:agent")]

    # -- what the model gets

    def test_the_model_gets_it_by_its_shape(self, store: Store) -> None:
        """For it, it is what the user said."""
        s = loaded(store, injected("look around"), assistant("done"), user("and now?"))
        assert texts(s.context()) == ["look around", "done", "and now?"]

    def test_a_cut_context_of_a_subagent_begins_with_its_orders(self, store: Store) -> None:
        """No person asked: what was asked in his name is what the window answers."""
        answers = [assistant(str(number)) for number in range(10)]
        s = loaded(store, injected("look around"), *answers)
        assert texts(s.context(max_messages=3)) == ["look around", "8", "9"]

    def test_a_cut_context_begins_with_what_a_person_asked(self, store: Store) -> None:
        """Not with what a program put in after it."""
        answers = [assistant(str(number)) for number in range(10)]
        s = loaded(store, user("fix it"), injected("a hook ran"), *answers)
        assert texts(s.context(max_messages=3)) == ["fix it", "8", "9"]
