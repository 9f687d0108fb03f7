"""The page of `clew serve` in a real browser: how soon something is there, how smooth it is, what it holds.

A server with a store, a Chromium that is signed in, and a writer are processes of their own. Times begin
with the navigation, or with the commit of the writer, and end in the frame in which the thing is drawn.
The large stores are made once, in some minutes, and kept in benchmarks/.work.
"""

from __future__ import annotations

import asyncio
import json
import math
import statistics
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import clew
from benchmarks.harness.browser import chromium, first_paint, forget_cache, heap, scrolled, seen, signed_in
from benchmarks.harness.build import BATCH, SESSION, kept
from benchmarks.harness.http import serving
from benchmarks.harness.report import Result, Row, ms, size
from benchmarks.harness.script import Lab, main
from benchmarks.harness.work import Conversation

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page

PAINT: Final = 0.300
USABLE: Final = 0.500
SCREEN: Final = 0.250
"""Seconds; the last one for 95 of 100 commits."""
RATE: Final = 58.0
"""Frames a second, of 60."""
HEAP: Final = 150e6
"""Bytes, with a session of 100,000 messages."""

LIST_ROW: Final = "#list li"
ENTRY: Final = "#transcript article"
LAST: Final = "This is the last message of a long session."
_LAST: Final = (
    f"() => {{ const all = [...document.querySelectorAll({ENTRY!r})];"
    f" return __usable(all.findLast((one) => one.textContent.includes({LAST!r}))); }}"
)
AGENTS: Final = ("claude-code", "codex", "gemini-cli", "opencode", "aider")
MODELS: Final = ("claude-sonnet-4-5", "gpt-5-codex", "gemini-2.5-pro", "claude-opus-4-5", "gpt-5")

_WRITER: Final = """
import json, sys, time
import clew

address, count, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
times = []
with clew.open(address, durability="process") as store:
    session = store.session("followed")
    for number in range(count):
        time.sleep(pause * (0.5 + number * 7919 % 41 / 41))
        session.append({"role": "assistant", "content": f"tick {number}: " + "the tide comes in. " * 12})
        times.append(time.time())
print(json.dumps(times))
"""
_TICKS: Final = """() => {
  window.__ticks = {};
  const look = () => {
    const now = performance.timeOrigin + performance.now();
    for (const [, number] of document.querySelector("#transcript").textContent.matchAll(/tick (\\d+):/g))
      window.__ticks[number] ??= now;
  };
  let waits = false;
  new MutationObserver(() => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => { waits = false; look(); });
  }).observe(document.body, { childList: true, subtree: true, characterData: true });
}"""
"""Notes for each message of the writer the frame in which it is drawn."""


async def run(lab: Lab) -> Result:
    details: dict[str, Any] = {"quick": lab.quick}
    rows: list[Row] = []
    chosen = [part for part in PARTS if lab.has(part)] or [*PARTS]
    async with chromium() as browser:
        details["browser"] = browser.version
        for part in chosen:
            rows += await PARTS[part](lab, browser, details)
    return Result(rows, details)


@asynccontextmanager
async def opened(browser: Browser, path: Path) -> AsyncIterator[BrowserContext]:
    with serving("store", str(path)) as served:
        async with signed_in(browser, served) as context:
            yield context


# -- the stores


def fill(path: Path, count: int) -> None:
    """Sessions as several agents leave them: projects, models, costs, and one in ten a subagent."""
    talk = Conversation("page")
    messages = [talk.small() for _ in range(64)]
    newest = datetime.now(UTC)

    def some(store: clew.Store, numbers: range) -> None:
        for number in numbers:
            agent = AGENTS[number % 7 % len(AGENTS)]
            metadata: dict[str, Any] = {"agent": agent}
            if number % 10 == 9:
                metadata["parent"] = f"chat-{number - 1}"
            at = newest - timedelta(minutes=count - number)
            session = store.create(
                f"chat-{number}", title=f"Chat {number}: {messages[number % 64]['content'][:60]}",
                workspace=f"/home/ada/projects/project-{number % 40}", model=MODELS[number % len(MODELS)],
                tags=[f"tag-{number % 11}"] if number % 3 == 0 else [], metadata=metadata, created_at=at,
            )  # fmt: skip
            session.append(messages[number % 64], at=at)
            cost = Decimal(number % 500) / 100
            session.add_usage(input_tokens=9000, output_tokens=400, cost=cost, at=at)

    with clew.open(str(path), durability="process") as store:
        for start in range(0, count, 1000):
            numbers = range(start, min(start + 1000, count))
            store.transact(lambda inner, numbers=numbers: some(inner, numbers))  # type: ignore[misc]


