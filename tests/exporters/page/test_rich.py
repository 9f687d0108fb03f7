"""What a page draws of a rich session, in a real browser: folded lines, diffs, colours, jumps, copies."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.exporters.rich import CLAUDE, CODEX, rich_store

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and "CI" not in os.environ, reason="there is no Chromium: apt-get install chromium"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


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


class Seen:
    def __init__(
        self, browser: Browser, path: Path, *, width: int = 1400, dark: bool = False, scripts: bool = True
    ) -> None:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
            permissions=["clipboard-read", "clipboard-write"],
        )
        self.page: Page = context.new_page()
        self.told: list[str] = []
        self.page.on("console", lambda message: self.told.append(message.text))
        self.page.on("pageerror", lambda error: self.told.append(str(error)))
        self.page.goto(path.as_uri())

    def __enter__(self) -> Page:
        return self.page

    def __exit__(self, *raised: object) -> None:
        self.page.context.close()
        assert self.told == []


def _summaries(page: Page) -> list[str]:
    return [
        " ".join(text.split())
        for text in page.locator("main > section > article > .call > summary").all_inner_texts()
    ]


def test_each_call_is_one_line_that_says_what_happened(browser: Browser, folder: Path) -> None:
    with Seen(browser, folder / "claude.html") as page:
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
    with Seen(browser, folder / "codex.html") as page:
        assert _summaries(page) == [
            "Ran docker history harbor | head -3 IMAGE CREATED BY SIZE",
            "Plan Pin the packages (0 of 2 done)",
            "Edit deploy/Dockerfile, deploy/.dockerignore +4 −1",
            "Ran docker build . exit 1, ERROR: failed to solve: no space left on device",
        ]


def test_the_head_says_who_when_how_much_and_what_it_cost(browser: Browser, folder: Path) -> None:
    with Seen(browser, folder / "claude.html") as page:
        head = page.locator("header").inner_text()
        assert head.split("\n\n")[:2] == ["claude-code · harbor", "Fix the expired-token test"]
        for fact in ("2026-11-12, 09:30 to", "claude-sonnet-4-5", "6 prompts", "1 subagent", "tokens in"):
            assert fact in head


def test_a_diff_is_drawn_as_one(browser: Browser, folder: Path) -> None:
    with Seen(browser, folder / "claude.html") as page:
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


def test_colours_of_a_terminal_are_colours_here(browser: Browser, folder: Path) -> None:
    with Seen(browser, folder / "claude.html") as page:
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


def test_everything_unfolds_and_folds_at_once(browser: Browser, folder: Path) -> None:
    with Seen(browser, folder / "claude.html") as page:
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


def test_one_jumps_from_prompt_to_prompt(browser: Browser, folder: Path) -> None:
    with Seen(browser, folder / "claude.html") as page:
        assert page.locator("#prompts li").count() == 6
        page.keyboard.press("j")
        page.wait_for_function(AT_THE_TOP, arg=0)
        page.keyboard.press("j")
        page.wait_for_function(AT_THE_TOP, arg=1)
        page.get_by_role("button", name="Next").click()
        page.wait_for_function(AT_THE_TOP, arg=2)
        page.keyboard.press("k")
        page.wait_for_function(AT_THE_TOP, arg=1)
        page.locator("#prompts a").nth(3).click()
        page.wait_for_url("**#e*")
        page.wait_for_function(AT_THE_TOP, arg=3)
        page.wait_for_function("document.querySelectorAll('#prompts a')[3].hasAttribute('aria-current')")


def test_code_is_copied_without_numbers_and_prompts(browser: Browser, folder: Path) -> None:
    with Seen(browser, folder / "claude.html") as page:
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


def test_a_link_to_a_result_unfolds_its_call(browser: Browser, folder: Path) -> None:
    text = (folder / "claude.html").read_text("utf-8")
    [anchor, *_] = re.findall(r'<div class="result" id="(e\d+-\d+)">', text)
    with Seen(browser, folder / "claude.html") as page:
        page.goto(f"{(folder / 'claude.html').as_uri()}#{anchor}")
        assert page.locator(f"#{anchor}").is_visible()
        for article in page.locator("main > section > article").all()[:20]:
            assert article.get_attribute("id")


def test_a_subagent_is_folded_into_its_call_and_linked_both_ways(browser: Browser, folder: Path) -> None:
    with Seen(browser, folder / "claude.html") as page:
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


def test_marks_stand_where_things_happened(browser: Browser, folder: Path) -> None:
    with Seen(browser, folder / "claude.html") as page:
        assert page.locator("article.mark summary").text_content() == (
            "Compacted: the model goes on with this summary"
        )
        assert page.locator(".turned").inner_text().startswith("Rewound to entry")
        assert page.locator("img").evaluate("e => e.naturalWidth") == 240


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_enough_contrast(browser: Browser, folder: Path, dark: bool) -> None:
    with Seen(browser, folder / "claude.html", dark=dark) as page:
        page.keyboard.press("e")
        low = page.evaluate(CONTRAST)
        assert low == []


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


@pytest.mark.parametrize("name", ["claude.html", "codex.html"])
@pytest.mark.parametrize("width", [390, 768, 1400])
def test_no_page_scrolls_sideways(browser: Browser, folder: Path, name: str, width: int) -> None:
    with Seen(browser, folder / name, width=width) as page:
        for _ in range(2):
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            page.keyboard.press("e")


def test_the_page_is_complete_without_scripts(browser: Browser, folder: Path) -> None:
    with Seen(browser, folder / "claude.html", scripts=False) as page:
        assert page.locator(".bar button:visible").count() == 0
        call = page.locator(".call.edit").first
        call.locator("summary").click()
        assert call.locator(".l.gi").first.is_visible()
        page.locator("#prompts a").nth(2).click()
        assert "#e" in page.url
