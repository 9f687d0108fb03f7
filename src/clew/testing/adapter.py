"""What every adapter to a framework promises, as tests. Subclass it beside the tests of your adapter:

    from clew.testing.adapter import AdapterConformance

    class TestMine(AdapterConformance):
        @pytest.fixture
        def url(self, tmp_path): ...                  # the address of an empty store
        def make(self, store): ...                    # the adapter
        def messages(self): ...                       # what is said, as the framework has it; see there
        async def write(self, adapter, name, messages): ...
        async def read(self, adapter, name): ...

The class must be importable by its name: some tests start processes that use it.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

import clew
from clew.core.messages.dialects import calls_of, results_of, role_of, text_of

TURNS = 8
"""How often each of several writers writes."""


class AdapterConformance:
    """A subclass says how its framework writes and reads a conversation."""

    roles: ClassVar[Sequence[str]] = ("user", "assistant", "tool", "assistant")
    """Of `messages()`."""
    tool: ClassVar[str] = "look_up"
    """The name of the tool that the second message calls, and whose result the third one is."""
    appends: ClassVar[bool] = True
    """Two writers that know nothing of each other may both write to a conversation. False: the framework
    lets one of them lose, and tells it so."""

    takes_surrogates: ClassVar[bool] = True
    """False: the framework itself fails at half a surrogate pair, before the adapter hears of it."""

    def make(self, store: clew.Store) -> Any:
        """The adapter on a store."""
        raise NotImplementedError

    def messages(self) -> list[Any]:
        """Four messages, in the framework's own types: a human asks with the words "grey heron"; the model
        calls `tool`; the tool answers with the word "kingfisher"; the model says "naïve 鷺 \\u0000"."""
        raise NotImplementedError

    def numbered(self, number: str) -> list[Any]:
        """Two or more messages that are written at once, all with this text in them."""
        raise NotImplementedError

    async def write(self, adapter: Any, name: str, messages: list[Any]) -> None:
        """Add messages to the conversation of this name, in one call of the framework's protocol."""
        raise NotImplementedError

    async def read(self, adapter: Any, name: str) -> list[Any]:
        """All messages of the conversation; [] if there is none."""
        raise NotImplementedError

    def session_id(self, name: str) -> str:
        """The id of the session in which the conversation of this name is kept."""
        return name

    def number_of(self, message: Any) -> str:
        """The text that `numbered` put into a message."""
        raise NotImplementedError

    # -- what is promised

    @pytest.fixture
    def store(self, url: str) -> Iterator[clew.Store]:
        with clew.open(url) as store:
            yield store

    def test_messages_come_back_equal_types_included(self, store: clew.Store) -> None:
        adapter = self.make(store)
        run(self.write(adapter, "talk", self.messages()))

        found = run(self.read(adapter, "talk"))

        assert found == self.messages()
        assert [type(message) for message in found] == [type(message) for message in self.messages()]

    def test_a_new_adapter_on_the_same_store_goes_on(self, store: clew.Store) -> None:
        first, rest = self.messages()[:1], self.messages()[1:]
        run(self.write(self.make(store), "talk", first))
        run(self.write(self.make(store), "talk", rest))

        assert run(self.read(self.make(store), "talk")) == self.messages()

    def test_what_is_read_belongs_to_the_reader(self, store: clew.Store) -> None:
        adapter = self.make(store)
        run(self.write(adapter, "talk", self.messages()))
        run(self.read(adapter, "talk")).clear()

        assert run(self.read(adapter, "talk")) == self.messages()

    def test_conversations_do_not_mix(self, store: clew.Store) -> None:
        adapter = self.make(store)
        run(self.write(adapter, "one", self.numbered("first")))
        run(self.write(adapter, "two", self.numbered("second")))

        assert run(self.read(adapter, "one")) == self.numbered("first")
        assert run(self.read(adapter, "two")) == self.numbered("second")

    def test_an_unknown_conversation_is_empty_and_stays_unknown(self, store: clew.Store) -> None:
        assert run(self.read(self.make(store), "nobody")) == []
        assert store.find(self.session_id("nobody")) is None

    def test_roles_and_tool_calls_are_known_to_clew(self, store: clew.Store) -> None:
        run(self.write(self.make(store), "talk", self.messages()))

        kept = store.get(self.session_id("talk")).messages()

        assert [role_of(message) for message in kept] == list(self.roles)
        assert "grey heron" in text_of(kept[0])
        assert "naïve 鷺" in text_of(kept[3])
        (call,) = calls_of(kept[1])
        (result,) = results_of(kept[2])
        assert call.name == self.tool
        assert (result.id or result.name) in (call.id, call.name)

    def test_the_session_is_listed_with_its_framework_and_what_was_asked(self, store: clew.Store) -> None:
        run(self.write(self.make(store), "talk", self.messages()))

        (listed,) = [info for info in store.list() if info.id == self.session_id("talk")]

        assert isinstance(listed.metadata.get("framework"), str)
        assert "grey heron" in (listed.title or listed.preview)
        assert listed.messages == len(self.messages())

    def test_what_people_said_and_tools_answered_is_found(self, store: clew.Store) -> None:
        run(self.write(self.make(store), "talk", self.messages()))

        (said,) = store.search('"grey heron"', role="user")
        (answered,) = store.search("kingfisher", tools=True)

        assert said.session == answered.session == self.session_id("talk")
        assert answered.in_tool

    def test_the_export_reads_as_a_conversation(self, store: clew.Store) -> None:
        run(self.write(self.make(store), "talk", self.messages()))

        text = store.export(self.session_id("talk"), "markdown").replace("\\", "")

        for part in ("grey heron", self.tool, "kingfisher", "naïve 鷺"):
            assert part in text

    @pytest.mark.parametrize("metadata", [{}, {"framework": "some-other"}], ids=["nobody's", "another's"])
    def test_a_session_that_is_not_the_frameworks_is_neither_read_nor_written(
        self, store: clew.Store, metadata: dict[str, Any]
    ) -> None:
        taken = store.session(self.session_id("talk"), title="mine", metadata=metadata)
        taken.append({"role": "user", "content": "mine"})
        before = taken.info, taken.messages(), taken.documents(), taken.vars()
        adapter = self.make(store)

        for attempt in (
            lambda: self.read(adapter, "talk"),
            lambda: self.write(adapter, "talk", self.messages()),
        ):
            with pytest.raises(Exception, match=r"session '.*talk.*'") as refused:
                run(attempt())
            assert isinstance(refused.value, clew.errors.SessionTakenError) or isinstance(
                refused.value.__cause__, clew.errors.SessionTakenError
            )

        assert (taken.info, taken.messages(), taken.documents(), taken.vars()) == before

    def test_an_empty_session_that_was_created_beforehand_is_used(self, store: clew.Store) -> None:
        made = store.session(
            self.session_id("talk"), title="Herons", tags=["birds"], metadata={"customer": 42}
        )
        adapter = self.make(store)

        assert run(self.read(adapter, "talk")) == []
        run(self.write(adapter, "talk", self.messages()))

        assert run(self.read(adapter, "talk")) == self.messages()
        info = made.info
        assert (info.title, info.tags, info.metadata["customer"]) == ("Herons", ("birds",), 42)
        assert isinstance(info.metadata["framework"], str)

    def test_half_a_surrogate_pair_is_kept_or_replaced_and_flagged_and_the_talk_goes_on(
        self, store: clew.Store
    ) -> None:
        """As a program leaves it that cuts a text in the middle of an emoji."""
        adapter = self.make(store)
        if not self.takes_surrogates:
            with pytest.raises(UnicodeEncodeError):
                run(self.write(adapter, "talk", self.numbered("half \ud83d")))
            return
        run(self.write(adapter, "talk", self.numbered("half \ud83d")))
        run(self.write(adapter, "talk", self.numbered("after")))

        found = run(self.read(adapter, "talk"))

        count = len(self.numbered("after"))
        assert found[count:] == self.numbered("after")
        if found[:count] != self.numbered("half \ud83d"):
            assert found[:count] == self.numbered("half \ufffd")
            kept = list(store.get(self.session_id("talk")).entries())
            assert [entry.replaced for entry in kept] == [True] * count + [False] * count

    def test_nothing_is_kept_of_a_batch_while_somebody_else_has_the_lease(self, store: clew.Store) -> None:
        adapter = self.make(store)
        run(self.write(adapter, "talk", self.numbered("before")))
        with (
            store.get(self.session_id("talk")).run("mine"),
            pytest.raises(Exception, match="lease") as caught,
        ):
            run(self.write(adapter, "talk", self.numbered("meanwhile")))

        assert isinstance(caught.value, clew.LeaseHeldError) or isinstance(
            caught.value.__cause__, clew.LeaseHeldError
        )
        assert run(self.read(adapter, "talk")) == self.numbered("before")

    def test_a_cancelled_write_leaves_whole_batches(self, store: clew.Store) -> None:
        adapter = self.make(store)
        run(self.write(adapter, "talk", self.numbered("begin")))

        async def cancel_some() -> None:
            for turn in range(2 * TURNS):
                writing = asyncio.ensure_future(self.write(adapter, "talk", self.numbered(f"turn-{turn}")))
                # At another moment each time: before it was begun, in the middle, at the end.
                await asyncio.wait([writing], timeout=turn * 0.0003)
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)

        run(cancel_some())
        run(self.write(adapter, "talk", self.numbered("end")))

        self.check_whole_batches(run(self.read(adapter, "talk")))

    def test_it_works_from_several_threads_and_event_loops(self, store: clew.Store) -> None:
        adapter = self.make(store)
        failures: list[BaseException] = []

        def work(name: str) -> None:
            try:
                for turn in range(TURNS):
                    asyncio.run(wait_for(self.write(adapter, name, self.numbered(f"{name}-{turn}"))))
            except BaseException as error:  # noqa: BLE001 (told below)
                failures.append(error)

        threads = [threading.Thread(target=work, args=(f"talk-{number}",)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert failures == []
        for number in range(3):
            name = f"talk-{number}"
            expected = [message for turn in range(TURNS) for message in self.numbered(f"{name}-{turn}")]
            assert run(self.read(adapter, name)) == expected

    def test_two_stores_lose_nothing(self, url: str) -> None:
        if url == "memory:":
            self.check_that_memory_is_not_shared(url)
        else:
            self.check_two_writers(url, self.work_in_threads)

    def test_two_processes_lose_nothing(self, tmp_path: Path) -> None:
        """On SQLite: what differs elsewhere is below every adapter."""
        self.check_two_writers(str(tmp_path / "agents.db"), self.work_in_processes)

    def test_what_was_written_is_there_in_a_store_that_is_opened_again(self, url: str) -> None:
        if url == "memory:":
            self.check_that_memory_is_not_shared(url)
            return
        self.work_in_threads(url, [("talk", "worker-0")])
        with clew.open(url) as store:
            adapter = self.make(store)
            run(self.write(adapter, "talk", self.numbered("end")))
            found = run(self.read(adapter, "talk"))

        turns = [*(f"worker-0-{turn}" for turn in range(TURNS)), "end"]
        assert found == [message for turn in turns for message in self.numbered(turn)]

    # -- how they are looked at

    def check_whole_batches(self, found: list[Any]) -> None:
        """Each batch is there as it was written, all of it, once."""
        numbers = [self.number_of(message) for message in found]
        counted = Counter(numbers)
        expected = [message for number in dict.fromkeys(numbers) for message in self.numbered(number)]
        assert found == expected
        assert all(count == len(self.numbered(number)) for number, count in counted.items())

    def check_two_writers(self, url: str, work: Callable[[str, list[tuple[str, str]]], None]) -> None:
        with clew.open(url) as store:
            run(self.write(self.make(store), "talk", self.numbered("begin")))
        names = ["talk", "talk"] if self.appends else ["talk-0", "talk-1"]
        work(url, [(name, f"worker-{number}") for number, name in enumerate(names)])
        with clew.open(url) as store:
            adapter = self.make(store)
            found = [message for name in sorted(set(names)) for message in run(self.read(adapter, name))]
        self.check_whole_batches(found)
        numbers = {self.number_of(message) for message in found}
        assert {f"worker-{number}-{turn}" for number in (0, 1) for turn in range(TURNS)} <= numbers

    def check_that_memory_is_not_shared(self, url: str) -> None:
        with clew.open(url) as one, clew.open(url) as other:
            run(self.write(self.make(one), "talk", self.numbered("begin")))
            assert run(self.read(self.make(other), "talk")) == []

    def work(self, url: str, name: str, worker: str) -> None:
        """Write to a conversation, through a store of one's own."""
        with clew.open(url) as store:
            adapter = self.make(store)
            for turn in range(TURNS):
                run(self.write(adapter, name, self.numbered(f"{worker}-{turn}")))

    def work_in_threads(self, url: str, orders: list[tuple[str, str]]) -> None:
        with ThreadPoolExecutor(len(orders)) as pool:
            for done in [pool.submit(self.work, url, name, worker) for name, worker in orders]:
                done.result()

    def work_in_processes(self, url: str, orders: list[tuple[str, str]]) -> None:
        home = type(self)
        paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        workers = []
        for name, worker in orders:
            order = json.dumps([home.__module__, home.__qualname__, url, name, worker])
            command = [sys.executable, "-c", _WORKER, order]
            workers.append(
                subprocess.Popen(
                    command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=paths
                )
            )
        told = [worker.communicate() for worker in workers]
        assert [worker.returncode for worker in workers] == [0 for _ in workers], told


def run(work: Awaitable[Any]) -> Any:
    """Wait for one piece of work, in an event loop of its own."""
    return asyncio.run(wait_for(work))


async def wait_for(work: Awaitable[Any]) -> Any:
    return await work


_WORKER: Final = "import sys; from clew.testing.adapter import work_alone; work_alone(sys.argv[1])"


def work_alone(order: str) -> None:
    """What a process of `work_in_processes` does."""
    module, name, url, conversation, worker = json.loads(order)
    tests: AdapterConformance = getattr(import_module(module), name)()
    tests.work(url, conversation, worker)
