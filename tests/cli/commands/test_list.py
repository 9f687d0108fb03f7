"""`clew ls`: what it lists, in which order, and how that looks at 60, 80, 120 and 200 columns."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from rich.cells import cell_len

import clew
from clew.backends.registry import connect
from clew.cli import text
from clew.cli.views import sessions
from clew.cli.views.sessions import FIELDS, JSON_FIELDS
from clew.core.conversation.kin import Kin
from clew.model import microseconds
from clew.store import Store
from tests.cli.conftest import user
from tests.cli.golden import SGR, are_written
from tests.cli.inside import in_pipe, on_terminal
from tests.cli.processes import Clew
from tests.docs.pages import DOCS, blocks
from tests.home.make import NOW, make_home
from tests.support.owned import written

GOLDEN = Path(__file__).parent / "golden"
WIDTHS = (60, 80, 120, 200)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The time that "ago" is counted from, and the time zone."""
    monkeypatch.setattr(text, "now", lambda: NOW)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with the sessions of a recorded home directory."""
    made = make_home(tmp_path_factory.mktemp("ls") / "home")
    address = str(made / "store.db")
    with clew.open(address) as store:
        for place in (".claude", ".codex", ".gemini", ".pi", ".config", ".local", ".continue"):
            store.import_path(made / place)
    return address


@pytest.fixture
def tricky(tmp_path: Path) -> str:
    """Sessions with long and wide titles, statuses, subagents, costs."""
    address = str(tmp_path / "tricky.db")
    present = NOW
    with Store(connect(address), clock=lambda: microseconds(present)) as store:

        def add(id: str, title: str | None, days: float, **settings: Any) -> clew.Session:
            nonlocal present
            present = NOW - timedelta(days=days)
            made = store.create(id, title=title, **settings)
            for number in range(settings.get("metadata", {}).get("said", 1)):
                made.append(user(f"{number}"))
            return made

        add("login-bug", "登录页面返回 500 错误 🚀 please fix it", 0.001, workspace="/srv/ショップ")
        failed = add(
            "failed-one", "Deploy to production", 0.02, metadata={"agent": "langgraph"}, workspace="/srv/shop"
        )
        with pytest.raises(RuntimeError), failed.run():
            raise RuntimeError
        parent = add(
            "claude-code:0b1c2d3e-4f50-4a61-8b72-93a4b5c6d7e8",
            "A title that is so long that it fits on no terminal, however wide it may be, and goes on and on "
            * 3,
            0.5,
            workspace="/home/ana/a-project-with-a-rather-long-name",
            model="claude-sonnet-4-5",
            tags=["work", "urgent"],
            metadata={"agent": "claude-code", "said": 12},
        )
        parent.add_usage(model="m", input_tokens=1, cost=Decimal("12.5"))
        child = add(
            f"{parent.id}/agent-a1b2c3d4",
            "Look for callers",
            0.6,
            metadata={"parent": parent.id, "agent": "claude-code"},
        )
        child.add_usage(model="m", input_tokens=1, cost=Decimal("0.25"))
        add(f"{child.id}-x", "Deeper", 0.7, metadata={"parent": child.id, "agent": "claude-code"})
        add("codex:gone/agent-1", "An orphan", 1.5, metadata={"parent": "codex:gone", "agent": "codex"})
        add("telegram:42", "\x1b[31mred\x1b[0m\u202eesrever", 3, metadata={"chat": "42"})
        add("nothing-said", None, 40, metadata={"said": 0})
    return address


def golden(name: str, shown: str) -> None:
    """Compare with a file; `make screens` writes it."""
    file = GOLDEN / name
    if are_written():
        file.parent.mkdir(exist_ok=True)
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text(encoding="utf-8")


def listed(address: str, *args: str) -> list[str]:
    """The ids of what is listed into a pipe."""
    return [line.split("\t")[0] for line in in_pipe("ls", "-s", address, *args).splitlines()]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("width", WIDTHS)
def test_the_sessions_of_real_agents(home: str, width: int) -> None:
    golden(f"ls-{width}.txt", on_terminal("ls", "-s", home, width=width, NO_COLOR="1"))


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("width", WIDTHS)
def test_wide_letters_long_titles_and_what_a_status_says(tricky: str, width: int) -> None:
    shown = on_terminal("ls", "-s", tricky, width=width, NO_COLOR="1")
    golden(f"ls-tricky-{width}.txt", shown)


@pytest.mark.usefixtures("clock")
def test_subagents_stand_below_their_parent_with_all(tricky: str) -> None:
    golden("ls-all-100.txt", on_terminal("ls", "-s", tricky, "--all", width=100, NO_COLOR="1"))


@pytest.fixture
def tried(tmp_path: Path) -> str:
    """A session with forks, one of them of a fork, and a copy for another agent; newest first they stand the
    other way round. Of two more the base is gone, or has its id from another one."""
    address = str(tmp_path / "tried.db")
    moment = NOW - timedelta(days=20)
    with Store(connect(address), clock=lambda: microseconds(moment)) as store:

        def said(session: clew.Session, days: float) -> clew.Session:
            nonlocal moment
            moment = NOW - timedelta(days=days)
            session.append(user("hello"))
            return session

        gone, replaced = (store.create(id, title=id) for id in ("gone", "replaced"))
        said(gone.fork("fork-of-gone"), 19)
        said(replaced.fork("fork-of-replaced"), 18)
        store.delete("gone")
        store.delete("replaced")
        said(store.create("replaced", title="New under an old id"), 17)
        base = said(store.create("base", title="Fix it", workspace="/srv/shop"), 9)
        said(store.create("other", title="Other", workspace="/srv/web"), 8)
        fork = said(base.fork("fork"), 3)
        said(fork.fork("fork-of-fork"), 2)
        copied = {"copied_from": "base", "agent": "codex"}
        said(store.create("copy", title="Copied", workspace="/srv/shop", metadata=copied), 1)
        for id, ring in (("ring-1", "ring-2"), ("ring-2", "ring-1")):
            store.create(id, title=id, metadata={"copied_from": ring}, created_at=NOW - timedelta(days=30))
    return address


def test_forks_and_copies_fold_into_the_session_that_they_began_with(tried: str) -> None:
    rest = ["other", "replaced", "fork-of-replaced", "fork-of-gone", "ring-1", "ring-2"]
    assert listed(tried) == ["base", *rest]
    assert listed(tried, "-a") == ["base", "copy", "fork", "fork-of-fork", *rest]
    assert listed(tried, "-p", "shop") == ["base"]
    assert listed(tried, "-n", "2") == ["base", "other"]
    assert listed(tried, "--sort", "messages", "-n", "0", "-p", "shop") == ["base"]
    # A filter may fit them and not their base: then they stand for themselves.
    assert listed(tried, "--agent", "codex") == ["copy"]
    assert listed(tried, "--since", "2025-01-01", "-p", "shop") == ["copy", "fork-of-fork", "fork", "base"]


@pytest.mark.usefixtures("clock")
def test_a_family_is_marked_and_stands_where_its_newest_member_would(tried: str) -> None:
    shown = SGR.sub("", on_terminal("ls", "-s", tried, width=100)).splitlines()
    [base] = [line for line in shown if line.rstrip().endswith(" base")]
    assert base.startswith("yesterday")
    assert "Fix it +3 forks" in base
    below = SGR.sub("", on_terminal("ls", "-s", tried, "-a", width=100))
    assert [f"└ {kind} " in below for kind in ("fork", "copy")] == [True, True]
    alone = SGR.sub("", on_terminal("ls", "-s", tried, "--agent", "codex", width=100))
    assert "copy Copied" in alone

    told = [msgspec.json.decode(line) for line in in_pipe("ls", "-s", tried, "-a", "--json").splitlines()]
    bases = {one["id"]: one["base"] for one in told}
    assert [bases[id] for id in ("base", "fork", "fork-of-fork", "copy")] == [None, "base", "fork", "base"]
    told = [msgspec.json.decode(line) for line in in_pipe("ls", "-s", tried, "--json").splitlines()]
    forks = {one["id"]: one["forks"] for one in told}
    assert [forks[id] for id in ("base", "other", "replaced")] == [3, 0, 0]
    with clew.open(tried) as store, store._engine.read() as reader:
        ways = [Kin(reader), Kin(reader, all_at_once=True)]  # the second is for long lists
        found = [reader.find_session(id) for id in ("base", "fork", "ring-1")]
        families = [[{one.id for one in kin.below(row)} for row in found if row] for kin in ways]
    assert families[0] == families[1] == [{"fork", "fork-of-fork", "copy"}, {"fork-of-fork"}, {"ring-2"}]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("width", [30, 40])
def test_a_narrow_list_shows_titles_and_the_ids_below_them(width: int, tmp_path: Path) -> None:
    address = str(tmp_path / "long.db")
    with clew.open(address) as store:
        for number in (1, 2):
            store.create(f"telegram:1234567890:the-room-{number}", title="Fix the login page that fails")
    lines = on_terminal("ls", "-s", address, width=width, NO_COLOR="1").splitlines()
    assert "Fix the login page" in lines[1]
    assert lines[2] == "  1234567890:the-room-2"
    wide = on_terminal("ls", "-s", address, width=80, NO_COLOR="1").splitlines()
    assert wide[1].endswith("1234567890:the-room-2"), "there is room beside the title"


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("width", [20, 30, 45, *WIDTHS])
def test_no_line_is_longer_than_the_terminal(tricky: str, home: str, width: int) -> None:
    for address in (tricky, home):
        for args in ([], ["--all"], ["--columns", ",".join(FIELDS)]):
            lines = SGR.sub("", on_terminal("ls", "-s", address, *args, width=width)).splitlines()
            assert len(lines) > 5
            assert max(map(cell_len, lines)) <= width, (args, width)
            assert not any("\x1b" in line for line in lines)


@pytest.mark.usefixtures("clock")
def test_colours_are_few_and_can_be_switched_off(tricky: str) -> None:
    shown = on_terminal("ls", "-s", tricky)
    assert "\x1b[31mfailed \x1b[0m" in shown
    assert "\x1b[36mlogin-bug\x1b[0m" in shown
    assert "\x1b" not in on_terminal("ls", "-s", tricky, "--color", "never")
    assert "\x1b" not in on_terminal("ls", "-s", tricky, NO_COLOR="1")
    assert "\x1b" not in on_terminal("ls", "-s", tricky, TERM="dumb")


def test_a_pipe_gets_whole_ids_and_times_of_programs(tricky: str) -> None:
    rows = [line.split("\t") for line in in_pipe("ls", "-s", tricky).splitlines()]
    assert rows[0] == [
        "login-bug", "pending", "1", "2026-11-15T17:58:33Z", "", "/srv/ショップ",
        "登录页面返回 500 错误 🚀 please fix it",
    ]  # fmt: skip
    assert [row[0] for row in rows][2] == "claude-code:0b1c2d3e-4f50-4a61-8b72-93a4b5c6d7e8"
    assert (
        in_pipe("ls", "-s", tricky, "--columns", "title,cost,id", "-n", "3").splitlines()[2].split("\t")[1]
        == "12.75"
    )


def test_json_has_every_field_or_those_that_are_asked_for(tricky: str) -> None:
    records = [msgspec.json.decode(line) for line in in_pipe("ls", "-s", tricky, "--json").splitlines()]
    assert all(tuple(record) == JSON_FIELDS for record in records)
    parent = records[2]
    extra = ("short_id", "project", "subagents", "cost", "cost_is_estimate")
    assert [parent[name] for name in extra] == [
        "0b1c2d3e", "a-project-with-a-rather-long-name", 2, "12.75", False
    ]  # fmt: skip
    for args in (
        ["--json", "short_id,cost"],
        ["--json=short_id,cost"],
        ["--columns", "short_id,cost", "--json"],
    ):
        picked = in_pipe("ls", "-s", tricky, *args).splitlines()
        assert msgspec.json.decode(picked[2]) == {"short_id": "0b1c2d3e", "cost": "12.75"}
    assert "no field 'colour'; there are id, title" in in_pipe("ls", "-s", tricky, "--json", "colour")
    assert "no column 'colour'; there are active, created" in in_pipe(
        "ls", "-s", tricky, "--columns", "colour"
    )


def test_filters_of_every_kind(tricky: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = "claude-code:0b1c2d3e-4f50-4a61-8b72-93a4b5c6d7e8"
    wanted: dict[tuple[str, ...], list[str]] = {
        ("--agent", "codex"): ["codex:gone/agent-1"],
        ("--agent", "claude-code"): [parent],
        ("--model", "SONNET"): [parent],
        ("--model", "opus"): [],
        ("--project", "shop"): ["failed-one"],
        ("-p", "/srv/shop"): ["failed-one"],
        ("-p", "/srv/shop/"): ["failed-one"],
        ("--workspace", "/srv/shop"): ["failed-one"],
        ("--tag", "work", "--tag", "urgent"): [parent],
        ("--status", "failed"): ["failed-one"],
        ("--where", "chat=42"): [],
        ("--where", 'chat="42"'): ["telegram:42"],
        ("--since", "2026-11-15T12:00+00:00"): ["login-bug", "failed-one"],
        ("--until", "2026-11-13", "--since", "2026-11-01"): ["telegram:42"],
        ("-n", "1"): ["login-bug"],
        ("-n", "0", "--project", "shop"): ["failed-one"],
        ("--sort", "messages", "-n", "1"): [parent],
        ("--sort", "cost", "-n", "1"): [parent],
        ("--sort", "active", "--reverse", "-n", "1"): ["nothing-said"],
        ("--sort", "created", "-n", "1"): ["login-bug"],
        ("--sort", "title", "-n", "2"): ["telegram:42", parent],
        ("--sort", "title", "-r", "-n", "1"): ["nothing-said"],
    }
    for args, ids in wanted.items():
        assert listed(tricky, *args) == ids, args
    monkeypatch.chdir(tmp_path)
    with clew.open(tricky) as store:
        store.create("here", workspace=".")
    assert listed(tricky, "--here") == listed(tricky, "--project", ".") == ["here"]


@pytest.mark.usefixtures("clock")
def test_times_are_told_in_words_of_people() -> None:
    moments = {
        timedelta(seconds=59): "just now",
        timedelta(seconds=-5): "just now",
        timedelta(minutes=59): "59 min ago",
        timedelta(hours=23): "23 h ago",
        timedelta(hours=25): "yesterday",
        timedelta(hours=43): "2 days ago",
        timedelta(days=13): "13 days ago",
        timedelta(days=14): "2026-11-01",
    }
    assert {length: text.ago(NOW - length) for length in moments} == moments


@pytest.mark.usefixtures("clock")
def test_times_are_taken_in_words_of_people() -> None:
    moments = {
        "2026-11-01": datetime(2026, 11, 1, tzinfo=UTC),
        "2026-11-01T12:00": datetime(2026, 11, 1, 12, tzinfo=UTC),
        "12h": NOW - timedelta(hours=12),
        "2 days ago": NOW - timedelta(days=2),
        "1 hour ago": NOW - timedelta(hours=1),
        "today": datetime(2026, 11, 15, tzinfo=UTC),
        "Yesterday": datetime(2026, 11, 14, tzinfo=UTC),
    }
    assert {said: text.moment_of(said) for said in moments} == moments
    ends = {
        "2026-11-01": datetime(2026, 11, 2, tzinfo=UTC),
        "2026-11-01T12:00": datetime(2026, 11, 1, 12, tzinfo=UTC),
        "today": datetime(2026, 11, 16, tzinfo=UTC),
        "yesterday": datetime(2026, 11, 15, tzinfo=UTC),
        "7d": NOW - timedelta(days=7),
    }
    assert {said: text.moment_of(said, is_end=True) for said in ends} == ends, "a day is the whole day"
    assert text.moment_of("9999-12-31", is_end=True) is None
    for said in ("", "soon", "9999999999d", "99999999d", "-1 days ago", "2 parsecs ago", "2026-13-01"):
        assert text.moment_of(said) is None


@pytest.mark.usefixtures("clock")
def test_an_empty_store_and_a_list_of_nothing_say_what_to_do_next(tricky: str, tmp_path: Path) -> None:
    empty = str(tmp_path / "empty.db")
    clew.open(empty).close()
    shown = on_terminal("ls", "-s", empty)
    assert f"there is no session in {empty} yet; clew --store {empty} import --scan imports those" in shown
    assert f"no session matches; clew --store {tricky} ls lists the newest of all" in on_terminal(
        "ls", "-s", tricky, "--tag", "none"
    )
    assert in_pipe("ls", "-s", empty) == ""


def test_what_is_not_shown_is_told(tricky: str) -> None:
    shown = on_terminal("ls", "-s", tricky, "-n", "2").splitlines()
    assert shown[-1] == f"2 of 6 sessions; clew --store {tricky} ls -n 0 shows all"
    shown = on_terminal("ls", "-s", tricky, "--all", "-n", "2").splitlines()
    assert shown[-1] == f"2 of 8 sessions; clew --store {tricky} ls --all -n 0 shows all"
    shown = on_terminal("ls", "-s", tricky, "-n", "1", "--since", "2020-01-01").splitlines()
    assert shown[-1] == "1 session shown, there are more; -n 0 shows all"
    assert len(in_pipe("ls", "-s", tricky, "-n", "2").splitlines()) == 2


def test_the_columns_of_the_settings_hold_on_a_terminal(tricky: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_COLUMNS", "id,title")
    shown = SGR.sub("", on_terminal("ls", "-s", tricky)).splitlines()
    assert shown[0].split() == ["ID", "TITLE"]
    assert len(in_pipe("ls", "-s", tricky).splitlines()[0].split("\t")) == 7


def test_the_commands_of_the_page_do_what_it_says(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_STORE", home)
    monkeypatch.setenv("CLEW_CONFIG", str(tmp_path / "config.toml"))
    lines = [
        line
        for b in blocks(DOCS / "how-to" / "list-on-the-command-line.md", "bash")
        for line in b.code.splitlines()
    ]
    assert len(lines) > 15
    for line in lines:
        words = shlex.split(line.partition("#")[0].partition("|")[0])
        assert "clew: " not in in_pipe(*words[1:]), line


def test_many_sessions_are_told_as_few_are(tricky: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All subagents are then read at once."""
    few = in_pipe("ls", "-s", tricky, "--json")
    monkeypatch.setattr(sessions, "MANY", 1)
    assert few == in_pipe("ls", "-s", tricky, "--json")
    assert '"subagents":2' in few


