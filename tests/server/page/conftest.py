"""The page in a real browser, and everything that it must never do.

Every test ends with a look at `problems`: what the browser's console said, refusals of the policy included,
and requests to anywhere but the server. A test that expects one says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import httpx
import pytest

import clew
from tests.server.conftest import Running, running
from tests.server.page import hostile_store, rich_store
from tests.support.browsers import PATIENCE, unhurried

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page


PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


class Site(Protocol):
    """A server, in this process or in one of its own."""

    @property
    def url(self) -> str: ...

    def client(self) -> httpx.Client: ...


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


class Problems(list[str]):
    """What went wrong in any page of the test."""

    def __init__(self) -> None:
        super().__init__()
        self._expected: list[str] = []

    def may_say(self, *words: str) -> None:
        """A browser tells of each request that was refused or found no server, now or later: it is meant."""
        self._expected += words

    @property
    def unexpected(self) -> list[str]:
        return [line for line in self if not any(words in line for words in self._expected)]


@pytest.fixture
def problems() -> Iterator[Problems]:
    found = Problems()
    yield found
    assert found.unexpected == []


@pytest.fixture
def new_context(browser: Browser, problems: Problems) -> Iterator[Callable[..., BrowserContext]]:
    """Makes browsers with cookies of their own: `new_context(viewport=…, color_scheme="dark")`. `is_slow`:
    the machine may be, so notices stay until they are read."""
    opened: list[BrowserContext] = []

    def make(*, is_slow: bool = True, **options: Any) -> BrowserContext:
        usual = {"viewport": {"width": 1440, "height": 900}, "timezone_id": "UTC", "locale": "en-US"}
        context = browser.new_context(**{**usual, **options})
        context.set_default_timeout(PATIENCE)
        if is_slow:
            unhurried(context)
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
def visit(server: Running, context: BrowserContext, problems: Problems) -> Callable[..., Page]:
    """Opens an address of the page as the owner: `visit("/s/login?panel=files")`."""

    def go(path: str = "/", *, of: Site = server, within: BrowserContext = context) -> Page:
        return sign_in(of, within, problems, path)

    return go


@pytest.fixture
def allowed(serve: Callable[..., Running]) -> Running:
    """A server that may change files."""
    return serve(allow_files=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The directory of `workshop.make`."""
    return tmp_path / "project"


@pytest.fixture
def copied(context: BrowserContext) -> Callable[[Page], str]:
    """What the browser has copied."""
    context.grant_permissions(["clipboard-read", "clipboard-write"])

    def read(page: Page) -> str:
        text: str = page.evaluate("navigator.clipboard.readText()")
        return text

    return read


@pytest.fixture
def page(visit: Callable[..., Page]) -> Page:
    """The list of sessions, as the owner sees it. Fill the store before, or the list shows it live."""
    return visit()


def sign_in(server: Site, context: BrowserContext, problems: Problems, path: str = "/") -> Page:
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
