"""What a page draws of a rich session, in a real browser: folded lines, diffs, colours, jumps, copies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.exporters.page.seen import Seen
from tests.exporters.rich import CLAUDE, CODEX, rich_store
from tests.support.browsers import becomes_true

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Opened = Callable[..., "Page"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of both sessions and of the subagent, beside each other."""
    folder = tmp_path_factory.mktemp("pages")
    child = f"{CLAUDE}/agent-7f3a9c21"
    links = {CLAUDE: "claude.html", CODEX: "codex.html", child: "child page.html"}
    with rich_store(folder / "files", rounds=3) as store:
        for id, name in links.items():
            store.export(id, "html", path=folder / name, links=links)
    return folder


@pytest.fixture
def opened(browser: Browser, folder: Path) -> Iterator[Opened]:
    """Opens one of them: `opened("claude.html", width=390)`. None says anything in the console."""
    with ExitStack() as stack:
        told: list[list[str]] = []

        def open_(name: str = "claude.html", **options: Any) -> Page:
            seen = stack.enter_context(Seen(browser, folder / name, **options))
            told.append(seen.told)
            return seen.page

        yield open_
    assert not any(told), told


def _summaries(page: Page) -> list[str]:
    return [
        " ".join(text.split())
        for text in page.locator("main > section > article > .call > summary").all_inner_texts()
    ]


def test_a_head_lines_of_calls_and_marks_say_what_happened(opened: Opened) -> None:
    page = opened()
    head = page.locator("header").inner_text()
    assert head.split("\n\n")[:2] == ["claude-code · harbor", "Fix the expired-token test"]
    for fact in ("2026-11-12, 09:30 to", "claude-sonnet-4-5", "6 prompts", "1 subagent", "tokens in"):
        assert fact in head
    assert _summaries(page)[:10] == [
        "Read src/auth.py (14 lines)",
        "Ran pytest -q tests/test_auth.py 2 failed, 4 passed",
        "Plan Check the age of a token (1 of 3 done)",
        "Edit src/auth.py +2",
        "Edit src/auth.py failed: String to replace not found in file.",
        "Write tests/test_skew.py (2 lines)",
        "Ran git diff +3 −1",
        "Ran pytest -q 7 passed",
        "Fetch docs.python.org/3/library/hmac.html compare_digest compares in constant time.",
        'linear: get_issue HAR-128 { "id": "HAR-128", "title": "Tokens never expire", "state": "open" }',
    ]
    assert page.locator("main details[open]").count() == 0
    assert page.locator("article.tool").count() == 0
    assert page.locator(".call.bad").count() == 6
    assert page.locator("article.mark summary").text_content() == (
        "Compacted: the model goes on with this summary"
    )
    assert page.locator(".turned").inner_text().startswith("Rewound to entry")
    assert page.locator("img").evaluate("e => e.naturalWidth") == 240
    page = opened("codex.html")
    assert _summaries(page) == [
        "Ran docker history harbor | head -3 IMAGE CREATED BY SIZE",
        "Plan Pin the packages (0 of 2 done)",
        "Edit deploy/Dockerfile, deploy/.dockerignore +4 −1",
        "Ran docker build . exit 1, ERROR: failed to solve: no space left on device",
    ]


def test_a_diff_and_the_colours_of_a_terminal_are_drawn_as_such(opened: Opened) -> None:
    page = opened()
    edit = page.locator(".call.edit").first
    edit.locator("summary").click()
    assert edit.locator(".l.gi").all_inner_texts() == [
        "+    if not -SKEW <= age <= 3600:",
        "+        return False",
    ]
    assert edit.locator(".l.gd").count() == 0
    printed = page.locator(".call.shell", has_text="git diff").first
    printed.locator("summary").click()
    cut, added = printed.locator(".l.gd").first, printed.locator(".l.gi").first
    assert (cut.get_attribute("data-n"), added.get_attribute("data-n")) == ("12", "12")
    colours = {line.evaluate("e => getComputedStyle(e).backgroundColor") for line in (cut, added)}
    assert len(colours) == 2
    assert "rgba(0, 0, 0, 0)" not in colours
    run = page.locator(".call.shell").first
    run.locator("summary").click()
    assert run.locator("pre.ask").inner_text() == "pytest -q tests/test_auth.py"
    output = run.locator("pre.term")
    assert "\x1b" not in output.inner_text()
    assert "␛" not in output.inner_text()
    failed = output.locator("span.f1", has_text="FAILED").first
    assert failed.evaluate("e => getComputedStyle(e).color") != output.evaluate(
        "e => getComputedStyle(e).color"
    )
    assert "exit 1" in run.inner_text()


