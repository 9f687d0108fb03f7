"""One bad block costs that block: no message, whatever its shape, keeps a session from being exported."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clew
from clew.exporters import EXPORTERS
from clew.exporters.blocks import blocks_of
from tests.exporters.hostile import PIXEL
from tests.exporters.odd_messages import MESSAGES, nearly_good
from tests.exporters.page.reader import PageReader
from tests.support.effort import usually
from tests.support.rows import each_row

BEFORE = {"role": "user", "content": "said before"}
AFTER = {"role": "user", "content": "said after"}


def _exported(store: clew.Store, id: str, format: Any, **options: Any) -> bytes:
    with tempfile.TemporaryDirectory() as place:
        return Path(store.export(id, format, path=Path(place) / "x", **options)).read_bytes()


@given(MESSAGES | nearly_good())
def test_s55_every_message_has_blocks(message: dict[str, Any]) -> None:
    assert all(isinstance(block.text, str) for block in blocks_of(message))


@pytest.mark.parametrize("format", EXPORTERS)
@settings(max_examples=usually(60, quick=15, thorough=1000))
@given(odd=st.lists(MESSAGES | nearly_good(), min_size=1, max_size=4))
def test_s55_a_session_with_odd_messages_is_exported_whole(format: Any, odd: list[dict[str, Any]]) -> None:
    with clew.open("memory:") as store:
        store.create("a").append(BEFORE, *odd, AFTER)
        page = _exported(store, "a", format)
        assert b"said before" in page
        assert b"said after" in page
        if format in ("html", "markdown", "json", "jsonl"):
            assert _exported(store, "a", format, redact=True)


@given(odd=st.lists(MESSAGES | nearly_good(), min_size=1, max_size=4))
@settings(max_examples=usually(40, quick=15, thorough=1000))
def test_p6_a_session_with_odd_messages_is_listed_found_and_continued(odd: list[dict[str, Any]]) -> None:
    with clew.open("memory:") as store:
        s = store.create("a")
        s.append(BEFORE, *odd, AFTER)
        assert s.messages()[-1] == AFTER
        assert [info.id for info in store.list()] == ["a"]
        assert store.search("after").hits
        assert s.context()


@each_row("data", ["déjà", "not base64!", "", "=", PIXEL[:-3], "\u202e" + PIXEL, 7, None, [PIXEL]])
@each_row("media_type", ["image/png", 'image/png" onerror="x', "text/html", 3])
def test_s55_an_image_that_is_none_costs_that_image(data: Any, media_type: Any) -> None:
    with clew.open("memory:") as store:
        broken = {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
        whole = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
        store.create("a").append(
            {"role": "user", "content": [broken, {"type": "text", "text": "seen"}, whole]}
        )
        page = PageReader(store.export("a", "html"))
        images = [attributes["src"] for tag, attributes in page.tags if tag == "img"]
        assert [image for image in images if image != "data:image/png;base64,"] == [
            f"data:image/png;base64,{PIXEL}"
        ]
        assert "seen" in page.text
        assert "Not shown" in page.text or "data:image/png;base64," in images


def test_s55_a_text_that_the_parser_cannot_read_is_shown_as_it_is(
    store: clew.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clew.exporters.page import text

    class Broken:
        def render(self, text: str) -> str:
            raise IndexError("list index out of range")

    monkeypatch.setattr(text, "_markdown", Broken)
    store.create("a").append({"role": "user", "content": "*said* <b>"})
    assert "*said* <b>" in PageReader(page := store.export("a", "html")).text
    assert "could not be read as Markdown" in page
