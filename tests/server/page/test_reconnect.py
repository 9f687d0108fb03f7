"""A server that is killed while pages follow it: when it is back they show all, once and in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import clew
from tests.server.conftest import Running
from tests.server.page.conftest import Problems, sign_in
from tests.server.page.reading import Shown, doubled, read, watch
from tests.server.page.relay import relayed
from tests.server.page.restarts import NO_SERVER, Fragile, away, back, mortal
from tests.server.page.writer import writing
from tests.support.browsers import becomes_true

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page


@pytest.fixture
def context(new_context: Callable[..., BrowserContext], problems: Problems) -> BrowserContext:
    problems.may_say(*NO_SERVER)
    return new_context(is_slow=False)


@pytest.fixture
def fragile(tmp_path: Path) -> Iterator[Fragile]:
    with clew.open(tmp_path / "store.db") as store, closing(Fragile(store)) as server:
        yield server


def see(page: Page, number: int) -> None:
    page.locator("#transcript article", has_text=f"message {number} of work").wait_for()


def ids(shown: list[Shown]) -> list[str]:
    return [one.id for one in shown]


def test_nothing_is_lost_and_nothing_is_doubled(
    tmp_path: Path, context: BrowserContext, problems: Problems
) -> None:
    """In two tabs; a process goes on to write while there is no server, and while one is killed."""
    with mortal(tmp_path) as server, writing(server.store, "work") as writer:
        writer.write(30)
        tabs = [sign_in(server, context, problems, "/s/work") for _ in range(2)]
        for tab in tabs:
            see(tab, 30)
            watch(tab)
        number = 30
        for count in (3, 60, 1):
            writer.begin(count)
            server.kill()
            for tab in tabs:
                away(tab)
            writer.end()
            writer.write(count)
            server.start()
            writer.write(2)
            number += 2 * count + 2
            for tab in tabs:
                see(tab, number)
                back(tab)
        with clew.open(server.store) as store:
            stored = [entry.id for entry in store.get("work").entries()]
        for tab in tabs:
            shown = read(tab)
            assert ids(shown) == stored
            assert all(f"message {at} of work" in one.text for at, one in enumerate(shown, 1))
            assert doubled(tab) == []
            tab.close()


def test_what_was_said_and_rewound_while_the_server_was_away_is_followed(
    fragile: Fragile, context: BrowserContext, problems: Problems
) -> None:
    session = fragile.store.create("work")
    session.append(*({"role": "user", "content": f"message {at} of work"} for at in range(1, 71)))
    page = sign_in(fragile, context, problems, "/s/work")
    see(page, 70)
    watch(page)
    fragile.kill()
    away(page)
    session.append({"role": "user", "content": "message 71 of work"})
    fragile.start()
    back(page)
    see(page, 71)
    fragile.kill()
    away(page)
    session.rewind(20)
    session.append({"role": "user", "content": "another way"})
    fragile.start()
    back(page)
    page.locator("#transcript article", has_text="another way").wait_for()
    shown = read(page)
    assert ids(shown) == [entry.id for entry in session.entries()]
    assert "another way" in shown[-1].text
    assert doubled(page) == []


def test_the_list_is_right_after_the_server_was_away(
    fragile: Fragile, context: BrowserContext, problems: Problems
) -> None:
    problems.may_say("404")
    store = fragile.store
    for number in range(5):
        store.create(f"s{number}", title=f"Title {number}").append({"role": "user", "content": "x"})
    page = sign_in(fragile, context, problems)
    page.locator("#list a", has_text="Title 4").wait_for()
    watch(page)
    for round in range(2):
        fragile.kill()
        away(page)
        store.create(f"new {round}", title=f"Born {round}").append({"role": "user", "content": "x"})
        store.delete(f"s{round}")
        store.get("s2").update(title=f"Renamed {round}")
        store.get("s3").append({"role": "user", "content": "on top"})
        fragile.start()
        back(page)
        page.locator("#list a", has_text=f"Born {round}").wait_for()
        page.locator("#list a", has_text=f"Renamed {round}").wait_for()
        page.locator("#list a", has_text=f"Title {round}").wait_for(state="detached")
    becomes_true(
        page,
        "titles => { const rows = [...document.querySelectorAll('#list a')].map(one => one.innerText);"
        " return rows.length === titles.length && rows.every((row, at) => row.includes(titles[at])) }",
        arg=[info.title for info in store.list()],
    )
    assert doubled(page) == []
    page.goto(f"{fragile.url}/s/s4")
    page.locator("#transcript article").wait_for()
    fragile.kill()
    away(page)
    store.delete("s4")
    fragile.start()
    page.locator("main", has_text="There is no such session").wait_for()
    back(page)


def test_a_connection_that_fell_silent_is_given_up(
    serve: Callable[..., Running], context: BrowserContext, problems: Problems
) -> None:
    """As after a sleep of the machine: nothing comes, and no end either. The clock of the page is ours."""
    with relayed() as relay:
        running = serve(hosts=(relay.address,))
        relay.lead_to(running.url)
        session = running.store.create("work")
        session.append({"role": "user", "content": "message 1 of work"})
        context.clock.install()
        page = sign_in(relay, context, problems, "/s/work")
        see(page, 1)
        session.append({"role": "user", "content": "message 2 of work"})
        see(page, 2)
        relay.silence()
        session.append({"role": "user", "content": "message 3 of work"})
        for _ in range(10):
            page.clock.run_for(10_000)
        see(page, 3)
        page.close()
