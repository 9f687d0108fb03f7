"""Tokens and money: the sums are right, each leads further, and what is not known is said."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import clew
from clew.server.access.tokens import add_token
from tests.server.conftest import Running, running
from tests.server.page.conftest import Problems, with_token
from tests.support.browsers import becomes_true

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page

Visit = Callable[..., "Page"]

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
"""What the clock of the browser shows: in the middle of a day, which no test is long enough to end."""


@pytest.fixture
def new_context(new_context: Callable[..., BrowserContext]) -> Callable[..., BrowserContext]:
    def make(**options: Any) -> BrowserContext:
        made = new_context(**options)
        made.clock.install(time=NOW)
        return made

    return make


def used(
    store: clew.Store, id: str, cost: str | None, *, days: int = 0, model: str = "m-1", **settings: Any
) -> clew.Session:
    """A session with one model call, so many days ago."""
    session = store.find(id) or store.create(id, **settings)
    (entry,) = session.append({"role": "assistant", "content": f"an answer of {id}"})
    at = NOW - timedelta(days=days)
    session.add_usage(model=model, input_tokens=1000, output_tokens=200, cost=cost, at=at, entry=entry.id)
    return session


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of a store with some calls. Tests only read it."""
    with clew.open(tmp_path_factory.mktemp("busy") / "store.db") as store, running(store) as server:
        used(store, "a", "1.25", title="Fix the login", workspace="/w/shop", metadata={"agent": "codex"})
        used(store, "a", "0.50", days=3, model="m-2")
        used(store, "b", "2.00", days=3, workspace="/w/blog", metadata={"agent": "claude-code"})
        used(store, "old", "4.00", days=60)
        yield server


def figure(page: Page, name: str, value: str) -> None:
    """Wait until one of the large figures has this value."""
    page.locator(".usage-figures div", has_text=name).locator(
        "b", has_text=re.compile(f"^{re.escape(value)}$")
    ).wait_for()


def _by_and_by(page: Page, cost: str) -> None:
    """Wait for a cost of which the page is not told: it asks from time to time, by a clock that we move."""
    shown = page.locator(".usage-figures div", has_text="Cost").locator("b", has_text=cost)
    while shown.count() == 0:
        page.clock.fast_forward(6000)
        page.wait_for_timeout(20)


def card(page: Page, title: str) -> Locator:
    return page.get_by_role("region", name=title, exact=True)


def has_bars(page: Page, count: int) -> None:
    """Wait until the chart has so many."""
    becomes_true(page, "count => document.querySelectorAll('.usage-bars a').length === count", count)


def query(page: Page) -> dict[str, str]:
    found: dict[str, str] = page.evaluate("Object.fromEntries(new URLSearchParams(location.search))")
    return found


# -- of the store


def test_every_sum_leads_further_and_the_address_tells_what_is_shown(busy: Running, visit: Visit) -> None:
    """It takes more than a second: ten times the sums are asked for and drawn."""
    page = visit("/usage", of=busy)
    figure(page, "Cost", "$3.75")
    figure(page, "Calls", "3")
    card(page, "Models").get_by_role("link", name="m-1 $3.25").click()
    figure(page, "Cost", "$3.25")
    assert query(page) == {"model": "m-1"}
    card(page, "Projects").get_by_role("link", name="shop $1.25").click()
    figure(page, "Cost", "$1.25")
    assert query(page) == {"model": "m-1", "project": "shop"}
    page.reload()
    figure(page, "Cost", "$1.25")
    card(page, "Projects").get_by_role("link", name="shop $1.25").click()  # chosen: it is taken off again
    figure(page, "Cost", "$3.25")
    page.get_by_role("link", name="Take off: model m-1").click()
    figure(page, "Cost", "$3.75")
    card(page, "Agents").get_by_role("link", name="codex $1.75").click()
    figure(page, "Cost", "$1.75")
    page.go_back()
    figure(page, "Cost", "$3.75")
    card(page, "Sessions").get_by_role("link", name="Fix the login $1.75").click()
    page.wait_for_url("**/s/a?panel=usage")
    figure(page, "Cost", "$1.75")


