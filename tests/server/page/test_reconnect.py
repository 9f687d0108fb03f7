"""A server that is killed while pages follow it: when it is back they show all, once and in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import clew
from tests.server.conftest import Running
from tests.server.page.conftest import sign_in
from tests.server.page.reading import Shown, doubled, read, watch
from tests.server.page.relay import relayed
from tests.server.page.restarts import Mortal, away, back, forgive, mortal
from tests.server.page.waiting import becomes_true
from tests.server.page.writer import writing

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Mortal]:
    with mortal(tmp_path) as running:
        yield running


def see(page: Page, number: int) -> None:
    page.locator("#transcript article", has_text=f"message {number} of work").wait_for()


def stored(path: Path, id: str = "work") -> list[str]:
    with clew.open(path) as store:
        return [entry.id for entry in store.get(id).entries()]


def ids(shown: list[Shown]) -> list[str]:
    return [one.id for one in shown]


def test_nothing_is_lost_and_nothing_is_doubled(
    server: Mortal, context: BrowserContext, problems: list[str]
) -> None:
    """In two tabs; the writer goes on while there is no server, and while one is killed."""
    with writing(server.store, "work") as writer:
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
    for tab in tabs:
        shown = read(tab)
        assert ids(shown) == stored(server.store)
        assert all(f"message {at} of work" in one.text for at, one in enumerate(shown, 1))
        assert doubled(tab) == []
        tab.close()
    forgive(problems)


def test_a_rewind_while_the_server_is_away_is_followed(
    server: Mortal, context: BrowserContext, problems: list[str]
) -> None:
    with writing(server.store, "work") as writer:
        writer.write(70)
        page = sign_in(server, context, problems, "/s/work")
        see(page, 70)
        watch(page)
        server.kill()
        away(page)
        with clew.open(server.store) as store:
            session = store.get("work")
            session.rewind(20)
            session.append({"role": "user", "content": "another way"})
        server.start()
        page.locator("#transcript article", has_text="another way").wait_for()
        back(page)
        shown = read(page)
        assert ids(shown) == stored(server.store)
        assert "another way" in shown[-1].text
        assert doubled(page) == []
        page.close()
    forgive(problems)


def test_the_list_is_right_after_the_server_was_away(
    server: Mortal, context: BrowserContext, problems: list[str]
) -> None:
    with clew.open(server.store) as store:
        for number in range(5):
            store.create(f"s{number}", title=f"Title {number}").append({"role": "user", "content": "x"})
        page = sign_in(server, context, problems)
        page.locator("#list a", has_text="Title 4").wait_for()
        watch(page)
        for round in range(2):
            server.kill()
            away(page)
            store.create(f"new {round}", title=f"Born {round}").append({"role": "user", "content": "x"})
            store.delete(f"s{round}")
            store.get("s2").update(title=f"Renamed {round}")
            store.get("s3").append({"role": "user", "content": "on top"})
            server.start()
            page.locator("#list a", has_text=f"Born {round}").wait_for()
            page.locator("#list a", has_text=f"Renamed {round}").wait_for()
            page.locator("#list a", has_text=f"Title {round}").wait_for(state="detached")
            back(page)
        titles = [info.title for info in store.list()]
        becomes_true(
            page,
            "titles => { const rows = [...document.querySelectorAll('#list a')].map(one => one.innerText);"
            " return rows.length === titles.length && rows.every((row, at) => row.includes(titles[at])) }",
            arg=titles,
        )
        assert doubled(page) == []
        page.close()
    forgive(problems)


def test_a_session_that_was_deleted_meanwhile_is_said_to_be_gone(
    server: Mortal, context: BrowserContext, problems: list[str]
) -> None:
    with clew.open(server.store) as store:
        store.create("work", title="Work").append({"role": "user", "content": "hello"})
        page = sign_in(server, context, problems, "/s/work")
        page.locator("#transcript article", has_text="hello").wait_for()
        server.kill()
        away(page)
        store.delete("work")
        server.start()
        page.locator("main", has_text="There is no such session").wait_for()
        back(page)
        page.close()
    forgive(problems)
    problems[:] = [line for line in problems if "404" not in line]


def test_a_connection_that_fell_silent_is_given_up(
    serve: Callable[..., Running], context: BrowserContext, problems: list[str]
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
    forgive(problems)
