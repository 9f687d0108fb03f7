"""Settings: option before environment before file before default; nothing in the file is believed unseen."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from clew.cli import config
from clew.cli.app import Settings
from clew.cli.config import ConfigError, changed, config_path, entries_of, resolve
from tests.cli.processes import Clew
from tests.support.rows import each_row

KEYS = ("store", "color", "pager", "columns")


@pytest.fixture
def file(cli: Clew) -> Path:
    return cli.home / ".config" / "clew" / "config.toml"


def write(file: Path, text: str, mode: int = 0o600) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    file.chmod(mode)


def make_long(story: Clew) -> None:
    """A session that does not fit on a screen."""
    with clew.open(story.store) as store:
        store.session("long").append(*({"role": "user", "content": f"line {n}"} for n in range(40)))


# -- what holds


def test_without_a_file_all_is_as_before(cli: Clew, file: Path) -> None:
    rows = cli("config", env={"CLEW_STORE": ""}).rows
    own = str(cli.home / ".local/share/clew/clew.db")
    assert [["store", own, "default"], ["color", "auto", "default"]] == rows[:2]
    assert [["pager", "less", "default"], ["columns", "", "default"]] == rows[2:]
    assert str(file) == cli("config", "--path").out.strip()
    assert not file.exists()


def test_the_list_says_where_a_value_comes_from(cli: Clew, file: Path) -> None:
    write(file, '# mine\ncolor = "never"\npager = "less -S"\n')
    rows = {row[0]: row[1:] for row in cli("config", env={"CLEW_PAGER": "more"}).rows}
    assert [str(cli.store), "$CLEW_STORE"] == rows["store"]
    assert ["never", f"{file}:2"] == rows["color"]
    assert ["more", "$CLEW_PAGER"] == rows["pager"]
    records = [json.loads(line) for line in cli("config", "--json").lines]
    assert {"key": "color", "value": "never", "source": f"{file}:2"} == records[1]
    shown = cli.on_terminal("config", "--color", "never").out
    assert "SETTING" in shown
    assert "~/.config/clew/config.toml:2" in shown


def test_a_store_is_found_by_option_then_environment_then_file(story: Clew, file: Path) -> None:
    for name in ("of-file", "of-option"):
        with clew.open(story.home / f"{name}.db") as store:
            store.session(name)
    write(file, f'store = "{story.home}/of-file.db"\n')
    assert "login-bug" in story("ls", "--json").out
    assert "of-file" in story("ls", "--json", env={"CLEW_STORE": ""}).out
    assert "of-option" in story("ls", "--json", "-s", "of-option.db", env={"CLEW_STORE": ""}).out
    write(file, 'store = "~/of-file.db"\n')
    assert "of-file" in story("ls", "--json", env={"CLEW_STORE": ""}).out


def test_colours_by_option_then_environment_then_file(story: Clew, file: Path) -> None:
    def is_coloured(*args: str, **env: str) -> bool:
        return "\x1b[" in story.on_terminal("show", "login-bug", *args, env=env).out

    assert is_coloured()
    write(file, 'color = "never"\n')
    assert not is_coloured()
    assert is_coloured(CLEW_COLOR="auto")
    assert not is_coloured("--color", "never", CLEW_COLOR="always")
    assert is_coloured("--color", "always", CLEW_COLOR="never", TERM="dumb")
    write(file, 'color = "always"\n')
    assert "\x1b[" in story("show", "login-bug").out
    assert "\x1b[" not in story("show", "login-bug", env={"NO_COLOR": "1"}).out
    assert "\x1b[" in story("show", "login-bug", "--color=always", env={"NO_COLOR": "1"}).out
    assert "\x1b[" not in story("show", "login-bug", "--color=never").out


def test_always_changes_colours_and_nothing_else(story: Clew) -> None:
    for args in (["show", "login-bug"], ["log", "--graph", "login-bug"]):
        plain, coloured = story(*args).out, story(*args, "--color", "always").out
        assert plain == re.sub(r"\x1b\[[0-9;]*m", "", coloured)
        assert plain != coloured


def test_a_pager_by_environment_then_file(story: Clew, file: Path) -> None:
    make_long(story)
    pagers = {}
    for name in ("mine", "other"):
        path = story.home / name
        path.write_text(f"#!/bin/sh\necho PAGED BY {name}\ncat\n")
        path.chmod(0o700)
        pagers[name] = str(path)
    write(file, f'pager = "{pagers["mine"]}"\n')
    without = story.on_terminal("show", "long", env={"PAGER": None}).out
    assert without.startswith("PAGED BY mine")
    for env in ({"PAGER": pagers["other"]}, {"PAGER": "cat", "CLEW_PAGER": pagers["other"]}):
        assert story.on_terminal("show", "long", env=env).out.startswith("PAGED BY other")
    assert "PAGED" not in story.on_terminal("show", "long", "--no-pager", env={"PAGER": None}).out
    assert "PAGED" not in story("show", "long").out


def test_columns_by_option_then_environment_then_file_on_a_terminal(story: Clew, file: Path) -> None:
    write(file, 'columns = ["title", "id"]\n')
    for args, env, heading in (
        ([], {}, "TITLE ID"),
        ([], {"CLEW_COLUMNS": "id,messages"}, "ID MSGS"),
        (["--columns", "id"], {"CLEW_COLUMNS": "id,messages"}, "ID"),
    ):
        shown = story.on_terminal("ls", "--color=never", *args, env=env).out
        assert heading == " ".join(shown.splitlines()[0].split())
    assert story("ls").out == story("ls", env={"CLEW_COLUMNS": "id"}).out, "scripts get what they always got"


def test_a_column_that_is_none_is_named_with_its_place(story: Clew, file: Path) -> None:
    assert "no column 'nosuch'; there are " in story("config", "columns", "id,nosuch", code=2).err
    write(file, '\ncolumns = "id,nosuch"\n')
    shown = story.on_terminal("ls", width=200)
    assert 1 == shown.code
    assert f"clew: {file}:2: no column 'nosuch'; there are " in shown.out


def test_the_list_names_what_the_file_says_and_what_comes_before_it(cli: Clew, file: Path) -> None:
    write(file, 'store = "~/of-file.db"\ncolor = "never"\npager = "less -S"\n')
    env = {"CLEW_PAGER": "more"}
    shown = cli("config", "-s", "of-option.db", "--no-pager", env=env)
    assert ["store", "of-option.db", "--store"] == shown.rows[0]
    assert ["pager", "", "--no-pager"] == shown.rows[2]
    assert "store: --store comes before ~/.config/clew/config.toml:1, which says ~/of-file.db" in shown.err
    assert "color: " not in shown.err, "the file holds"
    assert "pager: $CLEW_PAGER comes before" in cli("config", "pager", env=env).err
    records = {one["key"]: one for one in cli("config", "--json", "--color", "always", env=env).records}
    assert ("always", "--color") == (records["color"]["value"], records["color"]["source"])
    assert {"value": "never", "source": f"{file}:2"} == records["color"]["file"]
    assert "$CLEW_STORE" == records["store"]["source"]
    assert f"{cli.home}/of-file.db" == records["store"]["file"]["value"]
    assert "file" not in records["columns"]
    assert "which says less -S" in cli.on_terminal("config", env=env).out


# -- changing the file


def test_set_print_and_unset(cli: Clew, file: Path) -> None:
    assert f"color is never, in {file}" in cli("config", "color", "never").err
    assert "never\n" == cli("config", "color").out
    assert 0o600 == stat.S_IMODE(file.stat().st_mode)
    assert 0o700 == stat.S_IMODE(file.parent.stat().st_mode)
    assert [file.name] == os.listdir(file.parent)
    cli("config", "--unset", "color")
    assert "auto\n" == cli("config", "color").out
    assert "" == file.read_text()
    cli("config", "--unset", "color")


def test_a_change_is_told_if_the_environment_comes_first(cli: Clew) -> None:
    told = cli("config", "color", "never", env={"CLEW_COLOR": "always"}).err
    assert "color is never, in " in told
    assert "but $CLEW_COLOR comes first, and says 'always'" in told
    told = cli("config", "color", "auto", "--color", "never").err
    assert "color is auto, in " in told
    assert "but --color comes first, and says 'never'" in told


def test_a_store_is_kept_as_a_whole_path(cli: Clew, file: Path) -> None:
    cli("config", "store", "agents/x.db", env={"CLEW_STORE": ""})
    assert f'store = "{cli.home}/agents/x.db"\n' == file.read_text()


def test_comments_and_other_lines_stay(tmp_path: Path) -> None:
    text = (
        '# mine\n\ncolor = "never"   # eyes # of mine\r\n'
        'columns = [  # of ls\n  "id",\n  "title",\n]\n# end\npager = "a # b"'
    )
    path = tmp_path / "c.toml"
    assert text.replace('"never"   # eyes', '"auto"   # eyes').replace("mine\r\n", "mine\n") == changed(
        text, "color", "auto", path
    )
    assert text.replace('columns = [  # of ls\n  "id",\n  "title",\n]\n', 'columns = "id"\n') == changed(
        text, "columns", "id", path
    )
    assert text.replace('"a # b"', '"c"\n') == changed(text, "pager", "c", path)
    assert f'{text}\nstore = "/x.db"\n' == changed(text, "store", "/x.db", path)
    assert text.replace('color = "never"   # eyes # of mine\r\n', "") == changed(text, "color", None, path)


@each_row("value", ['a"b', "a\\b", "tab\\t # x", "ü ✓", "'", '"""', "x=[1]", "#"])
def test_any_text_comes_back(value: str, tmp_path: Path) -> None:
    if value in ('a"b', "'", '"""'):
        value = f"less {value}{value}"  # a pager's quotations are closed
    text = changed("", "pager", value, tmp_path)
    assert value == entries_of(text, tmp_path)["pager"].text


