"""Entries as people read them: blocks, HTML and lines."""

from __future__ import annotations

import base64
import re
from typing import Any

import httpx
import msgspec
import pytest

import clew
from clew.exporters.tools import summary
from clew.model import Entry, EntryKind
from clew.server.access.shares import add_share
from clew.server.routing import encoded
from clew.server.wire.entries import View
from clew.server.wire.views import Viewer
from tests.exporters.page.reader import PageReader
from tests.exporters.payloads import payloads, session_of
from tests.server.conftest import Running
from tests.server.routes.asking import A, pieces, user
from tests.support.rows import each_row


def calling(id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": id, "name": name, "input": arguments}],
    }


def result(id: str, text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text, **more}]}


@pytest.fixture
def session(server: Running) -> clew.Session:
    return server.store.create("a", workspace="/w")


def shown(client: httpx.Client, view: str, **params: Any) -> list[Any]:
    answer = client.get(f"{A}/entries", params={"view": view, **params})
    assert answer.status_code == 200, answer.text
    found: list[Any] = answer.json()["data"]
    return found


def test_blocks_have_text_and_html(session: clew.Session, client: httpx.Client) -> None:
    session.append(
        user("Fix **it**"),
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm *well*", "signature": "s"},
                {"type": "text", "text": "```python\nx = 1\n```"},
            ],
        },
    )
    asked, assistant = shown(client, "blocks")
    assert (asked["speaker"], asked["prompt"]) == ("user", "Fix **it**")
    assert asked["blocks"] == [{"kind": "text", "text": "Fix **it**", "html": asked["blocks"][0]["html"]}]
    assert "<strong>it</strong>" in asked["blocks"][0]["html"]
    assert assistant["speaker"] == "assistant"
    assert "prompt" not in assistant
    thinking, text = assistant["blocks"]
    assert (thinking["kind"], thinking["text"]) == ("thinking", "hm *well*")
    assert "<em>well</em>" in thinking["html"]
    assert "<pre><code" in text["html"]
    assert "message" not in asked


def test_a_call_has_its_line_and_the_result_tells_the_outcome(
    session: clew.Session, client: httpx.Client
) -> None:
    session.append(
        calling("c1", "Edit", file_path="/w/auth.py", old_string="a\nb", new_string="a\nc"),
        result("c1", "The file was updated."),
        calling("c2", "Bash", command="pytest -q"),
        result("c2", "1 failed, 3 passed in 0.1s", is_error=True),
    )
    edit, edited, ran, failed = (entry["blocks"][0] for entry in shown(client, "blocks"))
    assert edit["kind"] == "call"
    assert edit["call"] == edited["call"] == "c1"
    assert edit["line"]["text"] == summary(
        "Edit", {"file_path": "/w/auth.py", "old_string": "a\nb", "new_string": "a\nc"}, workspace="/w"
    )
    assert (edit["line"]["verb"], edit["line"]["subject"]) == ("Edit", "auth.py")
    assert "+1" in edit["line"]["outcome"]
    assert '<span class="l gi">+c</span>' in edit["html"]
    assert edited["name"] == "Edit"
    assert ran["line"]["family"] == "shell"
    assert "pytest -q" in ran["html"]
    assert failed["is_error"] is True
    assert failed["line"]["failed"] is True
    assert "1 failed" in failed["line"]["outcome"]


def test_a_result_knows_its_call_on_the_page_before(session: clew.Session, client: httpx.Client) -> None:
    session.append(calling("c", "Bash", command="ls"), *(user("x") for _ in range(5)))
    session.append(result("c", "a.txt"))
    (alone,) = shown(client, "blocks", last=1)
    assert alone["blocks"][0]["name"] == "Bash"
    assert alone["blocks"][0]["line"]["text"].startswith("Ran ls")
    single = client.get(f"{A}/entries/{alone['id']}", params={"view": "line"}).json()
    assert single["line"].startswith("Ran ls")


def test_one_piece_of_html(session: clew.Session, client: httpx.Client) -> None:
    session.append(user("*hi*"), calling("c", "Bash", command="ls"), result("c", "a.txt"))
    said, call, answer = (entry["html"] for entry in shown(client, "html"))
    assert "<em>hi</em>" in said
    assert "<details" in call
    assert "no result" not in call
    assert "a.txt" in answer


