"""S-01, S-06: an id is whatever an importer found; an export stays where it was sent."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import unquote

import pytest

import clew
from clew.cli.commands.transfer import FORMATS
from clew.errors import InvalidError
from tests.cli.processes import Clew
from tests.faults.crash.common import message
from tests.faults.requirements import NOBODY, needs_root

IDS = [
    "../x", "../../x", "/abs", "a/b", "a\\b", "..", ".", ".hidden", "-rf", "~root", "CON", "nul.txt",
    "a\nb", "a b", "a%2e%2e", "A", "a", "é" * 100, "x" * 300, "$(touch pwned)", "c:d", " ",
]  # fmt: skip


@pytest.fixture
def hostile(cli: Clew) -> Clew:
    with clew.open(cli.store) as store:
        for id in IDS:
            try:
                store.create(id).append(message(id))
            except InvalidError:  # not even at the door
                pass
    return cli


def below(root: Path) -> set[str]:
    return {str(file.relative_to(root)) for file in root.rglob("*")}


@pytest.mark.parametrize("format", FORMATS)
def test_s01_an_id_never_becomes_a_path(hostile: Clew, tmp_path: Path, format: str) -> None:
    before = below(tmp_path)
    with clew.open(hostile.store) as store:
        ids = [info.id for info in store.list(limit=1000)]
    assert len(ids) > 15

    assert hostile("export", "--all", "-f", format, "-o", str(tmp_path / "deep/er/out")).code == 0

    made = sorted((tmp_path / "deep/er/out").iterdir())
    beside = [file for file in made if file.name.endswith(".meta.json")]
    assert len(made) - len(beside) == len(ids)
    assert all(file.is_file() and file.name[0] not in ".-~ " for file in made)
    assert len({file.name.casefold() for file in made}) == len(made)
    assert not any(file.name.upper().startswith(("CON.", "NUL.")) for file in made)
    assert {name.partition("/")[0] for name in below(tmp_path) - before} == {"deep"}
    assert len(below(tmp_path / "deep")) == len(made) + 2


@pytest.mark.parametrize("format", ["html", "markdown"])
def test_pages_beside_each_other_link_a_subagent_and_its_parent(
    hostile: Clew, tmp_path: Path, format: str
) -> None:
    parent, child = "agent:1", "agent:1/sub ~ (1)"
    with clew.open(hostile.store) as store:
        store.create(parent).append(message("work"))
        store.create(child, metadata={"parent": parent}).append(message("part of it"))
    assert hostile("export", "--all", "-f", format, "-o", str(tmp_path / "out")).code == 0

    def linked(id: str) -> list[Path]:
        suffix = ".md" if format == "markdown" else ".html"
        name = {parent: "work-agent-1", child: "part-of-it-agent-1-sub-1"}[id]
        text = (tmp_path / "out" / (name + suffix)).read_text("utf-8")
        found = re.findall(r'(?:href="|\]\()\./([^")]*)', text)
        return [tmp_path / "out" / unquote(name) for name in found]

    [there], [back] = linked(parent), linked(child)
    assert there.is_file()
    assert back.is_file()
    assert there != back


def test_s06_a_link_where_an_export_goes_is_replaced_and_not_followed(cli: Clew, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "s.jsonl").symlink_to(victim)
    (tmp_path / "out" / "t.meta.json").symlink_to(victim)
    with clew.open(cli.store) as store:
        store.create("s").append(message("x"))
        store.export("s", "jsonl", path=tmp_path / "out" / "s.jsonl")
        store.export("s", "picoclaw", path=tmp_path / "out" / "t.jsonl")

    assert victim.read_text() == "precious"
    for name in ("s.jsonl", "t.meta.json"):
        assert not (tmp_path / "out" / name).is_symlink()


def test_an_export_goes_to_standard_output_by_its_name_too(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        store.create("s").append(message("here it is"))
    before = os.lstat("/dev/stdout")  # any process that follows the link renews its time of access

    done = cli("export", "s", "-f", "markdown", "-o", "/dev/stdout")

    assert done.code == 0
    assert "here it is" in done.out
    after = os.lstat("/dev/stdout")
    assert (after.st_dev, after.st_ino, after.st_mode) == (before.st_dev, before.st_ino, before.st_mode)


@needs_root
@pytest.mark.parametrize("command", ["export", "backup"])
def test_s06_a_directory_that_somebody_else_planted_is_not_written_to(
    cli: Clew, tmp_path: Path, command: str
) -> None:
    public, mine = tmp_path / "public", tmp_path / "mine"
    public.mkdir()
    public.chmod(0o1777)
    mine.mkdir()
    (public / "out").symlink_to(mine)
    os.lchown(public / "out", NOBODY, NOBODY)
    with clew.open(cli.store) as store:
        store.create("s").append(message("x"))
        write: Callable[[], object] = partial(store.export, "s", "json", path=public / "out" / "s.json")
        if command == "backup":
            write = partial(store.backup, public / "out" / "s.db")
        with pytest.raises(InvalidError, match="a link of another user"):
            write()

    assert list(mine.iterdir()) == []


@pytest.mark.parametrize("end", ["-wal", "-journal"])
def test_s06_a_log_that_waits_for_a_backup_is_refused(cli: Clew, tmp_path: Path, end: str) -> None:
    """It would be taken for that of the backup."""
    (tmp_path / f"b.db{end}").write_bytes(b"x" * 1000)
    with clew.open(cli.store) as store, pytest.raises(clew.ConflictError):
        store.backup(tmp_path / "b.db")


def test_a_page_without_a_named_file_replaces_nothing(cli: Clew, tmp_path: Path) -> None:
    with clew.open(cli.store) as store:
        store.create("index").append(message("here it is"))
    page = tmp_path / "index.html"

    assert cli.on_terminal("export", "index", "-f", "html").code == 0
    assert "here it is" in page.read_text()
    page.write_text("precious")
    done = cli.on_terminal("export", "index", "-f", "html")

    assert done.code == 1
    assert "index.html is here already; -o index.html replaces it" in done.out
    assert page.read_text() == "precious"
    assert cli.on_terminal("export", "index", "-o", "index.html").code == 0
    assert "here it is" in page.read_text()


def test_all_sessions_of_a_store_are_exported_and_imported_again(cli: Clew, tmp_path: Path) -> None:
    with clew.open(cli.store) as store:
        base = store.session("base")
        base.append(message("one"), message("two"))
        base.fork("fork").append(message("three"))
        store.get("fork").fork("fork of a fork").append(message("four"))
        expected = {info.id: list(store.get(info.id).messages()) for info in store.list()}
    folder, other = str(tmp_path / "out"), str(tmp_path / "other.db")
    assert cli("export", "--all", "-f", "jsonl", "-o", folder).code == 0
    for _ in range(2):
        assert cli("import", "-s", other, folder).code == 0
    with clew.open(other) as store:
        assert {info.id: list(store.get(info.id).messages()) for info in store.list()} == expected
