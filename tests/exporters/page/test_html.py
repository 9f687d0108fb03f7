"""HTML pages, by an HTML parser: what they hold, and what they never hold."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from clew.exporters.blocks import Block, Media
from clew.exporters.html import Page
from clew.exporters.page.frame import Prompt, foot, head, script
from clew.exporters.page.text import MOST_MARKDOWN, code, prose
from clew.exporters.transcript import Transcript, Turn
from tests.exporters.hostile import ALL, ATTACKS, PIXEL, conversation
from tests.exporters.page.reader import PageReader
from tests.exporters.payloads import session_of
from tests.support.rows import each_row

TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "h3", "h4", "h5", "h6", "dl",
    "dt", "dd", "input", "nav", "label", "main", "section", "article", "a", "p", "div", "details", "summary",
    "b", "i", "script", "button",
    "pre", "code", "span", "img", "footer", "table", "thead", "tbody", "tr", "th", "td", "em", "strong", "ul",
    "ol", "li", "br", "hr", "blockquote", "s", "del", "sup",
}  # fmt: skip
ATTRIBUTES = {
    "lang", "charset", "name", "content", "http-equiv", "class", "id", "for", "type", "checked", "href",
    "target", "rel", "src", "alt", "title", "aria-label", "aria-hidden", "start", "hidden", "data-n", "dir",
}  # fmt: skip


def _hostile(store: clew.Store) -> PageReader:
    conversation(store)
    return PageReader(store.export("hostile", "html", whole=True))


def test_a_hostile_session_brings_no_tag_and_no_attribute_of_its_own(store: clew.Store) -> None:
    page = _hostile(store)
    assert {tag for tag, _ in page.tags} <= TAGS
    assert {name for _, attributes in page.tags for name in attributes} <= ATTRIBUTES
    assert page.wrong == []
    assert page.open == []


def test_links_lead_to_web_pages_and_images_are_inside(store: clew.Store) -> None:
    page = _hostile(store)
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    assert all(re.match(r"#(e\d+-\d+|prompts)$|https?://|mailto:", link) for link in links)
    images = [attributes["src"] for tag, attributes in page.tags if tag == "img"]
    assert images == [f"data:image/png;base64,{PIXEL}"]


def test_links_tell_nobody_where_they_were_found(store: clew.Store) -> None:
    page = _hostile(store)
    outside = [
        attributes for tag, attributes in page.tags if tag == "a" and not attributes["href"].startswith("#")
    ]
    assert outside
    assert {attributes["rel"] for attributes in outside} == {"noopener noreferrer nofollow"}


def test_what_attacks_is_there_to_be_read(store: clew.Store) -> None:
    text = _hostile(store).text
    for shown in (
        "window.pwned=1",
        "onerror",
        "</title>",
        "https://evil.example/frame",
        "MARK-0",
        "MARK-1",
        "MARK-2",
    ):
        assert shown in text
    assert not set(text) & set("\x00\x1b\x07\x08\x7f\x9b\u202e\u2066\u200f\U000e0041")
    assert "⟦U+202E⟧gpj.exe" in text
    assert "␛[2J" in text


def test_s12_s13_the_policy_allows_this_style_and_this_script_and_nothing_else(store: clew.Store) -> None:
    conversation(store)
    page = store.export("hostile", "html", whole=True)
    style = page.partition("<style>")[2].partition("</style>")[0]
    seal = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = next(
        a["content"] for tag, a in PageReader(page).tags if a.get("http-equiv") == "Content-Security-Policy"
    )
    own = base64.b64encode(hashlib.sha256(script().encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{own}'; style-src 'sha256-{seal}'; img-src data:;"
        " base-uri 'none'; form-action 'none'"
    )
    assert page.index("Content-Security-Policy") < page.index("<title>")
    assert "url(" not in style
    assert "@import" not in style


@each_row("attack", ATTACKS)
def test_each_attack_alone_stays_text(attack: str) -> None:
    for shown in (prose(attack), f"<pre>{code(attack, 'html')}</pre>", f"<pre>{code(attack, attack)}</pre>"):
        tags = {tag for tag, _ in PageReader(shown).tags}
        assert tags <= {
            "p", "a", "pre", "code", "span", "table", "thead", "tbody", "tr", "th", "td", "br", "sup", "ul",
            "ol", "li",
        }  # fmt: skip


def test_a_tag_in_a_text_is_shown_and_not_taken_away() -> None:
    assert PageReader(prose("a <b onclick=x>tag</b> <!-- and a remark -->")).text.strip() == (
        "a <b onclick=x>tag</b> <!-- and a remark -->"
    )


def test_code_has_colours() -> None:
    assert '<span class="k">def</span>' in prose("```python\ndef f(): pass\n```")
    assert code("x", "no such language") == "x"


def test_tools_and_thinking_are_folded_and_can_be_left_out(store: clew.Store) -> None:
    conversation(store)
    full = PageReader(store.export("hostile", "html"))
    assert sum(tag == "details" for tag, _ in full.tags) == 8
    assert not any("open" in attributes for tag, attributes in full.tags if tag == "details")
    short = PageReader(store.export("hostile", "html", tools=False, thinking=False))
    assert sum(tag == "details" for tag, _ in short.tags) == 6


def test_notes_beside_an_entry_are_shown_and_facts_of_programs_are_not(store: clew.Store) -> None:
    s = store.create("a")
    s.append({"role": "user", "content": "Why does it fail?"}, {"role": "assistant", "content": "See 42"})
    s.annotate(0, note="Root cause:\nno <b>profile</b>", label="login", requestId="req_1", summary=7)
    s.annotate(1, summary="The line was found")
    page = store.export("a", "html")
    assert '<p class="remark"><b>Label</b> <span dir="auto">login</span></p>' in page
    assert (
        '<p class="remark"><b>Note</b> <span dir="auto">Root cause:\nno &lt;b&gt;profile&lt;/b&gt;</span></p>'
        in page
    )
    assert '<p class="remark"><b>Summary</b> <span dir="auto">The line was found</span></p>' in page
    assert "req_1" not in page
    text = store.export("a", "markdown")
    assert "*Label: login*\n\n*Note:*\n\n> Root cause:" in text
    assert "*Summary: The line was found*" in text
    assert "req_1" not in text


def test_a_title_and_a_prompt_from_right_to_left_have_their_direction(store: clew.Store) -> None:
    store.create("a", title="שלום").append({"role": "user", "content": "מה שלומך?"})
    page = store.export("a", "html")
    assert '<h1 dir="auto">שלום</h1>' in page
    assert '<a href="#e0-0" dir="auto">מה שלומך?</a>' in page


def test_one_path_has_no_switch_and_several_have(store: clew.Store) -> None:
    conversation(store)
    assert "<input" not in store.export("hostile", "html")
    assert "Branches" not in store.export("hostile", "html")
    page = PageReader(store.export("hostile", "html", whole=True))
    radios = [attributes for tag, attributes in page.tags if tag == "input"]
    assert [("checked" in radio, radio["type"]) for radio in radios] == [(True, "radio"), (False, "radio")]
    assert [attributes["for"] for tag, attributes in page.tags if tag == "label"] == [
        radio["id"] for radio in radios
    ]


@each_row(
    ("moves", "labels"),
    [
        (["a", "b"], []),
        (["a", "b", 1, "on from the end"], []),
        (["a", "first", 0, "second"], ["Branch 2, up to 1 (current): second", "Branch 1, up to 1: first"]),
        (["a", "b", "c", 0], ["Branch 1, up to 0 (current): a", "Branch 1, up to 2: b"]),
        (
            ["a", "b", "c", 0, "d", "e", "f", 1],
            [
                "Branch 2, up to 1 (current): d",
                "Branch 1, up to 2: b",
                "Branch 2, up to 3: e",
            ],
        ),
        (
            ["a", "b", 0, "c", "d", 1, "e"],
            [
                "Branch 3, up to 2 (current): e",
                "Branch 1, up to 1: b",
                "Branch 2, up to 2: d",
            ],
        ),
    ],
)
def test_each_branch_is_named_by_the_first_words_that_are_its_own(
    moves: list[str | int], labels: list[str]
) -> None:
    """Words are said; a number is a place to rewind to."""
    with clew.open("memory:") as store:
        s = store.create("a")
        for move in moves:
            if isinstance(move, int):
                s.rewind(move)
            else:
                s.append({"role": "user", "content": move})
        page = store.export("a", "html", whole=True)
    assert re.findall(r"<label[^>]*>(.*?)</label>", page) == labels
    assert all(page.count(f"<p>{said}</p>") == 1 for said in moves if isinstance(said, str))


def test_what_was_left_by_clearing_a_session_is_a_branch(store: clew.Store) -> None:
    s = store.create("a")
    s.append({"role": "user", "content": "left behind"})
    s.clear()
    assert "left behind" in store.export("a", "html", whole=True)
    assert "left behind" not in store.export("a", "html").partition("<main>")[2]


def _comb(store: clew.Store, teeth: int) -> str:
    """The page of a session that was continued in another way from each of its entries."""
    s = store.create(str(teeth))
    s.append(*({"role": "user", "content": f"trunk {n}"} for n in range(teeth + 1)))
    end = s.head
    for at in range(teeth):
        s.rewind(at)
        s.append({"role": "user", "content": f"tooth {at}"})
        s.rewind(end)
    return store.export(s.id, "html", whole=True)


def test_s52_a_page_of_many_branches_grows_with_their_number_and_not_with_its_square(
    store: clew.Store,
) -> None:
    smaller, larger = _comb(store, 300), _comb(store, 600)
    assert len(larger) < 2.2 * len(smaller)


def test_branches_that_are_too_many_for_switches_are_all_shown_with_their_places(store: clew.Store) -> None:
    page = _comb(store, 300)
    assert "<input" not in page
    assert "section,#prompts li{display:none}" not in page
    assert "301 branches are too many to switch between them" in page
    assert "Branch 8, from 7 to 7. Continues branch 1 after 6." in page
    assert all(f"tooth {at}" in page for at in range(300))


def test_a_huge_text_is_shown_whole(store: clew.Store) -> None:
    text = "*word* " * (MOST_MARKDOWN // 4)
    store.create("a").append({"role": "user", "content": text})
    assert text in PageReader(store.export("a", "html")).text


def test_deeply_nested_marks_do_not_break_the_page(store: clew.Store) -> None:
    for text in ("> " * 5000 + "x", "[" * 5000, "*a **a " * 2000, "- " * 3000 + "x", "`" * 9999):
        assert prose(text)


def test_an_empty_session_is_a_page(store: clew.Store) -> None:
    store.create("empty")
    page = PageReader(store.export("empty", "html", whole=True))
    assert page.wrong == []
    assert "empty" in page.text


def test_a_file_is_readable_by_its_owner_only(store: clew.Store, tmp_path: Path) -> None:
    store.create("a").append({"role": "user", "content": ALL})
    path = tmp_path / "a.html"
    assert store.export("a", "html", path=path) == str(path)
    assert path.stat().st_mode & 0o777 == 0o600


def _with_attacks(value: Any, attack: str) -> Any:
    """The same with the attack in every field that may be a text, also in those of what it holds."""
    changed: dict[str, Any] = {}
    for name, type_name in type(value).__annotations__.items():
        held = getattr(value, name)
        if type_name in ("str", "str | None"):
            changed[name] = attack
        elif type_name == "tuple[str, ...]":
            changed[name] = (attack,)
        elif type_name == "tuple[tuple[str, str], ...]":
            changed[name] = (("note", attack),)
        elif isinstance(held, msgspec.Struct):
            changed[name] = _with_attacks(held, attack)
    assert changed
    return msgspec.structs.replace(value, **changed)


def _is_harmless(shown: str) -> bool:
    page = PageReader(shown)
    links = [attributes.get("href", "#") for tag, attributes in page.tags if tag == "a"]
    return (
        {tag for tag, _ in page.tags} <= TAGS
        and {name for _, attributes in page.tags for name in attributes} <= ATTRIBUTES
        and all(re.match(r"#|https?://|mailto:|\./[\w%~.-]*$", link) for link in links)
        and not any("evil" in attributes.get("src", "") for _, attributes in page.tags)
        and not set(page.text) & set("\x1b\x07\u202e")
    )


@pytest.fixture(scope="module")
def empty() -> Iterator[tuple[Page, Turn]]:
    """The page of a session, and an entry of it, to draw blocks with."""
    with clew.open("memory:") as store:
        store.create("a").append({"role": "user", "content": "x"})
        transcript = Transcript(store, "a", whole=True, redactor=None)
        yield Page(store, transcript, set(), {}), next(transcript.turns())


@each_row("attack", [*ATTACKS, ALL])
def test_s11_s12_no_field_of_a_message_is_shown_unescaped(attack: str) -> None:
    """It is in every field of messages of two dialects, in their media, and in calls of known tools."""
    with clew.open("memory:") as store:
        shown = store.export(session_of(store, [attack]), "html", whole=True)
    assert _is_harmless(shown.replace(f"<script>{script()}</script>", ""))


NAMES = [
    "Bash", "Read", "Write", "Edit", "Grep", "Task", "TodoWrite", "apply_patch", "WebFetch", "mcp__a__b", "x"
]  # fmt: skip


def _arguments(attack: str) -> Iterator[Any]:
    """What tools are called with, full of the attack."""
    yield attack
    yield {attack: attack}
    yield {"command": attack, "description": attack, "timeout": {attack: attack}}
    yield {"command": ["bash", "-lc", attack], "workdir": attack}
    yield {
        "file_path": attack,
        "old_string": f"a\n{attack}",
        "new_string": f"{attack}\nb",
        "replace_all": True,
    }
    yield {"file_path": f"{attack}.html", "content": attack, "offset": attack}
    yield {"todos": [{"content": attack, "status": attack, "activeForm": attack}], "plan": attack}
    yield {"prompt": attack, "subagent_type": attack, "url": attack, "pattern": attack, "path": attack}
    lines = [f"*** Update File: {attack}", f"@@ {attack}", f"+{attack}", f"-{attack}", "*** End Patch"]
    yield {"input": "\n".join(["*** Begin Patch", *lines])}


def _results(attack: str) -> Iterator[str]:
    """What tools answer, full of the attack."""
    yield attack
    yield f"Exit code 1\n\x1b[1;31;48;5;200m{attack}\x1b[0m{attack}\x1b[38;2;1;2;3m{attack}"
    yield f"     1→{attack}\n     2→x\n     3→y\n     4→{attack}"
    hunk = f"@@ -1,2 +1,2 @@ {attack}\n {attack}\n-{attack}\n+{attack}\n"
    yield f"diff --git {attack}\n--- a/{attack}\n+++ b/x\n{hunk}"


@each_row("attack", [*ATTACKS, ALL])
@pytest.mark.parametrize("name", NAMES)
def test_s11_s12_no_argument_and_no_result_of_a_tool_is_shown_unescaped(
    empty: tuple[Page, Turn], name: str, attack: str
) -> None:
    page, turn = empty
    results = list(_results(attack))
    for number, value in enumerate(_arguments(attack)):
        for is_error in (False, True):
            result = Block(
                kind="result", text=results[number % len(results)], is_error=is_error, place=attack
            )
            media = Block(kind="media", text=attack, media=Media("image/png", attack, attack))
            call = Block(kind="call", name=name, text=attack, value=value, answers=(result, media))
            shown = "".join(page.block(call, turn))
            assert _is_harmless(shown)
            assert PageReader(shown).open == []


@each_row(("number", "attack"), enumerate([*ATTACKS, ALL]))
def test_s11_s13_no_field_of_a_session_or_a_turn_is_shown_unescaped(
    store: clew.Store, number: int, attack: str
) -> None:
    s = store.create(f"a{number}")
    s.append({"role": "user", "content": "x"}, {"role": "user", "content": attack})
    s.rewind(0)
    s.append({"role": "user", "content": attack})
    transcript = Transcript(store, s.id, whole=True, redactor=None)
    page = Page(store, transcript, set(), {})
    transcript.info = _with_attacks(transcript.info, attack)
    turn = _with_attacks(next(transcript.turns()), attack)
    turn = msgspec.structs.replace(turn, speaker="user")
    top = "".join(head(transcript, agents=page.agents, links={attack: attack}))
    end = "".join(foot(transcript, [Prompt("e0-0", attack, 0)]))
    for shown in (top + end, "".join(page.turn(turn))):
        assert _is_harmless(shown.replace(f"<script>{script()}</script>", ""))
        assert PageReader(shown).open == []


def test_the_only_script_is_the_one_of_the_page(store: clew.Store) -> None:
    conversation(store)
    page = store.export("hostile", "html", whole=True)
    assert re.findall(r"<script[^>]*>(.*?)</script", page, re.DOTALL) == [script()]
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "document.write",
        "eval",
        "Function(",
        "fetch",
    ):
        assert forbidden not in script()
