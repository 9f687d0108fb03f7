"""Going on elsewhere: facts, the command to resume, files, and links that others can open."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import clew
from clew.server.access.shares import list_shares
from tests.server.conftest import Running
from tests.server.page.conftest import Problems

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page

Visit = Callable[..., "Page"]

SECRET = "sk-ant-api03-" + "a7" * 45 + "AA"


@pytest.fixture
def login(server: Running) -> clew.Session:
    session = server.store.create(
        "login",
        title="Fix the login",
        workspace="/w/shop",
        model="m-1",
        tags=("auth",),
        metadata={"agent": "claude-code", "ticket": 7},
    )
    session.append(
        {"role": "user", "content": "Fix the login, please"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "a quiet thought"},
                {"type": "text", "text": "I look at it"},
                {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "cat key.txt"}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": f"key {SECRET}"}],
        },
        {"role": "assistant", "content": "The key was old"},
    )
    return session


def dialog(page: Page, name: str) -> Locator:
    return page.get_by_role("dialog", name=name)


# -- facts


def test_the_facts_of_a_session_and_its_id_to_copy(
    login: clew.Session, server: Running, visit: Visit, copied: Callable[[Page], str]
) -> None:
    login.add_alias("ticket-7")
    fork = login.fork(id="again")
    page = visit("/s/again?panel=info")
    facts = page.get_by_role("tabpanel", name="Info")
    facts.get_by_text("/w/shop").wait_for()
    assert facts.locator("dt").all_inner_texts()[:4] == ["Id", "Status", "Agent", "Model"]
    facts.get_by_role("button", name="Copy the id").click()
    facts.get_by_role("button", name="Copied").wait_for()
    assert copied(page) == fork.id
    facts.get_by_role("link", name="login").click()
    page.wait_for_url("**/s/login?*")
    page.goto(f"{server.url}/s/ticket-7?panel=info")
    facts.get_by_text("ticket-7").wait_for()
    facts.get_by_text('"ticket": 7').wait_for()
    facts.get_by_role("link", name="auth").wait_for()


# -- resume


@pytest.fixture
def imported(server: Running, tmp_path: Path) -> clew.Session:
    """As an importer of Claude Code leaves it."""
    file = tmp_path / "0b1c.jsonl"
    file.write_text("{}\n")
    origin = {"format": "claude-code", "path": str(file)}
    session = server.store.create("claude-code:0b1c", workspace=tmp_path, metadata={"imported_from": origin})
    session.append({"role": "user", "content": "fix it"}, {"role": "assistant", "content": "done"})
    return session


def test_the_command_to_go_on_is_copied(
    imported: clew.Session,
    login: clew.Session,
    server: Running,
    visit: Visit,
    copied: Callable[[Page], str],
    tmp_path: Path,
) -> None:
    first = next(iter(imported.entries())).id
    page = visit(f"/s/claude-code:0b1c?panel=info&at={first}")
    page.get_by_role("button", name="Resume").click()
    shown = dialog(page, "Resume")
    command = f"cd {tmp_path} && claude --resume 0b1c"
    shown.get_by_text(command, exact=True).wait_for()
    shown.get_by_role("button", name="Copy the command", exact=True).click()
    shown.get_by_role("button", name="Copied").wait_for()
    assert copied(page) == command
    shown.get_by_text("Go on with another agent").click()
    shown.get_by_role("button", name="Copy the command for codex").click()
    shown.locator("details").get_by_role("button", name="Copied").wait_for()
    assert "--in codex" in copied(page)
    shown.get_by_label("From entry 0, in a copy").check()
    shown.get_by_text(f"resume claude-code:0b1c@{first}").first.wait_for()
    shown.get_by_text("claude-code gets a copy of it").wait_for()
    page.goto(f"{server.url}/s/login?panel=info")
    page.get_by_role("button", name="Resume").click()
    shown.get_by_text("No command is known with which claude-code goes on with it").wait_for()
    shown.get_by_role("button", name="Copy the command for codex").wait_for()


def test_a_key_pressed_while_a_dialog_closes_opens_the_next(imported: clew.Session, visit: Visit) -> None:
    """The browser tells of a closed dialog a moment later, when the next may be open already."""
    page = visit("/s/claude-code:0b1c")
    page.locator("#transcript article").first.wait_for()
    for way in ("script", "escape"):
        page.keyboard.press("o")
        dialog(page, "Resume").wait_for()
        if way == "escape":
            page.keyboard.press("Escape")
            page.keyboard.press("o")
            dialog(page, "Resume").wait_for()
        page.evaluate(
            """() => {
                document.querySelector("dialog").close();
                document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "e", bubbles: true}));
            }"""
        )
        dialog(page, "Export").wait_for()
        page.get_by_role("button", name="Close", exact=True).click()
        dialog(page, "Export").wait_for(state="detached")


# -- export


def export(
    page: Page, folder: Path, *, format: str, off: tuple[str, ...] = (), agent: str | None = None
) -> str:
    """Choose a format and what is left out, and read what is downloaded."""
    shown = dialog(page, "Export")
    shown.get_by_role("radio", name=re.compile(f"^{re.escape(format)} ")).check()
    if agent is not None:
        shown.get_by_label("Agent", exact=True).select_option(agent)
    for name in off:
        shown.get_by_label(name).uncheck()
    with page.expect_download() as download:
        shown.get_by_text("Download").click()
    target = folder / download.value.suggested_filename
    download.value.save_as(target)
    return target.read_text()


def test_exports_are_downloaded_and_have_what_was_chosen(
    login: clew.Session, visit: Visit, tmp_path: Path
) -> None:
    page = visit("/s/login")
    page.locator("#transcript", has_text="Fix the login").wait_for()
    page.keyboard.press("e")
    html = export(page, tmp_path, format="HTML")
    assert "Fix the login, please" in html
    assert "cat key.txt" in html
    assert SECRET not in html, "secrets are replaced unless somebody says so"
    text = export(
        page, tmp_path, format="Markdown", off=("Tool calls and their results", "What the model thought")
    )
    assert "I look at it" in text
    assert "cat key.txt" not in text
    assert "a quiet thought" not in text
    assert json.loads(export(page, tmp_path, format="JSON"))["session"]["id"] == "login"
    assert '"payload"' in export(page, tmp_path, format="For an agent", agent="codex")
    whole = export(page, tmp_path, format="Clew (JSONL)", off=("Replace secrets",))
    assert SECRET in whole
    assert sorted(path.suffix for path in tmp_path.glob("login.*")) == [".html", ".json", ".jsonl", ".md"]
    with clew.open(":memory:") as other:
        other.import_path(tmp_path / "login.jsonl")
        assert other.get("login").info.hash == login.info.hash


# -- from where


def test_a_session_is_handed_on_from_its_head_and_from_its_row_in_the_list(
    login: clew.Session, server: Running, visit: Visit, tmp_path: Path
) -> None:
    server.store.create("map", title="Draw a map").append({"role": "user", "content": "Tiles, please"})
    page = visit("/s/login")
    head = page.get_by_role("group", name="Resume, export, share")
    for name in ("Resume", "Export", "Share"):
        head.get_by_role("button", name=name).click()
        dialog(page, name).wait_for()
        assert dialog(page, name).get_by_text("Fix the login").count() == 0, "it is the one that is read"
        page.keyboard.press("Escape")
        dialog(page, name).wait_for(state="detached")
    row = page.locator("#list li", has_text="Draw a map")
    for name in ("Resume", "Export", "Share"):
        row.hover()
        row.get_by_role("button", name="Actions for Draw a map").click()
        page.get_by_role("button", name=f"{name}…").click()
        dialog(page, name).get_by_text("Draw a map").wait_for()
        if name == "Export":
            assert json.loads(export(page, tmp_path, format="JSON"))["session"]["id"] == "map"
        if name == "Share":
            dialog(page, name).get_by_role("button", name="Make a link").click()
            dialog(page, name).get_by_text("This link works on this machine only.").wait_for()
            assert [one.session for one in list_shares(server.store)] == ["map"]
        page.keyboard.press("Escape")
        dialog(page, name).wait_for(state="detached")
    assert page.url.endswith("/s/login")
    row.get_by_role("link").focus()
    page.keyboard.press("e")
    dialog(page, "Export").get_by_text("Draw a map").wait_for()
    page.keyboard.press("Escape")
    dialog(page, "Export").wait_for(state="detached")
    page.locator("#list a", has_text="Fix the login").focus()
    page.keyboard.press("[")
    page.wait_for_url("**/s/map")
    page.locator("#list a:focus", has_text="Draw a map").wait_for()


# -- share


def make(page: Page, *, live: bool = False) -> str:
    """A link, made in the page."""
    page.get_by_role("button", name="Share").click()
    shown = dialog(page, "Share")
    if live:
        shown.get_by_label("Live, with everything that comes").check()
    shown.get_by_role("button", name="Make a link").click()
    return shown.get_by_label("The link. It is shown only now: copy it.").input_value()


def test_a_link_shows_one_session_to_whoever_has_it_until_it_is_removed(
    login: clew.Session,
    server: Running,
    visit: Visit,
    new_context: Callable[..., BrowserContext],
    copied: Callable[[Page], str],
    problems: Problems,
) -> None:
    """It takes more than a second: the page of the guest is loaded three times."""
    problems.may_say("401")
    page = visit("/s/login?panel=info")
    url = make(page)
    dialog(page, "Share").get_by_role("button", name="Copy the link").click()
    dialog(page, "Share").get_by_role("button", name="Copied").wait_for()
    assert copied(page) == url

    stranger = new_context()
    guest = stranger.new_page()
    guest.goto(url)
    guest.locator("#who", has_text="shared: Fix the login").wait_for()
    guest.locator("#transcript", has_text="The key was old").wait_for()
    assert SECRET not in guest.content()
    assert stranger.cookies() == []
    assert guest.locator("#list").count() == 0
    assert guest.get_by_role("tab").count() == 0

    login.append({"role": "user", "content": "said after it was shared"})
    guest.reload()
    guest.locator("#transcript", has_text="The key was old").wait_for()
    assert "said after it was shared" not in guest.inner_text("#transcript")

    (share,) = list_shares(server.store)
    dialog(page, "Share").get_by_role("button", name=f"Remove the link {share.id}").click()
    dialog(page, "Share").get_by_role("heading", name="Links to this session").wait_for(state="detached")
    assert list_shares(server.store) == []
    guest.reload()
    guest.get_by_role("heading", name="This link has ended").wait_for()
    assert guest.locator("#token").count() == 0, "a share offers no sign-in"


def test_a_live_link_follows_the_session_and_ends_while_it_is_looked_at(
    login: clew.Session,
    visit: Visit,
    new_context: Callable[..., BrowserContext],
    problems: Problems,
    tmp_path: Path,
) -> None:
    """And what is downloaded of it has no secrets either."""
    problems.may_say("401")
    page = visit("/s/login?panel=info")
    guest = new_context().new_page()
    guest.goto(make(page, live=True))
    guest.locator("#transcript", has_text="The key was old").wait_for()
    guest.get_by_role("button", name="Export").click()
    text = export(guest, tmp_path, format="Markdown")
    assert "The key was old" in text
    assert SECRET not in text
    guest.keyboard.press("Escape")
    login.append({"role": "user", "content": "said after it was shared"})
    guest.locator("#transcript", has_text="said after it was shared").wait_for()
    dialog(page, "Share").locator("li", has_text="live").wait_for()
    dialog(page, "Share").get_by_role("button", name="Remove the link").click()
    guest.get_by_role("heading", name="This link has ended").wait_for()
