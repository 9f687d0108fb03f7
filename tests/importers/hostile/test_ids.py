"""Ids that are no ids: whatever stands where a name should be, an import ends with a report."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest

import clew
from clew.errors import ClewError
from clew.exporters.programs.resuming import AGENTS
from tests.exporters.programs.test_ends import PROGRAMS
from tests.importers.programs.test_opencode import Database, assistant, text, tool, user
from tests.importers.test_contexts import STOPPED
from tests.support.rows import named

LONG: Final = "x" * 70_000
VALUES: Final[dict[str, Any]] = {
    "a list": ["a", {"b": 1}],
    "a dict": {"a": [1]},
    "a number": 12.5,
    "null": None,
    "a bool": True,
    "a huge text": LONG,
    "a lone surrogate": "\ud800",
    "an empty text": "",
}
ID: Final = re.compile(r"(?:id|ids|uuid|key|parent|aliases|to|type|role)$", re.IGNORECASE)
"""Fields that name something, or say what it is."""

Way = tuple[str | int, ...]


def places_in(value: Any, above: Way = ()) -> Iterator[Way]:
    """Where such fields stand in a document."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(key, str) and ID.search(key):
            yield (*above, key)
        if isinstance(inner, dict | list):
            yield from places_in(inner, (*above, key))


def by_name(document: Any) -> dict[str | int, list[Way]]:
    """These places by the name of the field, without the first one: by it the file is known."""
    found: dict[str | int, list[Way]] = {}
    for place in places_in(document):
        found.setdefault(place[-1], []).append(place)
    return {name: places[1:] or places for name, places in found.items()}


def put(document: Any, places: list[Way], value: Any) -> Any:
    changed = json.loads(json.dumps(document))
    for *way, last in places:
        at = changed
        for key in way:
            at = at[key]
        at[last] = value
    return changed


def forms_of(path: Path) -> tuple[Any, Callable[[Any], None]]:
    """What a file holds, and how to write it again."""
    is_log = path.suffix == ".jsonl"
    content = path.read_bytes()

    def write(now: Any) -> None:
        path.write_text("".join(json.dumps(one) + "\n" for one in now) if is_log else json.dumps(now))

    return [json.loads(line) for line in content.splitlines()] if is_log else json.loads(content), write


def rich(format: str, folder: Path) -> Path:
    """A file of a format with all that may hang elsewhere, if there is one; else a small one."""
    made = PROGRAMS[format].source(folder) if format in PROGRAMS else STOPPED[format](folder)
    if format == "opencode":
        document = json.loads(made.read_text())
        call = {"type": "tool", "callID": "c", "tool": "x", "state": {"status": "completed", "input": {}}}
        asked = {"type": "compaction", "auto": True, "tail_start_id": "msg_001"}
        names = {"id": "prt_9", "sessionID": "ses_1", "messageID": "msg_002"}
        document["messages"][1]["parts"].append({**call, **names})
        document["messages"][2]["parts"] = [{**asked, **names}]
        document["messages"][3]["info"] |= {"summary": True, "error": {"name": "x", "data": {"message": "y"}}}
        made.write_text(json.dumps(document))
    return made


TEXTS: Final = [
    "pi", "claude-code", "codex", "gemini-cli", "opencode", "ggcode", "picoclaw", "ductwork", "openrouter",
    "cline", "goose", "continue",
]  # fmt: skip


def use(store: clew.Store, format: str) -> None:
    """What is done with a session: read, sent to a model, gone on with, written for its agent."""
    for info in store.list().sessions:
        s = store.get(info.id)
        s.context()
        store.export(s.id, "markdown")
        s.append({"role": "user", "content": "and now?"})
        store.export(s.id, cast(Any, format if format in AGENTS else "claude-code"))


def check(path: Path, format: str) -> None:
    with clew.open("memory:") as store:
        try:
            report = store.import_path(path)
        except ClewError:  # a file that is refused as a whole
            return
        known = {problem.path for problem in report.problems}
        assert set(report.left_out) <= known
        assert report.sessions or report.problems or not report.files_read
        use(store, format)


@pytest.mark.parametrize("format", TEXTS)
def test_an_id_that_is_none_costs_no_more_than_its_file(format: str, tmp_path: Path) -> None:
    place = tmp_path / "files"
    place.mkdir()
    path = rich(format, place)
    document, write = forms_of(path)
    check(path, format)
    for field, places in by_name(document).items():
        for name, value in VALUES.items():
            with named(f"{name} as {field}"):
                write(put(document, places, value))
                check(path, format)


@pytest.mark.parametrize("field", ["id", "parentID", "callID", "tail_start_id", "type", "role", "modelID"])
def test_an_id_that_is_none_in_a_database_costs_no_more_than_its_row(field: str, tmp_path: Path) -> None:
    for number, (name, value) in enumerate(VALUES.items()):
        with named(name):
            database = Database(tmp_path / f"opencode{number}.db")
            told = {field: value}
            asked = user({"type": "compaction", "auto": True, **told}, {**text("hi"), **told})
            called = {**tool("c1", output="ok"), **told}
            begun = assistant({**text("so"), **told}, called, **told)
            database.add(
                "ses_1", user(text("one")), asked, begun, assistant(text("sum"), summary=True, **told)
            )
            check(database.close(), "opencode")
