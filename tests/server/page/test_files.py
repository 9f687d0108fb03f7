"""Files at each step of a session: what changed, all of them, one of them, and the way back to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.server.conftest import Running
from tests.server.page.workshop import FIRST, content, make, user, write

if TYPE_CHECKING:
    from playwright.sync_api import Page

HOME = Path(__file__).parents[2] / "home" / "files"
RECORDED = "4be70e2a-7c1d-4f0e-9d55-3b9f6a1c8e21"
Visit = Callable[..., "Page"]


def changes(page: Page) -> list[list[str]]:
    page.locator(".files-changes").wait_for()
    return [one.split() for one in page.locator(".files-toggle").all_inner_texts()]


def test_the_step_that_one_looks_at_shows_what_changed_since_another(
    server: Running, visit: Visit, root: Path
) -> None:
    session = make(server.store, root)
    write(root, {"auth.py": "pass\n"})
    session.checkpoint("empty", files=root)
    page = visit("/s/login?panel=files")
    steps = page.get_by_role("list", name="Steps with files").get_by_role("button")
    steps.nth(2).wait_for()
    assert [one.split()[0] for one in steps.all_inner_texts()] == ["plan", "guard", "empty"]
    assert steps.nth(2).get_attribute("aria-current") == "step", "the last one, at the end of the path"
    assert changes(page) == [["~", "auth.py", "+1", "−2"]]
    steps.nth(1).click()
    page.locator(".files-toggle", has_text="old.txt").wait_for()
    assert changes(page) == [
        ["~", "auth.py", "+1", "−1"],
        ["−", "old.txt", "−1"],
        ["+", "src/guard.py", "+1"],
    ]
    page.get_by_label("since").select_option("empty")
    page.locator(".files-toggle", has_text="old.txt").wait_for(state="detached")
    assert changes(page) == [["~", "auth.py", "+2", "−1"]]
    page.goto(f"{server.url}/s/login?panel=files")
    page.get_by_role("region", name="Files at empty").wait_for()
    third = list(session.entries())[2].id
    page.locator(f'#transcript [data-entry="{third}"]').click()
    page.get_by_role("region", name="Files at plan").wait_for()


def test_all_files_of_a_moment_are_a_tree_that_unfolds(server: Running, visit: Visit, root: Path) -> None:
    make(server.store, root)
    page = visit("/s/login?panel=files")
    page.get_by_role("button", name="All files").click()
    files = page.get_by_role("list", name="All files").get_by_role("button")
    files.filter(has_text="auth.py").wait_for()
    assert [one.split()[:2] for one in files.all_inner_texts()] == [
        ["auth.py", "46"],
        ["▸", "docs/"],
        ["▸", "src/"],
    ]
    files.filter(has_text="src/").click()
    files.filter(has_text="guard.py").click()
    dialog = page.get_by_role("dialog", name="src/guard.py")
    dialog.get_by_role("button", name="Text").click()
    dialog.get_by_role("group", name="Text").wait_for()
    assert dialog.locator(".files-text .files-code").all_inner_texts() == ["LIMIT = 3600"]


def test_a_large_directory_comes_page_by_page(server: Running, visit: Visit, root: Path) -> None:
    root.mkdir()
    write(root, {f"many/{number:03}.txt": "x" for number in range(250)})
    session = server.store.session("login")
    session.append(user("One"))
    session.checkpoint("many", files=root)
    page = visit("/s/login?panel=files")
    page.get_by_role("button", name="many/").click()
    files = page.get_by_role("list", name="many").get_by_role("button")
    files.filter(has_text="199.txt").wait_for()
    files.filter(has_text="Show more files").click()
    files.filter(has_text="249.txt").wait_for()
    assert files.count() == 250


def test_one_file_has_its_diff_its_text_its_history_and_a_download(
    server: Running, visit: Visit, root: Path
) -> None:
    make(server.store, root)
    page = visit("/s/login?panel=files")
    page.locator(".files-toggle", has_text="auth.py").click()
    dialog = page.get_by_role("dialog", name="auth.py")
    dialog.get_by_role("group", name="Diff").wait_for()
    assert dialog.locator(".gi .files-code").all_inner_texts() == ["+    return token.age < 3600"]
    with page.expect_download() as saved:
        dialog.get_by_role("link", name="Download").click()
    assert Path(saved.value.path()).read_text() == content(root)["auth.py"]
    assert saved.value.suggested_filename == "auth.py"
    dialog.get_by_role("button", name="History").click()
    history = dialog.get_by_role("list", name="History of the file").get_by_role("button")
    history.nth(1).wait_for()
    assert [one.split()[:2] for one in history.all_inner_texts()] == [["+", "plan"], ["~", "guard"]]
    history.nth(0).click()
    page.get_by_role("dialog").get_by_text("at plan").wait_for()
    page.get_by_role("dialog").locator(".files-text", has_text="return True").wait_for()
    page.keyboard.press("Escape")
    page.wait_for_url(lambda url: "file=" not in url)


def test_what_is_no_text_or_too_large_is_not_drawn(server: Running, visit: Visit, root: Path) -> None:
    root.mkdir()
    (root / "picture").write_bytes(b"\x89PNG\0\0")
    (root / "wide").write_text("ü" * 200_000)
    session = server.store.session("login")
    session.append(user("One"))
    session.checkpoint("files", files=root)
    page = visit("/s/login?panel=files&file=picture")
    page.get_by_role("dialog").get_by_text("This is not a text.").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="wide").click()
    dialog = page.get_by_role("dialog", name="wide")
    dialog.get_by_text("This is the beginning of it. Download it for all of its 391 KiB.").wait_for()
    assert len(dialog.locator(".files-code").inner_text()) == 128 * 1024


def test_a_restore_is_shown_first_done_then_and_taken_back(
    allowed: Running, visit: Visit, root: Path
) -> None:
    session = make(allowed.store, root)
    before, head = content(root), session.head
    page = visit("/s/login?panel=files", of=allowed)
    page.get_by_role("button", name="plan").click()
    page.get_by_role("region", name="Files at plan").get_by_role("button", name="Restore…").click()
    dialog = page.get_by_role("dialog", name="Restore the files of plan")
    dialog.get_by_role("listitem").filter(has_text="old.txt").wait_for()
    assert content(root) == before, "a dry run changes nothing"
    dialog.get_by_role("button", name="Restore", exact=True).click()
    toast = page.locator(".toast", has_text="Restored: 3 files changed.")
    toast.wait_for()
    assert content(root) == FIRST
    assert session.head == head, "the conversation stays where it is"
    toast.get_by_role("button", name="Undo").click()
    page.locator(".toast", has_text="Undone: 3 files changed back.").wait_for()
    assert content(root) == before


def test_one_file_is_restored_alone(allowed: Running, visit: Visit, root: Path) -> None:
    make(allowed.store, root)
    before = content(root)
    page = visit("/s/login?panel=files&file=auth.py", of=allowed)
    page.get_by_role("dialog", name="auth.py").get_by_role("button", name="History").click()
    page.get_by_role("list", name="History of the file").get_by_role("button", name="plan").click()
    page.get_by_role("button", name="Restore this file…").click()
    page.get_by_role("dialog", name="Restore auth.py of plan").get_by_role(
        "button", name="Restore", exact=True
    ).click()
    page.locator(".toast", has_text="Restored: 1 file changed.").wait_for()
    assert content(root) == {**before, "auth.py": FIRST["auth.py"]}
    page.get_by_role("dialog").wait_for(state="detached")


def test_without_leave_the_page_says_how_to_get_it(server: Running, visit: Visit, root: Path) -> None:
    make(server.store, root)
    page = visit("/s/login?panel=files")
    page.get_by_role("button", name="Restore…").click()
    dialog = page.get_by_role("dialog", name="Restore the files of guard")
    dialog.get_by_text("clew serve --allow files").wait_for()
    assert dialog.get_by_role("button", name="Restore", exact=True).count() == 0


def test_a_session_without_files_says_how_to_keep_them(server: Running, visit: Visit) -> None:
    server.store.session("login").append(user("One"))
    page = visit("/s/login?panel=files")
    page.get_by_text("clew checkpoint --files DIRECTORY login NAME").wait_for()


def test_steps_of_an_agent_go_by_their_prompts_and_what_it_did_not_record_is_not_deleted(
    server: Running, visit: Visit
) -> None:
    """The agent was restarted before its last prompt, and records one file since."""
    shop = HOME / ".claude" / "projects" / "-home-ana-shop"
    server.store.import_path(shop / f"{RECORDED}.jsonl")
    page = visit(f"/s/claude-code:{RECORDED}?panel=files")
    steps = page.get_by_role("list", name="Steps with files").get_by_role("button")
    steps.nth(3).wait_for()
    assert [one.split("\n")[0] for one in steps.all_inner_texts()] == [
        "Logins fail for users with capital letters in their e-mail. Find out why and fix it.",
        "Add a lock: five wrong passwords in a row lock the account for 15 minutes.",
        "Let Users keep the attempts; login stays a function of users, email, password.",
        "Write a paragraph for the README about the lock.",
    ]
    assert all("◆" in one for one in steps.all_inner_texts())
    page.get_by_text("3 files are recorded at one of the two points only").click()
    page.get_by_role("listitem").get_by_text("shop/login.py").wait_for()
    assert page.locator(".files-toggle").count() == 0
    page.goto(page.url + "&file=shop/login.py")
    dialog = page.get_by_role("dialog", name="shop/login.py")
    dialog.get_by_text("Not recorded at this point.").wait_for()
    dialog.get_by_role("button", name="Text").click()
    dialog.get_by_text("Not recorded at this point.").wait_for()
    dialog.get_by_role("button", name="History").click()
    history = dialog.get_by_role("list", name="History of the file").get_by_role("button")
    history.nth(1).wait_for()
    assert [one.split()[:2] for one in history.all_inner_texts()] == [["+", "Logins"], ["~", "Let"]]
    page.goto(f"{server.url}/s/claude-code:{RECORDED}?panel=branches")
    row = page.get_by_role("treeitem").filter(has_text="Keep the signature")
    assert row.get_by_role("img", name="files").inner_text() == "◆"
    assert "Keep the signature as it is: make attempts optional." in row.inner_text()
    flags = page.locator(".transcript-flag")
    flags.first.wait_for()
    assert set(flags.all_inner_texts()) == {"files"}
    assert "file-history" not in page.locator("body").inner_text()