def lengthen(path: Path, count: int) -> None:
    """A prompt, and then six times a call, its result and what the agent says to it: and again."""
    turns = list(Conversation("page").turns(600))
    pool = [message for number, turn in enumerate(turns) for message in turn[number % 6 > 0 :]]
    endless = cycle(pool)
    with clew.open(str(path), durability="process") as store:
        session = store.session(SESSION, title="A long session", metadata={"agent": "claude-code"})
        for start in range(0, count - 1, BATCH):
            session.append(*islice(endless, min(BATCH, count - 1 - start)))
        session.append({"role": "assistant", "content": LAST})


# -- the first look


async def sessions(lab: Lab, browser: Browser, details: dict[str, Any]) -> list[Row]:
    count = lab.pick(100_000, 10_000)
    lab.say(f"a store of {count:,} sessions (made once, and kept)")
    path = kept(f"page-sessions-{count}", lambda path: fill(path, count))
    async with opened(browser, path) as context:
        return [*await paints(lab, context, details), *await scrolled_list(lab, context, count, details)]


async def paints(lab: Lab, context: BrowserContext, details: dict[str, Any]) -> list[Row]:
    """The list, by a browser that was never there, and by one that has the page in its cache."""
    rounds = lab.pick(15, 5)
    lab.say(f"first paint, {rounds} times each")
    rows: list[Row] = []
    for cache in ("cold", "warm"):
        paint, listed = [], []
        for number in range(rounds + 1):
            page = await context.new_page()
            if cache == "cold":
                await forget_cache(page)
            await page.add_init_script(f"__look('rows', () => document.querySelector({LIST_ROW!r}))")
            await page.goto("/")
            times = await first_paint(page), await seen(page, "rows")
            await page.close()
            if number:  # the first one warms up the server
                paint.append(times[0])
                listed.append(times[1])
        for what, samples in (("first paint", paint), ("sessions shown", listed)):
            rows.append(within(f"{what}, cache {cache}", samples, PAINT, details))
    return rows


def within(work: str, samples: list[float], limit: float, details: dict[str, Any]) -> Row:
    """A row for a median of times."""
    middle = statistics.median(samples)
    details[f"{work}, ms"] = [round(one * 1000, 1) for one in samples]
    return Row(work, ms(middle), f"limit {ms(limit)}", middle / limit, 1.0)


# -- the list


async def scrolled_list(lab: Lab, context: BrowserContext, count: int, details: dict[str, Any]) -> list[Row]:
    lab.say("scrolling through them")
    page = await context.new_page()
    await page.goto("/")
    await page.locator(LIST_ROW).first.wait_for()
    frames = await scrolled(page, "#list", LIST_ROW, speed=6000, seconds=lab.pick(10, 3))
    held = await heap(page)
    await page.close()
    details["list, scrolled"] = frames.details
    return [
        smooth(f"list of {count:,}: scrolling", frames.rate, frames.late(33.4)),
        Row("list: heap after scrolling", size(held), f"limit {size(HEAP)}", held / HEAP, 1.0),
    ]


def smooth(work: str, rate: float, late: int) -> Row:
    return Row(work, f"{rate:.1f} frames/s", f"{late} over 33 ms", rate / RATE, 1.0, at_least=True)


# -- a long session


async def session(lab: Lab, browser: Browser, details: dict[str, Any]) -> list[Row]:
    count = lab.pick(100_000, 10_000)
    lab.say(f"a session of {count:,} messages (made once, and kept)")
    path = kept(f"page-long-{count}", lambda path: lengthen(path, count))
    async with opened(browser, path) as context:
        return await long_session(lab, context, count, details)


async def long_session(lab: Lab, context: BrowserContext, count: int, details: dict[str, Any]) -> list[Row]:
    rounds = lab.pick(7, 3)
    name = f"{count:,} messages"
    opened: list[float] = []
    for number in range(rounds + 1):
        page = await context.new_page()
        await page.add_init_script(f"__look('last', {_LAST})")
        await page.goto(f"/s/{SESSION}")
        took = await seen(page, "last")
        if number:  # the first one warms up the server
            opened.append(took)
        if number == rounds or (number and math.isinf(took)):
            break
        await page.close()
    lab.say("scrolling through it")
    frames = await scrolled(page, "#transcript", ENTRY, speed=-2500, seconds=lab.pick(10, 3))
    details[f"{name}, scrolled up"] = frames.details
    held = await heap(page)
    lab.say("jumps")
    top = await to_the_top(page)
    held = max(held, await heap(page))
    await page.close()
    middle = await jumps(lab, context, count)
    by_click = await clicked(lab, context)
    return [
        within(f"{name}: last entry usable", opened, USABLE, details),
        within(f"{name}: the same, by a click in the list", by_click, USABLE, details),
        within(f"{name}: an entry in the middle, by its address", middle, USABLE, details),
        within(f"{name}: from the end to the start, by keys", [top], USABLE, details),
        smooth(f"{name}: scrolling", frames.rate, frames.late(33.4)),
        Row(f"{name}: heap after scrolling", size(held), f"limit {size(HEAP)}", held / HEAP, 1.0),
    ]


