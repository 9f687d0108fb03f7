"""The reference says what the code does: names, signatures, fields, errors, addresses, tables."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import apsw
import msgspec
import pytest

import clew
from clew import errors, model
from clew.backends.contract import Capabilities, RecordKind
from clew.backends.registry import SCHEMES
from clew.backends.sqlite import SqliteBackend
from clew.backends.sqlite.schema import MIGRATIONS
from clew.backends.sqlite.sql import APPLICATION_ID
from clew.core.conversation.sessions import SessionSettings
from clew.model import files, search, transfer
from tests.docs.pages import DOCS, prose
from tests.docs.signatures import CLASSES, members, property_type, signature
from tests.support.rows import each_row

REFERENCE = DOCS / "reference"
ERRORS = [value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, Exception)]
VALUES = {
    value.__name__: value
    for part in (model, files, search, transfer)
    for value in [Capabilities, *vars(part).values()]
    if inspect.isclass(value) and issubclass(value, msgspec.Struct) and value is not msgspec.Struct
}
"""The values that come back from the methods, and from those that import and export."""


def sections(page: Path) -> Iterator[tuple[str, list[str]]]:
    """The headings of a page, each with the lines below it."""
    title, lines = "", list[str]()
    for _, line in prose(page):
        if line.startswith("#"):
            yield title, lines
            title, lines = line.lstrip("# "), []
        lines.append(line)
    yield title, lines


def section(page: Path, title: str) -> list[str]:
    return next(lines for found, lines in sections(page) if found == title)


def described(lines: list[str]) -> dict[str, str]:
    """Name and signature of every `- **`name`**`signature`` that has a description below it."""
    found = {}
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        match = re.fullmatch(r"- \*\*`(\w+)`\*\*`(.*)`\\", line)
        if match and below.strip():
            found[match[1]] = match[2]
    return found


def rows(lines: list[str]) -> list[list[str]]:
    """The cells of the tables, without their heads."""
    tables = [line for line in lines if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in tables]
    rule = [index for index, row in enumerate(cells) if set("".join(row)) <= set("-: ")]
    return [row for index, row in enumerate(cells) if index not in rule and index + 1 not in rule]


def test_every_public_name_is_in_the_reference() -> None:
    text = (REFERENCE / "api.md").read_text("utf-8") + (REFERENCE / "errors.md").read_text("utf-8")
    public = [
        name
        for name, value in vars(clew).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    ]
    assert [name for name in public if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_method_is_described_with_its_signature(cls: type) -> None:
    """In the order of the code."""
    assert list(members(cls)) == list(described(section(REFERENCE / "api.md", cls.__name__)).items())


def test_every_setting_of_a_session_is_described() -> None:
    fields = {name: value.__forward_arg__ for name, value in SessionSettings.__annotations__.items()}
    lines = section(REFERENCE / "api.md", "SessionSettings")
    assert fields == {match[1]: match[2] for line in lines if (match := re.match(r"- `(\w+): (.*?)`", line))}


def test_every_function_is_described_with_its_signature() -> None:
    functions: dict[str, Callable[..., Any]] = {
        "open": clew.open,
        "open_async": clew.open_async,
        "copy": clew.copy,
        "copy_async": clew.copy_async,
    }
    expected = {name: signature(function) for name, function in functions.items()}
    assert expected == described(section(REFERENCE / "api.md", "Functions"))


@each_row("cls", VALUES.values())
def test_every_field_of_a_value_is_described(cls: type) -> None:
    fields = dict(cls.__annotations__)
    fields |= {name: property_type(v) for name, v in vars(cls).items() if isinstance(v, property)}
    lines = section(REFERENCE / "api.md", cls.__name__)
    found = {match[1]: match[2] for line in lines if (match := re.match(r"- `(\w+): (.*?)`", line))}
    assert fields == found


@each_row("cls", ERRORS)
def test_every_error_is_described(cls: type[clew.ClewError]) -> None:
    """One row each: its code, whether to retry, when it is raised and what to do."""
    lines = (REFERENCE / "errors.md").read_text("utf-8").splitlines()
    [row] = [row for row in rows(lines) if row[0] == f"`{cls.__name__}`"]
    assert [f"`{cls.code}`", "yes" if cls.retryable else "no"] == row[1:3]
    assert all(row[3:])


def test_no_error_is_described_that_is_not_there() -> None:
    lines = (REFERENCE / "errors.md").read_text("utf-8").splitlines()
    assert sorted(cls.__name__ for cls in ERRORS) == sorted(row[0].strip("`") for row in rows(lines))


def test_every_scheme_and_option_is_described() -> None:
    page = REFERENCE / "store-addresses.md"
    text = page.read_text("utf-8")
    assert [scheme for scheme in SCHEMES if f"`{scheme}:" not in text] == []
    options = {row[0].strip("`"): row[1] for row in rows(section(page, "Options of `sqlite`"))}
    parameters = inspect.signature(SqliteBackend).parameters.values()
    defaults = {p.name: str(p.default) for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert defaults == {name: default.strip("`") for name, default in options.items()}


def test_the_schema_is_that_of_a_new_store(tmp_path: Path) -> None:
    """Every table has its section, every column is named in it, and no other."""
    clew.open(tmp_path / "new.db").close()
    connection = apsw.Connection(str(tmp_path / "new.db"), flags=apsw.SQLITE_OPEN_READONLY)
    tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    names = [name for (name,) in connection.execute(tables)]
    documented = dict(sections(REFERENCE / "sqlite-schema.md"))
    for name in names:
        lines = documented[f"`{name}`"]
        columns = {row[1] for row in connection.execute(f"PRAGMA table_info({name})")}
        table = [row for row in rows(lines) if name != "records"]
        cells = " ".join(row[0] for row in table) if table else " ".join(lines)
        found = set(re.findall(r"`(\w+)`", cells))
        assert columns <= found if not table else columns == found, name
    connection.close()


def test_every_kind_of_record_is_described() -> None:
    kinds = [row[0].strip("`") for row in rows(section(REFERENCE / "sqlite-schema.md", "`records`"))]
    assert sorted(get_args(RecordKind)) == sorted(kinds)


def test_the_version_of_the_schema_is_right() -> None:
    values = {row[0]: row[1] for row in rows(section(REFERENCE / "sqlite-schema.md", "Identity and version"))}
    assert values["`PRAGMA application_id`"].startswith(f"`{APPLICATION_ID}`")
    assert values["`PRAGMA user_version`"].startswith(f"`{max(MIGRATIONS)}`")
    changes = rows(section(REFERENCE / "sqlite-schema.md", "Changes"))
    assert [str(number) for number in MIGRATIONS] == [row[0] for row in changes]


def test_the_glossary_is_in_order() -> None:
    words = [row[0].replace("*", "").lower() for row in rows(section(REFERENCE / "glossary.md", "Glossary"))]
    assert sorted(words) == words
