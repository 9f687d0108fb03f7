"""`clew sync`: what it says on a terminal, into pipes and in JSON; what it refuses; how it ends."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from clew.importers import bringing
from clew.importers.contract import SourceEntry, SourceSession
from clew.importers.reading import seen
from tests.cli.commands.test_import import CLAUDE, claude, home, plain
from tests.cli.golden import check_screen
from tests.cli.processes import Clew
from tests.support.rows import each_row

__all__ = ["claude", "home"]

NEXT: dict[str, Any] = {
    **CLAUDE[0],
    "uuid": "u2",
    "parentUuid": "a1",
    "message": {"role": "user", "content": "And the logout"},
}


def add(path: Path, record: object, end: str = "\n") -> None:
    with path.open("a") as file:
        file.write(json.dumps(record) + end)


def test_what_is_new_comes_and_then_nothing(cli: Clew, claude: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "RECENT", 0)  # what was written in this moment could grow unnoticed
    done = cli("sync")
    assert [row[:1] + row[2:] for row in done.rows] == [["new", "2", "2", "claude-code", str(claude)]]
    assert "1 session new, 0 grown; 2 entries added; 1 of 1 file read" in done.err
    add(claude, NEXT)
    assert [row[0:1] + row[2:4] for row in cli("sync", str(claude)).rows] == [["grown", "1", "3"]]
    done = cli("sync")
    assert (done.out, done.err) == ("", "0 sessions new, 0 grown; 0 entries added; 0 of 1 file read\n")
    assert "And the logout" in cli("show").out


def test_a_dry_run_writes_nothing_not_even_a_store(cli: Clew, claude: Path) -> None:
    done = cli("sync", "--dry-run")
    assert "1 session would be new" in done.err
    assert not cli.store.exists()


def test_a_line_without_its_end_waits(cli: Clew, claude: Path) -> None:
    cli("sync")
    add(claude, NEXT, end="")
    assert "0 entries added" in cli("sync").err
    with claude.open("a") as file:
        file.write("\n")
    assert "1 entry added" in cli("sync").err


def test_files_that_are_gone_are_told_and_no_error(cli: Clew, claude: Path) -> None:
    cli("sync")
    claude.unlink()
    [record] = cli("sync", "--json").records
    assert record == {
        "path": str(claude), "format": None, "read": False, "sessions": [], "problems": [], "gone": True
    }  # fmt: skip
    assert cli("sync", "--json").records == []
    assert "it was a cookie" in cli("show").out


def test_the_list_of_what_is_gone(cli: Clew, claude: Path) -> None:
    cli("sync")
    claude.unlink()
    assert cli("sync", "-v").rows == [["gone", "", "0", "0", "", str(claude)]]


def test_quiet_says_only_what_is_wrong(cli: Clew, claude: Path) -> None:
    done = cli("sync", "-q")
    assert (done.out, done.err) == ("", "")
    with claude.open("a") as file:
        file.write("{not json\n")
    done = cli("sync", "-q", code=3)
    assert done.out == ""
    assert f"clew: {claude}: line 3 is not valid JSON" in done.err


def test_json_has_an_object_for_each_file_that_was_read(cli: Clew, claude: Path) -> None:
    [record] = cli("sync", "--json").records
    assert (record["path"], record["format"], record["read"]) == (str(claude), "claude-code", True)
    assert [(one["state"], one["entries"]) for one in record["sessions"]] == [("new", 2)]


def test_nothing_to_sync_is_said(cli: Clew, tmp_path: Path) -> None:
    assert "no sessions of other agents in their usual places" in cli("sync", code=1).err
    assert "there is no file" in cli("sync", str(tmp_path / "absent"), code=1).err
    (tmp_path / "empty").mkdir()
    assert "holds no file of a format" in cli("sync", str(tmp_path / "empty"), code=1).err


def test_on_a_terminal(home: Clew) -> None:
    widths = (60, 80, 120)
    new: dict[int, str] = {}
    for width in widths:
        home.store.unlink(missing_ok=True)
        new[width] = plain(home.on_terminal("sync", width=width))
    check_screen("sync", new)
    [first, *_] = sorted((home.home / ".codex" / "sessions").rglob("*.jsonl"))
    first.unlink()
    check_screen("sync-gone", {120: plain(home.on_terminal("sync", "-v", width=120))})
    check_screen("sync-again", {80: plain(home.on_terminal("sync"))})


def test_secrets_that_were_replaced_are_counted(cli: Clew, claude: Path) -> None:
    said = {**NEXT, "message": {"role": "user", "content": f"deploy with ghp_{'aB3d5fG7h' * 4}"}}
    claude.write_text(claude.read_text() + json.dumps(said) + "\n")
    assert "1 secret is replaced by markers." in plain(cli.on_terminal("sync"))


ENTRIES = 4_000


@each_row("at", [0, 1, ENTRIES // 2, ENTRIES + 1])
def test_interrupted_it_leaves_nothing_broken(
    cli: Clew, claude: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Ctrl-C before the first entry, behind it, in the middle, and before the last."""
    said = [{**NEXT, "uuid": f"x{n}", "parentUuid": f"x{n - 1}" if n else "a1"} for n in range(ENTRIES)]
    claude.write_text("".join(json.dumps(record) + "\n" for record in (*CLAUDE, *said)))
    cli.store.unlink(missing_ok=True)
    begun = bringing.begun

    def interrupted(source: SourceSession, *, needs_words: bool) -> SourceSession | None:
        entries = interrupt(source.entries, at)
        return begun(msgspec.structs.replace(source, entries=entries), needs_words=needs_words)

    with monkeypatch.context() as patch:
        patch.setattr(bringing, "begun", interrupted)
        done = cli("sync", code=130)
    assert done.err.endswith("clew: interrupted; what was done is kept, nothing is half done\n")
    cli("sync")
    with clew.open(cli.store) as store:
        assert store.stats().entries == ENTRIES + 2
        assert store.verify().ok


def interrupt(entries: Iterable[SourceEntry], at: int) -> Iterator[SourceEntry]:
    for number, entry in enumerate(entries):
        if number == at:
            os.kill(os.getpid(), signal.SIGINT)
        yield entry
