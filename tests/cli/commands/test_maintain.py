"""verify, repair, backup, copy, vacuum, sweep, doctor, stats, usage."""

from __future__ import annotations

import json
import os
import sqlite3
import sys

import pytest

import clew
from clew.cli.commands import maintain
from tests.cli.processes import Clew
from tests.support.rows import each_row
from tests.support.waiting import until


def damage_an_entry(cli: Clew) -> None:
    with sqlite3.connect(cli.store) as database:
        database.execute("UPDATE entries SET body = x'00' WHERE rowid = (SELECT max(rowid) FROM entries)")
    database.close()


def test_verify_ends_well_when_all_is_whole(story: Clew) -> None:
    done = story("verify")
    assert "" == done.out
    assert "2 sessions, 10 entries" in done.err
    assert story("verify", "--quick", "--json").records[0]["problems"] == []


def test_verify_ends_with_1_and_names_what_is_damaged(story: Clew) -> None:
    damage_an_entry(story)
    done = story("verify", code=1)
    assert 1 <= len(done.lines)
    assert "clew repair --to NEW" in done.err


def test_repair_saves_the_rest_and_ends_with_3(story: Clew) -> None:
    damage_an_entry(story)
    done = story("repair", "--to", "rescued.db", code=3)
    assert "lost: entry" in done.out
    assert "2 sessions" in done.out
    story("verify", "--store", "rescued.db")


def test_a_damaged_entry_is_passed_over_when_reading(story: Clew) -> None:
    damage_an_entry(story)
    assert "The login page returns 500." in story("show", "login-bug").out


def test_backup_is_a_store_and_is_not_overwritten_by_accident(story: Clew) -> None:
    story("backup", "copy.db")
    assert story("ls").out == story("ls", "--store", "copy.db").out
    assert "copy.db" in story("backup", "copy.db", code=1).err
    story("backup", "copy.db", "--overwrite")


def test_copy_brings_everything_or_one_session(story: Clew) -> None:
    story("copy", "agents.db", "other.db")
    assert story("ls").out == story("ls", "--store", "other.db").out
    again = story("copy", "agents.db", "other.db", "--json").records[0]
    assert (0, 2) == (again["sessions"], again["unchanged"])
    assert "no store at" in story("copy", "missing.db", "other.db", code=1).err
    assert not (story.home / "missing.db").exists()


def test_vacuum_says_how_much_it_gave_back(story: Clew) -> None:
    assert story("vacuum", "--json").records[0]["bytes"] >= 0


def test_sweep_shows_and_asks_before_it_does_what_the_rules_say(story: Clew) -> None:
    assert "nothing is due" in story("sweep", "--dry-run").err
    with clew.open(story.store) as store:
        store.set_retention(clew.Retention(max_sessions=1))
    [row] = story("sweep", "--dry-run").rows
    assert ["trash", "login-bug"] == row[:2]
    assert "add --yes" in story("sweep", code=1).err
    assert 2 == len(story("ls", "--all").lines)
    story("sweep", "--yes")
    assert 1 == len(story("ls", "--all").lines)


def test_sweep_goes_by_rules_that_are_given_once(story: Clew) -> None:
    assert "nothing is due" in story("sweep", "--rule", "max_idle=90d", "--dry-run").err
    rules = ["--rule", "max_messages=1", "--rule", "keep_tags=none,other"]
    assert [row[0] for row in story("sweep", *rules, "--dry-run").rows] == ["remove_messages"]
    story("sweep", *rules, "--yes")
    assert "nothing is due" in story("sweep", *rules, "--dry-run").err
    assert "nothing is due" in story("sweep", "--dry-run").err  # they were not kept


@each_row("rule", ["max_idle", "max_idle=soon", "max_messages=x", "max_events=3", "x=1", "=1"])
def test_sweep_refuses_what_is_no_rule(story: Clew, rule: str) -> None:
    assert repr(rule) in story("sweep", "--rule", rule, code=2).err


def test_the_doctor_finds_a_sound_store_sound(story: Clew) -> None:
    rows = story("doctor").rows
    assert {"ok"} == {row[1] for row in rows}
    checks = {"engine", "store", "durability", "permissions", "disk", "leases", "restores", "content"}
    assert checks == {row[0] for row in rows}


