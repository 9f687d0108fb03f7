"""export."""

from __future__ import annotations

import clew
from tests.cli.processes import Clew


def test_an_export_comes_back_as_the_same_session(story: Clew) -> None:
    story("export", "login-bug", "-o", "login.jsonl")
    story("import", "login.jsonl", "--store", "other.db")
    told = story("show", "login-bug").lines
    came = story("show", "login-bug", "--store", "other.db").lines
    assert [line for line in told if not line.startswith("Fork:")] == came  # the fork stayed behind
    assert "left behind  user       Stop!" in story("log", "--graph", "--store", "other.db").out


def test_the_name_of_the_file_tells_the_format(story: Clew) -> None:
    for name, beginning in {
        "a.md": "# ",
        "a.html": "<!doctype html>",
        "a.json": "{",
        "a.jsonl": '{"x":',
    }.items():
        story("export", "login-bug", "-o", name)
        assert (story.home / name).read_text().lower().startswith(beginning)


def test_an_ending_that_tells_no_format_is_an_error_that_names_the_formats(story: Clew) -> None:
    told = story("export", "login-bug", "-o", "x.foo", code=2).err
    assert "x.foo tells no format: end it with .jsonl, .md, .html, .json, or name one with -f (" in told
    assert "picoclaw" in told
    assert not (story.home / "x.foo").exists()
    story("export", "login-bug", "-o", "x.foo", "-f", "markdown")
    story("export", "login-bug", "-o", "X.HTML")
    assert (story.home / "X.HTML").read_text("utf-8").lower().startswith("<!doctype html>")


def test_files_are_named_after_titles_where_an_id_says_nothing(cli: Clew) -> None:
    key = "ghp_" + "a1B2" * 9
    made = "0b1c2d3e-1111-4222-8333-444455556666"
    titles = {
        f"claude-code:{made}": "Fix: the login / logout bug…",
        f"claude-code:{made[:-1]}7": "Fix: the login / logout bug…",
        "telegram:42": f"Deploy with {key}",
        "codex:01a1": "修复登录",
        "release notes": "What is new",
        "aux": None,
    }
    with clew.open(cli.store) as store:
        for id, title in titles.items():
            store.create(id, title=title)
    cli("export", "--all", "-o", "out", "--redact")
    names = sorted(path.name for path in (cli.home / "out").iterdir())
    assert len(names) == len(titles)
    assert [name.startswith("fix-the-login-logout-bug-") for name in names].count(True) == 2
    assert {"release notes.jsonl", "01a1.jsonl"} < set(names)
    assert any(name.startswith("deploy-with-redacted-github-token-telegram-42") for name in names)
    assert not any("%" in name or ":" in name or key[4:12].casefold() in name for name in names)
    assert not any(name.upper().startswith("AUX.") for name in names)


def test_a_copy_says_where_it_went(story: Clew) -> None:
    address = f"jsonl://{story.home}/copies"
    assert f"copied to {story.home}/copies" in story("copy", str(story.store), address).out
    assert (story.home / "copies" / "clew.json").exists()


def test_all_sessions_go_into_a_directory(story: Clew) -> None:
    done = story("export", "--all", "-o", "out")
    assert ["login-bug#fork-1.jsonl", "login-bug.jsonl"] == sorted(
        path.name for path in (story.home / "out").iterdir()
    )
    assert "2 sessions exported" in done.err
    assert "need -o DIRECTORY" in story("export", "--all", code=2).err


def test_secrets_are_replaced_and_counted(cli: Clew) -> None:
    key = "sk-ant-api03-" + "Ab1" * 31 + "AA"
    with clew.open(cli.store) as store:
        store.session("s").append({"role": "user", "content": f"my key is {key}"})
    assert key in cli("export", "s", "-f", "markdown").out.replace("\\", "")
    done = cli("export", "s", "-f", "markdown", "--redact")
    assert key not in done.out.replace("\\", "")
    assert "anthropic-key" in done.err


def test_an_sqlite_file_goes_to_a_directory_but_not_to_standard_output(story: Clew) -> None:
    assert "name it with -o" in story("export", "login-bug", "-f", "tingly-box", code=2).err
    story("export", "--all", "-f", "tingly-box", "-o", "out")
    assert ["login-bug#fork-1.db", "login-bug.db"] == sorted(
        path.name for path in (story.home / "out").iterdir()
    )


def test_an_own_export_comes_in_whole_and_says_so(story: Clew) -> None:
    story("export", "--all", "-o", "out")
    files = sorted((story.home / "out").iterdir())
    same = story("import", "out")
    assert "0 sessions new, 0 grown, 2 unchanged; 0 entries added" in same.err
    assert [row[0] for row in same.rows] == ["unchanged", "unchanged"], "the fork is there too"
    for number, file in enumerate(files):
        fresh = f"fresh-{number}.db"
        planned = story("import", "-s", fresh, "--dry-run", str(file)).rows
        (row,) = story("import", "-s", fresh, str(file)).rows
        assert planned == [row]
        with clew.open(story.home / fresh) as store:
            entries = store.stats().entries
        assert (row[0], int(row[2])) == ("new", entries)
        assert f"{entries} entries added" in story("import", "-s", f"other-{fresh}", str(file)).err
        again = story("export", row[1], "-s", fresh)
        assert again.out == file.read_text("utf-8"), "byte for byte"
