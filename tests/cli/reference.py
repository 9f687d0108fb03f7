"""The part of docs/reference/command-line.md that follows from the code.

`python -m tests.cli.reference` writes it anew, between the two marks of the page.
"""

from __future__ import annotations

from collections.abc import Iterator

from clew.cli import SECTIONS, cli
from clew.cli.help.pages import Page, all_pages
from tests.docs.pages import DOCS

PAGE = DOCS / "reference" / "command-line.md"
BEGIN, END = "<!-- commands: begin -->", "<!-- commands: end -->"


def reference() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    pages = list(all_pages(cli))
    for title, commands in SECTIONS.items():
        yield f"\n## {title}"
        for page in pages:
            if page.path.split()[1:2] and page.path.split()[1] in commands:
                yield from _page(page)


def _page(page: Page) -> Iterator[str]:
    yield f"\n### `{page.usage.replace(' [OPTIONS]', '')}`\n"
    for paragraph in (f"{page.summary}.", *page.paragraphs):
        yield _sentences(paragraph)
    if page.options:
        yield ""
    for option in page.options:
        names = ", ".join(f"`{name}`" for name in option.names)
        yield f"- {names}{f' `{option.value}`' if option.value else ''}: {option.text}".rstrip(".") + "."
    if page.examples:
        width = max(len(example.typed) for example in page.examples)
        lines = (f"{example.typed:<{width}}  {example.text}".rstrip() for example in page.examples)
        yield "\n```text\n" + "\n".join(lines) + "\n```"


def _sentences(paragraph: str) -> str:
    """One sentence a line, as all pages have it."""
    return " ".join(paragraph.split()).replace(". ", ".\n")


if __name__ == "__main__":
    text = PAGE.read_text("utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{reference()}\n{END}{after}", "utf-8")
