"""Export to ductwork: a run that it can resume."""

from __future__ import annotations

import json
from pathlib import Path

import clew
from clew.exporters import seed_ductwork as exporter
from clew.importers import seed_ductwork as reader
from tests.importers.seed_landing import bring_one

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


def test_a_run_comes_back_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "run-sync-1772380000000.json"
    path.write_text(RUN)
    with clew.open("memory:") as store:
        s = bring_one(store, reader, path)
        assert b"".join(exporter.pieces(store, s.id)).decode() == RUN


def test_a_run_that_was_made_here_says_how_far_it_had_come() -> None:
    with clew.open("memory:") as store:
        with store.session("job-1").run(task="nightly") as run:
            run.append({"role": "user", "content": "do it"})
            run.add_usage(model="m", input_tokens=5, output_tokens=3)
            run.checkpoint(iteration=4)
        saved = json.loads(b"".join(exporter.pieces(store, "job-1")))
    assert (saved["run_id"], saved["task_name"], saved["iteration"]) == ("job-1", "nightly", 4)
    assert (saved["input_tokens"], saved["output_tokens"]) == (5, 3)
    assert saved["messages"] == [{"content": [{"text": "do it", "type": "text"}], "role": "user"}]


def test_a_compacted_session_is_what_a_model_would_get() -> None:
    with clew.open("memory:") as store:
        s = store.session("x")
        s.append({"role": "user", "content": "one"}, {"role": "assistant", "content": "two"})
        s.compact("so far")
        s.append({"role": "user", "content": "three"})
        saved = json.loads(b"".join(exporter.pieces(store, "x")))
    assert [message["content"][0]["text"] for message in saved["messages"]] == ["so far", "three"]


def test_calls_and_results_of_other_shapes_become_anthropics() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"a":1}'}}
    with clew.open("memory:") as store:
        s = store.session("x")
        s.append({"role": "assistant", "content": "", "tool_calls": [call]})
        s.append({"role": "tool", "tool_call_id": "c1", "content": "ok"})
        asked, answered = json.loads(b"".join(exporter.pieces(store, "x")))["messages"]
    assert asked["content"] == [{"id": "c1", "input": {"a": 1}, "name": "run", "type": "tool_use"}]
    assert (answered["role"], answered["content"][0]["tool_use_id"]) == ("user", "c1")