def test_a_column_of_which_no_session_tells_is_left_out(cli: Clew) -> None:
    def headings() -> list[str]:
        return SGR.sub("", cli.on_terminal("ls").out).splitlines()[0].split()

    with clew.open(cli.store) as store:
        store.session("mine").append(user("hello"))
    assert headings() == ["ACTIVE", "MSGS", "TITLE", "ID"]
    with clew.open(cli.store) as store:
        store.session("other", metadata={"agent": "codex"}).append(user("hello"))
    assert headings() == ["ACTIVE", "AGENT", "MSGS", "TITLE", "ID"]


def test_a_data_uri_is_told_by_its_size(tmp_path: Path) -> None:
    address, data = str(tmp_path / "s.db"), "iVBORw0KGgoA" * 300
    uri = f"data:image/png;base64,{data}=="
    with clew.open(address) as store:
        store.create("s").append(
            {"role": "user", "content": f"What is {uri} then?"}, {"role": "tool", "content": f"page: {uri}"}
        )
    for command in ("show", "log"):
        shown = on_terminal(command, "s", "-s", address, width=100, NO_COLOR="1")
        assert "What is data:image/png;base64,… (2.6 KiB) then?" in shown, command
        assert "page: data:image/png;base64,… (2.6 KiB)" in shown, command
        assert data[:40] not in shown.partition("Messages:")[2], command
    assert data[:80] in on_terminal("show", "s", "-s", address, "--full", width=100, NO_COLOR="1")
    assert uri in in_pipe("show", "s", "-s", address, "--json")
    assert text.folded("data:image/png;base64,AAAA and data:,x") == "data:image/png;base64,AAAA and data:,x"


def test_which_agent_waits_is_said_before_the_title_and_can_be_asked_for(tmp_path: Path) -> None:
    address = str(tmp_path / "agents.db")
    began = datetime.now(UTC) - timedelta(minutes=1)
    turns: tuple[Literal["open", "ended"], ...] = ("open", "ended", "open", "ended")
    with clew.open(address) as store:
        for number, (turn, minutes) in enumerate(zip(turns, (0, 30, 40, 600), strict=True)):
            at = began - timedelta(minutes=minutes)
            store.load(written([0], turn=turn, began=at, id=f"codex:{number}"))
    shown = on_terminal("ls", "-s", address, width=100, NO_COLOR="1")
    assert re.findall(r"\w+(?= text 0)", shown) == ["working", "waiting", "stale"], "idle says nothing"
    states = ("working", "waiting", "stale", "idle")
    found = [in_pipe("ls", "-s", address, "--state", state).partition("\t")[0] for state in states]
    assert found == ["codex:0", "codex:1", "codex:2", "codex:3"]
    told = in_pipe("ls", "-s", address, "--json", "id,state").splitlines()
    assert msgspec.json.decode(told[0]) == {"id": "codex:0", "state": "working"}
