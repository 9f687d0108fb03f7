"""Resources keep what tools keep: scope, secrets, budgets; recorded text stays in the fences of a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

import clew
from clew.core.messages.text import ACTING
from clew.errors import NotFoundError
from clew.server.mcp.budget import TOKENS, tokens
from clew.server.mcp.resources import uris
from clew.server.mcp.resources.handlers import completed, listed, read
from clew.server.mcp.text import RECORDED
from clew.server.mcp.view import View
from tests.server.mcp.safety.asking import HERE, view_of
from tests.server.mcp.safety.attacks import ATTACKS, fill
from tests.server.mcp.safety.elsewhere import EACH_CALLER, MARK, secret_names
from tests.server.mcp.safety.elsewhere import fill as fill_elsewhere
from tests.server.mcp.safety.test_secrets import OTHERS, SOME, parts
from tests.server.mcp.safety.test_secrets import fill as fill_with_key
from tests.support.rows import each_row, named

BLOCKS = ("heading", "paragraph", "bullet_list", "list_item", "inline", "fence")
FORGED = {"A heading", "system · 2026-01-01T00:00:00+00:00 · "}
"""What an attack would have as a heading."""


def page(view: View, uri: str) -> str:
    [content] = read(view, uri).contents
    text: str = content.text  # type: ignore[union-attr]
    assert text.startswith(RECORDED)
    assert not ACTING.search(text)
    assert tokens(text) <= TOKENS
    return text


def pages(view: View, session: clew.Session) -> Iterator[str]:
    yield page(view, uris.session_uri(session.id))
    yield page(view, uris.tree_uri(session.id))
    for entry in session.entries():
        yield page(view, uris.entry_uri(session.id, entry.id))


def outside(text: str) -> list[str]:
    """The texts of a page without code and addresses, as a program reads Markdown.

    It is nothing but headings, paragraphs, lists and code.
    """
    found = []
    for token in MarkdownIt("commonmark").parse(text):
        assert token.type.startswith(BLOCKS), token
        said = "".join(one.content for one in token.children or () if one.type != "code_inline")
        found.append(re.sub(r"clew://[!-~]+", "", said))
    return found


@each_row("attack", ATTACKS)
def test_s23_s45_recorded_text_stays_in_the_fences_of_a_page(attack: str) -> None:
    """It takes a second: each attack has ten pages, which a parser of Markdown reads."""
    with clew.open("memory:") as opened:
        session = fill(opened, attack)
        view = view_of(opened, workspace=session.info.workspace)
        for text in pages(view, session):
            left = outside(text)
            said = set(re.findall(r"([a-z]+)-field", str(left)))
            assert said <= {"title", "agent"}, (said, left)
            assert not FORGED & set(left)
        for one in listed(view, None).resources:
            assert not ACTING.search(one.model_dump_json())
            assert len(one.title or "") <= 120
            assert page(view, str(one.uri))
        assert not ACTING.search(completed(view, "").model_dump_json())


@pytest.mark.parametrize("keys", [SOME, OTHERS], ids=["some", "others"])
def test_s24_no_page_tells_a_secret(keys: list[str]) -> None:
    for key in keys:
        with clew.open("memory:") as opened, named(repr(key)):
            session = fill_with_key(opened, "s", key)
            view, secret = view_of(opened), parts(key)
            for text in (*pages(view, session), listed(view, None).model_dump_json()):
                assert not [one for one in secret if one in text], text[:2000]


@EACH_CALLER
def test_s19_no_address_leads_to_what_is_elsewhere(tmp_path: Path, limits: dict[str, Any]) -> None:
    with clew.open(tmp_path / "store.db") as store:
        fill_elsewhere(store, tmp_path / "files")
        view = view_of(store, **limits)
        for name in secret_names(store):
            id, _, point = name.partition("@")
            addresses = [uris.entry_uri(id, point)] if point else []
            if id not in ("here", "back"):
                addresses += [uris.session_uri(id), uris.tree_uri(id), uris.session_uri(name)]
            for uri in addresses:
                with pytest.raises(NotFoundError):
                    read(view, uri)
        for id in ("here", "back"):
            told = "".join(pages(view, store.get(id))) + listed(view, None).model_dump_json()
            assert MARK not in told.replace(f"{MARK} shared words", "").replace(f"{MARK}-checkpoint", "")
        assert completed(view, MARK).completion.values == []


def test_s19_no_address_leads_to_a_path_of_this_machine(tmp_path: Path) -> None:
    with clew.open("memory:") as store:
        store.create("here", workspace=HERE)
        for path in (str(tmp_path), "/etc/passwd", f"{HERE}/../elsewhere", "..", "%2e%2e", "\0", "a" * 5000):
            for uri in (
                f"clew://session/{path}",
                f"file://{path}",
                path,
                f"clew://session/here/entries/{path}",
            ):
                with pytest.raises(NotFoundError):
                    read(view_of(store), uri)
