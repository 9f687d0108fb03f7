"""Items of the Responses API that the Agents SDK keeps: programs that call tools, and sealed summaries."""

from __future__ import annotations

from clew.core.messages.dialects import calls_of, dialect_of, results_of, role_of, text_of
from clew.core.messages.dialects.base import INTERRUPTED
from clew.core.messages.dialects.openai import RESPONSES
from clew.core.messages.search_text import searched_text
from clew.exporters.blocks import SEALED, blocks_of

PROGRAM = {"type": "program", "id": "p-1", "call_id": "c-1", "code": "look()", "fingerprint": "f"}
OUTPUT = {"type": "program_output", "id": "o-1", "call_id": "c-1", "result": "heron", "status": "completed"}
COMPACTION = {"type": "compaction", "id": "cmp", "encrypted_content": "gAAAA"}


def test_a_program_is_a_call_and_its_output_the_result() -> None:
    assert (role_of(PROGRAM), role_of(OUTPUT)) == ("assistant", "tool")
    (call,), (result,) = calls_of(PROGRAM), results_of(OUTPUT)
    assert (call.id, call.kind) == (result.id, result.kind) == ("c-1", "program")
    assert "heron" in searched_text(OUTPUT, 0).tool
    assert [block.kind for block in (*blocks_of(PROGRAM), *blocks_of(OUTPUT))] == ["call", "result"]


def test_a_program_that_was_cut_off_gets_an_output() -> None:
    (call,) = RESPONSES.parts(PROGRAM)
    made = RESPONSES.interrupted(PROGRAM, call)
    assert results_of(made) == results_of(OUTPUT)
    assert (made["result"], made["status"]) == (INTERRUPTED, "incomplete")


def test_a_sealed_summary_is_the_models_and_is_not_shown() -> None:
    assert dialect_of(COMPACTION) is RESPONSES
    assert role_of(COMPACTION) == "assistant"
    assert text_of(COMPACTION) == ""
    assert [(block.kind, block.text) for block in blocks_of(COMPACTION)] == [("thinking", SEALED)]
    assert "gAAAA" not in searched_text(COMPACTION, 0).tool
