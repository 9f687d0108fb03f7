"""Export to ductwork: a run that it can resume."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import clew
from clew.exporters.programs import ductwork as exporter
from clew.importers.programs import ductwork as reader
from tests.importers.landing import bring_one
from tests.support.rows import each_row

RUN = """{
  "run_id": "run-sync-1772380000000",
  "task_name": "sync",
  "iteration": 2,
  "messages": [
    {
      "content": [
        {
          "text": "a \\u003c b",
          "type": "text"
        }
      ],
      "role": "user"
    },
    {
      "content": [
        {
          "id": "toolu_1",
          "input": {},
          "name": "bash",
          "type": "tool_use"
        }
      ],
      "role": "assistant"
    },
    {
      "content": [
        {
          "tool_use_id": "toolu_1",
          "is_error": false,
          "content": [],
          "type": "tool_result"
        }
      ],
      "role": "user"
    }
  ],
  "system_prompt": "be good",
  "input_tokens": 1200,
  "output_tokens": 80,
  "created_at": "2026-03-01T12:00:00.123456789-05:00"
}"""


def test_a_run_comes_back_byte_for_byte(store: clew.Store, tmp_path: Path) -> None:
    path = tmp_path / "run-sync-1772380000000.json"
    path.write_text(RUN)
    s = bring_one(store, reader, path)
    assert b"".join(exporter.pieces(store, s.id)).decode() == RUN


SAID = json.loads(RUN)["messages"]
SAVES: dict[str, list[dict[str, Any]]] = {
    "a list of messages that was never made": [{"messages": None}],
    "a list that became one": [{}, {"messages": None}],
    "messages that are null, or say nothing": [
        {
            "messages": [
                None,
                *SAID[:2],
                {"content": None, "role": "assistant"},
                {"content": None, "role": ""},
            ]
        },
        {"messages": [None, None, *SAID]},
    ],
    "tokens that sink": [{}, {"input_tokens": 900, "output_tokens": 8}, {"input_tokens": 950}],
    "rounds that sink": [{"iteration": 9}, {"iteration": 2}],
    "a run that began again": [
        {"iteration": 1, "messages": SAID[:1]},
        {"iteration": 2},
        {"iteration": 1, "messages": [*SAID[:1], SAID[1], *SAID[2:], SAID[1]], "input_tokens": 5},
    ],
}
"""What is different in the files of a run that was saved several times."""


@each_row("saves", SAVES.values(), ids=SAVES.keys())
def test_the_newest_save_comes_back_whatever_was_before_it(
    tmp_path: Path, saves: list[dict[str, Any]]
) -> None:
    """And a worker goes on at that save."""
    path = tmp_path / "run-sync-1772380000000.json"
    with clew.open("memory:") as store:
        for number, changes in enumerate(saves):
            saved = {**json.loads(RUN), "created_at": f"2026-03-01T12:0{number}:00Z", **changes}
            path.write_text(json.dumps(saved))
            (session,) = store.import_path(path).sessions
            assert exported(store, session.id) == saved, number
        assert store.get(session.id).resume().checkpoint.state["created_at"] == saved["created_at"]


def test_a_run_that_was_made_here_says_how_far_it_had_come(store: clew.Store) -> None:
    with store.session("job-1").run(task="nightly") as run:
        run.append({"role": "user", "content": "do it"})
        run.add_usage(model="m", input_tokens=5, output_tokens=3)
        run.checkpoint(iteration=4)
    saved = json.loads(b"".join(exporter.pieces(store, "job-1")))
    assert (saved["run_id"], saved["task_name"], saved["iteration"]) == ("job-1", "nightly", 4)
    assert (saved["input_tokens"], saved["output_tokens"]) == (5, 3)
    assert saved["messages"] == [{"content": [{"text": "do it", "type": "text"}], "role": "user"}]


def imported(store: clew.Store, folder: Path) -> clew.Session:
    path = folder / "run-sync-1772380000000.json"
    path.write_text(RUN)
    return bring_one(store, reader, path)


def exported(store: clew.Store, id: str) -> dict[str, Any]:
    saved: dict[str, Any] = json.loads(b"".join(exporter.pieces(store, id)))
    return saved


def test_a_run_that_went_on_here_says_how_far_it_came_here(store: clew.Store, tmp_path: Path) -> None:
    s = imported(store, tmp_path)
    s.append({"role": "assistant", "content": "three"}, {"role": "user", "content": "go on"})
    s.append({"role": "assistant", "content": "four"})
    s.add_usage(model="m", input_tokens=100, output_tokens=7)
    saved = exported(store, s.id)
    assert (saved["iteration"], saved["input_tokens"], saved["output_tokens"]) == (4, 1300, 87)
    assert datetime.fromisoformat(saved["created_at"]) == s.info.updated_at
    kept = {name: saved[name] for name in ("run_id", "task_name", "system_prompt")}
    assert kept == {"run_id": "run-sync-1772380000000", "task_name": "sync", "system_prompt": "be good"}
    assert len(saved["messages"]) == 6
    with clew.open("memory:") as other:
        path = tmp_path / "again.json"
        path.write_text(json.dumps(saved))
        again = bring_one(other, reader, path)
        assert (exported(other, again.id), again.usage().input_tokens) == (saved, 1300)


def test_a_round_that_a_worker_counted_here_is_the_one_that_is_told(
    store: clew.Store, tmp_path: Path
) -> None:
    s = imported(store, tmp_path)
    with s.run() as run:
        run.append({"role": "assistant", "content": "three"})
        run.checkpoint(iteration=9)
        run.append({"role": "assistant", "content": "four"})
    assert exported(store, s.id)["iteration"] == 10


def test_a_run_that_was_rewound_here_counts_the_rounds_that_are_left(
    store: clew.Store, tmp_path: Path
) -> None:
    s = imported(store, tmp_path)
    s.rewind(0)
    saved = exported(store, s.id)
    assert (saved["iteration"], len(saved["messages"])) == (0, 1)


def test_a_compacted_session_is_what_a_model_would_get(store: clew.Store) -> None:
    s = store.session("x")
    s.append({"role": "user", "content": "one"}, {"role": "assistant", "content": "two"})
    s.compact("so far")
    s.append({"role": "user", "content": "three"})
    saved = json.loads(b"".join(exporter.pieces(store, "x")))
    assert [message["content"][0]["text"] for message in saved["messages"]] == ["so far", "three"]


def test_calls_and_results_of_other_shapes_become_anthropics(store: clew.Store) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"a":1}'}}
    s = store.session("x")
    s.append({"role": "assistant", "content": "", "tool_calls": [call]})
    s.append({"role": "tool", "tool_call_id": "c1", "content": "ok"})
    asked, answered = json.loads(b"".join(exporter.pieces(store, "x")))["messages"]
    assert asked["content"] == [{"id": "c1", "input": {"a": 1}, "name": "run", "type": "tool_use"}]
    assert (answered["role"], answered["content"][0]["tool_use_id"]) == ("user", "c1")


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
CALL = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"a":1}'}}
OTHERS = [
    {"role": "user", "content": [{"type": "text", "text": "see"}, IMAGE]},
    {"role": "user", "content": [{"type": "input_text", "text": "see"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "see"}], "tool_calls": [CALL]},
    {"role": "assistant", "content": [], "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "see"}]},
    {"role": "system", "content": [{"type": "text", "text": "see"}]},
    {"role": "assistant", "content": [{"type": "refusal", "refusal": "see"}]},
    {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "see"}],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "see"}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_id": "c1", "output": "see"}]},
]


@each_row("message", OTHERS, ids=str)
def test_whatever_shape_a_message_has_ductwork_can_decode_it(message: dict[str, Any]) -> None:
    with clew.open("memory:") as store:
        store.session("x").append(message)
        (found,) = exported(store, "x")["messages"]
        assert found["role"] in ("user", "assistant")
        for block in found["content"]:
            check_anthropic(block)
        said = json.dumps(found["content"])
        assert ("see" in said) == ("see" in json.dumps(message))
        assert ('"c1"' in said) == ('"c1"' in json.dumps(message))


def check_anthropic(block: dict[str, Any]) -> None:
    """As the SDK of Anthropic for Go decodes it: each field of its type, the content of a result a list."""
    match block["type"]:
        case "text":
            assert isinstance(block["text"], str)
        case "tool_use":
            assert isinstance(block["id"], str)
            assert isinstance(block["name"], str)
            assert isinstance(block["input"], dict)
        case "tool_result":
            assert isinstance(block["tool_use_id"], str)
            for part in block["content"]:
                check_anthropic(part)
        case other:
            raise AssertionError(f"no block of Anthropic's: {other}")
