"""Man pages: one for each command, and groff takes them without a warning."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from clew.cli import COMMANDS, cli
from clew.cli.help.man import man_pages
from clew.cli.help.pages import ENVIRONMENT, all_pages
from tests.cli.processes import Clew

PAGES = man_pages(cli)


@pytest.fixture
def written(tmp_path: Path) -> list[str]:
    """The names of files with all pages, which one run of a program reads."""
    for name, text in PAGES.items():
        (tmp_path / name).write_text(text, "ascii")  # every other letter is written by its number
    return list(PAGES)


def test_there_is_a_page_for_each_command(cli: Clew) -> None:
    done = cli("help", "--man-pages", "man/man1")
    assert f"{len(COMMANDS) + 1} man pages" in done.err
    found = {path.name for path in (cli.home / "man" / "man1").iterdir()}
    assert {"clew.1", *(f"clew-{name}.1" for name in COMMANDS)} == found


@pytest.mark.needs("groff")
def test_groff_has_nothing_to_complain_about(written: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-rLL=78n", *written],
        capture_output=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert (0, b"") == (done.returncode, done.stderr)
    shown = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", done.stdout.decode())
    assert len(PAGES) == shown.count("\nNAME\n")
    assert all(len(line) <= 80 for line in shown.splitlines())


@pytest.mark.needs("mandoc")
def test_mandoc_has_nothing_to_complain_about(written: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", *written],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert (0, "") == (done.returncode, done.stdout)


def test_a_page_says_what_help_says() -> None:
    """Each option, example and text; as roff writes it."""
    for page in all_pages(cli):
        text = PAGES["-".join(page.path.split()[:2]) + ".1"]
        plain = text.replace("\\-", "-").replace("\\fB", "").replace("\\fI", "").replace("\\fR", "")
        plain = plain.replace("\\(aq", "'").replace("\\(dq", '"').replace("\\(ti", "~").replace("\\(ga", "`")
        plain = re.sub(r"\\\[u([0-9A-F]+)\]", lambda found: chr(int(found[1], 16)), plain)
        for option in page.options:
            assert str(option) in plain, (page.path, option)
            assert option.text in plain
        for example in page.examples if len(page.path.split()) < 3 else ():
            assert example.typed in plain
    assert all(name in PAGES["clew.1"] for names, _ in ENVIRONMENT for name in names.split(", "))


def test_no_line_of_text_is_a_request_of_roff() -> None:
    requests = {".TH", ".SH", ".SS", ".TP", ".PP", ".BR", ".br", ".nh", ".ad"}
    for text in PAGES.values():
        assert {line.split()[0] for line in text.splitlines() if line[:1] in (".", "'")} <= requests


def test_pages_are_the_same_on_every_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1790000000")
    assert '"2026-09-21"' in man_pages(cli)["clew-ls.1"]
