"""Points that a worker can go on from after a crash."""

from __future__ import annotations

import pytest

from clew.backends.contract import Backend
from clew.errors import CheckpointNotFoundError, LeaseLostError
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import assistant, said, say, texts, user
from tests.support.storage import Watched


class TestResume:
    """The newest checkpoint of a run, with the messages up to it, for whoever comes next."""

    def test_a_worker_resumes_from_the_newest_checkpoint(self, store: Store, s: Session) -> None:
        """With the messages up to it, whatever was written after it; a rewind goes on there."""
        run = s.run(task="sync")
        for number in range(3):
            say(run, f"step {number}")
            run.checkpoint(iteration=number, state={"done": number})
        say(run, "half a step")
        with s.run(steal=True) as other:
            point = other.resume()
            assert (point.iteration, point.state, point.head) == (2, {"done": 2}, point.checkpoint.head)
            assert texts(point.messages) == ["step 0", "step 1", "step 2"]
            assert point.ahead is True
            other.rewind(point.head)
            assert other.resume().ahead is False
            say(other, "step 3")
            other.checkpoint(iteration=3)
        assert said(s) == ["step 0", "step 1", "step 2", "step 3"]
        with pytest.raises(LeaseLostError):
            say(run, "too late")
        s.undo()
        assert texts(s.messages())[-1] == "half a step"

    def test_there_is_nothing_to_resume_from(self, s: Session) -> None:
        """CheckpointNotFoundError, as long as no run has set one."""
        say(s, "a")
        s.checkpoint("plain")
        s.run().complete()
        with pytest.raises(CheckpointNotFoundError) as caught:
            s.resume()
        assert caught.value.session == "s"

    def test_checkpoints_stay_after_success(self, s: Session) -> None:
        """And after the next run has started."""
        with s.run() as run:
            run.checkpoint(iteration=1)
        with s.run() as run:
            assert run.resume().iteration == 1

    def test_the_newest_is_the_one_that_was_set_last(self, s: Session) -> None:
        """Not the one that lies furthest along, nor one of another branch."""
        with s.run() as run:
            say(run, "a")
            run.checkpoint(iteration=1)
            say(run, "b")
            run.checkpoint(iteration=2)
            run.rewind(0)
            run.checkpoint(iteration=3)
            run.undo()
        point = s.resume()

        assert (point.iteration, texts(point.messages), point.ahead) == (3, ["a"], True)

    def test_what_is_resumed_is_the_whole_history(self, s: Session) -> None:
        """Compactions and truncations cut the view, not the messages."""
        with s.run() as run:
            say(run, "a", "b")
            run.compact("short")
            run.checkpoint()
        assert texts(s.resume().messages) == ["a", "b"]
        assert s.resume().ahead is False

    def test_it_says_what_has_changed_since(self, store: Store) -> None:
        """Of what is given: the system prompt (text or JSON), the tools, the model."""
        s = store.create("s", model="m-1")
        with s.run() as run:
            run.checkpoint(system_prompt="be brief", tools_hash="t-1")
        assert s.resume().changed == ()
        assert s.resume(system_prompt="be brief", tools_hash="t-1", model="m-1").changed == ()
        assert s.resume(system_prompt="be long").changed == ("system_prompt",)
        assert s.resume(system_prompt=["be brief"]).changed == ("system_prompt",)
        changed = s.resume(system_prompt="x", tools_hash="t-2", model="m-2").changed
        assert changed == ("system_prompt", "tools_hash", "model")
        with s.run() as run:
            run.checkpoint(model="m-2")
        assert s.resume(model="m-2").changed == ()

    def test_when_the_newest_is_deleted_the_one_before_it_is_the_newest(self, s: Session) -> None:
        """Deleting is idempotent; when all are gone there is none."""
        with s.run() as run:
            for number in range(3):
                say(run, f"{number}")
                run.checkpoint(iteration=number)
        for number in (2, 1, 0):
            point = s.resume()
            assert (point.iteration, len(point.messages)) == (number, number + 1)
            assert s.delete_checkpoint(point.checkpoint.name) is True
            assert s.delete_checkpoint(point.checkpoint.name) is False
        with pytest.raises(CheckpointNotFoundError):
            s.resume()
        assert said(s) == ["0", "1", "2"]
        with s.run() as run:
            assert run.checkpoint(iteration=9).name == "run-2-4"
        assert s.resume().iteration == 9

    def test_a_name_that_is_set_anew_without_a_run_is_none_to_resume_from(self, s: Session) -> None:
        """It says nothing about how far a worker had come."""
        with s.run() as run:
            run.checkpoint("one", iteration=1)
            run.checkpoint("two", iteration=2)
        s.checkpoint("two")
        assert s.resume().iteration == 1

    def test_a_fork_takes_along_what_lies_on_its_path(self, s: Session) -> None:
        """A worker on a fork goes on from the base's checkpoint, but not from one that was set later."""
        with s.run() as run:
            say(run, "a")
            before = s.fork()
            say(run, "b")
            run.checkpoint(iteration=1, state="base")
            after = s.fork()
            say(run, "c")
            run.checkpoint(iteration=2)
        point = after.resume()

        assert (point.iteration, point.state, point.checkpoint.session) == (1, "base", after.id)
        assert (texts(point.messages), point.ahead) == (["a", "b"], False)
        with pytest.raises(CheckpointNotFoundError):
            before.resume()
        with after.run() as own:
            say(own, "d")
            own.checkpoint(iteration=5)
        assert (after.resume().iteration, s.resume().iteration) == (5, 2)
        assert texts(after.resume().messages) == ["a", "b", "d"]

    def test_a_checkpoint_of_a_run_never_takes_the_name_of_another_by_itself(self, s: Session) -> None:
        """Neither of one that a fork took along, nor of one that was named by hand."""
        with s.run() as run:
            say(run, "a")
            first = run.checkpoint(iteration=1)
        fork = s.fork()
        with fork.run() as own:
            say(own, "b")
            fork.outside_lease().checkpoint(f"run-{own.epoch}-2", state="by hand")
            names = [own.checkpoint(iteration=number).name for number in (2, 3)]

        assert len({first.name, f"run-{own.epoch}-2", *names}) == 4
        assert fork.get_checkpoint(first.name).position == 0
        assert fork.get_checkpoint(f"run-{own.epoch}-2").state == "by hand"
        assert fork.resume().iteration == 3

    def test_a_fork_keeps_what_it_took_along_when_its_base_is_purged(self, store: Store, s: Session) -> None:
        """P18: what a worker can resume from does not go with another session."""
        with s.run() as run:
            say(run, "a")
            run.checkpoint(iteration=4, state=[1])
        fork = s.fork()
        store.delete("s", purge=True)
        point = fork.resume()

        assert (point.iteration, point.state, texts(point.messages)) == (4, [1], ["a"])

    def test_listing_checkpoints_reads_no_messages(self, backend: Backend, s: Session) -> None:
        """Neither does setting the next one need the messages before the last round."""
        with s.run() as run:
            for number in range(3):
                run.append(user(f"{number}"), assistant("x" * 1000))
                run.checkpoint(iteration=number)
        asked: list[str] = []
        with Store(Watched(backend, lambda name, args: asked.append(name))) as store:
            found = store.get("s").checkpoints()

        assert [one.run.iteration for one in found if one.run] == [0, 1, 2]
        assert asked
        assert not {"read_messages", "read_entries", "get_entry"} & set(asked)
