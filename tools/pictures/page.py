"""Pictures of the page of `clew serve`, taken in a real browser of the demo store.

The clock of the browser stands still at the moment for which the store was made.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias
from urllib.parse import quote

import clew
from tests.server.conftest import running
from tests.support.browsers import PATIENCE
from tools.pictures.demo_store import NOW, make

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

LOOKS: Final = ("light", "dark")
WIDE: Final = (1440, 900)
PHONE: Final = (390, 844)


_FONTS: Final = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <alias binding="strong"><family>DejaVu Sans</family><prefer><family>Inter</family></prefer></alias>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
</fontconfig>
"""
"""The page uses the font of the system, which is DejaVu Sans where no desktop is: Inter, if it is there."""


_AT_HOME: Final = """(place) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(place, "/home/ada");
}"""
"""The files are in a directory with a name that nobody would choose."""


Colour: TypeAlias = tuple[int, int, int]


class Names(NamedTuple):
    """The ids of the sessions that are shown."""

    harbor: str
    guard: str
    """The entry of it at which the second try was ready."""
    other: str
    """A fork of it."""


class View(NamedTuple):
    """What a picture shows."""

    path: Callable[[Names], str]
    ready: tuple[str, ...]
    """Selectors of what has to be there before."""
    act: Callable[[Page], None] = lambda page: None
    """What a person does first."""
    size: tuple[int, int] = WIDE


def _session(names: Names, more: str = "") -> str:
    return f"/s/{quote(names.harbor)}{more}"


def _compare(names: Names) -> str:
    return f"/compare?a={quote(names.harbor)}&a_at={names.guard}&b={quote(names.other)}"


def _unfold(page: Page) -> None:
    """Read from the prompt of the second try on, with what its edit changed."""
    page.get_by_role("treeitem", name="One guard is enough").click()
    page.locator("#transcript [aria-expanded]", has_text="auth.py +2").click()


def _rewind(page: Page) -> None:
    page.get_by_role("treeitem", name="before the fix").click()
    page.get_by_role("button", name="Rewind to here").click()
    page.locator("dialog .files-plan").wait_for()


def _changes(page: Page) -> None:
    page.locator(".files-change button, .files-change a").first.click()
    page.locator(".files-diff").wait_for()


VIEWS: Final = {
    "web-session": View(_session, ("#list a", "#transcript article", ".panel [role=treeitem]"), _unfold),
    "web-rewind": View(
        lambda names: _session(names, "?panel=tree"),
        ("#transcript article", ".panel [role=treeitem]"),
        _rewind,
    ),
    "web-files": View(
        lambda names: _session(names, "?panel=files"), ("#transcript article", ".files-change"), _changes
    ),
    "web-compare": View(_compare, ("#main article", ".files-diff")),
    "web-usage": View(lambda _: "/usage", (".usage-bars", ".usage-ranks")),
    "web-phone": View(_session, ("#transcript article",), size=PHONE),
}


@contextmanager
def demo(directory: Path, browser: Browser) -> Iterator[Callable[[str, str], Page]]:
    """A server of the demo store: a function that opens a view in a look."""
    contexts: list[BrowserContext] = []
    with clew.open(str(make(directory, NOW))) as store, running(store, allow_files=True) as server:
        names = names_of(store)

        def show(name: str, look: str) -> Page:
            view = VIEWS[name]
            width, height = view.size
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme="dark" if look == "dark" else "light",
                timezone_id="UTC", locale="en-GB", base_url=server.url, reduced_motion="reduce",
                has_touch=view.size == PHONE, is_mobile=view.size == PHONE,
            )  # fmt: skip
            contexts.append(context)
            context.set_default_timeout(PATIENCE)
            with server.client() as client:
                once = client.post("/api/v1/login/codes").json()["once"]
            page = context.new_page()
            page.clock.set_fixed_time(NOW)
            page.goto(f"/#once={once}")
            page.locator("#who", has_text="signed in").wait_for(state="attached")
            page.goto(view.path(names))
            for selector in view.ready:
                page.locator(selector).first.wait_for(state="attached")
            view.act(page)
            page.evaluate(_AT_HOME, str(directory))
            return page

        try:
            yield show
        finally:
            for context in contexts:
                context.close()


def made(names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """The pictures of these names, each with the name of its file."""
    from playwright.sync_api import sync_playwright

    if not names:
        return
    with tempfile.TemporaryDirectory() as place, sync_playwright() as play:
        fonts = Path(place, "fonts.conf")
        fonts.write_text(_FONTS, "utf-8")
        browser = play.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome"),
            args=["--no-sandbox", "--font-render-hinting=none"],
            env={**os.environ, "FONTCONFIG_FILE": str(fonts)},
        )
        with demo(Path(place, "demo"), browser) as show:
            for name in names:
                for look in LOOKS:
                    page = show(name, look)
                    yield f"{name}-{look}.png", photographed(page)
                    page.close()
        browser.close()


def names_of(store: clew.Store) -> Names:
    by_title = {info.title: info.id for info in store.list(limit=100)}
    harbor = by_title["Let tokens expire"]
    guard = store.get(harbor).get_checkpoint("one guard").head
    return Names(harbor, str(guard), by_title["Let tokens expire: in the middleware"])


def photographed(page: Page) -> bytes:
    """A PNG with 256 colours, so that it is small."""
    from PIL import Image

    page.evaluate("document.fonts.ready")
    image = Image.open(io.BytesIO(page.screenshot(animations="disabled", caret="hide"))).convert("RGB")
    # The most frequent colours stay as they are, and those of small things, such as a dot, get near ones.
    pixels: list[Colour] = list(image.getdata())
    counted = Counter(pixels)
    few = [colour for colour, _ in counted.most_common(200)]
    rare = image.quantize(56, method=Image.Quantize.MAXCOVERAGE).getpalette() or []
    few += list(zip(rare[::3], rare[1::3], rare[2::3], strict=True))
    nearest = {colour: min(range(len(few)), key=lambda at: _far(colour, few[at])) for colour in counted}
    drawn = Image.new("P", image.size)
    drawn.putpalette([part for colour in few for part in colour])
    drawn.putdata([nearest[pixel] for pixel in pixels])
    small = io.BytesIO()
    drawn.save(small, "PNG", optimize=True)
    return small.getvalue()


def _far(one: Colour, other: Colour) -> int:
    return sum((here - there) ** 2 for here, there in zip(one, other, strict=True))