async def jumps(lab: Lab, context: BrowserContext, count: int) -> list[float]:
    """Addresses of entries in the middle, opened in a new tab."""
    times: list[float] = []
    for number in range(lab.pick(5, 2)):
        position = count // 2 + number * 997
        answer = await context.request.get(f"/api/v1/sessions/{SESSION}/entries?after={position}&limit=1")
        entry = (await answer.json())["data"][0]
        page = await context.new_page()
        found = f"document.getElementById({entry['id']!r}) ?? document.querySelector({selector_of(entry)!r})"
        await page.add_init_script(f"__look('entry', () => __usable({found}))")
        await page.goto(f"/s/{SESSION}#{entry['id']}")
        times.append(await seen(page, "entry"))
        await page.close()
    return times


def selector_of(entry: dict[str, Any]) -> str:
    return f"#transcript [data-entry='{entry['id']}']"


async def clicked(lab: Lab, context: BrowserContext) -> list[float]:
    """From the list, as people open a session."""
    times: list[float] = []
    for _ in range(lab.pick(5, 2)):
        page = await context.new_page()
        await page.goto("/")
        row = page.locator(f"{LIST_ROW} a").first
        await row.wait_for()
        times.append(await after(page, "last", _LAST, row.evaluate("(link) => link.click()")))
        await page.close()
    return times


async def to_the_top(page: Page) -> float:
    first = f"{ENTRY}[aria-posinset='1']"
    top = f"() => __usable(document.querySelector({first!r}))"
    return await after(page, "top", top, page.keyboard.type("gg"))


async def after(page: Page, name: str, found: str, act: Awaitable[object]) -> float:
    """Seconds from when a person does something until it is there."""
    await page.evaluate(f"() => {{ window.__from = performance.now(); __look({name!r}, {found}); }}")
    await act
    took = await seen(page, name)
    began: float = await page.evaluate("window.__from")
    return took - began / 1000


# -- a session that grows


async def follow(lab: Lab, browser: Browser, details: dict[str, Any]) -> list[Row]:
    """A writer in another process, which notes when each append has returned."""
    path = lab.directory / "followed.db"
    with clew.open(str(path)) as store:
        store.session("followed", title="Followed").append({"role": "user", "content": "Count."})
    async with opened(browser, path) as context:
        page = await context.new_page()
        await page.goto("/s/followed")
        await page.locator(ENTRY).first.wait_for()
        await asyncio.sleep(1)  # the stream is open
        lab.say("from a commit to the screen")
        rows = await soon(page, path, lab.pick(200, 50), details)
        before = await heap(page)
        count = lab.pick(4000, 500)
        lab.say(f"following {count:,} messages")
        await written(path, count, 0.004)
        await page.get_by_text(f"tick {count - 1}:").first.wait_for()
        after = await heap(page)
    details["followed, heap"] = {"before": before, "after": after, "messages": count}
    rows.append(
        Row(f"heap after following {count:,} messages", size(after), f"limit {size(HEAP)}", after / HEAP, 1.0)
    )
    return rows


async def soon(page: Page, path: Path, count: int, details: dict[str, Any]) -> list[Row]:
    await page.evaluate(_TICKS)
    committed = await written(path, count, 0.05)
    await page.wait_for_function(f"() => window.__ticks[{count - 1}] !== undefined")
    drawn: dict[str, float] = await page.evaluate("() => window.__ticks")
    waits = sorted(max(0.0, drawn[str(n)] / 1000 - at) for n, at in enumerate(committed) if str(n) in drawn)
    p50, p95 = statistics.median(waits), waits[int(len(waits) * 0.95)]
    details["commit to screen"] = {
        "p50": p50, "p95": p95, "most": waits[-1], "samples": len(waits), "never drawn": count - len(waits),
    }  # fmt: skip
    return [Row("commit to screen, p95", ms(p95), f"p50 {ms(p50)}, limit {ms(SCREEN)}", p95 / SCREEN, 1.0)]


async def written(path: Path, count: int, pause: float) -> list[float]:
    """When each append of the writer had returned."""
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _WRITER, str(path), str(count), str(pause), stdout=asyncio.subprocess.PIPE
    )
    told, _ = await writer.communicate()
    times: list[float] = json.loads(told)
    return times


PARTS: Final = {"sessions": sessions, "session": session, "follow": follow}

if __name__ == "__main__":
    main(run, __doc__, **{part: f"only this part: {part}" for part in PARTS})
