"""The looks of an HTML export: one style element, and no script."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from clew.exporters.outline import Outline

_PAGE: Final = Path(__file__).with_name("html_page.css")


def style(outline: Outline) -> str:
    """The whole of the style element."""
    return _PAGE.read_text("utf-8") + _switches(outline)


def _switches(outline: Outline) -> str:
    """With the button of a path pressed, its segments are shown, and its label is marked."""
    if len(outline.paths) < 2:
        return ""
    rules = ["section{display:none}"]
    for number, path in enumerate(outline.paths):
        shown = ",".join(f"#p{number}:checked~main>.s{segment}" for segment in path.segments)
        rules += [f"{shown}{{display:block}}"] if shown else []
        label = f"~nav>label[for=p{number}]"
        rules.append(f"#p{number}:checked{label}{{border-color:var(--user);font-weight:600}}")
        rules.append(f"#p{number}:focus-visible{label}{{outline:2px solid var(--user)}}")
    return "\n".join(rules)
