"""The page behind a proxy, under a path (S-37): addresses, ids with odd letters, streams and pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import clew
from tests.exporters.hostile import PIXEL
from tests.server.page.conftest import sign_in
from tests.server.process.proxies import caddy, nginx, proxied

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

ODD = "a/b c%2Fd?#ü.."


@pytest.mark.parametrize(("make", "language"), [(nginx, "nginx"), (caddy, "caddyfile")])
def test_the_page_works_under_a_path(
    tmp_path: Path,
    context: BrowserContext,
    problems: list[str],
    make: Callable[[Path, int, str], list[str]],
    language: str,
) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    with clew.open(tmp_path / "agents.db") as store, proxied(tmp_path, make, language) as (server, _):
        session = store.create(ODD, title="An odd one")
        session.append({"role": "user", "content": [{"type": "text", "text": "first words"}, image]})
        asked: list[str] = []
        context.on("request", lambda request: asked.append(request.url))
        page = sign_in(server, context, problems)
        page.locator("#list a", has_text="An odd one").click()
        page.locator("#transcript", has_text="first words").wait_for()
        assert page.url.startswith(f"{server.url}/s/~"), "the address can be kept"
        page.locator("#transcript img").wait_for()
        page.wait_for_function("document.querySelector('#transcript img').naturalWidth === 1")
        session.append({"role": "assistant", "content": "said while you look"})
        page.locator("#transcript", has_text="said while you look").wait_for()
        page.reload()
        page.locator("#transcript", has_text="said while you look").wait_for()
        page.go_back()
        page.locator("#list a", has_text="An odd one").wait_for()
        own = server.url + "/"
        assert [url for url in asked if not url.startswith((own, "data:", "blob:"))] == []
        page.close()
