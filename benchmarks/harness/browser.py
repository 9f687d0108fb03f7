"""A real browser that is signed in, and what it can tell: when something was drawn, frames, memory.

The clocks of the page and of this process are the same one: `Date.now()` and `time.time()`. What the page
draws is noted in the page itself, in the frame in which it stands there, so the way to this process costs
nothing.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from benchmarks.harness.http import Served, request

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page

CHROMIUM: Final = ("chromium", "chromium-browser", "google-chrome")
SIZE: Final = {"width": 1440, "height": 900}
PATIENCE: Final = 20_000

_NOTES: Final = """
window.__seen = {};
window.__look = (name, found) => {
  const look = () => {
    if (window.__seen[name] !== undefined) return;
    if (found()) window.__seen[name] = performance.now();
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
};
window.__usable = (element) => {
  if (!element) return false;
  const box = element.getBoundingClientRect();
  const x = Math.min(Math.max(box.left + box.width / 2, 0), innerWidth - 1);
  const y = Math.min(Math.max(Math.max(box.top, 0) + 8, 0), innerHeight - 1);
  const there = document.elementFromPoint(x, y);
  const shown = box.height > 0 && box.bottom > 0 && box.top < innerHeight;
  return shown && there !== null && element.contains(there);
};
"""
"""`__look` notes the frame in which something is there first; `__usable`: a click would hit it."""

_SCROLL: Final = """
([selector, row, speed, seconds]) => new Promise((done) => {
  let box = document.querySelector(selector);
  const scrolls = (one) =>
    one.scrollHeight > one.clientHeight + 4 && /auto|scroll/.test(getComputedStyle(one).overflowY);
  while (box && !scrolls(box)) box = box.parentElement;
  box = box ?? document.scrollingElement;
  const frames = [];
  let first, last, number = 0, looked = 0, blank = 0;
  const began = box.scrollTop;
  const frame = (now) => {
    first ??= now;
    if (last !== undefined) {
      frames.push(now - last);
      box.scrollTop += (speed * (now - last)) / 1000;
      if (number++ % 10 === 0) {
        const area = box.getBoundingClientRect();
        const there = document.elementFromPoint(area.left + area.width / 2, area.top + area.height / 2);
        looked++;
        if (!there?.closest(row)) blank++;
      }
    }
    last = now;
    if (now - first < seconds * 1000) requestAnimationFrame(frame);
    else done({ frames, looked, blank, moved: Math.abs(box.scrollTop - began) });
  };
  requestAnimationFrame(frame);
})
"""
"""Scrolls as a hand does that never rests; every tenth frame it looks whether something is drawn there."""


class Frames:
    """How even the frames were while something moved."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.times: Sequence[float] = told["frames"]
        self.moved: float = told["moved"]
        self.looked: int = told["looked"]
        self.blank: int = told["blank"]

    @property
    def rate(self) -> float:
        """Frames a second."""
        return 1000 * len(self.times) / sum(self.times)

    def late(self, limit: float) -> int:
        """Frames that came after more than so many milliseconds."""
        return sum(time > limit for time in self.times)

    @property
    def details(self) -> dict[str, Any]:
        ordered = sorted(self.times)
        return {
            "frames": len(ordered),
            "a second": round(self.rate, 1),
            "over 25 ms": self.late(25),
            "over 33 ms": self.late(33.4),
            "p95, ms": round(ordered[int(len(ordered) * 0.95)], 1),
            "longest, ms": round(ordered[-1], 1),
            "pixels": round(self.moved),
            "looked at": self.looked,
            "of these blank": self.blank,
        }


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    from playwright.async_api import async_playwright

    found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if found is None:
        raise SystemExit("there is no Chromium: apt-get install chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--enable-precise-memory-info"]
        )
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def signed_in(browser: Browser, served: Served) -> AsyncIterator[BrowserContext]:
    """A browser with a cookie and a cache of its own."""
    context = await browser.new_context(viewport=SIZE, base_url=f"http://127.0.0.1:{served.port}")  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE)
    connection = served.connect()
    answer = connection.ask(request(served.port, "POST", "/api/v1/login/codes", {}))
    connection.close()
    page = await context.new_page()
    await page.goto(f"/#once={msgspec.json.decode(answer)['once']}")
    await page.locator("#who", has_text="signed in").wait_for()
    await page.close()
    await context.add_init_script(_NOTES)
    try:
        yield context
    finally:
        await context.close()


async def seen(page: Page, name: str) -> float:
    """Seconds from the start of the navigation until `__look` saw it; infinite: it never came."""
    from playwright.async_api import TimeoutError as NeverCame

    try:
        await page.wait_for_function("name => window.__seen[name] !== undefined", arg=name, polling=20)
    except NeverCame:
        return math.inf
    found: float = await page.evaluate("name => window.__seen[name]", name)
    return found / 1000


async def first_paint(page: Page) -> float:
    """Seconds until the first text stood on the screen."""
    asked = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
    await page.wait_for_function(asked, polling=20)
    found: float = await page.evaluate(asked)
    return found / 1000


async def scrolled(page: Page, selector: str, row: str, *, speed: int, seconds: float) -> Frames:
    """Scroll what holds `selector`, so many pixels a second; down, or up with a negative speed."""
    return Frames(await page.evaluate(_SCROLL, [selector, row, speed, seconds]))


async def heap(page: Page) -> int:
    """Bytes that scripts hold after what they do not need was collected."""
    session = await page.context.new_cdp_session(page)
    for _ in range(2):
        await session.send("HeapProfiler.collectGarbage")
    used: int = (await session.send("Runtime.getHeapUsage"))["usedSize"]
    await session.detach()
    return used


async def forget_cache(page: Page) -> None:
    session = await page.context.new_cdp_session(page)
    await session.send("Network.clearBrowserCache")
    await session.detach()
