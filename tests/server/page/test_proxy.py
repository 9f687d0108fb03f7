"""The page behind a proxy, under a path (S-37): addresses, ids with odd letters, streams and pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

import clew
from tests.exporters.hostile import PIXEL
from tests.server.page.conftest import Problems, sign_in
from tests.server.process.proxies import caddy, nginx, proxied
from tests.support.browsers import becomes_true

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

ODD = "a/b c%2Fd?#ü.."


@pytest.mark.parametrize(("make", "language"), [(nginx, "nginx"), (caddy, "caddyfile")])
def test_the_page_works_under_a_path(
    tmp_path: Path,
    context: BrowserContext,
    problems: Problems,
    make: Callable[[Path, int, str], list[str]],
    language: str,
) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    with clew.open(tmp_path / "agents.db") as store, proxied(tmp_path, make, language) as (server, client):
        session = store.create(ODD, title="An odd one")
        session.append({"role": "user", "content": [{"type": "text", "text": "first words"}, image]})
        asked: list[str] = []
        context.on("request", lambda request: asked.append(request.url))
        page = sign_in(server, context, problems)
        page.locator("#list a", has_text="An odd one").click()
        page.locator("#transcript", has_text="first words").wait_for()
        assert page.url.startswith(f"{server.url}/s/~"), "the address can be kept"
        page.locator("#transcript img").wait_for()
        becomes_true(page, "document.querySelector('#transcript img').naturalWidth === 1")
        session.append({"role": "assistant", "content": "said while you look"})
        page.locator("#transcript", has_text="said while you look").wait_for()
        page.reload()
        page.locator("#transcript", has_text="said while you look").wait_for()
        folder = tmp_path / "files"
        folder.mkdir()
        (folder / "ü #1?.txt").write_text("in the file")
        session.checkpoint("kept", files=folder)
        page.goto(f"{page.url}?panel=files&file={quote('ü #1?.txt')}")
        page.locator("dialog", has_text="in the file").wait_for()
        with page.expect_download() as started:
            page.locator("dialog a", has_text="Download").click()
        assert started.value.path().read_text() == "in the file"
        page.keyboard.press("Escape")
        page.goto(f"{server.url}/")
        page.locator("#list a", has_text="An odd one").wait_for()
        shared = client.post("/api/v1/shares", json={"session": ODD, "live": True}).json()["url"]
        guest = context.new_page()
        guest.goto(shared)
        guest.locator("#transcript", has_text="said while you look").wait_for()
        session.append({"role": "assistant", "content": "said while a guest looks"})
        guest.locator("#transcript", has_text="said while a guest looks").wait_for()
        guest.close()
        own = server.url + "/"
        assert [url for url in asked if not url.startswith((own, "data:", "blob:"))] == []
        page.close()
