"""Two paths side by side: what they share, what each has of its own, and the files that differ."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.server.conftest import Running
from tests.server.page.workshop import assistant, make, user, write

if TYPE_CHECKING:
    from playwright.sync_api import Page

Visit = Callable[..., "Page"]


def test_two_sessions_stand_side_by_side_behind_what_they_share(server: Running, visit: Visit) -> None:
    session = server.store.session("login", title="The login page")
    session.append(user("The login page returns 500"), assistant("I look at it"))
    fork = session.fork("other")
    fork.update(title="Another way")
    session.append(user("Only guard it"), assistant("Guarded"))
    fork.append(user("Try a middleware"), assistant("Tried"), user("And now?"))
    page = visit("/compare?a=login&b=other")
    common = page.get_by_role("button", name="2 entries in common")
    common.wait_for()
    assert page.get_by_text("I look at it").count() == 0, "what both share is folded"
    first = page.get_by_role("region", name="First: The login page")
    second = page.get_by_role("region", name="Second: Another way")
    first.get_by_text("Guarded").wait_for()
    second.get_by_text("And now?").wait_for()
    assert first.get_by_role("article").count() == 2
    assert second.get_by_role("article").count() == 3
    common.click()
    page.get_by_text("I look at it").wait_for()
    page.get_by_text("Both paths have no checkpoint with files").wait_for()
    page.keyboard.press("x")
    page.get_by_role("region", name="First: Another way").get_by_text("Tried").wait_for()


def test_a_branch_is_compared_with_the_present_path(server: Running, visit: Visit) -> None:
    session = server.store.session("login")
    session.append(user("One"), assistant("1"))
    session.checkpoint("fork")
    left = session.append(user("Left behind"), assistant("gone"))
    session.rewind("fork")
    session.append(user("Kept"), assistant("here"))
    page = visit("/s/login?panel=tree")
    page.get_by_role("treeitem").filter(has_text="Left behind").click()
    page.wait_for_url(lambda url: "at=" in url)
    page.get_by_role("button", name="Compare", exact=True).click()
    page.wait_for_url(lambda url: "/compare?" in url)
    page.locator(".compare-column").nth(0).get_by_text("here").wait_for()
    page.locator(".compare-column").nth(1).get_by_text("gone").wait_for()
    branch = page.get_by_role("combobox", name="Second: branch")
    branch.locator("option").nth(1).wait_for(state="attached")
    assert branch.input_value() == left[1].id
    branch.select_option("")
    page.get_by_text("Both paths hold the same entries.").wait_for()


def test_the_only_other_branch_is_the_second_side_from_the_beginning(server: Running, visit: Visit) -> None:
    session = server.store.session("login")
    session.append(user("One"), assistant("1"))
    session.checkpoint("fork")
    left = session.append(user("Left behind"), assistant("gone"))
    session.rewind("fork")
    session.append(user("Kept"), assistant("here"))
    page = visit("/s/login?panel=tree")
    page.get_by_role("treeitem").filter(has_text="Left behind").wait_for()
    page.keyboard.press("d")
    page.wait_for_url(
        lambda url: {"a=login", "b=login", f"b_at={left[1].id}"} == {*url.partition("?")[2].split("&")}
    )
    page.locator(".compare-column").nth(1).get_by_text("gone").wait_for()
    page.go_back()
    page.wait_for_url(lambda url: "/s/login" in url)
    session.rewind("fork")
    session.append(user("Another one"))
    page.get_by_role("treeitem").filter(has_text="Another one").wait_for()
    page.keyboard.press("d")
    page.get_by_text("Choose two sessions, or two branches of one.").wait_for()


def test_a_second_session_is_chosen_from_the_list_or_in_a_dialog(server: Running, visit: Visit) -> None:
    server.store.session("login", title="The login page").append(user("One"))
    server.store.session("tides", title="Tables of tides").append(user("Two"))
    page = visit("/s/login?panel=tree")
    page.get_by_role("treeitem").filter(has_text="One").wait_for()
    page.get_by_role("button", name="Actions for Tables of tides").click()
    page.get_by_role("button", name="Compare…").click()
    page.wait_for_url(lambda url: "/compare?a=login&b=tides" in url)
    page.get_by_role("region", name="Second: Tables of tides").get_by_text("Two").wait_for()
    page.go_back()
    page.get_by_role("treeitem").filter(has_text="One").wait_for()
    page.keyboard.press("d")
    page.wait_for_url(lambda url: "/compare?" in url)
    page.get_by_role("button", name="Second: Choose a session").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Tables of tides").wait_for()
    dialog.get_by_role("searchbox").fill("tid")
    dialog.get_by_role("button", name="The login page").wait_for(state="detached")
    dialog.get_by_role("searchbox").press("Enter")
    page.wait_for_url(lambda url: "b=tides" in url)
    page.get_by_text("They have no entries in common.").wait_for()
    page.locator(".compare-column").nth(1).get_by_text("Two").wait_for()


def test_a_long_path_comes_page_by_page(server: Running, visit: Visit) -> None:
    session = server.store.session("login")
    session.append(user("Begin"))
    fork = session.fork("other")
    fork.append(*(user(f"number {number}") for number in range(40)))
    page = visit("/compare?a=login&b=other")
    column = page.locator(".compare-column").nth(1)
    column.get_by_text("number 29").wait_for()
    assert column.get_by_role("article").count() == 30
    column.get_by_role("button", name="Show more (10 entries left)").click()
    column.get_by_text("number 39").wait_for()
    assert column.get_by_role("article").count() == 40
    page.locator(".compare-column").nth(0).get_by_text("ends where the other one goes on").wait_for()


def test_the_files_that_differ_are_drawn_line_by_line(server: Running, visit: Visit, tmp_path: Path) -> None:
    root = tmp_path / "project"
    session = make(server.store, root)
    fork = session.fork("other", at="plan")
    write(root, {"auth.py": "def check(token):\n    return '<b>never</b>'\n"})
    fork.append(user("Refuse all"))
    fork.checkpoint("refused", files=root)
    page = visit("/compare?a=login&b=other")
    page.get_by_text("1 file differs").wait_for()
    diff = page.get_by_role("group", name="Diff")
    diff.wait_for()
    assert diff.locator(".gd .files-code").all_inner_texts() == ["-    return token.age < 3600"]
    added = diff.locator(".gi .files-code").inner_text()
    assert added == "+    return '<b>never</b>'", "text stays text"
    page.get_by_role("button", name="auth.py").click()
    diff.wait_for(state="detached")
