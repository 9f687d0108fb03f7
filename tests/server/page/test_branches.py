"""The tree of a session beside its transcript, and the way back in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.server.conftest import Running
from tests.server.page.conftest import Problems
from tests.server.page.workshop import FIRST, assistant, content, make, user, write

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page

Visit = Callable[..., "Page"]


def row(page: Page, text: str) -> Locator:
    return page.get_by_role("treeitem").filter(has_text=text)


def toast(page: Page, text: str) -> Locator:
    return page.locator(".toast", has_text=text)


def test_the_tree_shows_the_present_path_what_was_left_and_forks(server: Running, visit: Visit) -> None:
    session = server.store.session("login")
    session.append(user("The login page returns 500"), assistant("I look at it"))
    session.checkpoint("plan")
    session.append(user("Rewrite all of it"), assistant("Done"))
    session.rewind("plan")
    fork = session.fork("other")
    fork.append(user("Try a middleware"), assistant("Tried"))
    session.append(user("Only guard line 42"), assistant("Guarded"))
    server.store.session("helper", metadata={"parent": "login"}).append(user("Find users of it"))
    page = visit("/s/login?panel=tree")
    tree = page.get_by_role("tree", name="Branches")
    row(page, "Try a middleware").wait_for()
    row(page, "Rewrite all of it").wait_for()
    found = tree.get_by_role("treeitem")
    assert [one.split("\n")[0] for one in found.all_inner_texts()] == [
        "The login page returns 500",
        "plan",
        "Rewrite all of it",
        "Try a middleware",
        "other",
        "Only guard line 42",
        "present",
    ]
    levels = [one.get_attribute("aria-level") for one in found.all()]
    assert levels == ["1", "1", "2", "2", "2", "1", "1"]
    assert row(page, "present").get_attribute("aria-selected") == "true"
    assert page.get_by_role("link", name="other").get_attribute("href") == "/s/other"
    page.locator(".branches-subagents a", has_text="Find users of it").wait_for()


def test_another_branch_and_the_way_back_are_chosen_by_clicks_and_by_keys(
    server: Running, visit: Visit
) -> None:
    session = server.store.session("login")
    session.append(user("One"), assistant("1"))
    session.checkpoint("fork")
    left = session.append(user("Left behind"), assistant("gone"), user("Left more"), assistant("gone too"))
    session.rewind("fork")
    session.append(user("Kept"), assistant("here"))
    page = visit("/s/login?panel=tree")
    row(page, "Left more").click()
    page.wait_for_url(lambda url: f"at={left[-1].id}" in url and url.endswith(f"#{left[2].id}"))
    page.locator("main", has_text="gone too").wait_for()
    row(page, "Kept").click()
    page.wait_for_url(lambda url: "at=" not in url)
    page.locator("main", has_text="here").wait_for()
    page.go_back()
    page.locator("main", has_text="gone too").wait_for()
    page.go_forward()
    page.locator("main", has_text="here").wait_for()
    branch = row(page, "Left behind")
    assert branch.get_attribute("aria-expanded") == "true"
    row(page, "Kept").focus()
    page.keyboard.press("Home")
    page.locator("[role=treeitem]:focus", has_text="One").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    row(page, "Left more").wait_for(state="detached")
    page.keyboard.press("ArrowRight")
    row(page, "Left more").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: f"at={left[-1].id}" in url)
    assert row(page, "Left behind").get_attribute("aria-selected") == "true"


def test_fork_here_opens_a_fork_that_ends_at_the_entry(server: Running, visit: Visit) -> None:
    session = server.store.session("login")
    session.append(user("One"), assistant("1"), user("Two"), assistant("2"))
    page = visit("/s/login?panel=tree")
    row(page, "One").click()
    page.get_by_text("At entry 0").wait_for()
    page.get_by_role("button", name="Fork here").click()
    page.wait_for_url(lambda url: "/s/login" not in url)
    toast(page, "Forked at entry 0").wait_for()
    fork = server.store.get("login#fork-1")
    assert [message["content"] for message in fork.messages()] == ["One"]
    toast(page, "Forked").get_by_role("button", name="Go back").click()
    page.wait_for_url("**/s/login")


def test_rewind_shows_what_happens_to_files_before_it_happens(
    allowed: Running, visit: Visit, root: Path
) -> None:
    session = make(allowed.store, root)
    write(root, {"src/guard.py": "LIMIT = 60\n", "notes.txt": "mine\n"})
    before, head = content(root), session.head
    page = visit("/s/login?panel=tree", of=allowed)
    row(page, "plan").click()
    page.get_by_text("At entry 1").wait_for()
    page.get_by_role("button", name="Rewind to here").click()
    dialog = page.get_by_role("dialog", name="Rewind to here")
    dialog.get_by_text("4 entries leave the path.").wait_for()
    plan = dialog.get_by_role("list", name="What happens to the files")
    plan.wait_for()
    assert [one.split() for one in plan.get_by_role("listitem").all_inner_texts()] == [
        ["~", "auth.py"],
        ["−", "notes.txt", "changed", "since", "the", "last", "snapshot"],
        ["+", "old.txt"],
        ["−", "src/"],
        ["−", "src/guard.py", "changed", "since", "the", "last", "snapshot"],
    ]
    assert dialog.get_by_role("checkbox").is_checked()
    assert content(root) == before, "a dry run changes nothing"
    assert session.head == head
    dialog.get_by_role("button", name="Rewind with files").click()
    toast(page, "Rewound to entry 1. 4 files changed.").wait_for()
    assert content(root) == FIRST
    assert session.head.position == 1
    # the way back is one press away, and is shown first too
    toast(page, "Rewound").get_by_role("button", name="Undo").click()
    again = page.get_by_role("dialog", name="Undo, with files")
    again.get_by_role("listitem").filter(has_text="src/guard.py").wait_for()
    assert content(root) == FIRST
    again.get_by_role("button", name="Undo").click()
    toast(page, "Undone.").wait_for()
    assert content(root) == before
    assert session.head == head
    toast(page, "Undone.").get_by_role("button", name="Redo").click()
    page.get_by_role("dialog", name="Redo, with files").get_by_role("button", name="Redo").click()
    toast(page, "Done again.").wait_for()
    assert content(root) == FIRST


def test_files_stay_when_one_does_not_want_them_back(allowed: Running, visit: Visit, root: Path) -> None:
    session = make(allowed.store, root)
    before = content(root)
    page = visit("/s/login?panel=tree", of=allowed)
    row(page, "plan").click()
    page.get_by_text("At entry 1").wait_for()
    page.keyboard.press("R")
    dialog = page.get_by_role("dialog", name="Rewind to here")
    dialog.get_by_role("checkbox").uncheck()
    dialog.get_by_role("button", name="Rewind", exact=True).click()
    toast(page, "Rewound to entry 1.").wait_for()
    assert session.head.position == 1
    assert content(root) == before
    page.keyboard.press("u")
    toast(page, "Undone.").wait_for()
    assert session.head.position == 5


def test_a_server_that_may_not_change_files_says_how_to_let_it(
    server: Running, visit: Visit, root: Path
) -> None:
    session = make(server.store, root)
    before = content(root)
    page = visit("/s/login?panel=tree")
    row(page, "plan").click()
    page.get_by_text("At entry 1").wait_for()
    page.get_by_role("button", name="Rewind to here").click()
    dialog = page.get_by_role("dialog", name="Rewind to here")
    dialog.get_by_text("clew serve --allow files").wait_for()
    dialog.get_by_text("Files stay as they are").wait_for()
    assert dialog.get_by_role("checkbox").count() == 0
    dialog.get_by_role("button", name="Rewind", exact=True).click()
    toast(page, "Rewound to entry 1.").wait_for()
    assert session.head.position == 1
    assert content(root) == before


def test_a_rewind_and_its_undo_are_told_of_once_each(server: Running, visit: Visit) -> None:
    session = server.store.session("login")
    session.append(user("One"), assistant("1"), user("Two"), assistant("2"))
    page = visit("/s/login?panel=tree")
    row(page, "One").click()
    page.get_by_text("At entry 0").wait_for()
    page.get_by_role("button", name="Rewind to here").click()
    page.get_by_role("dialog").get_by_role("button", name="Rewind", exact=True).click()
    toast(page, "Rewound to entry 0.").wait_for()
    page.keyboard.press("u")
    toast(page, "Undone.").wait_for()
    page.locator("#transcript article[data-at='3']").wait_for()
    session.rewind(1)  # by somebody else, so the stream has told of the moves before
    toast(page, "The session went back by 2 entries.").wait_for()
    words = [one.split("\n")[0] for one in page.locator(".toast").all_inner_texts()]
    assert words == ["Undone. The session is at entry 3.", "The session went back by 2 entries."]


def test_files_of_another_machine_are_told_of_by_directory_and_command(
    allowed: Running, visit: Visit, root: Path, problems: Problems, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems.may_say("403")
    make(allowed.store, root)
    monkeypatch.setenv("CLEW_STATE_DIR", str(root.parent / "elsewhere"))
    page = visit("/s/login?panel=tree", of=allowed)
    row(page, "plan").click()
    page.get_by_text("At entry 1").wait_for()
    page.get_by_role("button", name="Rewind to here").click()
    dialog = page.get_by_role("dialog", name="Rewind to here")
    dialog.get_by_text("does not know their directory here").wait_for()
    assert "clew rewind --files --root DIRECTORY" in dialog.inner_text()
    assert "root=" not in dialog.inner_text()


def test_a_session_that_is_held_says_by_whom(server: Running, visit: Visit, problems: Problems) -> None:
    problems.may_say("409", "423")
    session = server.store.session("login")
    session.append(user("One"), assistant("1"), user("Two"))
    page = visit("/s/login?panel=tree")
    row(page, "One").click()
    page.get_by_text("At entry 0").wait_for()
    with session.run(owner="the night worker"):
        page.get_by_role("button", name="Rewind to here").click()
        page.get_by_role("dialog").get_by_role("button", name="Rewind", exact=True).click()
        page.get_by_role("dialog").get_by_role("alert").filter(has_text="the night worker").wait_for()
    assert session.head.position == 2


def test_of_a_large_tree_only_what_is_in_sight_is_drawn(server: Running, visit: Visit) -> None:
    session = server.store.session("login")
    session.append(*(user(f"prompt {number}.") for number in range(600)))
    for number in range(20):
        session.fork(at=30 * number).append(user(f"branch {number}."), user("more"))
    page = visit("/s/login?panel=tree")
    last = row(page, "prompt 599.")
    last.wait_for()
    assert last.get_attribute("aria-posinset") == last.get_attribute("aria-setsize")
    assert page.get_by_role("treeitem").count() < 100
    last.focus()
    page.keyboard.press("Home")
    page.locator("[role=treeitem]:focus", has_text="prompt 0.").wait_for()
    row(page, "branch 0.").wait_for()
    assert row(page, "branch 0.").get_attribute("aria-expanded") == "false", "branches of many are folded"
    page.keyboard.press("End")
    page.locator("[role=treeitem]:focus", has_text="prompt 599.").wait_for()


def test_on_a_phone_a_place_that_is_chosen_is_read_at_once(
    server: Running, visit: Visit, new_context: Callable[..., BrowserContext]
) -> None:
    """The panel lies over the transcript there, so it makes way."""
    server.store.session("login").append(user("One"), assistant("1"), user("Two"))
    phone = new_context(viewport={"width": 390, "height": 844})
    page = visit("/s/login?panel=tree", within=phone)
    row(page, "One").click()
    page.get_by_role("tree").wait_for(state="detached")
    page.locator("#transcript").get_by_text("One").wait_for()


def test_the_tree_grows_with_the_session(server: Running, visit: Visit) -> None:
    session = server.store.session("login")
    session.append(user("One"), assistant("1"))
    page = visit("/s/login?panel=tree")
    row(page, "One").wait_for()
    session.append(user("And then?"))
    row(page, "And then?").wait_for()
    session.rewind(0)
    session.append(user("Another way"))
    row(page, "Another way").wait_for()
    page.locator(".branches-left", has_text="And then?").wait_for()