def test_a_day_a_period_and_what_is_counted_are_chosen(busy: Running, visit: Visit) -> None:
    page = visit("/usage", of=busy)
    bars = page.locator(".usage-bars")
    day = bars.get_by_role("link", name=re.compile(r"\$2\.50, 2\.4k tokens, 2 calls"))
    day.click()
    figure(page, "Cost", "$2.50")
    chosen = query(page)
    assert chosen["since"] < chosen["until"]
    has_bars(page, 30)  # the chart still shows the period
    card(page, "Sessions").get_by_role("link", name="b $2.00").wait_for()
    day.click()
    figure(page, "Cost", "$3.75")
    assert query(page) == {}
    page.get_by_text("Show as a table").click()
    rows = page.get_by_role("table").get_by_role("row")
    assert [rows.nth(n).get_by_role("cell").all_inner_texts() for n in (1, 2)] == [
        ["$2.50", "2,000", "400", "2"],
        ["$1.25", "1,000", "200", "1"],
    ]
    period = page.get_by_role("group", name="Period")
    period.get_by_role("link", name="90 days").click()
    figure(page, "Cost", "$7.75")
    assert query(page) == {"period": "90"}
    period.get_by_role("link", name="All").click()
    page.wait_for_url("**/usage?period=all")
    figure(page, "Cost", "$7.75")
    period.get_by_role("link", name="7 days").click()
    figure(page, "Cost", "$3.75")
    has_bars(page, 7)
    bars.get_by_role("link").last.focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    figure(page, "Cost", "$2.50")
    bars.locator("a[aria-current]").wait_for()
    assert bars.locator("a[tabindex='0']").count() == 1, "all bars are one stop of the Tab key"
    shown = page.get_by_role("group", name="What to show")
    period.get_by_role("link", name="30 days").click()
    figure(page, "Cost", "$3.75")
    shown.get_by_role("link", name="Tokens").click()
    page.get_by_role("heading", name="Tokens by day").wait_for()
    card(page, "Models").get_by_role("link", name="m-1 2.4k").wait_for()
    assert query(page) == {"show": "tokens"}
    shown.get_by_role("link", name="Calls").click()
    card(page, "Models").get_by_role("link", name="m-1 2", exact=True).wait_for()


def test_years_are_shown_by_week_and_by_month(server: Running, visit: Visit) -> None:
    used(server.store, "a", "1.00", days=300)
    used(server.store, "a", "2.00")
    page = visit("/usage?period=all")
    page.get_by_role("heading", name="Cost by week").wait_for()
    week = page.locator(".usage-bars").get_by_role("link", name=re.compile(r"week of .*\$1\.00"))
    week.click()
    figure(page, "Cost", "$1.00")
    used(server.store, "b", "4.00", days=1500)
    page.goto(f"{server.url}/usage?period=all")
    page.get_by_role("heading", name="Cost by month").wait_for()
    figure(page, "Cost", "$7.00")


def test_days_are_those_of_the_browser(
    server: Running, visit: Visit, new_context: Callable[..., BrowserContext]
) -> None:
    session = server.store.create("a")
    evening = (NOW - timedelta(days=4)).replace(hour=20)
    session.add_usage(model="m", cost="1.50", at=evening)
    there = new_context(timezone_id="Pacific/Auckland")
    page = visit("/usage", within=there)
    page.locator(".usage-bars").get_by_role("link", name=re.compile(r"\$1\.50")).click()
    page.wait_for_url(
        f"**since={(evening + timedelta(days=1)).date()}&until={(evening + timedelta(days=2)).date()}"
    )
    figure(page, "Cost", "$1.50")


def test_a_server_that_knows_no_time_zones_shows_days_all_the_same(
    busy: Running, visit: Visit, monkeypatch: pytest.MonkeyPatch, problems: Problems
) -> None:
    problems.may_say("422")

    def unknown(name: str) -> None:
        raise KeyError(name)

    monkeypatch.setattr("clew.server.routes.streams.ZoneInfo", unknown)
    page = visit("/usage", of=busy)
    figure(page, "Cost", "$3.75")
    has_bars(page, 30)


