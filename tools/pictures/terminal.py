"""Pictures of what `clew` prints, and of a page that it exports, on the recorded home directory.

`tests/docs/test_pictures.py` compares the words of the pictures with what the commands print now.
"""

from __future__ import annotations

import hashlib
import html
import io
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Final, NamedTuple
from unittest.mock import patch

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

import clew.cli.text
from tests.cli.inside import run_in_pipes, run_on_terminal
from tests.home.make import NOW, environment, make_home

PICTURES: Final = Path(__file__).parents[2] / "docs" / "pictures"
SESSION: Final = "4be70e2a"
"""The one of which there is most to see."""


class Screen(NamedTuple):
    """A command on a terminal, and how much of it is shown."""

    command: str
    columns: int
    rows: int


SCREENS: Final = {
    "ls": Screen("clew ls -n 12", 110, 13),
    "graph": Screen(f"clew log --graph {SESSION}", 100, 24),
}
PAGE: Final = f"clew export {SESSION} -f html"
PAGE_SIZE: Final = (1200, 860)


class _Clock(datetime):
    """It stands still at the moment after the newest session of the home directory."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return NOW.astimezone(tz)


def recorded_home(place: Path) -> dict[str, str]:
    """Make the home directory, import what is in it, and give the environment of its user."""
    env = {**environment(make_home(place)), "TERM": "xterm-256color", "PAGER": "cat"}
    printed(shlex.split("clew import --scan --yes"), env)
    return env


def printed(command: Sequence[str], env: dict[str, str]) -> str:
    """What a command prints into a pipe."""
    with patch.object(clew.cli.text, "datetime", _Clock):
        done = run_in_pipes(tuple(command[1:]), env, Path(env["HOME"]))
    if done.code not in (0, 1, 3):
        raise SystemExit(f"{shlex.join(command)}: {done.err}")
    return done.out


def shown(screen: Screen, env: dict[str, str]) -> list[str]:
    """The lines that a command prints on a terminal, with their colours."""
    words = tuple(shlex.split(screen.command)[1:])
    with patch.object(clew.cli.text, "datetime", _Clock):
        done = run_on_terminal(words, env, Path(env["HOME"]), width=screen.columns)
    return done.out.rstrip("\n").split("\n")[: screen.rows]


# -- drawn

_FONT: Final = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_LETTER, _LINE = 12.0, 24.4  # as rich draws them: 20 high, the width of a letter 0.6 of that
_SVG: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 WIDTH HEIGHT" role="img">
<title>TITLE</title>
<style>
.{unique_id}-matrix {{ font-family: FONT; font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs>{lines}</defs>
<rect x="1" y="1" width="INNER" height="LOWER" rx="10" fill="BACKGROUND" stroke="BORDER" stroke-width="2"/>
<g transform="translate(20, 14)">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


class Look(NamedTuple):
    """The colours of a terminal."""

    theme: TerminalTheme
    background: str
    border: str


def _theme(background: str, text: str, colours: str) -> TerminalTheme:
    numbers = [tuple(bytes.fromhex(one)) for one in colours.split()]
    return TerminalTheme(
        tuple(bytes.fromhex(background)), tuple(bytes.fromhex(text)), numbers[:8], numbers[8:]  # type: ignore[arg-type]
    )  # fmt: skip


LOOKS: Final = {
    "light": Look(
        _theme(
            "ffffff", "1f2328",
            "24292f cf222e 116329 7d4e00 0969da 8250df 1b7c83 57606a"
            " 6e7781 a40e26 1a7f37 633c01 218bff a475f9 3192aa 8c959f",
        ),
        "#ffffff", "#d0d7de",
    ),
    "dark": Look(
        _theme(
            "0d1117", "e6edf3",
            "484f58 ff7b72 3fb950 d29922 58a6ff bc8cff 39c5cf b1bac4"
            " 8b949e ffa198 56d364 e3b341 79c0ff d2a8ff 56d4dd ffffff",
        ),
        "#0d1117", "#30363d",
    ),
}  # fmt: skip


def drawn(name: str, lines: Sequence[str], look: str) -> str:
    """An SVG of the command and what it printed."""
    screen, colours = SCREENS[name], LOOKS[look]
    console = Console(
        record=True, width=screen.columns, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(Text.assemble(("$ ", "bright_black"), (screen.command, "bold")), no_wrap=True)
    console.print(Text.from_ansi("\n".join(lines)), no_wrap=True, crop=True, overflow="crop")
    svg = console.export_svg(
        title="", theme=colours.theme, code_format=_SVG, unique_id=f"clew-{name}", font_aspect_ratio=0.6
    )
    width, height = screen.columns * _LETTER + 40, (len(lines) + 1) * _LINE + 32
    for mark, text in {
        "WIDTH": f"{width:.0f}",
        "HEIGHT": f"{height:.0f}",
        "INNER": f"{width - 2:.0f}",
        "LOWER": f"{height - 2:.0f}",
        "TITLE": html.escape(screen.command),
        "FONT": _FONT,
        "BACKGROUND": colours.background,
        "BORDER": colours.border,
    }.items():
        svg = svg.replace(mark, text, 1)
    return _smaller(svg)


def _smaller(svg: str) -> str:
    """Without the clipping of every line: none is wider than the picture."""
    svg = re.sub(r"<defs>.*?</defs>\n", "", svg, flags=re.DOTALL)
    svg = re.sub(r' clip-path="url\([^"]*\)"', "", svg)
    return re.sub(r"\n{2,}", "\n", svg)


def words_of(svg: str) -> list[str]:
    """The lines of text that a picture shows, without the space between words, and with the same letters in
    all names of entries: each import makes up others."""
    rows: dict[float, str] = {}
    for y, text in re.findall(r'<text[^>]*\by="([\d.]+)"[^>]*>(.*?)</text>', svg, re.DOTALL):
        rows[float(y)] = rows.get(float(y), "") + html.unescape(text).replace("\xa0", " ")
    named = [" ".join(text.split()) for _, text in sorted(rows.items()) if text.strip()]
    return [re.sub(r"(?<![\w-])[0-9a-f]{4,6}(?=\.\d+\b)", "name", text) for text in named]


# -- the page

DIGEST: Final = "clew-words"
_OPEN: Final = """() => {
  const edit = [...document.querySelectorAll('summary')].find(s => s.textContent.trim().startsWith('Edit'));
  if (edit) edit.parentElement.open = true;
}"""
"""One edit is shown as it is when a reader opens it."""


def digest(page: str) -> str:
    """Of the words of a page, without its styles and scripts."""
    text = re.sub(r"<(style|script)\b.*?</\1>", "", page, flags=re.DOTALL)
    text = html.unescape(re.sub(r"<[^>]*>", " ", text))
    return hashlib.blake2b(" ".join(text.split()).encode(), digest_size=16).hexdigest()


def digest_of(picture: Path) -> str:
    """The digest of the page that a picture shows, which is in the picture itself."""
    found = re.search(rb"tEXt" + DIGEST.encode() + rb"\0([0-9a-f]{32})", picture.read_bytes())
    return found[1].decode() if found else ""


def photographed(page: str, look: str) -> bytes:
    """A PNG of a page in a real browser, with few colours, so that it is small."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as place, sync_playwright() as play:
        file = Path(place, "page.html")
        file.write_text(page, "utf-8")
        browser = play.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome")
        )
        width, height = PAGE_SIZE
        tab = browser.new_page(
            viewport={"width": width, "height": height}, color_scheme="dark" if look == "dark" else "light"
        )
        tab.goto(file.as_uri())
        tab.evaluate(_OPEN)
        taken = tab.screenshot()
        browser.close()
    image = Image.open(io.BytesIO(taken)).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    said = PngInfo()
    said.add_text(DIGEST, digest(page))
    small = io.BytesIO()
    image.save(small, "PNG", optimize=True, pnginfo=said)
    return small.getvalue()


def is_the_same(file: Path, content: bytes) -> bool:
    """Whether a drawing has the words that it had, save for names of entries, which each import makes up."""
    return (
        file.suffix == ".svg"
        and file.exists()
        and _style(file.read_text("utf-8")) == _style(content.decode())
        and words_of(file.read_text("utf-8")) == words_of(content.decode())
    )


def _style(svg: str) -> str:
    return svg.split("</style>", maxsplit=1)[0]


def made(names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """The pictures of these names, each with the name of its file."""
    with tempfile.TemporaryDirectory() as place:
        env = recorded_home(Path(place, "home"))
        for name in names:
            if name in SCREENS:
                lines = shown(SCREENS[name], env)
                yield from ((f"{name}-{look}.svg", drawn(name, lines, look).encode()) for look in LOOKS)
            else:
                page = printed(shlex.split(PAGE), env)
                yield from ((f"page-{look}.png", photographed(page, look)) for look in LOOKS)