def test_one_line(session: clew.Session, client: httpx.Client) -> None:
    session.append(
        {"role": "user", "content": "first\n\x1b[31msecond\x07"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                *calling("c", "Read", file_path="/w/a.py")["content"],
            ],
        },
        result("c", "1\tx\n2\ty"),
        {
            "role": "user",
            "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}}
            ],
        },
    )
    session.compact("in short")
    lines = [entry["line"] for entry in shown(client, "line")]
    assert lines[0].startswith("first second")
    assert lines[1] == "I look. · Read a.py"
    assert lines[2].startswith("Read a.py (2 lines)")
    assert lines[3] == "[image/png]"
    assert lines[4].endswith(": in short")
    assert all(re.fullmatch(r"[^\x00-\x1f\x7f]*", line) for line in lines)


def test_a_pdf_of_any_size_is_a_link_of_this_server(session: clew.Session, client: httpx.Client) -> None:
    """A page of this server has no address that holds a file: such an address can be a program."""
    for content in (b"%PDF-1.7 small", b"%PDF-1.7 " + b"large" * 20_000):
        data = base64.b64encode(content).decode()
        source = {"type": "base64", "media_type": "application/pdf", "data": data}
        session.append(
            {"role": "user", "content": [{"type": "document", "title": "a.pdf", "source": source}]}
        )
    for entry, start in zip(shown(client, "blocks"), (b"%PDF-1.7 small", b"%PDF-1.7 large"), strict=True):
        [block] = entry["blocks"]
        assert "html" not in block
        answer = client.get(block["media"]["link"])
        assert answer.content.startswith(start)
        assert answer.headers["content-disposition"].startswith("attachment")


def test_marks_are_told(session: clew.Session, client: httpx.Client) -> None:
    session.append(user("x"))
    session.compact("short **words**")
    session.truncate(0)
    _, compaction, truncation = shown(client, "blocks")
    assert (compaction["kind"], compaction["speaker"]) == ("compaction", "mark")
    assert "<strong>words</strong>" in compaction["blocks"][0]["html"]
    assert "Truncated" in truncation["blocks"][0]["html"]


@each_row("view", ["raw", "blocks", "html", "line"])
@each_row(
    ("kind", "body"),
    [
        ("removed", b""),
        ("compaction", b'{"messages": 5}'),
        ("compaction", b'{"messages": [1, {"role": 7, "content": {}}]}'),
        ("summary", b'{"text": ["x"]}'),
        ("truncation", b"{}"),
        ("turns", b"{}"),
        ("message", b'{"role": [], "content": {"type": 1}, "tool_calls": "x"}'),
    ],
)
def test_marks_of_a_store_from_elsewhere_cost_nothing(view: View, kind: EntryKind, body: bytes) -> None:
    entry = Entry("b.0", 0, kind, body, 0, bytes(32))
    one = Viewer(view, "/x").show(entry)
    assert one.kind == kind
    assert msgspec.json.decode(msgspec.json.encode(one))["position"] == 0


def test_a_result_of_a_share_knows_its_call_on_the_page_before(
    server: Running, session: clew.Session
) -> None:
    session.append(calling("c", "Bash", command="ls"), user("x"), result("c", "a.txt"))
    for at in (None, session.head):
        _, token = add_share(server.store, session, at=at)
        with server.client(token) as client:
            (alone,) = shown(client, "blocks", last=1)
        assert alone["blocks"][0]["line"]["text"].startswith("Ran ls")


@pytest.mark.parametrize("view", ["blocks", "html"])
def test_s11_nothing_in_a_message_becomes_a_tag(server: Running, client: httpx.Client, view: str) -> None:
    """The corpus that exported pages are tried with."""
    id = session_of(server.store, payloads("https://evil.example"))
    longest = max(server.store.get(id).tree().branches, key=lambda branch: branch.last)
    place, at = f"/api/v1/sessions/{encoded(id)}/entries", f"{longest.id}.{longest.last}"
    shown = list(pieces(client, place, view, at=at))
    for piece in shown:
        _check(piece)
    assert len(shown) > 500


KNOWN = {
    "a", "b", "blockquote", "br", "code", "del", "details", "div", "em", "h3", "h4", "h5", "h6", "hr", "i",
    "img", "li", "ol", "p", "pre", "s", "span", "strong", "summary", "table", "tbody", "td", "th", "thead",
    "tr", "ul",
}  # fmt: skip
ATTRIBUTES = {"class", "data-n", "href", "title", "rel", "target", "start", "src", "alt", "id", "aria-hidden"}


def _check(piece: str) -> None:
    """By a real parser: only known tags and attributes, links of known schemes, pictures inside the page."""
    for tag, attributes in PageReader(piece).tags:
        assert tag in KNOWN, (tag, piece)
        assert attributes.keys() <= ATTRIBUTES, (tag, piece)
        assert attributes.get("href", "#").startswith(("http://", "https://", "mailto:", "#")), piece
        assert attributes.get("src", "data:image/").startswith("data:image/"), piece
