"""Claude Code: prompts that were typed while it worked are turns of the user, each of them one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.exporters.programs import claude_code
from tests.importers.programs.claude_code.test_reader import Log, bring, humans, texts
from tests.support.rows import each_named_row

SESSION = "0b1c2d3e-1111-4222-8333-444455556666"


def queued(log: Log, uuid: str, prompt: Any, about: dict[str, Any] | None = None, **more: Any) -> Log:
    usual = {"commandMode": "prompt", "origin": {"kind": "human"}}
    attachment = {"type": "queued_command", "prompt": prompt, **(usual if about is None else about)}
    return log.put(uuid, "attachment", attachment=attachment, **more)


def operation(log: Log, name: str, content: str | None = None, **more: Any) -> Log:
    told = {} if content is None else {"content": content}
    return log.raw({"type": "queue-operation", "operation": name, "sessionId": SESSION, **told, **more})


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "p" / f"{SESSION}.jsonl")


def worked(log: Log) -> Log:
    """Two prompts come while tools run."""
    log.user("u1", "Build it.").model("a1", "m1", call="t1").result("r1", "t1")
    operation(log, "enqueue", "Use tabs.")
    queued(log, "q1", "Use tabs.", source_uuid="s1")
    operation(log, "remove", "Use tabs.", reason="absorbed_mid_turn")
    log.model("a2", "m2", call="t2").result("r2", "t2")
    queued(log, "q2", [{"type": "text", "text": "No semicolons."}], {"commandMode": "prompt"})
    return log.model("a3", "m3")


def test_a_prompt_that_was_typed_meanwhile_is_a_turn_in_its_place(store: clew.Store, log: Log) -> None:
    s = bring(store, worked(log))
    assert texts(s) == ["Build it.", "t1", "t1", "Use tabs.", "t2", "t2", "No semicolons.", "text of a3"]
    assert humans(s) == 3
    assert texts_in_context(s) == ["Build it.", "Use tabs.", "No semicolons.", "text of a3"]
    (hit,) = store.search("semicolons").hits
    assert (hit.session, hit.role) == (s.id, "user")
    assert "No semicolons." in store.export(s.id, "markdown")


def texts_in_context(s: clew.Session) -> list[str]:
    found: list[str] = []
    for message in s.context():
        content = message["content"]
        blocks = [{"text": content}] if isinstance(content, str) else content
        found += [block["text"] for block in blocks if "text" in block]
    return found


@each_named_row(
    "about",
    {
        "a task in the background": {"commandMode": "task-notification"},
        "another session": {"commandMode": "prompt", "origin": {"kind": "peer"}},
        "the program": {"commandMode": "prompt", "isMeta": True},
        "a version that names no origin": {},
    },
)
def test_what_no_person_queued_reaches_the_model_and_is_no_turn_of_the_user(
    store: clew.Store, tmp_path: Path, about: dict[str, Any]
) -> None:
    log = Log(tmp_path / "p" / f"{tmp_path.name}.jsonl")
    said = "<task-notification>done</task-notification>"
    log.user("u1", "Build it.").model("a1", "m1", call="t1").result("r1", "t1")
    queued(log, "q1", said, about).model("a2", "m2")
    with clew.open("memory:") as own:
        own.import_path(log.path)
        (s,) = (own.get(info.id) for info in own.list().sessions)
        assert texts_in_context(s) == ["Build it.", said, "text of a2"]
        assert humans(s) == 1


def told_behind(log: Log) -> None:
    queued(log, "q1", "Use tabs.").user("u2", "Use tabs.").model("a2", "m2")


def told_before(log: Log) -> None:
    log.user("u2", "Use tabs.")
    queued(log, "q1", "Use tabs.").model("a2", "m2")


def told_beside(log: Log) -> None:
    queued(log, "q1", "Use tabs.").user("u2", "Use tabs.", parentUuid="r1").model("a2", "m2")


def told_under_its_id(log: Log) -> None:
    queued(log, "q1", "Use tabs.", {"source_uuid": "u2"}).model("a2", "m2").user("u2", "Use tabs, please.")


def told_before_under_its_id(log: Log) -> None:
    log.user("u2", "Use tabs.").model("a2", "m2")
    queued(log, "q1", "Use tabs, please.", {"source_uuid": "u2"})


def told_when_it_left_the_queue(log: Log) -> None:
    operation(log, "enqueue", "Use tabs.")
    queued(log, "q1", "Use tabs.").model("a2", "m2")
    operation(log, "dequeue").user("u2", "Use tabs.")


@each_named_row(
    "tell",
    {
        tell.__name__: tell
        for tell in (
            told_behind,
            told_before,
            told_beside,
            told_under_its_id,
            told_before_under_its_id,
            told_when_it_left_the_queue,
        )
    },
)
def test_a_prompt_that_is_there_twice_is_one_turn(tmp_path: Path, tell: Any) -> None:
    log = Log(tmp_path / "p" / f"{SESSION}.jsonl")
    log.user("u1", "Build it.").model("a1", "m1", call="t1").result("r1", "t1")
    tell(log)
    log.model("a3", "m3")
    with clew.open("memory:") as store:
        s = bring(store, log)
        assert humans(s) == 2
        said = texts(s)
        assert sum(text.startswith("Use tabs") for text in said) == 1
        assert said[-1] == "text of a3"


def typed_again(log: Log) -> None:
    queued(log, "q1", "Go on.").model("a2", "m2").user("u2", "Go on.").model("a3", "m3")


def queued_again(log: Log) -> None:
    operation(operation(log, "enqueue", "Go on."), "enqueue", "Go on.")
    queued(log, "q1", "Go on.").model("a2", "m2")
    operation(log, "dequeue").user("u2", "Go on.").model("a3", "m3")


def queued_twice(log: Log) -> None:
    queued(queued(log, "q1", "Go on."), "q2", "Go on.").model("a3", "m3")


def queued_later(log: Log) -> None:
    operation(log, "enqueue", "Go on.")
    queued(log, "q1", "Go on.").model("a2", "m2")
    operation(operation(log, "enqueue", "Go on."), "dequeue").user("u2", "Go on.").model("a3", "m3")


@each_named_row("say", {say.__name__: say for say in (typed_again, queued_again, queued_twice, queued_later)})
def test_the_same_words_typed_again_are_two_turns(tmp_path: Path, say: Any) -> None:
    log = Log(tmp_path / "p" / f"{SESSION}.jsonl")
    log.user("u1", "Build it.").model("a1", "m1", call="t1").result("r1", "t1")
    say(log)
    with clew.open("memory:") as store:
        s = bring(store, log)
        assert texts(s).count("Go on.") == 2
        assert humans(s) == 3


def test_a_resumed_copy_has_them_as_the_program_wrote_them(
    store: clew.Store, log: Log, tmp_path: Path
) -> None:
    s = bring(store, worked(log).user("u2", "And now?"))
    queued(log, "q3", "And now?").model("a4", "m4")
    s = bring(store, log)
    home, shop = tmp_path / "home", tmp_path / "shop"
    shop.mkdir()
    written = claude_code.write_session(store, s.id, home=home, workspace=str(shop))
    made = [json.loads(line) for line in written.paths[0].read_bytes().splitlines()]
    came = [json.loads(line) for line in log.path.read_bytes().splitlines() if b'"uuid"' in line]
    assert [one.get("attachment") for one in made] == [one.get("attachment") for one in came]
    assert [one["parentUuid"] for one in made] == [None, *(one["uuid"] for one in made[:-1])]
    with clew.open("memory:") as other:
        other.import_path(written.paths[0])
        (again,) = (other.get(info.id) for info in other.list().sessions)
        assert texts(again) == texts(s)
        assert humans(again) == humans(s)


def test_a_queued_prompt_of_a_store_that_the_agents_own_library_writes_is_one_too(store: clew.Store) -> None:
    """Its session store keeps the records themselves."""
    s = store.create("own")
    record = {
        "parentUuid": "r1",
        "isSidechain": False,
        "sessionId": "own",
        "uuid": "q1",
        "type": "attachment",
    }
    attachment = {"type": "queued_command", "prompt": "Use tabs.", "commandMode": "prompt"}
    s.append({**record, "attachment": attachment})
    s.append(
        {**record, "attachment": {**attachment, "origin": {"kind": "peer"}, "prompt": "From elsewhere."}}
    )
    assert s.info.user_turns == 1
    assert s.info.preview == "Use tabs."
    (hit,) = store.search("tabs").hits
    assert hit.role == "user"