def test_a_link_to_the_file_stays_a_link(cli: Clew, file: Path) -> None:
    """Many keep their settings in a repository and link to them."""
    real = cli.home / "dotfiles" / "clew.toml"
    write(real, "")
    file.parent.mkdir(parents=True)
    file.symlink_to(real)
    cli("config", "color", "never")
    assert file.is_symlink()
    assert 'color = "never"\n' == real.read_text()


def test_what_cannot_be_changed_safely_is_left_alone(cli: Clew, file: Path) -> None:
    text = '"color" \\\n= 1'
    write(file, text)
    assert "clew config --edit" in cli("config", "color", "auto", code=1).err
    assert text == file.read_text()


def test_edit_makes_a_file_with_explanations_and_checks_it(cli: Clew, file: Path) -> None:
    editor = cli.home / "editor"
    editor.write_text('#!/bin/sh\necho "colour = 1" >> "$1"\n')
    editor.chmod(0o700)
    told = cli("config", "--edit", env={"EDITOR": str(editor), "VISUAL": ""}, code=1).err
    line = len(file.read_text().splitlines())
    assert f"{file}:{line}: no setting 'colour'; did you mean color?" in told
    assert "# store = " in file.read_text()
    assert "does not start" in cli("config", "--edit", env={"VISUAL": "/no/such/editor"}, code=1).err


