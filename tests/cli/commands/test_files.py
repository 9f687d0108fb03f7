"""snapshot, files, cat, diff, restore, gc."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

import clew
from clew.files.restore.apply import Applier
from tests.cli.inside import run_in_pipes
from tests.cli.processes import Clew
from tests.support.rows import each_row


@pytest.fixture
def work(cli: Clew) -> Path:
    place = cli.home / "work"
    place.mkdir()
    (place / "a.txt").write_text("one\n")
    (place / "b.txt").write_text("two\n")
    return place


def taken(cli: Clew) -> str:
    return str(cli("snapshot", "work", "--json").records[0]["id"])


def test_a_snapshot_makes_the_store_and_is_listed(cli: Clew, work: Path) -> None:
    id = taken(cli)
    [row] = cli("files").rows
    assert [id, "snapshot", "2", "8", str(work)] == [row[0], row[1], row[3], row[4], row[5]]
    assert [] == cli("files", "--root", "/nowhere").rows


def test_diff_shows_what_changed_since(cli: Clew, work: Path) -> None:
    id = taken(cli)
    (work / "a.txt").write_text("uno\n")
    (work / "b.txt").unlink()
    stat = cli("diff", id[:13], "--stat").rows
    assert [["M", "a.txt"], ["D", "b.txt"]] == [row[:2] for row in stat]
    text = cli("diff", id).out
    assert "-one" in text.splitlines()
    assert "+uno" in text.splitlines()
    assert {"modified", "removed"} == {record["status"] for record in cli("diff", id, "--json").records}
    (work / "b.txt").write_text("two\n")
    (work / ".gitignore").write_text("b.txt\n")
    assert f"left out of {work} now: b.txt\n" == cli("diff", id).err


def test_a_dry_restore_only_says_what_it_would_do(cli: Clew, work: Path) -> None:
    id = taken(cli)
    (work / "a.txt").write_text("uno\n")
    taken(cli)
    done = cli("restore", id, "--dry-run")
    assert [["M", "a.txt", "4"]] == done.rows
    assert f"{work}: would restore 1\n" == done.err
    assert "uno\n" == (work / "a.txt").read_text()


def test_a_restore_asks_and_can_be_undone(cli: Clew, work: Path) -> None:
    id = taken(cli)
    (work / "a.txt").write_text("uno\n")
    taken(cli)
    assert "add --yes" in cli("restore", id, code=1).err
    assert "uno\n" == (work / "a.txt").read_text()

    restored = cli("restore", id, "--yes", "--json").records[0]
    assert "one\n" == (work / "a.txt").read_text()
    assert "add --yes" in cli("restore", "--undo", restored["id"], code=1).err
    assert "one\n" == (work / "a.txt").read_text()
    cli("restore", "--undo", restored["id"], "--yes")
    assert "uno\n" == (work / "a.txt").read_text()


def test_the_command_that_a_restore_names_brings_back_what_was_there(cli: Clew, work: Path) -> None:
    id = taken(cli)
    (work / "a.txt").write_text("uno\n")
    told = cli("--store", str(cli.store), "restore", id, "--yes").err.splitlines()[-1]
    named = re.fullmatch(r"clew (.+) brings back what was there before \(snapshot (\w+)\)", told)
    assert named is not None
    assert "uno\n" == cli("cat", named[2], "a.txt").out
    cli(*shlex.split(named[1]), "--yes", env={"CLEW_STORE": "/nowhere"})
    assert "uno\n" == (work / "a.txt").read_text()


def test_single_paths_of_a_checkpoint_are_restored(cli: Clew, work: Path) -> None:
    with clew.open(cli.store) as store:
        s = store.session("s")
        s.append({"role": "user", "content": "x"})
        s.checkpoint("before", files=work)
        (work / "a.txt").write_text("uno\n")
        (work / "b.txt").write_text("dos\n")
        s.checkpoint("after", files=work)
    cli("restore", "s@before", "a.txt", "--yes")
    assert ["one\n", "dos\n"] == [(work / name).read_text() for name in ("a.txt", "b.txt")]
    assert [["before", "0"], ["after", "0"]] == [row[:2] for row in cli("files", "s", "a.txt").rows]
    assert [["M", "a.txt"], ["M", "b.txt"]] == [
        row[:2] for row in cli("diff", "s@before", "s@after", "--stat").rows
    ]
    listed = [[row[0], row[1], row[3], row[4]] for row in cli("files", "s").rows]
    assert sorted(listed) == [["a.txt", "2", "changed", "4"], ["b.txt", "2", "changed", "4"]]
    assert {"a.txt", "b.txt"} == {one["path"] for one in cli("files", "s", "--json").records}
    assert len(cli("files", "s", "-n", "1").rows) == 1
    shown = cli.on_terminal("files", "s").out
    assert "FILE" in shown
    assert "a.txt" in shown
    with clew.open(cli.store) as store:
        store.session("bare")
    assert cli("files", "bare").out == ""
    assert "no file changed" in cli.on_terminal("files", "bare").out


def test_what_changed_since_the_last_snapshot_is_restored_kept_or_refused_as_asked(
    cli: Clew, work: Path
) -> None:
    id = taken(cli)
    (work / "a.txt").write_text("mine\n")
    kept = cli("restore", id, "--on-conflict", "keep", "--yes")
    assert f"{work}: no file differs; kept 1 (1 changed)\n" == kept.err
    shown = cli.on_terminal("restore", id, "--on-conflict", "keep", "--yes", "--color=never").out
    assert "  kept      a.txt  (changed since the last snapshot)" in shown.splitlines()
    assert "mine\n" == (work / "a.txt").read_text()
    assert "--on-conflict keep" in cli("restore", id, "--on-conflict", "refuse", "--yes", code=1).err
    assert f"{work}: restored 1\nclew restore --undo " in cli("restore", id, "--yes").err
    assert "one\n" == (work / "a.txt").read_text()


def test_names_that_are_no_text_are_shown_safely(cli: Clew, work: Path) -> None:
    id = taken(cli)
    Path(work, "odd\udcff\x1b[31m\n").write_text("x")
    assert 1 == len(cli("diff", id, "--stat").lines)
    assert "\x1b" not in cli("diff", id, "--stat").out
    assert "odd\udcff\x1b[31m\n" == cli("diff", id, "--stat", "--json").records[0]["path"]


def test_gc_frees_what_no_snapshot_needs(cli: Clew, work: Path) -> None:
    id = taken(cli)
    with clew.open(cli.store) as store:
        store.delete_snapshot(id)
    would = cli("gc", "--dry-run", "--json").records[0]
    assert would["dry_run"] is True
    assert would["objects"] > 0
    assert "removed" in cli("gc").out


def test_gc_merges_packs_when_asked(cli: Clew, work: Path) -> None:
    for number in range(9):
        (work / "a.txt").write_text(f"{number} " + "text that is the same " * 500)
        cli("snapshot", str(work))
    assert "merging" not in cli("gc").out
    would = cli("gc", "--merge", "--dry-run", "--json").records[0]["merged"]
    assert would > 0
    assert "saved by merging packs" in cli("gc", "--merge").out
    assert cli("gc", "--merge", "--json").records[0]["merged"] == 0


def test_no_restore_was_cut_off(cli: Clew, work: Path) -> None:
    taken(cli)
    assert "" == cli("restore", "--pending").out
    assert "one of --undo" in cli("restore", code=2).err


def test_files_that_came_with_an_import_are_restored_where_it_is_said(cli: Clew) -> None:
    session = "0b1c2d3e-1111-4222-8333-444455556666"
    copies = cli.home / ".claude" / "file-history" / session
    log = cli.home / ".claude" / "projects" / "-w" / f"{session}.jsonl"
    copies.mkdir(parents=True)
    log.parent.mkdir(parents=True)
    (copies / "aa@v1").write_text("as it was")
    said = {"type": "user", "uuid": "u1", "parentUuid": None, "sessionId": session, "cwd": "/w"}
    kept = {"messageId": "u1", "trackedFileBackups": {"src/a": {"backupFileName": "aa@v1"}}}
    history = {"type": "file-history-snapshot", "messageId": "u1", "snapshot": kept}
    lines = [{**said, "message": {"role": "user", "content": "hi"}}, history]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    cli("import", str(log))
    place = f"claude-code:{session}@file-history:u1"
    assert cli("files", f"claude-code:{session}").rows[0][0] == "src/a"
    assert "--to" in cli("restore", place, code=1).err
    assert "name a directory" in cli("diff", place, code=2).err
    cli("restore", place, "--to", "out", "--yes")
    assert "as it was" == (cli.home / "out" / "src" / "a").read_text()


ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
RECORDED = "0b1c2d3e-1111-4222-8333-444455556666"


def with_recorded_files(cli: Clew) -> list[str]:
    """Import a session of Claude Code with two prompts, at which it recorded files; the second time, after a
    restart, only one of them. Returns the uuids of the prompts."""
    prompts = [f"{number}b1c2d3e-aaaa-4222-8333-444455556666" for number in range(2)]
    copies = cli.home / ".claude" / "file-history" / RECORDED
    log = cli.home / ".claude" / "projects" / "-w" / f"{RECORDED}.jsonl"
    copies.mkdir(parents=True)
    log.parent.mkdir(parents=True)
    lines: list[dict[str, object]] = []
    for number, (uuid, names) in enumerate(zip(prompts, ["abcdefg", "g"], strict=True)):
        content = f"Rename the button\nin step {number}"
        line = {"type": "user", "uuid": uuid, "parentUuid": prompts[0] if number else None, "cwd": "/w"}
        lines.append({**line, "sessionId": RECORDED, "message": {"role": "user", "content": content}})
        tracked = {name: {"backupFileName": f"{name * 2}@v{number}"} for name in names}
        told = {"messageId": uuid, "trackedFileBackups": tracked}
        lines.append({"type": "file-history-snapshot", "messageId": uuid, "snapshot": told})
        for name in names:
            (copies / f"{name * 2}@v{number}").write_text(f"{name} {number}\n")
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    cli("import", str(log))
    return prompts


def test_the_files_at_a_position_are_those_of_its_path(cli: Clew, work: Path) -> None:
    with clew.open(cli.store) as store:
        s = store.session("s")
        s.append({"role": "user", "content": "x"})
        s.checkpoint("first", files=work)
        (work / "a.txt").write_text("left\n")
        entry = s.append({"role": "assistant", "content": "y"})[0]
        s.checkpoint("left", files=work)
        s.rewind(0)
        s.append({"role": "assistant", "content": "z"})
    assert "one\n" == cli("cat", "s@1", "a.txt").out
    assert "left\n" == cli("cat", f"s@{entry.id}", "a.txt").out
    assert "no position 7" in cli("cat", "s@7", "a.txt", code=1).err


def test_files_that_an_agent_did_not_record_are_not_said_to_be_deleted(cli: Clew) -> None:
    with_recorded_files(cli)
    places = [f"claude-code:{RECORDED}@{number}" for number in range(2)]
    done = cli("diff", *places)
    assert f"not recorded at {places[1]}: a, b, c, d, e and 1 more\n" == done.err
    assert ["-g 0", "+g 1"] == done.out.splitlines()[-2:]
    assert ["M", "g"] == cli("diff", *places, "--stat").rows[-1][:2]
    assert [["?", "a"], ["?", "b"]] == [row[:2] for row in cli("diff", *places, "--stat").rows[:2]]
    assert f"not recorded at {places[1]}:" in cli("diff", *reversed(places)).err
    assert {"unrecorded", "modified"} == {
        record["status"] for record in cli("diff", *places, "--json").records
    }
    assert ["created"] == [row[3] for row in cli("files", f"claude-code:{RECORDED}", "a").rows]
    assert "not recorded at this point" in cli("cat", places[1], "a", code=1).err


def test_checkpoints_that_an_agent_set_go_by_their_prompts_for_people_only(cli: Clew) -> None:
    prompts = with_recorded_files(cli)
    id = f"claude-code:{RECORDED}"
    names = [f"file-history:{uuid}" for uuid in prompts]
    with clew.open(cli.store) as store:
        store.get(id).rewind(0)
    for args, row in {
        ("checkpoint", id): "Rename the button in step 1 ◆ files",
        ("files", id, "g"): "Rename the button in step 0 ◆ files",
        ("log", id): "◆ files  Rename the button in step 0",
        ("log", "--graph", id): "◆ files  left behind  user",
        ("show", id): "◆ files",
        ("undo", id, "--list"): "rewind",
    }.items():
        seen = ESCAPE.sub("", cli.on_terminal(*args, width=120).out)
        assert row in seen, args
        assert "file-history" not in seen, args
    assert names == [row[0] for row in cli("checkpoint", id).rows]
    assert names == [record["name"] for record in cli("checkpoint", id, "--json").records]
    assert names[:1] == [row[0] for row in cli("files", id, "g").rows]
    assert names[0] == cli("log", id).rows[0][4]
    for format, mark in {"markdown": "*Checkpoint: files*", "html": "Checkpoint: files"}.items():
        assert mark in cli("export", id, "--format", format).out
    assert names[0] in cli("export", id, "--format", "json").out


def test_a_file_of_a_checkpoint_is_printed_byte_for_byte(cli: Clew, work: Path) -> None:
    with clew.open(cli.store) as store:
        s = store.session("s")
        s.append({"role": "user", "content": "x"})
        (work / "odd").write_bytes(b"\x1b[31m\xff\n")
        s.checkpoint("a:b", files=work)
    (work / "a.txt").write_text("uno\n")
    assert "one\n" == cli("cat", "s@a:b", "a.txt").out
    assert {"text": "one\n", "size": 4} == {
        key: cli("cat", "s@a:b", "a.txt", "--json").records[0][key] for key in ("text", "size")
    }
    assert cli("cat", "s@a:b", "odd", "--json").records[0]["text"] is None
    assert "\x1b[31m" not in cli.on_terminal("cat", "s@a:b", "odd").out
    assert "no file 'none'" in cli("cat", "s@a:b", "none", code=1).err


def test_s09_what_may_hold_secrets_is_named_in_one_line_and_include_takes_it(cli: Clew, work: Path) -> None:
    (work / ".env").write_text("TOKEN=1\n")
    (work / "odd\x1b[31m.pem").write_text("key\n")
    told = cli("snapshot", "work")
    assert 1 == len(told.err.splitlines())
    assert "left out 2 that may hold secrets: .env, odd" in told.err
    assert "--include takes them" in told.err
    assert "\x1b" not in told.err
    assert "2 files" in told.out

    told = cli("snapshot", "work", "--include", "*.pem")
    assert "left out 1 that may hold secrets: .env; --include takes it\n" == told.err
    assert "3 files" in told.out


def test_s09_a_checkpoint_with_files_names_what_may_hold_secrets(cli: Clew, work: Path) -> None:
    for number in range(7):
        (work / f"{number}.pem").write_text("key\n")
    with clew.open(cli.store) as store:
        store.session("s").append({"role": "user", "content": "hi"})
    told = cli("checkpoint", "s", "plan", "--files", "work")
    assert told.err == (
        "left out 7 that may hold secrets: 0.pem, 1.pem, 2.pem, 3.pem, 4.pem and 2 more;"
        " --include takes them\n"
    )
    assert "" == cli("checkpoint", "s", "plan", "--files", "work", "--include", "*.pem").err
    assert "0.pem" in cli("cat", "s@plan", "0.pem", "--json").out
    assert "go with --files" in cli("checkpoint", "s", "plan", "--include", "*.pem", code=2).err


@pytest.fixture
def cut_off(cli: Clew, monkeypatch: pytest.MonkeyPatch) -> tuple[Clew, str]:
    """A store with a rewind of files that was cut off, and the id of its restore."""
    root = cli.home / "work"
    root.mkdir()
    with clew.open(cli.store) as store:
        s = store.session("login-bug")
        for number in range(2):
            (root / "a.txt").write_text(f"{number}\n")
            s.append({"role": "user", "content": "go"})
            s.checkpoint(f"c{number}", files=root)

        def stop(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(Applier, "run", stop)
            with pytest.raises(clew.errors.RestoreFailedError):
                s.rewind("c0", files=True)
        [pending] = store.pending_restores()
    return cli, pending.id


@each_row(
    "command",
    [
        ("ls",),
        ("ls", "--json"),
        ("verify",),
        ("verify", "--quick", "--json"),
        ("undo", "login-bug", "--dry-run", "--root", "work"),
        ("undo", "login-bug", "--list"),
        ("rewind", "login-bug@c0", "--dry-run"),
    ],
)
def test_a_restore_that_was_cut_off_is_mentioned_with_the_next_step(
    command: tuple[str, ...], cut_off: tuple[Clew, str]
) -> None:
    cli, id = cut_off
    done = run_in_pipes(command, cli.env, cli.home)
    assert f"the restore of {cli.home / 'work'} that began" in done.err
    assert "is not finished, so login-bug did not move" in done.err
    assert f"clew restore --finish {id}, or clew restore --undo {id}" in done.err
    assert id not in done.out


def test_the_doctor_says_how_to_finish_a_restore(cut_off: tuple[Clew, str]) -> None:
    cli, id = cut_off
    [row] = [row for row in cli("doctor", code=1).rows if row[0] == "restores"]
    assert row[1] == "problem"
    assert row[3] == f"clew restore --finish {id}, or clew restore --undo {id}"
    cli("restore", "--undo", id, "--yes")
    assert "not finished" not in cli("ls").err
    assert [row[1] for row in cli("doctor").rows if row[0] == "restores"] == ["ok"]