def test_the_doctor_finds_open_permissions_and_says_what_to_do(story: Clew) -> None:
    story.store.chmod(0o644)
    [row] = [row for row in story("doctor").rows if row[0] == "permissions"]
    assert ["warning", f"chmod 600 {story.store}"] == [row[1], row[3]]


def test_the_doctor_finds_a_weaker_durability(story: Clew) -> None:
    address = f"sqlite:///{story.store}?durability=process"
    [row] = [row for row in story("doctor", "--store", address).rows if row[0] == "durability"]
    assert "warning" == row[1]


def test_the_doctor_finds_a_run_without_a_worker(story: Clew) -> None:
    with clew.open(story.store) as store:
        store.get("login-bug").start("work")
    [row] = [row for row in story("doctor").rows if row[0] == "leases"]
    assert "warning" == row[1]
    assert "login-bug is running, but no worker holds its lease" in row[2]


def test_the_doctor_finds_agents_that_would_run_a_clew_py_of_their_directory(story: Clew) -> None:
    (story.home / ".claude").mkdir()
    settings = story.home / ".claude.json"
    entry = {"type": "stdio", "command": sys.executable, "args": ["-m", "clew", "mcp", "--sync"]}
    settings.write_text(json.dumps({"mcpServers": {"clew": entry}}))
    unit = story.home / ".config" / "systemd" / "user" / "clew-watch.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("# Made by clew watch\n[Service]\nExecStart=:/srv/python -m clew watch --quiet\n")
    rows = [row for row in story("doctor", code=1).rows if row[1] == "problem"]
    assert [(row[0], row[-1]) for row in rows] == [
        ("agents", "clew mcp install claude-code"),
        ("service", "clew watch --install"),
    ]
    settings.write_text(json.dumps({"mcpServers": {"clew": entry | {"args": ["-P", *entry["args"]]}}}))
    unit.write_text(unit.read_text().replace("-m", "-P -m"))
    assert [row for row in story("doctor").rows if row[1] == "problem"] == []


def test_the_doctor_finds_damage_and_missing_stores(cli: Clew) -> None:
    assert "no store at" in cli("doctor", code=1).out
    cli.store.write_bytes(os.urandom(8192))
    assert "problem" in cli("doctor", code=1).out


def test_the_doctor_only_glances_at_a_large_store(story: Clew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintain, "GLANCE", 0.0)
    with clew.open(story.store) as store:
        found = maintain._whole(store)
    assert found.state == "ok"
    assert "none is missing" not in found.text
    assert found.next == "clew verify --quick looks at all of them"


def test_interrupted_lists_runs_whose_worker_was_killed(story: Clew) -> None:
    with clew.open(story.store) as store:
        run = store.get("login-bug").run(lease=0.1)
        run.__enter__()
        store.close()
    with clew.open(story.store) as store:
        until(lambda: store.get("login-bug").lease is None)
    assert ["login-bug"] == [row[0] for row in story("interrupted").rows]


def test_stats_and_usage_sum_up(story: Clew) -> None:
    with clew.open(story.store) as store:
        store.get("login-bug").add_usage(model="m1", input_tokens=100, output_tokens=20, cost="0.5")
        store.get("login-bug").add_usage(model="m2", input_tokens=1, cost="1.25")
    stats = story("stats", "--json").records[0]
    assert (2, 10, 2, 101) == tuple(stats[name] for name in ("sessions", "entries", "calls", "input_tokens"))
    assert ["total", "2", "101", "20"] == story("usage", "--total").rows[0][:4]
    by_model = {row[0]: row[7] for row in story("usage", "--by", "model").rows}
    assert {"m1": "0.5", "m2": "1.25"} == by_model
    assert [] == story("usage", "--until", "2001-01-01").rows
    assert ["m2", "m1"] == [row[0] for row in story("usage", "login-bug", "--since", "1h").rows]
    assert ["login-bug"] == [row[1] for row in story("stats", "login-bug").rows if row[0] == "session"]


def test_a_time_that_is_none_is_refused(story: Clew) -> None:
    assert "write 2026-11-01" in story("usage", "--since", "some day", code=2).err
