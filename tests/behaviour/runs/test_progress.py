"""Checkpoints of runs: what they say, and where none can be set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import pytest
from blake3 import blake3

from clew.backends.contract import Backend
from clew.core.messages.codec import encode_json
from clew.errors import InvalidError, OpenCallsError
from clew.model import Json, utc
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Ticking, assistant, calling, result, say, user
from tests.behaviour.rows import each_session
from tests.support.rows import each_row
from tests.support.storage import Counting


def _item(kind: str, id: str, **more: Json) -> dict[str, Json]:
    return {"type": kind, "call_id": id, **more}


def _parts(role: str, *parts: Json) -> dict[str, Json]:
    return {"role": role, "parts": list(parts)}


def _used(*ids: str) -> dict[str, Json]:
    blocks = [{"type": "tool_use", "id": id, "name": "run", "input": {}} for id in ids]
    return {"role": "assistant", "content": [{"type": "text", "text": "so"}, *blocks]}


def _gave(*ids: str) -> dict[str, Json]:
    return {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": id, "content": "x"} for id in ids],
    }


OPEN: Final[dict[str, tuple[list[dict[str, Json]], dict[str, Json]]]] = {
    "chat": ([calling("a", "b"), result("a")], result("b")),
    "chat, the other one": ([calling("b", "a"), result("a")], result("b")),
    "chat, after a complete round": (
        [calling("z"), result("z"), assistant("so"), calling("a", "b"), result("a")],
        result("b"),
    ),
    "responses": (
        [
            _item("function_call", "a", name="run", arguments="{}"),
            _item("function_call", "b", name="run", arguments="{}"),
            _item("function_call_output", "a", output="x"),
        ],
        _item("function_call_output", "b", output="y"),
    ),
    "anthropic": ([_used("a", "b"), _gave("a")], _gave("b")),
    "gemini": (
        [
            _parts(
                "model",
                {"functionCall": {"name": "a", "args": {}}},
                {"functionCall": {"name": "b", "args": {}}},
            ),
            _parts("user", {"functionResponse": {"name": "a", "response": {}}}),
        ],
        _parts("user", {"functionResponse": {"name": "b", "response": {}}}),
    ),
    "gemini, one tool called twice": (
        [
            _parts("model", *[{"functionCall": {"name": "b", "args": {"n": n}}} for n in (1, 2)]),
            _parts("user", {"functionResponse": {"name": "b", "response": {}}}),
        ],
        _parts("user", {"functionResponse": {"name": "b", "response": {}}}),
    ),
}
"""Two calls at once, one of them answered: `b` is waited for. And the answer."""

HISTORIES: Final[dict[str, Callable[[int], list[dict[str, Json]]]]] = {
    "a monologue": lambda n: [user("a"), *[assistant("so")] * n],
    "a conversation": lambda n: [user("a"), assistant("b")] * n,
    "one turn of many calls": lambda n: [
        user("a"),
        *(m for number in range(n) for m in (calling(f"{number}"), result(f"{number}"))),
    ],
    "one turn of many calls and words": lambda n: [
        user("a"),
        *(m for number in range(n) for m in (assistant("so"), calling(f"{number}"), result(f"{number}"))),
    ],
}


class TestProgress:
    """A checkpoint of a run: where it stood, how far it had come; no copy of anything."""

    # -- setting one

    def test_a_checkpoint_of_a_run_says_how_far_it_had_come(self, store: Store, clock: Ticking) -> None:
        """Position, iteration, task, epoch, hashes and state; it comes back as it was set."""
        s = store.create("s", model="m-1")
        prompt = {"text": ["be brief"]}
        with s.run(task="sync") as run:
            say(run, "a", "b")
            made = run.checkpoint(
                state={"n": 10**30, "\0": [1.5]}, iteration=3, system_prompt=prompt, tools_hash="t-1"
            )
            assert made.created_at == utc(clock.now)
        progress = made.run

        assert (made.name, made.session, made.head) == ("run-1-1", "s", s.head)
        assert made.state == {"n": 10**30, "\0": [1.5]}
        assert progress is not None
        assert (progress.epoch, progress.number, progress.task, progress.iteration) == (1, 1, "sync", 3)
        assert (progress.model, progress.tools_hash) == ("m-1", "t-1")
        assert progress.prompt_hash == blake3(encode_json(prompt, what="prompt")).hexdigest()
        assert s.get_checkpoint("run-1-1") == made
        assert s.checkpoints() == [made]

    def test_a_checkpoint_of_a_run_needs_nothing(self, s: Session) -> None:
        """All of it is optional, a message too; one that no run set has no progress."""
        with s.run() as run:
            made = run.checkpoint()
            assert made.run is not None
            assert (made.run.iteration, made.run.task, made.run.model) == (None, None, None)
            assert (made.run.prompt_hash, made.run.tools_hash, made.state) == (None, None, None)
        assert s.checkpoint("plain").run is None
        assert s.resume().messages == []

    def test_checkpoints_of_runs_are_told_apart(self, s: Session) -> None:
        """Names and numbers are those of the session, so no run takes the place of another's."""
        for _ in range(2):
            with s.run() as run:
                say(run, "a")
                run.checkpoint()
                run.checkpoint()
        names = [(found.name, found.run.number if found.run else 0) for found in s.checkpoints()]

        assert names == [("run-1-1", 1), ("run-1-2", 2), ("run-2-3", 3), ("run-2-4", 4)]

    def test_a_named_checkpoint_of_a_run_moves(self, s: Session) -> None:
        """As any other: one of a name."""
        with s.run() as run:
            for number in range(3):
                say(run, f"{number}")
                run.checkpoint("here", iteration=number)
        (found,) = s.checkpoints()

        assert (found.name, found.position) == ("here", 2)
        assert s.resume().iteration == 2

    def test_a_checkpoint_of_a_run_knows_what_was_used(self, s: Session) -> None:
        """The tokens of all calls of the session up to it."""
        s.add_usage(model="none", input_tokens=100, output_tokens=10)
        with s.run() as run:
            run.add_usage(model="none", input_tokens=20, output_tokens=2)
            first = run.checkpoint().run
            run.add_usage(model="none", input_tokens=3, output_tokens=1)
            second = run.checkpoint().run

        assert first is not None
        assert second is not None
        assert (first.input_tokens, first.output_tokens) == (120, 12)
        assert (second.input_tokens, second.output_tokens) == (123, 13)

    @each_row(
        "given",
        [
            {"iteration": -1}, {"iteration": True}, {"iteration": 1.5}, {"iteration": "1"},
            {"iteration": 2**70}, {"name": ""}, {"name": "a\0"}, {"name": 5}, {"state": float("nan")},
            {"state": {1}}, {"tools_hash": ""}, {"tools_hash": 5}, {"model": ""}, {"system_prompt": {1}},
        ],
        ids=repr,
    )  # fmt: skip
    def test_a_bad_checkpoint_of_a_run_is_refused(self, store: Store, given: dict[str, Any]) -> None:
        """I-25: nothing is set, and the run goes on."""
        s = store.session(repr(given))
        with s.run() as run:
            with pytest.raises(InvalidError):
                run.checkpoint(**given)
            assert run.checkpoints() == []
            run.checkpoint(iteration=0)
        assert s.resume().iteration == 0

    @pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES.keys())
    def test_a_checkpoint_costs_the_same_at_any_length(
        self, backend: Backend, history: Callable[[int], list[dict[str, Json]]]
    ) -> None:
        """O(1): as many questions to storage, and as many rows, for 400 rounds as for 20."""
        counting = Counting(backend)
        costs: list[int] = []
        with Store(cast("Backend", counting)) as store:
            for rounds in (20, 400):
                with store.create(f"{rounds}").run() as run:
                    run.append(*history(rounds))
                    before = counting.count
                    run.checkpoint(iteration=1)
                    costs.append(counting.count - before)

        assert costs[0]
        assert costs[0] == costs[1]

    # -- open calls

    @each_session(("messages", "answer"), OPEN.values(), ids=OPEN.keys())
    def test_no_checkpoint_while_a_call_waits_for_its_result(
        self, s: Session, messages: list[dict[str, Json]], answer: dict[str, Json]
    ) -> None:
        """P15: OpenCallsError names the call; when it is answered, or by force, it is set."""
        with s.run() as run:
            run.append(user("go"))
            run.checkpoint(iteration=0)
            run.append(*messages)
            with pytest.raises(OpenCallsError) as caught:
                run.checkpoint(iteration=1)
            assert (caught.value.session, caught.value.calls) == (s.id, ("b",))
            assert s.resume().iteration == 0
            forced = run.checkpoint(iteration=2, force=True)
            assert forced.head == s.head
            run.append(answer)
            run.checkpoint(iteration=3)
        assert s.resume().iteration == 3

    def test_all_calls_that_wait_are_named(self, s: Session) -> None:
        """In the order in which they were made."""
        with s.run() as run:
            run.append(user("go"), calling("a", "b", "c"))
            with pytest.raises(OpenCallsError) as caught:
                run.checkpoint()
            assert caught.value.calls == ("a", "b", "c")
            run.append(result("b"))
            with pytest.raises(OpenCallsError) as caught:
                run.checkpoint()
            assert caught.value.calls == ("a", "c")

    @pytest.mark.parametrize("before", [[calling("b")], [calling("a", "b"), result("a")]])
    def test_a_call_that_the_user_spoke_over_waits_too(
        self, s: Session, before: list[dict[str, Json]]
    ) -> None:
        """P15: no provider accepts a call without its result, whatever was said after it."""
        with s.run() as run:
            run.append(user("go"), *before, user("stop"))
            with pytest.raises(OpenCallsError) as caught:
                run.checkpoint()
            assert caught.value.calls == ("b",)

    def test_a_plain_checkpoint_asks_for_nothing(self, s: Session) -> None:
        """It names a point to go back to; that is any point."""
        s.append(user("go"), calling("a"))
        assert s.checkpoint("here").head == s.head
