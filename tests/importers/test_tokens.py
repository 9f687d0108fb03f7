"""Tokens mean the same from wherever they come: the whole prompt, and of it what a cache had."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import clew
from tests.importers.readers import write_json
from tests.importers.test_contexts import FRESH, OUT, READ, STOPPED, WRITTEN
from tests.support.rows import each_row

SAID = {"role": "user", "content": "hi"}
CACHED = {
    format: STOPPED[format]
    for format in ("claude-code", "opencode", "pi", "cline", "ggcode", "continue", "llm")
}
"""Programs that tell what went into a cache,"""
READING = {format: STOPPED[format] for format in ("codex", "gemini-cli")}
"""and those that do not."""


@each_row("format", [*CACHED, *READING])
def test_the_input_is_the_whole_prompt(tmp_path: Path, format: str) -> None:
    with clew.open("memory:") as store:
        write: Callable[[Path], Path] = {**CACHED, **READING}[format]
        report = store.import_path(write(tmp_path))
        assert {session.format for session in report.sessions} == {format}
        totals = store.usage()
        assert (totals.calls, totals.input_tokens, totals.output_tokens) == (1, 1000, OUT)
        written = WRITTEN if format in CACHED else 0
        assert (totals.cache_read_tokens, totals.cache_write_tokens) == (READ, written)


@each_row("format", ["claude-code", "opencode", "pi", "ggcode"])
def test_a_call_is_priced_with_its_cache(tmp_path: Path, format: str) -> None:
    """3 dollars for a million tokens, 0.30 for those of a cache, 3.75 for those that go into it, 15 for
    those of the answer."""
    with clew.open("memory:") as store:
        store.import_path(CACHED[format](tmp_path))
        totals = store.usage()
        whole = FRESH * Decimal(3) + READ * Decimal("0.3") + WRITTEN * Decimal("3.75") + OUT * Decimal(15)
        assert (totals.cost, totals.estimated, totals.unpriced) == (whole / 1_000_000, 1, 0)


def test_an_input_that_is_less_than_its_cache_was_told_without_it(store: clew.Store, tmp_path: Path) -> None:
    details = {"cachedTokens": 600}
    usage = {"promptTokens": 300, "completionTokens": 1, "promptTokensDetails": details}
    document = {"sessionId": "s", "title": "t", "history": [{"message": SAID}], "usage": usage}
    store.import_path(write_json(tmp_path / "s.json", document))
    assert store.usage().input_tokens == 900
