"""The pictures of README show what the commands print: `make pictures` makes them anew."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.docs.pages import all_pages
from tools.pictures.page import VIEWS
from tools.pictures.terminal import (
    LOOKS,
    PAGE,
    PICTURES,
    SCREENS,
    digest,
    digest_of,
    drawn,
    printed,
    recorded_home,
    shown,
    words_of,
)

LARGEST = 200_000


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return recorded_home(tmp_path_factory.mktemp("pictures") / "home")


@pytest.mark.parametrize("name", SCREENS)
def test_a_picture_shows_what_the_command_prints(env: dict[str, str], name: str) -> None:
    """The words of it; how they are drawn may change."""
    now = words_of(drawn(name, shown(SCREENS[name], env), "light"))
    assert f"$ {SCREENS[name].command}" == now[0]
    assert len(now) > 8
    for look in LOOKS:
        there = words_of((PICTURES / f"{name}-{look}.svg").read_text("utf-8"))
        assert now == there, "make pictures ARGS=" + name


def test_the_picture_of_a_page_shows_the_page_that_is_exported(env: dict[str, str]) -> None:
    now = digest(printed(shlex.split(PAGE), env))
    for look in LOOKS:
        assert now == digest_of(PICTURES / f"page-{look}.png"), "make pictures ARGS=page"


def test_pictures_are_small_and_need_nothing_from_elsewhere() -> None:
    files = sorted(PICTURES.iterdir())
    assert {f"{name}-{look}" for name in (*SCREENS, "page", *VIEWS) for look in LOOKS} == {
        file.stem for file in files
    }
    for file in files:
        assert file.stat().st_size < LARGEST
        if file.suffix == ".svg":
            text = file.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
            assert not re.search(r"https?:|@import|<script", text)


def test_every_picture_is_shown_on_a_page_in_both_forms() -> None:
    shown: set[str] = set()
    for page in all_pages():
        text = page.read_text("utf-8")
        for source, image in re.findall(r'srcset="([^"]+)".*?src="([^"]+)"', text, re.DOTALL):
            assert source.replace("-dark", "-light") == image
            shown |= {(page.parent / path).resolve().relative_to(PICTURES).name for path in (source, image)}
        assert len(re.findall(r"<img ", text)) == len(re.findall(r'<img alt="[^"]{20,}"', text))
    assert shown == {file.name for file in PICTURES.iterdir()}
