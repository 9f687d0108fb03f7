"""What people write beyond CommonMark: bare links, task lists, footnotes, text from right to left."""

from __future__ import annotations

from clew.exporters.page.text import prose
from tests.exporters.page.reader import PageReader
from tests.support.rows import each_row


def _links(text: str) -> list[tuple[str, str]]:
    """Address and words of each link."""
    page = PageReader(prose(text))
    addresses = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    assert all(set(attributes) == {"href", "target", "rel"} for tag, attributes in page.tags if tag == "a")
    words = prose(text).split("<a ")[1:]
    return [
        (address, PageReader("<a " + part.partition("</a>")[0] + "</a>").text)
        for address, part in zip(addresses, words, strict=True)
    ]


@each_row(
    ("text", "links"),
    [
        ("See https://example.com/a_b?x=1&y=2.", ["https://example.com/a_b?x=1&y=2"]),
        ("http://127.0.0.1:8731/s/x", ["http://127.0.0.1:8731/s/x"]),
        (
            "(see https://en.wikipedia.org/wiki/Clew_(thread))",
            ["https://en.wikipedia.org/wiki/Clew_(thread)"],
        ),
        ("Both, http://a.b; and **https://c.d/e**!", ["http://a.b", "https://c.d/e"]),
        ("看 https://a.b/c。然后", ["https://a.b/c"]),
        ("https://good.example@evil.example/", ["https://good.example"]),
        ('https://a.b/"onmouseover="x', ["https://a.b/"]),
        ("https://a.b/<img src=x onerror=x>", ["https://a.b/"]),
        ("`https://a.b` javascript://a.b data://x ftp://a.b xhttps://a.b file:///etc", []),
        ("    https://code.block", []),
        ("https:// http://. https://)", []),
    ],
)
def test_an_address_in_a_sentence_is_a_link_to_what_it_says(text: str, links: list[str]) -> None:
    assert _links(text) == [(link, link) for link in links]


def test_an_address_that_is_the_name_of_a_link_leads_where_the_link_leads() -> None:
    assert _links("[https://a.b](https://c.d)") == [("https://c.d", "https://a.b")]


def test_tasks_have_boxes() -> None:
    page = prose("- [ ] open\n- [x] **done**\n- [y] none\n\n1. [X] also\n\n[ ] no list")
    assert '<li class="task"><span class="task">☐</span> open</li>' in page
    assert '<li class="task"><span class="task">☑</span> <strong>done</strong></li>' in page
    assert "<li>[y] none</li>" in page
    assert '<span class="task">☑</span> also' in page
    assert "<p>[ ] no list</p>" in page
    assert "<input" not in page


def test_footnotes_stand_below_the_text_in_the_order_of_their_marks() -> None:
    page = prose(
        "One[^b], two[^1], one again[^b], none[^z].\n\n[^1]: Second\n[^b]: First,\n    with `code`\n\n"
        "    and a list:\n\n    - item\n\nThe end. [^unread]: no\n\n[^left]: Without a mark\n"
    )
    assert "<p>One<sup>1</sup>, two<sup>2</sup>, one again<sup>1</sup>, none[^z].</p>" in page
    text, _, notes = page.partition('<ol class="notes">')
    assert "The end. [^unread]: no" in text
    words = " ".join(PageReader(notes).text.split())
    assert words == "First, with code and a list: item Second Without a mark"
    assert PageReader(page).wrong == []


@each_row(
    "text",
    [
        "[^1]: <script>window.pwned=1</script>\n\n[^1]",
        '[^"><script>]: x\n\n[^"><script>]',
        "[^1]: [^1]: [^1]: x[^1]",
        "[^1]:\n[^2]:\n\n[^1][^2]",
        "> [^1]: quoted\n\n- [^2]: listed\n\n[^1][^2]",
        "[^1]: [click](javascript:window.pwned=1)\n\n[^1]",
        "- [x] <img src=x onerror=window.pwned=1>\n- [ ] [x](javascript:x)",
        "https://a.b/javascript:window.pwned=1 https://a.b/%22%3E%3Cscript%3E",
        "[^1]: ```\n    </ol><script>window.pwned=1</script>\n    ```\n\n[^1]",
    ],
)
def test_what_attacks_by_these_rules_stays_text(text: str) -> None:
    page = PageReader(prose(text))
    tags = {tag for tag, _ in page.tags}
    assert tags <= {"p", "a", "sup", "ol", "ul", "li", "span", "br", "blockquote", "pre", "code"}
    assert all(attributes["href"].startswith("http") for tag, attributes in page.tags if tag == "a")
    assert {name for _, attributes in page.tags for name in attributes} <= {"href", "target", "rel", "class"}
    assert page.wrong == []


def test_text_from_right_to_left_has_a_direction_of_its_own_and_other_text_none() -> None:
    assert prose("שלום עולם") == '<p dir="auto">שלום עולם</p>\n'
    page = prose("# مرحبا\n\nHello\n\n- א\n\n> ب\n\n| א | b |\n|---|---|\n| ג | 2 |\n\n```\nא = 1\n```")
    directed = {tag for tag, attributes in PageReader(page).tags if attributes.get("dir") == "auto"}
    assert directed == {"h3", "p", "ul", "blockquote", "table", "th", "td"}
    assert "dir=" not in prose("# Hello\n\n- a\n\n> b") + prose("Hello")
