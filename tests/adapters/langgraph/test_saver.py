"""LangGraph's checkpoints in a Clew store: the protocol, on every kind of store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.conformance import validate
from langgraph.checkpoint.conformance.capabilities import Capability
from langgraph.checkpoint.conformance.initializer import checkpointer_test

import clew
from clew.adapters.langgraph import ClewSaver
from tests.adapters.langgraph.talk import answer, checkpoint, found, human, put, thread, values


@pytest.fixture
def saver(store: clew.Store) -> ClewSaver:
    return ClewSaver(store)


def test_langgraphs_own_conformance_passes_with_every_capability(store: clew.Store) -> None:
    @checkpointer_test(name="ClewSaver")
    async def register() -> AsyncIterator[ClewSaver]:
        yield ClewSaver(store)

    report = asyncio.run(validate(register))

    failures = {name: result.failures for name, result in report.results.items() if result.failures}
    assert failures == {}
    assert {name for name, result in report.results.items() if result.passed} == set(Capability)


# -- values


def test_branches_that_count_alike_share_no_value(saver: ClewSaver) -> None:
    root = put(saver, thread(), {"plan": "root " * 50})
    one = put(saver, root, {"plan": "one " * 50, "items": [f"one {n}" * 40 for n in range(5)]})
    other = put(saver, root, {"plan": "other " * 50, "items": [f"other {n}" * 40 for n in range(5)]})

    assert (
        found(saver, one).checkpoint["channel_versions"] == found(saver, other).checkpoint["channel_versions"]
    )
    assert values(saver, one) == {"plan": "one " * 50, "items": [f"one {n}" * 40 for n in range(5)]}
    assert values(saver, other) == {"plan": "other " * 50, "items": [f"other {n}" * 40 for n in range(5)]}


def test_a_checkpoint_that_is_put_again_keeps_its_writes_and_changes_nobody_elses_values(
    saver: ClewSaver,
) -> None:
    first = put(saver, thread(), {"items": ["old " * 100, "older " * 100]})
    saver.put_writes(first, [("items", ["x"])], "task")
    second = put(saver, first, {"step": 2})
    again = found(saver, first).checkpoint
    again["channel_values"] = {"items": ["new " * 100, "newer " * 100]}
    saver.put(thread(), again, {}, {"items": 1})

    assert values(saver, second)["items"] == ["old " * 100, "older " * 100]
    assert values(saver, first)["items"] == ["new " * 100, "newer " * 100]
    assert found(saver, first).pending_writes == [("task", "items", ["x"])]


def test_what_comes_out_belongs_to_the_reader(saver: ClewSaver) -> None:
    config = put(saver, thread(), {"messages": [human("hi", additional_kwargs={"a": [1]})], "list": [1, 2]})
    one = found(saver, config)
    one.checkpoint["channel_values"]["messages"][0].content = "changed"
    one.checkpoint["channel_values"]["messages"][0].mood = "good"
    one.checkpoint["channel_values"]["messages"][0].response_metadata["model"] = "x"
    one.checkpoint["channel_values"]["messages"][0].additional_kwargs["a"].append(2)
    one.checkpoint["channel_values"]["list"].append(3)
    one.checkpoint["channel_versions"]["messages"] = 99
    one.metadata["step"] = 99

    there = found(saver, config)
    assert there.checkpoint["channel_values"]["messages"] == [human("hi", additional_kwargs={"a": [1]})]
    assert there.checkpoint["channel_values"]["list"] == [1, 2]
    assert there.checkpoint["channel_versions"] == {"messages": 1, "list": 1}
    assert there.metadata["step"] == 0


def test_what_went_in_may_be_changed_afterwards(saver: ClewSaver) -> None:
    messages = [human("hi")]
    made = checkpoint({"messages": messages})
    config = saver.put(thread(), made, {}, {"messages": 1})
    messages[0].content = "changed"
    made["channel_versions"]["messages"] = 7

    assert values(saver, config)["messages"] == [human("hi")]
    assert found(saver, config).checkpoint["channel_versions"] == {"messages": 1}


def test_what_others_did_to_the_checkpoint_before_is_seen(store: clew.Store, saver: ClewSaver) -> None:
    first = put(saver, thread(), {"plan": "old " * 50})
    again = found(saver, first).checkpoint
    again["channel_values"]["plan"] = "new " * 50
    ClewSaver(store).put(thread(), again, {}, {"plan": 1})
    second = saver.put(first, checkpoint({}, {"plan": 1}), {}, {})

    assert values(saver, second) == {"plan": "new " * 50}


def test_a_value_of_another_version_is_not_that_of_the_checkpoint_before(saver: ClewSaver) -> None:
    first = put(saver, thread(), {"plan": "old"})
    second = saver.put(first, checkpoint({"plan": "new"}, {"plan": 5}), {}, {})

    assert values(saver, second) == {"plan": "new"}


# -- writes


def test_a_repeated_write_is_ignored_and_a_repeated_interrupt_is_the_latest(saver: ClewSaver) -> None:
    config = put(saver, thread(), {"a": 1})
    saver.put_writes(config, [("a", "first"), ("__interrupt__", "old")], "task")
    saver.put_writes(config, [("a", "second"), ("__interrupt__", "new")], "task")

    assert found(saver, config).pending_writes == [("task", "__interrupt__", "new"), ("task", "a", "first")]


def test_the_same_holds_for_writes_that_come_after_the_next_checkpoint(saver: ClewSaver) -> None:
    config = put(saver, thread(), {"a": 1})
    saver.put_writes(config, [("a", "first"), ("__error__", "old")], "task")
    put(saver, config, {"a": 2})
    saver.put_writes(config, [("a", "second"), ("__error__", "new"), ("b", "late")], "task")
    saver.put_writes(config, [("a", "other")], "another task", "~path")

    assert found(saver, config).pending_writes == [
        ("task", "__error__", "new"),
        ("task", "a", "first"),
        ("task", "b", "late"),
        ("another task", "a", "other"),
    ]


def test_writes_are_ordered_by_path_then_task(saver: ClewSaver) -> None:
    config = put(saver, thread(), {"a": 1})
    saver.put_writes(config, [("a", 3)], "aaa", "~2")
    saver.put_writes(config, [("a", 2)], "zzz", "~1")
    saver.put_writes(config, [("a", 1)], "mmm")

    assert [write[2] for write in found(saver, config).pending_writes or []] == [1, 2, 3]


def test_writes_may_come_before_their_checkpoint(saver: ClewSaver) -> None:
    made = checkpoint({"a": 1})
    saver.put_writes(thread(id=made["id"]), [("a", 2)], "task")
    assert saver.get_tuple(thread()) is None
    config = saver.put(thread(), made, {}, {"a": 1})

    assert found(saver, config).pending_writes == [("task", "a", 2)]


# -- listing


def test_a_listing_has_pages_filters_and_nested_keys(saver: ClewSaver) -> None:
    config = thread()
    for step in range(60):
        config = put(saver, config, {"a": step}, step=step, user={"name": "ada" if step % 2 else "bob"})
    steps = [one.metadata["step"] for one in saver.list(thread(), limit=55)]
    assert steps == list(range(59, 4, -1))
    middle = next(one for one in saver.list(thread(), filter={"step": 30}))
    before = [one.metadata["step"] for one in saver.list(thread(), before=middle.config, limit=2)]
    assert before == [29, 28]
    assert [one.metadata["step"] for one in saver.list(None, filter={"user.name": "bob"}, limit=2)] == [
        58,
        56,
    ]
    assert list(saver.list(None, filter={"step') OR 1=1 --": 1})) == []
    assert list(saver.list(thread(), limit=0)) == []


def test_thread_ids_need_not_be_texts_or_short(saver: ClewSaver) -> None:
    for name in (7, "x" * 2000, "a/b", "~tilde"):
        config = put(saver, {"configurable": {"thread_id": name, "checkpoint_ns": ""}}, {"a": name})
        assert values(saver, config) == {"a": name}
    names = {one.config["configurable"]["thread_id"] for one in saver.list(None)}
    assert names == {"7", "x" * 2000, "a/b", "~tilde"}


def test_long_namespaces_have_their_own_checkpoints(saver: ClewSaver) -> None:
    deep = "|".join(f"node:{number:036}" for number in range(12))
    for ns in (deep, deep + "|x", "a/b", "a%2Fb"):
        config = put(saver, thread(ns=ns), {"ns": ns})
        assert values(saver, config) == {"ns": ns}
        assert [one.checkpoint["channel_values"]["ns"] for one in saver.list(thread(ns=ns))] == [ns]


# -- whole threads


def test_a_deleted_thread_is_in_the_trash_unless_it_is_to_be_gone(store: clew.Store) -> None:
    put(ClewSaver(store), thread("kept"), {"messages": [human("hi")]})
    put(ClewSaver(store), thread("gone"), {"messages": [human("hi")]})
    ClewSaver(store).delete_thread("kept")
    ClewSaver(store, purge=True).delete_thread("gone")
    ClewSaver(store).delete_thread("never there")

    assert list(ClewSaver(store).list(None)) == []
    assert [info.id for info in store.list(deleted=True)] == ["kept"]
    store.restore_deleted("kept")
    assert values(ClewSaver(store), thread("kept"))["messages"] == [human("hi")]


def test_a_thread_that_was_deleted_can_begin_anew(saver: ClewSaver) -> None:
    put(saver, put(saver, thread(), {"messages": [human("old")]}), {"messages": [human("old"), answer("1")]})
    saver.delete_thread("talk")
    config = put(saver, thread(), {"messages": [human("old"), answer("2")]})

    assert values(saver, config)["messages"] == [human("old"), answer("2")]
    assert saver.session("talk").info.messages == 2


def test_runs_are_deleted_wherever_they_are(saver: ClewSaver) -> None:
    for name in ("x", "y"):
        first = put(saver, thread(name), {"messages": [human("a")]}, run_id="run-1")
        saver.put_writes(first, [("a", 1)], "task")
        put(saver, first, {"messages": [human("a"), answer("b")]}, run_id="run-2")
    saver.delete_for_runs(["run-1", "run-9"])

    assert [one.metadata["run_id"] for one in saver.list(None)] == ["run-2", "run-2"]
    assert values(saver, thread("x"))["messages"] == [human("a"), answer("b")]


def test_a_pruned_thread_has_its_latest_state_and_nothing_that_only_others_needed(saver: ClewSaver) -> None:
    config = thread()
    for step in range(5):
        items = [f"{number} " * 100 for number in range(step + 2)]
        config = put(saver, config, {"plan": f"plan {step} " * 50, "items": items})
        saver.put_writes(config, [("plan", "x")], "task")
    state = values(saver, thread())
    saver.prune(["talk", "never there"])

    (left,) = saver.list(thread())
    assert left.checkpoint["channel_values"] == state
    assert left.pending_writes == [("task", "plan", "x")]
    documents = [name[:2] for name, _ in saver.session("talk").documents()]
    assert documents.count("v/") == 1
    assert documents.count("c/") == documents.count("w/") == 1
    with pytest.raises(ValueError, match="keep_latest"):
        saver.prune(["talk"], strategy="everything")


def test_a_copy_of_a_thread_is_whole_and_independent(store: clew.Store, saver: ClewSaver) -> None:
    root = put(saver, thread("old"), {"messages": [human("a")], "items": ["x " * 300, "y " * 300]})
    saver.put_writes(root, [("messages", [answer("b")])], "task")
    left = put(saver, root, {"messages": [human("a"), answer("left")]})
    right = put(saver, root, {"messages": [human("a"), answer("right")]})
    saver.copy_thread("old", "new")
    before = [
        one._replace(config=thread("new", id=one.checkpoint["id"])) for one in saver.list(thread("old"))
    ]
    ClewSaver(store, purge=True).delete_thread("old")

    copies = [one._replace(parent_config=None) for one in ClewSaver(store).list(thread("new"))]
    assert copies == [one._replace(parent_config=None) for one in before]
    for config, said in ((left, "left"), (right, "right")):
        there = values(ClewSaver(store), thread("new", id=config["configurable"]["checkpoint_id"]))
        assert there["messages"] == [human("a"), answer(said)]
    info = store.get("new").info
    assert (info.metadata["thread_id"], info.messages) == ("new", 2)
    assert store.verify().ok


def test_a_thread_can_be_copied_onto_one_that_exists(saver: ClewSaver) -> None:
    put(saver, thread("new"), {"messages": [human("already there")]})
    config = put(saver, thread("old"), {"messages": [human("a"), answer("b")]})
    saver.copy_thread("old", "new")

    assert len(list(saver.list(thread("new")))) == 2
    assert values(saver, thread("new")) == values(saver, config)
    saver.copy_thread("never there", "nowhere")
    assert saver.get_tuple(thread("nowhere")) is None


# -- what a delta channel was made of


def test_the_history_of_a_channel_ends_at_its_seed(saver: ClewSaver) -> None:
    config = put(saver, thread(), {"a": 0})
    for step in range(60):
        saver.put_writes(config, [("deltas", f"step {step}"), ("other", step)], "task")
        stored = {"deltas": "the seed"} if step == 5 else {}
        config = saver.put(config, {**empty_checkpoint(), "channel_values": stored}, {}, {})

    history = saver.get_delta_channel_history(config=config, channels=["deltas", "other", "nothing"])

    assert history["deltas"]["seed"] == "the seed"
    assert [write[2] for write in history["deltas"]["writes"]] == [f"step {n}" for n in range(6, 60)]
    assert [write[2] for write in history["other"]["writes"]] == list(range(60))
    assert history["nothing"] == {"writes": []}
    assert saver.get_delta_channel_history(config=config, channels=[]) == {}
    assert saver.get_delta_channel_history(config=thread("nobody"), channels=["a"]) == {"a": {"writes": []}}


def test_the_history_is_that_of_the_parents_not_of_all_that_came_before(saver: ClewSaver) -> None:
    root = put(saver, thread(), {"a": 0})
    saver.put_writes(root, [("deltas", "root")], "task")
    one = put(saver, root, {"a": 1})
    saver.put_writes(one, [("deltas", "one")], "task")
    other = put(saver, root, {"a": 2})
    saver.put_writes(other, [("deltas", "other")], "task")
    leaf = put(saver, one, {"a": 3})

    history = asyncio.run(saver.aget_delta_channel_history(config=leaf, channels=["deltas"]))
    assert [write[2] for write in history["deltas"]["writes"]] == ["root", "one"]


def test_parents_that_lead_in_a_circle_end_the_history(saver: ClewSaver) -> None:
    one = put(saver, thread(), {"a": 0})
    other = put(saver, one, {"b": 0})
    saver.put(other, found(saver, one).checkpoint, {}, {})

    assert saver.get_delta_channel_history(config=other, channels=["c"]) == {"c": {"writes": []}}


def test_versions_of_other_savers_go_on(saver: ClewSaver) -> None:
    assert saver.get_next_version(None, None) == 1
    assert saver.get_next_version(3, None) == 4
    old = f"{9:032}.0.123"
    assert saver.get_next_version(old, None) > old
