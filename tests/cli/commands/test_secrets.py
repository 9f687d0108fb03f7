"""`clew secrets`, and what `clew import` says of secrets. No output holds a secret, or a part of one."""

from __future__ import annotations

from pathlib import Path

import clew
from tests.cli.processes import Clew
from tests.core.redact.files import claude_file
from tests.core.redact.keys import keys

GITHUB = keys(2)[35][1]
PASSWORD = "q7TzPw0Lk2"
TEXT = f"use {GITHUB} and postgres://app:{PASSWORD}@db/app"


def hides(shown: str) -> bool:
    return GITHUB[4:16] not in shown and PASSWORD[:6] not in shown


def test_a_scan_lists_places_and_kinds_and_ends_with_1(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        s = store.session("login")
        s.append({"role": "user", "content": "hi"}, {"role": "user", "content": [{"text": TEXT}]})
        s.set_var("setup", {"env": TEXT})
        place = s.head
    shown = cli("secrets", "scan", code=1)
    rows = [line.split("\t") for line in shown.out.splitlines()]
    name = f"{place.branch[-4:]}.1"
    assert ["login", name, "github-token", "1", "content[0].text"] in rows
    assert ["login", name, "connection-string", "1", "content[0].text"] in rows
    assert ["login", "variable setup", "github-token", "1", "env"] in rows
    assert "4 secrets in 1 session of 1" in shown.err
    assert hides(shown.out + shown.err)
    found = cli("secrets", "scan", "login", "--json", code=1)
    assert {"session", "place", "field", "kind", "count"} == set(found.records[0])
    assert hides(found.out)


def test_a_scan_of_a_clean_store_ends_with_0(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        store.session("login").append({"role": "user", "content": "the password is hunTer22x"})
    assert "no secret found in 1 session" in cli("secrets", "scan").err
    assert cli("secrets", "scan", "--all-rules", code=1).out.split("\t")[2] == "secret"


def test_a_scan_finds_what_a_rewind_left_and_what_forks_share_once(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        s = store.session("login")
        s.append({"role": "user", "content": TEXT})
        s.fork("other")
        s.clear()
    rows = cli("secrets", "scan", code=1).out.splitlines()
    assert len([row for row in rows if "github-token" in row]) == 1


def test_a_scan_finds_what_each_session_noted_at_an_entry_that_they_share(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        s = store.session("login")
        (entry,) = s.append({"role": "user", "content": "hi"})
        fork = s.fork("other")
        s.annotate(entry, note=TEXT)
        fork.annotate(entry, label=GITHUB)
        name = f"{s.head.branch[-4:]}.0"
    rows = [line.split("\t") for line in cli("secrets", "scan", code=1).out.splitlines()]
    assert ["login", name, "github-token", "1", "annotations.note"] in rows
    assert ["other", name, "github-token", "1", "annotations.label"] in rows
    assert len(rows) == 3


def test_the_name_of_a_field_cannot_send_anything_to_the_terminal(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        store.session("s").append({"role": "user", "content": {"\x1b[31m\nfake": GITHUB}})
    shown = cli("secrets", "scan", code=1).out
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == 1


def test_the_policy_is_shown_and_set(cli: Clew) -> None:
    with clew.open(cli.store):
        pass
    assert cli("secrets", "policy").out == "import\n"
    assert cli("secrets", "policy", "all", "--json").records == [{"policy": "all"}]
    with clew.open(cli.store) as store:
        assert store.redaction == "all"
        assert store.session("s").append({"role": "user", "content": TEXT})[0].redacted == 2


def test_an_import_says_how_many_secrets_it_replaced(cli: Clew, tmp_path: Path) -> None:
    file = claude_file(tmp_path / "c.jsonl", TEXT)
    shown = cli("import", str(file))
    assert " secrets replaced" in shown.err
    assert cli("secrets", "scan").out == ""
    (record, *_) = cli("show", "--json").records
    assert record["redacted"] == 2


def test_an_import_without_redaction_brings_them(cli: Clew, tmp_path: Path) -> None:
    file = claude_file(tmp_path / "c.jsonl", TEXT)
    assert "replaced" not in cli("import", "--no-redact", str(file)).err
    shown = cli("secrets", "scan", code=1).out
    assert hides(shown)
    assert "line" not in shown, "lines repeat what the entries have"


def test_a_scan_counts_what_an_export_masks_and_says_what_is_a_guess(cli: Clew) -> None:
    colored = "def login(password: \x1b[96mstr\x1b[39;49;00m)"
    with clew.open(cli.store) as store:
        store.session("s").append(
            {"role": "user", "content": [{"text": colored}, {"text": "key: hunTer22x"}]}
        )
        store.session("s").append({"role": "user", "content": f"{TEXT} DB_PASSWORD=hunTer22x"})
    shown = cli("secrets", "scan", code=1)
    assert "2 secrets in 1 session of 1" in shown.err
    assert "1 possible secret: clew secrets scan --all-rules" in shown.err
    every = cli("secrets", "scan", "--all-rules", "--json", code=1).records
    assert sum(row["count"] for row in every) == 3
    assert [row["kind"] for row in every if row.get("possible")] == ["secret"]
    done = cli("export", "s", "--redact")
    assert "2 secrets and 1 possible secret masked: " in done.err
    assert colored in cli("export", "s", "-f", "json", "--redact").out.encode().decode("unicode_escape")
    assert "1 possible secret" in cli("export", "s", "-f", "markdown", "--redact").out