def test_what_is_estimated_or_unknown_is_said(server: Running, visit: Visit) -> None:
    session = server.store.create("a")
    session.add_usage(model="gpt-5", vendor="openai", input_tokens=1_000_000)
    session.add_usage(model="home-made", input_tokens=10)
    page = visit("/usage")
    page.get_by_text("The cost of 1 call is estimated from list prices at the time of each call.").wait_for()
    page.get_by_text("1 call has no known price: home-made. The cost is without them.").wait_for()
    card(page, "Models").get_by_role("link", name="home-made unknown").wait_for()


def test_a_store_without_calls_says_so(server: Running, visit: Visit) -> None:
    page = visit("/usage?period=all")
    page.get_by_text("No session has written down a model call yet.").wait_for()
    used(server.store, "a", "0.75")
    _by_and_by(page, "$0.75")


def test_a_token_bound_to_a_workspace_sees_its_own_sums(
    busy: Running, new_context: Callable[..., BrowserContext]
) -> None:
    _, token = add_token(busy.store, "shop", workspace="/w/shop")
    page = with_token(busy, new_context(), token, "/usage")
    figure(page, "Cost", "$1.75")
    card(page, "Sessions").get_by_role("link", name="Fix the login $1.75").click()
    card(page, "Running total").wait_for()
    figure(page, "Cost", "$1.75")


# -- of a session


def test_a_session_shows_its_subagents_and_the_calls_that_cost_most(server: Running, visit: Visit) -> None:
    store = server.store
    session = used(store, "a", "1.00")
    used(store, "a", "3.00", model="m-2")
    used(store, "helper", "0.50", title="Look around", metadata={"parent": "a"})
    entries = list(session.entries())
    page = visit("/s/a?panel=usage")
    figure(page, "Cost", "$4.50")
    page.get_by_text("With 1 subagent.").wait_for()
    card(page, "Models").get_by_role("link", name="m-2 $3.00").wait_for()
    card(page, "Subagents").get_by_text("This session itself").wait_for()
    chart = page.get_by_role("img", name="Running total over 2 calls: from $1.00 to $4.00.")
    chart.wait_for()
    page.get_by_role("link", name=re.compile(r"m-2 .*\$3\.00")).last.click()
    assert page.evaluate("decodeURIComponent(location.hash)") == f"#{entries[-1].id}"
    box = chart.bounding_box()
    assert box is not None
    chart.click(position={"x": 2, "y": box["height"] / 2})
    assert page.evaluate("decodeURIComponent(location.hash)") == f"#{entries[0].id}"
    card(page, "Subagents").get_by_role("link", name="Look around $0.50").click()
    page.wait_for_url("**/s/helper?panel=usage")
    figure(page, "Cost", "$0.50")


def test_the_sums_of_a_session_grow_while_it_runs(server: Running, visit: Visit) -> None:
    session = server.store.create("a")
    page = visit("/s/a?panel=usage")
    page.get_by_text("No model calls are written down for this session.").wait_for()
    session.add_usage(model="m-1", cost="1.00")  # nothing but the call is written
    _by_and_by(page, "$1.00")
    session.add_usage(model="m-1", cost="0.25")
    _by_and_by(page, "$1.25")
    figure(page, "Calls", "2")


def test_of_a_long_session_the_last_calls_are_drawn_upon_the_sum_of_all(
    server: Running, visit: Visit, context: BrowserContext
) -> None:
    session = server.store.create("a")
    session.append({"role": "user", "content": "go"})
    for _ in range(2005):
        session.add_usage(model="m", cost="0.01")
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    page = visit("/s/a?panel=usage")
    figure(page, "Cost", "$20.05")
    page.get_by_text("The last 2,000 calls of 2,005.").wait_for()
    page.get_by_role("img", name="Running total over 2,000 calls: from $0.06 to $20.05.").wait_for()
    assert len([url for url in asked if "/usage/records" in url]) <= 3
