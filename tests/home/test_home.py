"""The recorded home holds what its page says, and every file of it can be imported."""

from __future__ import annotations

import re
from pathlib import Path

import clew
from clew.importers.detect import scan_places
from tests.home.make import FILES, NOW, environment, make_home


def test_every_agent_is_found_and_its_sessions_are_imported(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    places = scan_places(home)
    agents = {place.format for place in places}
    assert agents == {"claude-code", "codex", "gemini-cli", "opencode", "pi", "llm", "cline", "continue"}
    with clew.open("memory:") as store:
        for place in places:
            store.import_path(place.path)
        store.import_path(home / "website")
        sessions = list(store.list())
        assert len(sessions) == 20
        assert max(s.updated_at for s in sessions) < NOW
        titles = {s.title for s in sessions if s.parent}
        directories = {s.workspace_given for s in sessions}
    assert titles == {"Find every login call", "How tests handle time"}  # as the parent called them
    assert {"/home/ana/shop", "/home/ana/notes", "/home/ana/website"} <= directories


def test_times_of_files_are_those_of_their_content(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    times = {file.name: file.stat().st_mtime for file in home.rglob("*") if file.is_file()}
    assert max(times.values()) < NOW.timestamp()
    assert environment(home)["HOME"] == str(home)


def test_nothing_of_the_machine_that_recorded_it_is_left() -> None:
    foreign = re.compile(
        rb"(?<![\w<])/(root|work|tmp|Users|usr|opt)/|@[\w-]+\.(local|internal)|sk-(?!ant-test)[\w-]{8}"
    )
    found = {
        str(file.relative_to(FILES)): match.group()
        for file in FILES.rglob("*")
        if file.is_file() and (match := foreign.search(file.read_bytes()))
    }
    assert found == {}