def test_everything_unfolds_and_folds_at_once(opened: Opened) -> None:
    page = opened()
    page.get_by_role("button", name="Expand all").click()
    assert page.locator("main details:not([open])").count() == 0
    page.get_by_role("button", name="Collapse all").click()
    assert page.locator("main details[open]").count() == 0
    page.keyboard.press("e")
    assert page.locator("main details:not([open])").count() == 0


AT_THE_TOP = """number => {
  const top = document.querySelectorAll('article.prompt')[number].getBoundingClientRect().top;
  return top >= 0 && top < 100;
}"""


def test_one_jumps_from_prompt_to_prompt(opened: Opened) -> None:
    page = opened()
    assert page.locator("#prompts li").count() == 6
    page.keyboard.press("j")
    becomes_true(page, AT_THE_TOP, 0)
    page.keyboard.press("j")
    becomes_true(page, AT_THE_TOP, 1)
    page.get_by_role("button", name="Next").click()
    becomes_true(page, AT_THE_TOP, 2)
    page.keyboard.press("k")
    becomes_true(page, AT_THE_TOP, 1)
    page.locator("#prompts a").nth(3).click()
    page.wait_for_url("**#e*")
    becomes_true(page, AT_THE_TOP, 3)
    becomes_true(page, "document.querySelectorAll('#prompts a')[3].hasAttribute('aria-current')")


def test_code_is_copied_without_numbers_and_prompts(opened: Opened) -> None:
    page = opened()
    read = page.locator(".call.read").first
    read.locator("summary").click()
    read.locator("pre").hover()
    page.get_by_role("button", name="Copy", exact=True).click()
    page.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith('"""Tokens that a browser keeps for an hour."""\n\nimport hmac\n')
    edit = page.locator(".call.edit").first
    edit.locator("summary").click()
    edit.locator("pre").hover()
    page.get_by_role("button", name="Copy", exact=True).click()
    page.get_by_role("button", name="Copied").wait_for()
    assert "+    if not -SKEW <= age <= 3600:\n+        return False\n" in page.evaluate(
        "navigator.clipboard.readText()"
    )
    page.evaluate("e => getSelection().selectAllChildren(document.querySelector('pre.num'))")
    assert page.evaluate("getSelection().toString()").lstrip().startswith('"""Tokens')


def test_a_link_to_a_result_unfolds_its_call(opened: Opened, folder: Path) -> None:
    text = (folder / "claude.html").read_text("utf-8")
    [anchor, *_] = re.findall(r'<div class="result" id="(e\d+-\d+)">', text)
    page = opened()
    page.goto(f"{(folder / 'claude.html').as_uri()}#{anchor}")
    assert page.locator(f"#{anchor}").is_visible()
    for article in page.locator("main > section > article").all()[:20]:
        assert article.get_attribute("id")


def test_a_subagent_is_folded_into_its_call_and_linked_both_ways(opened: Opened) -> None:
    page = opened()
    agent = page.locator(".call.agent").first
    agent.locator("summary").first.click()
    inside = agent.locator(".sa")
    assert inside.locator("summary").first.inner_text().startswith("Subagent")
    inside.locator("summary").first.click()
    assert inside.get_by_text("Search").first.is_visible()
    inside.get_by_role("link", name="On a page of its own").click()
    assert page.url.endswith("child%20page.html")
    page.locator("header a").click()
    assert page.url.endswith("claude.html")


def test_text_has_enough_contrast(opened: Opened) -> None:
    page = opened()
    page.keyboard.press("e")
    for look in ("light", "dark"):
        page.emulate_media(color_scheme=look)
        assert page.evaluate(CONTRAST) == [], look


CONTRAST = """() => {
  const rgb = (text) => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) =>
    v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const back = (e) => {
    for (let at = e; at; at = at.parentElement) {
      const found = rgb(getComputedStyle(at).backgroundColor);
      if (found.length < 4 || found[3] > 0.9) return found;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.getClientRects().length || e.closest('script, style')) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(back(e))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) low.push(`${e.tagName}.${e.className}: ${contrast.toFixed(2)}`);
  }
  return [...new Set(low)];
}"""


def test_no_page_scrolls_sideways(opened: Opened) -> None:
    for name in ("claude.html", "codex.html"):
        page = opened(name)
        for _ in range(2):
            for width in (390, 768, 1400):
                page.set_viewport_size({"width": width, "height": 900})
                fits = page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
                assert fits, (name, width)
            page.keyboard.press("e")


def test_the_page_is_complete_without_scripts(opened: Opened) -> None:
    page = opened(java_script_enabled=False)
    assert page.locator(".bar button:visible").count() == 0
    call = page.locator(".call.edit").first
    call.locator("summary").click()
    assert call.locator(".l.gi").first.is_visible()
    page.locator("#prompts a").nth(2).click()
    assert "#e" in page.url
