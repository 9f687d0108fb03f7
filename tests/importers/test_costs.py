"""What imported calls cost: which of several lines count, and at which price."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.model import UsageTotals
from tests.importers.readers import write_json, write_lines

TIME = "2026-06-01T10:00:00.000Z"
MILLION = 1_000_000


def answer(number: int, model: str = "claude-opus-4-6", **fields: Any) -> dict[str, Any]:
    """A line of Claude Code; `usage` and `id` go into the message, all else beside it."""
    message: dict[str, Any] = {
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": "yes"}],
    }
    for name in ("usage", "id"):
        if name in fields:
            message[name] = fields.pop(name)
    own = {"uuid": f"a{number}", "parentUuid": f"a{number - 1}" if number > 1 else "u"}
    return {"type": "assistant", "sessionId": "s", "timestamp": TIME, "message": message, **own, **fields}


def asked(session: str = "s") -> dict[str, Any]:
    said = {"role": "user", "content": "hi"}
    own = {"uuid": "u", "parentUuid": None, "cwd": "/w"}
    return {"type": "user", "sessionId": session, "timestamp": TIME, "message": said, **own}


def tokens(*, fresh: int = 0, out: int = 0, read: int = 0, written: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "input_tokens": fresh,
        "output_tokens": out,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        **more,
    }


def imported(*paths: Path) -> UsageTotals:
    with clew.open("memory:") as store:
        for path in paths:
            store.import_path(path)
        return store.usage()


def test_claude_keeps_for_an_hour_what_costs_more(tmp_path: Path) -> None:
    parts = {"ephemeral_5m_input_tokens": 400_000, "ephemeral_1h_input_tokens": 600_000}
    usage = tokens(written=MILLION, cache_creation=parts)
    totals = imported(write_lines(tmp_path / "s.jsonl", asked(), answer(1, id="msg_1", usage=usage)))
    assert (totals.input_tokens, totals.cache_write_tokens) == (MILLION, MILLION)
    assert totals.cost == Decimal("0.4") * Decimal("6.25") + Decimal("0.6") * 10


def test_claude_is_faster_for_more(tmp_path: Path) -> None:
    usage = tokens(fresh=MILLION, out=MILLION)
    fast = {**usage, "speed": "fast"}
    lines = [asked(), answer(1, id="msg_1", usage=usage), answer(2, id="msg_2", usage=fast)]
    assert imported(write_lines(tmp_path / "s.jsonl", *lines)).cost == (5 + 25) + (30 + 150)


def test_claude_told_costs_once(tmp_path: Path) -> None:
    line = answer(1, id="msg_1", usage=tokens(fresh=MILLION), costUSD=0.25)
    totals = imported(write_lines(tmp_path / "s.jsonl", asked(), line))
    assert (totals.cost, totals.estimated) == (Decimal("0.25"), 0)


def test_claude_asks_an_advisor(store: clew.Store, tmp_path: Path) -> None:
    """Another model, whose tokens are not among those of the answer; each record of the answer repeats it."""
    advice = {"type": "advisor_message", "model": "claude-haiku-4-5", **tokens(fresh=MILLION)}
    said = {"type": "message", **tokens(fresh=MILLION)}
    usage = tokens(fresh=MILLION, iterations=[said, advice])
    lines = [asked(), answer(1, id="msg_1", usage=usage), answer(2, id="msg_1", usage=usage)]
    path = write_lines(tmp_path / "s.jsonl", *lines)
    store.import_path(path)
    store.import_path(path)
    found = {key: sums.cost for key, sums in store.usage(by="model").items()}
    sources = {key: sums.calls for key, sums in store.usage(by="source").items()}
    assert found == {"claude-opus-4-6": 5, "claude-haiku-4-5": 1}
    assert sources == {None: 1, "advisor": 1}


def test_an_answer_without_an_id_of_its_own_counts_too(tmp_path: Path) -> None:
    """Gateways leave it out."""
    lines = [asked(), answer(1, usage=tokens(fresh=1)), answer(2, usage=tokens(fresh=2))]
    totals = imported(write_lines(tmp_path / "s.jsonl", *lines))
    assert (totals.calls, totals.input_tokens) == (2, 3)


def rollout(path: Path, *events: dict[str, Any]) -> Path:
    records = [
        ("session_meta", {"id": "s"}),
        ("turn_context", {"model": "gpt-5.6-sol"}),
        ("response_item", {"type": "message", "role": "user", "content": "hi"}),
        *(("event_msg", event) for event in events),
    ]
    lines = [{"timestamp": TIME, "type": kind, "payload": payload} for kind, payload in records]
    return write_lines(path / "rollout-s.jsonl", *lines)


def counted(prompt: int, **more: int) -> dict[str, Any]:
    told = {"input_tokens": prompt, "output_tokens": 0, **more}
    return {"type": "token_count", "info": {"total_token_usage": told, "last_token_usage": told}}


def test_codex_tells_what_went_into_a_cache(tmp_path: Path) -> None:
    """5 dollars for a million tokens, 6.25 for those that are written to a cache; 0.5 for those read."""
    event = counted(100_000, cached_input_tokens=30_000, cache_write_input_tokens=20_000)
    totals = imported(rollout(tmp_path, event))
    assert (totals.input_tokens, totals.cache_read_tokens, totals.cache_write_tokens) == (
        100_000,
        30_000,
        20_000,
    )
    cost = 50_000 * Decimal(5) + 30_000 * Decimal("0.5") + 20_000 * Decimal("6.25")
    assert totals.cost == cost / MILLION


def test_codex_says_when_it_is_faster(tmp_path: Path) -> None:
    def tier(name: str | None) -> dict[str, Any]:
        return {"type": "thread_settings_applied", "thread_settings": {"service_tier": name}}

    events = [counted(1000), tier("priority"), counted(2000), tier(None), counted(3000)]
    usual = imported(rollout(tmp_path / "usual", counted(1000))).cost
    fast = imported(rollout(tmp_path / "fast", *events, tier("default"), counted(4000))).cost
    assert fast == usual * (1 + 2 + 2 + 1)


@pytest.mark.parametrize("is_in_counter", [True, False])
def test_codex_pays_for_its_summaries(store: clew.Store, tmp_path: Path, is_in_counter: bool) -> None:
    """The counter does not tell of a summary that the vendor made; later it may have it, or not."""

    def answered(id: str, prompt: int) -> tuple[str, dict[str, Any]]:
        return "token_usage_record", {"response_id": id, "usage": {"input_tokens": prompt}}

    def told(total: int, last: int) -> tuple[str, dict[str, Any]]:
        counts = {"total_token_usage": {"input_tokens": total}, "last_token_usage": {"input_tokens": last}}
        return "event_msg", {"type": "token_count", "info": counts}

    records = [
        *(("session_meta", {"id": "s"}), ("turn_context", {"model": "gpt-5.5"})),
        *(answered("r1", 1000), told(1000, 1000)),
        *(answered("r2", 500), ("compacted", {"message": "short", "compaction_response_id": "r2"})),
        *(answered("r3", 70), told(1070 + 500 * is_in_counter, 70)),
        # This one was made by the program itself: the counter has it.
        *(answered("r4", 9), told(1079 + 500 * is_in_counter, 9)),
        ("compacted", {"message": "short", "compaction_response_id": "r4"}),
    ]
    lines = [{"timestamp": TIME, "type": kind, "payload": payload} for kind, payload in records]
    path = write_lines(tmp_path / "rollout-s.jsonl", *lines)
    store.import_path(path)
    found = [(call.input_tokens, call.source) for call in store.get("codex:s").usage_records()]
    assert found == [(1000, None), (500, "compaction"), (70, None), (9, None)]


@pytest.mark.parametrize(
    ("model", "vendor", "told", "cost"),
    [
        ("claude-sonnet-4-0", "anthropic", 0, 3),
        ("claude-sonnet-4-0", "anthropic", 0.5, Decimal("0.5")),
        ("llama", "ollama", 0, 0),
    ],
)
def test_a_cost_of_nothing_is_believed_if_there_is_no_price(
    store: clew.Store, tmp_path: Path, model: str, vendor: str, told: float, cost: Decimal
) -> None:
    """OpenCode and others write 0 when they do not know."""
    info = {"id": "msg_1", "role": "assistant", "modelID": model, "providerID": vendor, "cost": told}
    used = {"tokens": {"input": MILLION, "output": 0}, "time": {"created": 1_756_720_800_000}}
    message = {"info": {**info, **used}, "parts": [{"id": "prt_1", "type": "text", "text": "yes"}]}
    about = {"id": "ses_1", "projectID": "p", "title": "t"}
    path = write_json(tmp_path / "s.json", {"info": about, "messages": [message]})
    store.import_path(path)
    assert store.import_path(path).sessions[0].state == "unchanged"
    totals = store.usage()
    assert (totals.cost, totals.unpriced, totals.calls) == (cost, 0, 1)


def test_a_cost_that_was_added_up_in_floats_is_rounded(store: clew.Store, tmp_path: Path) -> None:
    """0.1 + 0.2 is 0.30000000000000004 in the files of some programs."""
    used = {"input": 1, "output": 1, "cost": {"total": 0.1 + 0.2}}
    message = {"role": "assistant", "content": [{"type": "text", "text": "yes"}], "usage": used}
    about = {"type": "session", "version": 3, "id": "s", "timestamp": TIME, "cwd": "/w"}
    line = {"type": "message", "id": "a", "parentId": None, "timestamp": TIME, "message": message}
    path = write_lines(tmp_path / "s.jsonl", about, line)
    assert store.import_path(path).problems == ()
    assert store.usage().cost == Decimal("0.3")
