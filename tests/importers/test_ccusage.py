"""The same files, read by ccusage: tokens and costs agree, and where they do not, it is known why.

ccusage runs offline, with the prices that are built into it.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from decimal import Decimal
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.home.make import make_home
from tests.support.npm import installed

VERSION = "20.0.24"
EXACTLY = Decimal("1e-9")
SESSIONS = [f"0b1c0000-0000-4000-8000-00000000000{number}" for number in range(10)]


pytestmark = pytest.mark.needs("node")


@pytest.fixture(scope="session")
def ccusage() -> Path:
    return installed("ccusage", VERSION) / ".bin" / "ccusage"


def told(ccusage: Path, home: Path, *words: str) -> dict[str, Any]:
    """What a report of ccusage says of the files below a home directory."""
    known = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    done = subprocess.run(
        [str(ccusage), *words, "--offline", "--json"],
        env={**known, "HOME": str(home), "TZ": "UTC"},
        capture_output=True,
        text=True,
        check=True,
    )
    report: dict[str, Any] = json.loads(done.stdout, parse_float=Decimal)
    return report


def tokens_of(sums: clew.UsageTotals) -> dict[str, int]:
    """By the names of ccusage, for which input is what no cache had."""
    cached = sums.cache_read_tokens + sums.cache_write_tokens
    return {
        "inputTokens": sums.input_tokens - cached,
        "outputTokens": sums.output_tokens,
        "cacheReadTokens": sums.cache_read_tokens,
        "cacheCreationTokens": sums.cache_write_tokens,
    }


def of(report: Mapping[str, Any]) -> dict[str, int]:
    names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheCreationTokens")
    return {name: report[name] for name in names}


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    """As the agents do, without spaces: ccusage looks for "usage":{."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


# -- Claude Code


def usage(
    fresh: int, out: int, *, read: int = 0, short: int = 0, long: int = 0, **more: Any
) -> dict[str, Any]:
    return {
        "input_tokens": fresh,
        "output_tokens": out,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": short + long,
        "cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long},
        **more,
    }


def claude(
    home: Path,
    session: str,
    *calls: tuple[str, str, dict[str, Any]],
    agent: str | None = None,
    month: str = "11",
) -> None:
    """A session, or one of its subagents: the id of each call, its model and its tokens."""
    folder = home / ".claude" / "projects" / "-w"
    place = f"{session}/subagents/agent-{agent}.jsonl" if agent else f"{session}.jsonl"
    common = {"sessionId": session, "cwd": "/w", "version": "2.1.0", "isSidechain": agent is not None}
    common |= {"agentId": agent} if agent else {}
    said = {"role": "user", "content": "hi"}
    time = "2026-11-01T10:00:00.000Z"
    lines: list[dict[str, Any]] = [
        {"type": "user", "uuid": "u", "parentUuid": None, "timestamp": time, "message": said, **common}
    ]
    for number, (id, model, used) in enumerate(calls):
        message = {"role": "assistant", "type": "message", "id": id, "model": model, "usage": used}
        own = {"uuid": f"{agent}{number}", "parentUuid": lines[-1]["uuid"], "requestId": f"req_{id}"}
        time = f"2026-11-{1 + number % 28:02}T10:00:00.000Z"
        line = {"message": {**message, "content": [{"type": "text", "text": "yes"}]}, **own, **common}
        lines.append({"type": "assistant", "timestamp": time, **line})
    write_lines(folder / place, lines)


CLAUDE = [
    "claude-3-5-haiku-20241022", "claude-3-7-sonnet-20250219", "claude-sonnet-4-20250514",
    "claude-sonnet-4-5-20250929", "claude-sonnet-4-6", "claude-opus-4-1-20250805",
    "claude-opus-4-5-20251101", "claude-opus-4-6", "claude-opus-4-7", "claude-opus-4-8",
    "claude-haiku-4-5-20251001", "claude-opus-5",
]  # fmt: skip
FAST = ["claude-opus-4-6", "claude-opus-4-7", "claude-opus-4-8", "claude-opus-5"]


def write_claude(home: Path) -> None:
    first, resumed, third = SESSIONS[:3]
    calls = [(f"msg_{model}", model, usage(900, 700, read=60_000, short=8000, long=5000)) for model in CLAUDE]
    fast = [(f"msg_fast_{model}", model, usage(900, 700, read=6000, speed="fast")) for model in FAST]
    claude(home, first, *calls)
    # Resumed by an old version, in a new file with all of the first one; a new call, told again as it grew.
    growing = [("msg_new", CLAUDE[3], usage(10, out, read=5000)) for out in (1, 40, 200, 200)]
    claude(home, resumed, *calls, *growing)
    claude(home, third, *fast, ("msg_none", "<synthetic>", usage(0, 0)))
    claude(home, third, ("msg_agent", CLAUDE[10], usage(5, 600, short=9000)), agent="a1")
    claude(home, third, *fast[:1], ("msg_other", CLAUDE[0], usage(7, 70)), agent="a2")


@pytest.mark.parametrize("report", ["daily", "monthly", "session"])
def test_claude_code_costs_the_same(ccusage: Path, tmp_path: Path, store: clew.Store, report: str) -> None:
    """Models, caches of 5 minutes and of an hour, fast modes, repeated and copied lines, subagents."""
    write_claude(tmp_path)
    store.import_path(tmp_path / ".claude" / "projects")
    theirs, ours = told(ccusage, tmp_path, "claude", report)["totals"], store.usage()
    assert tokens_of(ours) == of(theirs)
    assert abs(ours.cost - theirs["totalCost"]) < EXACTLY
    assert ours.unpriced == 0


def test_claude_code_costs_the_same_by_model(ccusage: Path, tmp_path: Path, store: clew.Store) -> None:
    write_claude(tmp_path)
    store.import_path(tmp_path / ".claude" / "projects")
    [month] = told(ccusage, tmp_path, "claude", "monthly")["monthly"]
    theirs: dict[str, Decimal] = {}
    for part in month["modelBreakdowns"]:
        name = part["modelName"].removesuffix("-fast")
        theirs[name] = theirs.get(name, Decimal(0)) + part["cost"]
    ours = {model: sums.cost for model, sums in store.usage(by="model").items()}
    assert ours.keys() == theirs.keys()
    assert {model for model in theirs if abs(ours[model] - theirs[model]) >= EXACTLY} == set()


def test_a_day_costs_the_same(ccusage: Path, tmp_path: Path, store: clew.Store) -> None:
    write_claude(tmp_path)
    store.import_path(tmp_path / ".claude" / "projects")
    theirs = {day["date"]: of(day) for day in told(ccusage, tmp_path, "claude", "daily")["daily"]}
    assert {str(day): tokens_of(sums) for day, sums in store.usage(by="day").items()} == theirs


# -- Codex


CODEX = [
    "gpt-5", "gpt-5-codex", "gpt-5-mini", "gpt-5.1-codex", "gpt-5.2", "gpt-5.2-codex", "gpt-5.3-codex",
    "gpt-5.4", "gpt-5.4-mini", "gpt-5.5", "gpt-5.6-sol", "gpt-5.6-terra", "gpt-6-astra",
]  # fmt: skip
COUNTS = ["input_tokens", "cached_input_tokens", "cache_write_input_tokens"]
COUNTS += ["output_tokens", "reasoning_output_tokens"]
Five = tuple[int, int, int, int, int]


def codex(
    home: Path, number: int, model: str, *calls: Five, tier: str | None = None, month: str = "11"
) -> None:
    """A thread: what each call used. The counter of the thread is told twice after each."""
    id = f"0199a213-81c0-7800-8aa1-bbab2a03{number:04}"
    records: list[tuple[str, dict[str, Any]]] = [
        ("session_meta", {"id": id, "cwd": "/w", "cli_version": "0.128.0", "model_provider": "openai"}),
        ("turn_context", {"cwd": "/w", "model": model}),
        (
            "response_item",
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        ),
    ]
    if tier is not None:
        settings = {"type": "thread_settings_applied", "thread_settings": {"service_tier": tier}}
        records.append(("event_msg", settings))
    sums = accumulate(calls, lambda a, b: tuple(x + y for x, y in zip(a, b, strict=True)))
    for last, total in zip(calls, sums, strict=True):
        info = {"total_token_usage": _counted(total), "last_token_usage": _counted(last)}
        records += [("event_msg", {"type": "token_count", "info": info})] * 2
    day = home / ".codex" / "sessions" / "2026" / month / "01"
    lines = [
        {"timestamp": f"2026-{month}-01T10:{minute:02}:00.000Z", "type": kind, "payload": payload}
        for minute, (kind, payload) in enumerate(records)
    ]
    write_lines(day / f"rollout-2026-{month}-01T10-00-00-{id}.jsonl", lines)


def _counted(numbers: Any) -> dict[str, int]:
    return {**dict(zip(COUNTS, numbers, strict=True)), "total_tokens": numbers[0] + numbers[3]}


def test_codex_costs_the_same(ccusage: Path, tmp_path: Path, store: clew.Store) -> None:
    """Cached input, reasoning, prompts above the limit of long ones, faster tiers, repeated counters."""
    for number, model in enumerate(CODEX):
        codex(tmp_path, number, model, (10_000, 6000, 0, 300, 100), (300_000, 200_000, 0, 900, 0))
    for number, model in enumerate(["gpt-5.3-codex", "gpt-5.4", "gpt-5.5", "gpt-6-astra"], len(CODEX)):
        codex(tmp_path, number, model, (10_000, 6000, 0, 300, 100), tier="priority")
    codex(tmp_path, 99, "gpt-5.6-sol", (10_000, 6000, 2000, 300, 100))
    store.import_path(tmp_path / ".codex")
    report = told(ccusage, tmp_path, "codex", "session")
    for session in report["sessions"]:
        ours = store.get(f"codex:{session['sessionFile'][-36:]}").usage()
        assert tokens_of(ours) == of(session)
        assert ours.reasoning_tokens == session["reasoningOutputTokens"]
        assert abs(ours.cost - session["costUSD"]) < EXACTLY, session["models"]
    assert abs(store.usage().cost - report["totals"]["costUSD"]) < EXACTLY


def test_sessions_of_real_agents_cost_the_same(ccusage: Path, tmp_path: Path, store: clew.Store) -> None:
    """A session of ccusage is one of ours with its subagents. Its daily report is not asked: lines without a
    requestId, which these have, it counts more than once."""
    home = make_home(tmp_path / "home")
    store.import_path(home / ".claude" / "projects")
    store.import_path(home / ".codex")
    ours: dict[str, Decimal] = {}
    for id, sums in store.usage(by="session").items():
        whole = str(id).partition(":")[2].partition("/")[0]
        ours[whole] = ours.get(whole, Decimal(0)) + sums.cost
    theirs = {
        one["sessionId"]: one["totalCost"] for one in told(ccusage, home, "claude", "session")["sessions"]
    }
    for one in told(ccusage, home, "codex", "session")["sessions"]:
        theirs[one["sessionFile"][-36:]] = one["costUSD"]
    assert ours.keys() == theirs.keys()
    assert {id for id in ours if abs(ours[id] - theirs[id]) >= EXACTLY} == set()


# -- where they differ


def difference(ccusage: Path, home: Path, program: str) -> tuple[Decimal, Decimal]:
    """In whole cents: what ccusage says, and what we say."""
    with clew.open("memory:") as store:
        store.import_path(home / (".claude/projects" if program == "claude" else ".codex"))
        ours = store.usage()
    theirs = told(ccusage, home, program, "session")["totals"]
    assert tokens_of(ours) == of(theirs)
    cost = theirs.get("totalCost", theirs.get("costUSD"))
    return round(Decimal(cost), 2), round(ours.cost, 2)


def of_claude(model: str, tokens: int) -> Callable[[Path], None]:
    return lambda home: claude(home, SESSIONS[0], ("msg_1", model, usage(tokens, 0)))


def of_codex(model: str, *, written: int = 0, **more: Any) -> Callable[[Path], None]:
    return lambda home: codex(home, 1, model, (200_000, 0, written, 0, 0), **more)


DIFFERENCES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "a model is newer than the prices of ccusage": (of_claude("claude-opus-5-5", 1_000_000), "0", "4"),
    # As the vendor says. ccusage counts only the tokens above the limit, each kind by itself.
    "a long prompt is priced as a whole": (of_claude("claude-sonnet-4-5-20250929", 250_000), "0.90", "1.50"),
    # ccusage knows the present one: GPT-5.6 Sol cost 5 dollars for a million tokens before it cost 4.
    "a price is that of the time of the call": (of_codex("gpt-5.6-sol", month="06"), "0.80", "1.00"),
    # ccusage asks a quarter more than for other input where the vendor asks nothing more.
    "a cache is free to write": (of_codex("gpt-5.5", written=200_000), "1.25", "1.00"),
    # ccusage knows the faster tiers of some models.
    "a fast tier has its price": (of_codex("gpt-5.2", tier="priority"), "0.35", "0.70"),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_where_costs_differ_it_is_known_why(ccusage: Path, tmp_path: Path, name: str) -> None:
    """What ccusage says, and what we say."""
    write, theirs, ours = DIFFERENCES[name]
    write(tmp_path)
    program = "codex" if (tmp_path / ".codex").exists() else "claude"
    assert difference(ccusage, tmp_path, program) == (Decimal(theirs), Decimal(ours))
