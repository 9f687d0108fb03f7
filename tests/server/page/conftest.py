"""The page in a real browser, and everything that it must never do.

Every test ends with a look at `problems`: what the browser's console said, refusals of the policy included,
and requests to anywhere but the server. A test that expects one takes it out.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import httpx
import pytest

import clew
from tests.server.conftest import Running, running
from tests.server.page import hostile_store, rich_store

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 30_000
"""Milliseconds for whatever a page has to show: machines that run tests are slow."""


class Site(Protocol):
    """A server, in this process or in one of its own."""

    @property
    def url(self) -> str: ...

    def client(self) -> httpx.Client: ...


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = CHROMIUM is None and "CI" not in os.environ
    for item in items:
        if "tests/server/page/" in item.nodeid:
            item.add_marker(pytest.mark.timeout(240))
            if missing:
                item.add_marker(pytest.mark.skip(reason="there is no Chromium: apt-get install chromium"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of a store in which every text is an attack. Tests only read it."""
    with _filled(tmp_path_factory.mktemp("hostile"), hostile_store.fill) as server:
        yield server


@pytest.fixture(scope="session")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of a store with something of everything. Tests only read it."""
    with _filled(tmp_path_factory.mktemp("rich"), rich_store.fill) as server:
        yield server


@contextmanager
def _filled(folder: Path, fill: Callable[[clew.Store, Path], None]) -> Iterator[Running]:
    (folder / "files").mkdir()
    with clew.open(folder / "store.db") as store:
        fill(store, folder / "files")
        with running(store) as server:
            yield server


@pytest.fixture
def problems() -> Iterator[list[str]]:
    """What went wrong in any page of the test."""
    found: list[str] = []
    yield found
    assert found == []


@pytest.fixture
def new_context(browser: Browser, problems: list[str]) -> Iterator[Callable[..., BrowserContext]]:
    """Makes browsers with cookies of their own: `new_context(viewport=…, color_scheme="dark")`."""
    opened: list[BrowserContext] = []

    def make(**options: Any) -> BrowserContext:
        context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
        context.set_default_timeout(PATIENCE)
        context.on("weberror", lambda error: problems.append(f"error: {error.error}"))
        context.on("console", lambda said: problems.append(f"{said.type}: {said.text}"))
        opened.append(context)
        return context

    yield make
    for context in opened:
        context.close()


@pytest.fixture
def context(new_context: Callable[..., BrowserContext]) -> BrowserContext:
    return new_context()


@pytest.fixture
def visit(server: Running, context: BrowserContext, problems: list[str]) -> Callable[..., Page]:
    """Opens an address of the page as the owner: `visit("/s/login?panel=files")`."""

    def go(path: str = "/", *, of: Site = server, within: BrowserContext = context) -> Page:
        return sign_in(of, within, problems, path)

    return go


@pytest.fixture
def page(visit: Callable[..., Page]) -> Page:
    """The list of sessions, as the owner sees it. Fill the store before, or the list shows it live."""
    return visit()


def sign_in(server: Site, context: BrowserContext, problems: list[str], path: str = "/") -> Page:
    """A new tab at an address of the page, signed in."""
    home = server.url.split("/")[2]

    def look(url: str) -> None:
        if not url.startswith(("data:", "blob:")) and url.split("/")[2] != home:
            problems.append(f"a request to elsewhere: {url}")

    with server.client() as client:
        once = client.post("/api/v1/login/codes").json()["once"]
    tab = context.new_page()
    tab.on("request", lambda request: look(request.url))
    tab.goto(f"{server.url}{path}#once={once}")
    tab.locator("#who", has_text="signed in").wait_for(state="attached")  # a phone has no room for it
    return tab


def with_token(server: Running, context: BrowserContext, token: str, path: str = "/") -> Page:
    """A new tab at an address of the page, signed in by a token."""
    answer = context.request.post(f"{server.url}/api/v1/login", data={"token": token})
    assert answer.ok, answer.text()
    tab = context.new_page()
    tab.goto(f"{server.url}{path}")
    tab.locator("#who", has_text="signed in").wait_for()
    return tab
