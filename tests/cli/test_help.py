"""Help is quick, has examples, and says the same as the table of commands; completion; versions."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from clew.backends.registry import parse
from clew.cli import COMMANDS, app, cli
from clew.cli.help.pages import ADDRESSES, ENVIRONMENT, EXIT_CODES, Page, all_pages, help_text
from tests.cli.processes import Clew
from tests.cli.reference import BEGIN, END, reference
from tests.docs.pages import DOCS
from tests.support.rows import each_row

PAGES = list(all_pages(cli))


def test_help_lists_every_command_and_needs_no_engine() -> None:
    """What takes long to import is not imported: that, not a clock, keeps help quick."""
    code = (
        "import sys, clew.cli\n"
        "try: clew.cli.main(['--help'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "slow = {'apsw', 'rich', 'asyncio', 'msgspec', 'psycopg', 'sqlite3'} & set(sys.modules)\n"
        "assert not slow, slow\n"
        "loaded = {name for name in sys.modules if name.startswith('clew.cli.')}\n"
        "assert loaded <= {'clew.cli.app', 'clew.cli.help', 'clew.cli.help.pages'}, loaded\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)
    for name, place in COMMANDS.items():
        assert f"  {name} " in done.stdout
        assert place.help.split()[0] in done.stdout


def test_a_listing_for_a_pipe_does_not_wait_for_what_draws_on_terminals(story: Clew) -> None:
    code = (
        "import sys, clew.cli\n"
        "try: clew.cli.main(sys.argv[1:])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "slow = {'rich', 'asyncio', 'clew.exporters', 'clew.importers.detect'} & set(sys.modules)\n"
        "assert not slow, slow\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--store", str(story.store), "ls"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (0, "") == (done.returncode, done.stderr)


def test_clew_alone_fits_a_screen_and_names_every_command(cli: Clew) -> None:
    shown = cli()
    assert shown.out == cli("-h").out
    assert len(shown.lines) <= 24
    assert set(COMMANDS) <= set(re.findall(r"[a-z]+", shown.out))
    assert "clew import --scan" in shown.out
    assert "clew help lists the commands" in shown.out


@each_row("page", PAGES, ids=lambda page: page.path)
def test_a_page_is_complete_and_in_plain_words(page: Page) -> None:
    """The imperative, in one line that fits beside the names; every option has a text; examples that fit."""
    assert re.fullmatch(r"[A-Z][a-z]+\b.{0,60}", page.summary), page.summary
    assert len(page.summary) <= 45 or len(page.path.split()) != 2, "it is broken on 60 columns"
    assert not page.summary.split()[0].endswith(("s", "ing"))
    if len(page.path.split()) == 2:
        assert any(example.typed.startswith(page.path) for example in page.examples)
    for option in (*page.options, *page.shared):
        assert option.text, option
        assert len(str(option)) <= 30, option
    for example in page.examples:
        assert len(example.typed) <= 76
        assert "  " not in example.text


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_help_fits_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a command that is typed may be wider than a very narrow terminal: it is never broken in a word."""
    monkeypatch.setenv("COLUMNS", str(width))
    for page in PAGES:
        words = {word for one in page.examples for word in one.typed.split()} | set(page.usage.split())
        for line in [*help_text(page).splitlines(), *help_text(page, short=True).splitlines()]:
            assert line == line.rstrip(), page.path
            assert len(line) <= min(width, 80) or any(word in words for word in line.split()), line


@each_row("page", PAGES, ids=lambda page: page.path)
def test_the_examples_of_a_command_can_be_parsed(page: Page) -> None:
    """Every option in an example exists."""
    inner = [one for one in PAGES if one.path.startswith(page.path)]
    known = {
        name.replace("[no-]", no)
        for one in inner
        for option in (*one.options, *one.shared)
        for name in option.names
        for no in ("", "no-")
    }
    for example in page.examples:
        used = [word for word in example.typed.split() if re.match("--?[a-z]", word)]
        if example.typed.startswith(page.path):
            assert {word for word in used if word.startswith("--")} <= known, example


def test_help_of_a_command_is_what_its_option_prints(cli: Clew) -> None:
    assert cli("show", "--help").out == cli("help", "show").out
    assert cli("trash", "empty", "--help").out == cli("help", "trash", "empty").out
    assert cli("--help").out == cli("help").out
    short = cli("show", "-h").out
    assert "Usage: clew show" in short
    assert "--context" in short
    assert "Examples" not in short
    assert short == cli("show", "login", "-h").out


def test_help_of_what_is_no_command_names_the_nearest(cli: Clew) -> None:
    assert "did you mean show?" in cli("help", "shwo", code=2).err
    assert "did you mean empty?" in cli("help", "trash", "empti", code=2).err
    assert "has no commands of its own" in cli("help", "ls", "x", code=1).err
    assert "did you mean environment?" in cli("help", "enviroment", code=2).err


def test_topics_of_help(cli: Clew) -> None:
    variables = cli("help", "environment").out
    assert all(f"  {name}" in variables for name, _ in ENVIRONMENT)
    assert [str(code) for code, _ in EXIT_CODES] == re.findall(
        r"^  (\d+)", cli("help", "exit-codes").out, re.MULTILINE
    )


WHOLE = (
    '{"type":"session","version":3,"id":"a","timestamp":"2026-01-01T00:00:00Z","cwd":"/w"}\n'
    '{"type":"message","id":"1","parentId":null,"message":{"role":"user","content":"hi"}}\n'
)
TORN = WHOLE.replace("\n", "\n{torn}\n", 1)