def test_all_that_the_template_shows_is_valid(tmp_path: Path) -> None:
    shown = "".join(
        f"{line[2:]}\n" for line in config.TEMPLATE.splitlines() if line.startswith("# ") and " = " in line
    )
    assert set(KEYS) == set(entries_of(shown, tmp_path))


# -- what is wrong


@each_row(
    ("text", "says"),
    [
        ("colour = 1", ":1: no setting 'colour'; did you mean color?"),
        ("\n\nfoo = 1", ":3: no setting 'foo'; there are store, color, pager, columns"),
        ('\ncolor = "red"', ":2: color is one of auto, always, never; not 'red'"),
        ("color = true", ":1: color is one of auto, always, never; not True"),
        ("pager = 3", ":1: pager is a text, not 3"),
        ('pager = "less \'"', ':1: pager is "less \'", in which a quotation mark is not closed'),
        ('pager = "a\\u001bb"', ":1: pager holds a character that cannot be printed"),
        ("columns = {}", ":1: columns is a list of names"),
        ('store = "x.db"', ":1: store is the path 'x.db', which is another place in every directory"),
        ('store = "nosuch://x"', ":1: store: no backend for nosuch"),
        ('store = "postgres:me:geheim@h/db"', "***"),
        ("color = ", ":1: this is not valid TOML (invalid value)"),
        ("a = 1\na = 2", ":2: this is not valid TOML (cannot overwrite a value)"),
        ("x = " + "[" * 20_000, ": this is not valid TOML"),
        ("x = " + "9" * 20_000, ": this is not valid TOML"),
        ("[store]\nx = 1", ":1: store is a text"),
        ("x" * 70_000, "is larger than 64 KiB"),
    ],
)
def test_a_mistake_is_one_line_with_file_and_line(cli: Clew, file: Path, text: str, says: str) -> None:
    write(file, text)
    done = cli("ls", env={"CLEW_STORE": ""}, code=1)
    assert 1 == len(done.err.splitlines()), done.err
    assert done.err.startswith(f"clew: {file}")
    assert says in done.err
    assert "geheim" not in done.err
    assert "Traceback" not in done.err


