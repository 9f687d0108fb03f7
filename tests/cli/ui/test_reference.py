"""The reference of keys says what the screens do."""

from __future__ import annotations

from pathlib import Path

from clew.cli.ui.keys import HELP

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "ui-keys.md"


def page() -> str:
    """The reference, from the table of keys."""
    lines = [
        "# Keys of `clew ui`",
        "",
        "`?` shows this list on the screen.",
        "What they are for: [browse sessions on the full screen](../how-to/browse-on-the-full-screen.md).",
    ]
    for title, keys in HELP:
        lines += ["", f"## {title}", "", "| key | what it does |", "|---|---|"]
        for key in keys:
            shown = " ".join(f"`{one}`" for one in key.shown.split())
            lines.append(f"| {shown} | {key.help} |")
    return "\n".join(lines) + "\n"


def test_the_reference_has_every_key() -> None:
    assert page() == PAGE.read_text("utf-8")


def test_no_key_does_two_things_on_a_screen() -> None:
    groups = dict(HELP)
    everywhere = ("The session under the cursor", "The entry under the cursor", "Move", "Everywhere")
    for screen in ("List of sessions", "Session", "Tree"):
        keys = [one for name in (screen, *everywhere) for key in groups[name] for one in key.keys.split(",")]
        twice = {key for key in keys if keys.count(key) > 1} - {"escape"}
        assert not twice, screen
