"""The looks of an HTML export: one style element, and no script."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pygments.formatters import HtmlFormatter

from clew.exporters.outline import Outline

_PAGE: Final = Path(__file__).with_name("html_page.css")


def style(outline: Outline) -> str:
    """The whole of the style element."""
    light, dark = _colours("default"), _colours("github-dark")
    dark_only = "@media (prefers-color-scheme:dark){" + dark + "}"
    return _PAGE.read_text("utf-8") + light + dark_only + _switches(outline)


def _colours(name: str) -> str:
    """Those of the words of code; the background is that of the page."""
    formatter: Any = HtmlFormatter(style=name)
    rules: str = formatter.get_style_defs("pre")
    return "\n".join(rule for rule in rules.splitlines() if rule.startswith("pre ."))


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