def test_a_mistake_in_a_variable_names_the_variable(cli: Clew) -> None:
    assert "$CLEW_COLOR: color is one of" in cli("ls", env={"CLEW_COLOR": "pink"}, code=1).err


def test_what_does_not_need_the_settings_works_with_a_broken_file(cli: Clew, file: Path) -> None:
    write(file, "nonsense")
    for args in (["help"], ["ls", "--help"], ["version"], ["completion", "bash"], ["config", "--path"]):
        cli(*args)
    assert f"{file}:1" in cli("config", code=1).err


def test_a_password_is_not_shown(cli: Clew, file: Path) -> None:
    write(file, 'store = "postgresql://me:geheim@host/db"\n')
    for args in (["config"], ["config", "store"], ["config", "--json"]):
        shown = cli(*args, env={"CLEW_STORE": ""})
        assert "postgresql://me:***@host/db" in shown.out
        assert "geheim" not in shown.out + shown.err


def test_bytes_that_are_no_text_are_named_with_their_line(cli: Clew, file: Path) -> None:
    write(file, "")
    file.write_bytes(b'# a\ncolor = "\xff"\n')
    assert f"{file}:2: this is not UTF-8" in cli("ls", code=1).err


# -- what others wrote


def test_s58_a_file_that_others_may_change_is_not_read(cli: Clew, file: Path) -> None:
    write(file, 'pager = "touch owned"\n', mode=0o602)
    assert "other users may change" in cli("ls", code=1).err


def test_s58_a_file_of_another_user_is_not_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(file, 'pager = "touch owned"\n')
    monkeypatch.setenv("CLEW_CONFIG", str(file))
    owner = file.stat().st_uid
    if owner == 0:
        os.chown(file, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(ConfigError, match="belongs to another user"):
        resolve(Settings())


@pytest.mark.parametrize("kind", ["fifo", "directory"])
def test_s58_what_is_no_file_is_named_and_not_waited_for(cli: Clew, file: Path, kind: str) -> None:
    file.parent.mkdir(parents=True)
    os.mkfifo(file) if kind == "fifo" else file.mkdir()
    assert str(file) in cli("ls", code=1).err


def test_s58_a_pager_is_a_program_with_arguments_not_a_line_of_a_shell(story: Clew, file: Path) -> None:
    make_long(story)
    write(file, 'pager = "cat; touch owned"\n')
    assert "line 7" in story.on_terminal("show", "long", env={"PAGER": None}).out
    assert not (story.home / "owned").exists()


# -- where it is, and what it costs


@each_row(
    ("platform", "env", "place"),
    [
        ("linux", {}, "~/.config/clew/config.toml"),
        ("linux", {"XDG_CONFIG_HOME": "/etc/xdg"}, "/etc/xdg/clew/config.toml"),
        ("linux", {"XDG_CONFIG_HOME": "relative"}, "~/.config/clew/config.toml"),
        ("darwin", {"XDG_CONFIG_HOME": "/x"}, "~/Library/Application Support/clew/config.toml"),
        ("win32", {"APPDATA": "/roaming"}, "/roaming/clew/config.toml"),
        ("win32", {"CLEW_CONFIG": "/my.toml"}, "/my.toml"),
    ],
)
def test_the_file_is_where_the_system_keeps_settings(
    platform: str, env: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CONFIG_HOME", "APPDATA", "CLEW_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert os.path.expanduser(place) == str(config_path())


def test_without_a_file_nothing_is_imported_for_it(cli: Clew) -> None:
    code = (
        "import sys\nfrom clew.cli.app import Settings\nfrom clew.cli.config import resolve\n"
        "before = set(sys.modules)\nresolve(Settings())\n"
        "more = {name for name in set(sys.modules) - before}\nassert not more, more\n"
    )
    subprocess.run([sys.executable, "-c", code], env=cli.env, check=True)


def test_names_and_values_are_completed(cli: Clew) -> None:
    def proposed(line: str) -> list[str]:
        env = {"_CLEW_COMPLETE": "zsh", "COMP_LINE": line}
        return [row[1] for row in cli(env=env).rows]

    assert ["color", "columns"] == proposed("clew config col")
    assert ["always", "auto"] == sorted(proposed("clew config color a"))
    assert ["color"] == proposed("clew config --unset colo")
    assert ["id,title"] == proposed("clew config columns id,ti")