@each_row("command", ["import", "sync"])
@each_row(
    ("content", "code"),
    [('{"id": "s", "mess', 1), ('{"role": "user", "content": "hi"}\n{"a": 1}\n', 1), (WHOLE, 0), (TORN, 3)],
)
def test_a_file_that_is_left_out_has_the_exit_code_that_help_and_docs_tell(
    cli: Clew, tmp_path: Path, command: str, content: str, code: int
) -> None:
    """1 whatever else came in; 3 only where lines of a file are missing."""
    folder = tmp_path / "from"
    folder.mkdir()
    (folder / "found.jsonl").write_text(content)
    cli("--store", str(tmp_path / "own.db"), command, str(folder), code=code)
    assert "left out" in dict(EXIT_CODES)[1]
    assert "lines of a file" in dict(EXIT_CODES)[3]
    rows = (DOCS / "reference" / "command-line.md").read_text().split("## Exit codes")[1]
    assert re.search(r"^\| 1 \|.*`import` and `sync`: a file .*was left out", rows, re.MULTILINE)
    assert re.search(r"^\| 3 \|.*`import` and `sync`: lines of a file are missing", rows, re.MULTILINE)


def test_every_address_that_help_names_is_one(cli: Clew, tmp_path: Path) -> None:
    shown = cli("help", "addresses").out
    for address, _ in ADDRESSES:
        assert f"  {address}" in shown
        parse(address)
    assert "clew help addresses" in cli("-s", "nosuch://x", "ls", code=1).err


def test_variables_are_those_of_the_code_and_of_the_reference() -> None:
    """A variable of Clew's own that the code reads is told of, in help and in the reference."""
    root = Path(clew.__file__).parent
    read = {
        name
        for path in root.rglob("*.py")
        for name in re.findall(r'"(CLEW_[A-Z_]+)"', path.read_text("utf-8"))
    }
    told = {name for names, _ in ENVIRONMENT for name in names.split(", ")}
    assert read <= told
    page = (DOCS / "reference" / "command-line.md").read_text("utf-8")
    assert all(f"`{name}`" in page for name in told)


def test_headings_are_bold_on_a_terminal_and_nothing_is_coloured(cli: Clew) -> None:
    shown = cli.on_terminal("help", "show").out
    assert "\x1b[1mOptions:\x1b[0m" in shown
    assert {"1", "0"} == set(re.findall(r"\x1b\[([0-9;]*)m", shown))
    assert "\x1b" not in cli.on_terminal("help", "show", env={"NO_COLOR": "1"}).out
    assert "\x1b" not in cli("help", "show").out


def test_the_reference_says_what_the_commands_say() -> None:
    """`python -m tests.cli.reference` brings the page up to date."""
    page = (DOCS / "reference" / "command-line.md").read_text("utf-8")
    assert reference().strip() == page.split(BEGIN)[1].split(END)[0].strip()


def test_exit_codes_in_the_reference_are_those_of_the_code() -> None:
    page = (DOCS / "reference" / "command-line.md").read_text("utf-8")
    table = page.split("## Exit codes")[1].split("##")[0]
    codes = [int(line.split("|")[1]) for line in table.splitlines() if line[2:3].isdigit()]
    known = (app.OK, app.ERROR, app.USAGE, app.PARTLY, app.INTERRUPTED, app.CLOSED_PIPE)
    assert list(known) == codes == [code for code, _ in EXIT_CODES]


def test_options_may_stand_before_or_behind_the_command(story: Clew) -> None:
    store = str(story.store)
    expected = story("ls", "--json").out
    for args in (["--json", "ls"], ["--store", store, "ls", "--json"], ["ls", "-s", store, "--json"]):
        assert expected == story(*args, env={"CLEW_STORE": "nowhere.db"} if store in args else None).out


def test_completion_without_a_store_offers_nothing(cli: Clew) -> None:
    env = {"_CLEW_COMPLETE": "bash", "COMP_LINE": "clew show x", "COMP_PART": "x"}
    assert "" == cli(env=env, code=1).out.strip()
    assert not cli.store.exists()


def test_versions_are_told(cli: Clew) -> None:
    told = dict(cli("version").rows)
    assert {"clew", "python", "sqlite", "apsw"} <= set(told)
    assert f"clew {told['clew']}\n" == cli("--version").out


def test_removal_is_spelled_one_way() -> None:
    """Older spellings are taken, and named nowhere."""
    others = {"remove", "delete", "uninstall", "revoke", "del"}
    for page in PAGES:
        words = {name.lstrip("-") for option in page.options for name in option.names}
        words |= {name for section in page.sections for name, _ in section.commands}
        assert not words & others, page.path
        for text in (*page.paragraphs, *(example.typed for example in page.examples)):
            assert not any(f"--{word}" in text for word in others), page.path
    paths = {page.path for page in PAGES}
    assert {"clew rm", "clew token rm", "clew share rm", "clew hooks rm", "clew mcp rm"} <= paths


def test_older_spellings_of_a_removal_are_taken(story: Clew) -> None:
    story("tag", "login-bug", "urgent")
    assert "urgent" not in story("tag", "login-bug", "--remove", "urgent").lines
    story("checkpoint", "login-bug", "once")
    story("checkpoint", "login-bug", "once", "-d")
    assert "No service of clew" in story("watch", "--uninstall").out
    story("hooks", "remove", "claude-code", "--dry-run")
    story("mcp", "install", "--remove", "claude-code", "--dry-run")
