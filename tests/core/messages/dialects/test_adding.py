"""A dialect is added as the how-to says: one file, one line, and this class."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.messages import dialects
from clew.core.messages.dialects import calls_of, dialect_of, is_user_turn, results_of, role_of, text_of
from clew.core.messages.repair import repair
from clew.core.messages.search_text import searched_text
from clew.exporters.blocks import blocks_of

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "add-a-dialect.md"

HUMAN = {"from": "human", "lines": [{"say": "where is the heron?"}]}
ASKED: dict[str, Any] = {
    "from": "bot",
    "lines": [{"say": "I look."}, {"run": "look_up", "key": "k1", "with": {"bird": "heron"}}],
}
ANSWERED: dict[str, Any] = {"from": "tools", "lines": [{"ran": "k1", "gave": "in the reeds"}]}
ODD: dict[str, Any] = {"from": "bot", "lines": [None, 3, {}, {"ran": []}, {"say": 1}]}


def code_of_page() -> str:
    """The file of the page: the first block of Python in it."""
    found = re.search(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture(autouse=True)
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The file and the line."""
    file = tmp_path / "lines.py"
    file.write_text(code_of_page(), "utf-8")
    spec = spec_from_file_location("clew.core.messages.dialects.lines", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, spec.name, module)
    monkeypatch.setattr(dialects, "ORDER", ("lines.LINES", *dialects.ORDER))
    dialects.registry.cache_clear()
    yield
    dialects.registry.cache_clear()


class TestLines:
    def test_it_is_claimed(self) -> None:
        assert [dialect_of(message).name for message in (HUMAN, ASKED, ANSWERED, ODD)] == ["lines"] * 4
        assert dialect_of({"from": "bot"}).name == "other"
        assert dialect_of({"role": "user", "content": "hi"}).name == "chat"

    def test_who_speaks_and_what_is_said(self) -> None:
        assert [role_of(message) for message in (HUMAN, ASKED, ANSWERED)] == ["user", "assistant", "tool"]
        assert is_user_turn(HUMAN)
        assert not is_user_turn(ANSWERED)
        assert text_of(ASKED) == "I look."

    def test_calls_and_results_belong_together(self) -> None:
        (call,), (result,) = calls_of(ASKED), results_of(ANSWERED)
        assert (call.id, call.name) == ("k1", "look_up")
        assert (result.id, result.kind) == (call.id, call.kind)

    def test_a_history_is_repaired(self) -> None:
        whole = [HUMAN, ASKED, ANSWERED]
        assert repair(whole).messages == whole
        mended = repair([HUMAN, ASKED, HUMAN]).messages
        assert mended[2]["from"] == "tools"
        assert results_of(mended[2]) == results_of(ANSWERED)
        assert repair([HUMAN, ANSWERED, HUMAN]).messages == [HUMAN, HUMAN]

    def test_it_is_searched(self) -> None:
        asked, answered = searched_text(ASKED, 0), searched_text(ANSWERED, 0)
        assert (asked.said, asked.tool) == ("I look.", "look_up\nheron")
        assert (answered.said, answered.tool) == ("", "in the reeds")

    def test_it_is_shown(self) -> None:
        assert [(block.kind, block.name) for block in blocks_of(ASKED)] == [
            ("text", None),
            ("call", "look_up"),
        ]
        assert [block.text for block in blocks_of(ANSWERED)] == ["in the reeds"]
        assert [block.kind for block in blocks_of(ODD)] == ["data"] * 5

    def test_a_store_knows_it(self) -> None:
        with clew.open("memory:") as store:
            session = store.create("a")
            session.append(HUMAN, ASKED)
            assert session.info.preview == "where is the heron?"
            assert [role_of(message) for message in session.context()] == ["user", "assistant", "tool"]
            assert len(store.search("heron", tools=True)) == 2
            assert "<summary>look_up heron (no result)</summary>" in store.export("a", "markdown")
