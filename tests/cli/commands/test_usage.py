"""What `clew usage` and `clew stats` say of tokens and money."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import clew
from tests.cli.golden import SGR, check_screen
from tests.cli.processes import Clew
from tests.home.make import make_home
from tests.support.rows import each_row

AT = datetime(2026, 11, 1, 23, 30, tzinfo=UTC)


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the sessions of a home directory of real agents."""
    folder = tmp_path_factory.mktemp("home")
    home = make_home(folder / "home")
    with clew.open(folder / "agents.db") as store:
        for place in (".claude/projects", ".codex", ".gemini", ".local/share/opencode", ".pi"):
            store.import_path(home / place)
    return folder


@pytest.fixture
def agents(imported: Path) -> Clew:
    return Clew(imported)


WIDTHS = (60, 80, 120, 200)


@each_row("by", ["day", "model", "session"])
def test_usage_on_a_terminal(agents: Clew, by: str) -> None:
    """Narrow ones do without the columns of the cache; the cost is on all of them."""
    screens = {width: agents.on_terminal("usage", "--by", by, width=width).out for width in WIDTHS}
    assert all("COST" in printed for printed in screens.values())
    check_screen(f"usage-{by}", screens)


def test_stats_on_a_terminal(agents: Clew) -> None:
    screens = {width: agents.on_terminal("stats", "4be70e2a", width=width).out for width in (60, 120)}
    told = {width: printed[printed.index("model calls") :] for width, printed in screens.items()}
    check_screen("stats-calls", told)


@each_row("by", ["day", "week", "month", "model", "agent", "project", "session"])
def test_groups_add_up_to_the_total(agents: Clew, by: str) -> None:
    [total] = agents("usage", "--total", "--json").records
    rows = agents("usage", "--by", by, "--json").records
    assert {row["by"] for row in rows} == {by}
    for name in ("calls", "input_tokens", "output_tokens", "cache_read_tokens", "estimated"):
        assert sum(row[name] for row in rows) == total[name]
    assert [row["group"] for row in rows] == [row[0] for row in agents("usage", "--by", by).rows]


def test_filters_choose_calls(agents: Clew) -> None:
    by_agent = {row[0]: row for row in agents("usage", "--by", "agent").rows}
    assert set(by_agent) == {"claude-code", "codex", "gemini-cli", "opencode", "pi"}
    assert agents("usage", "--total", "--agent", "codex").rows[0][1:] == by_agent["codex"][1:]
    by_project = {row[0]: row for row in agents("usage", "--by", "project").rows}
    assert agents("usage", "--total", "--project", "shop").rows[0][1:] == by_project["shop"][1:]
    model = agents("usage", "--by", "day", "--model", "gpt-5-codex").rows
    assert sum(int(row[1]) for row in model) == int(by_agent["codex"][1])
    assert agents("usage", "--agent", "goose").out == ""
    assert "no such model calls" in agents.on_terminal("usage", "--agent", "goose").out


def test_subagents_count_for_their_session(agents: Clew) -> None:
    ids = [row[0] for row in agents("usage", "--by", "session").rows]
    assert not any("/agent-" in id for id in ids)
    [star] = [id for id in ids if "4be70e2a" in id]
    models = agents("usage", "4be70e2a").rows
    assert [row[0] for row in models] == ["claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001"]
    whole = agents("usage", "4be70e2a", "--total", "--json").records[0]
    assert whole["calls"] == 24
    told = agents("stats", "4be70e2a", "--json").records[0]
    assert (told["id"], told["usage"]["calls"], told["usage_with_subagents"]["calls"]) == (star, 19, 24)


@pytest.mark.parametrize(("zone", "day"), [("UTC", "2026-11-01"), ("Europe/Berlin", "2026-11-02")])
def test_days_are_those_of_the_reader(cli: Clew, zone: str, day: str) -> None:
    with clew.open(cli.store) as store:
        store.session("s").add_usage(model="m", input_tokens=1, at=AT)
    assert [row[0] for row in cli("usage", env={"TZ": zone}).rows] == [day]
    month = cli("usage", "--by", "month", env={"TZ": zone}).rows
    assert [row[0] for row in month] == ["2026-11"]


def test_what_is_not_known_is_said_in_words(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        s = store.session("s")
        s.add_usage(model="gpt-4o", vendor="openai", input_tokens=1_000_000, at=AT)
        s.add_usage(model="mine", input_tokens=5, at=AT)
        s.add_usage(model="told", input_tokens=5, cost="0.5", at=AT)
    printed = SGR.sub("", cli.on_terminal("usage", "--by", "model", width=100).out)
    assert [line.split()[-1] for line in printed.splitlines()[1:5]] == ["$2.50", "$0.50", "unknown", "$3.00"]
    assert "Costs of 1 call are estimated from list prices at the time of each call; 1 call had a" in printed
    assert "1 call has no known price: mine." in printed
    assert "≈" not in printed
    stats = dict(cli("stats").rows)
    assert stats["cost"] == (
        "$3.00, estimated from list prices for 1 of 3 calls; 1 of 3 calls has no known price"
    )


def test_a_store_without_calls_says_so(story: Clew) -> None:
    assert "no model calls in" in story.on_terminal("usage").out
    assert story("usage").out == ""
    assert "--total is one line" in story("usage", "--total", "--by", "day", code=2).err
    assert "--agent chooses among sessions" in story("usage", "login-bug", "--agent", "x", code=2).err
