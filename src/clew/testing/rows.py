"""Tables of cases in one test: for rows that need no store of their own.

`each_row` takes what `pytest.mark.parametrize` takes, and runs the test once for each row with the same
fixtures, but for `tmp_path`, which is a new folder for each. So a row must leave everything else as it found
it, or work on a thing of its own. A failure names its row.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def each_row(
    names: str | tuple[str, ...], rows: Iterable[Any], *, ids: Callable[[Any], str] | Iterable[str] = repr
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for every row of a table, one after the other."""
    table = list(rows)
    keys = (names,) if isinstance(names, str) else names
    labels: Iterable[str | Callable[[], str]]
    labels = [functools.partial(ids, row) for row in table] if callable(ids) else list(ids)

    def fold(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(*args: Any, **fixtures: Any) -> None:
            for number, (label, row) in enumerate(zip(labels, table, strict=True)):
                values = (row,) if isinstance(names, str) else row
                own = {name: _folder(fixtures[name], number) for name in fixtures if name == "tmp_path"}
                with named(label):
                    test(*args, **fixtures | own, **dict(zip(keys, values, strict=True)))

        signature = inspect.signature(test)
        left = [value for name, value in signature.parameters.items() if name not in keys]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return fold


def each_named_row(
    names: str | tuple[str, ...], rows: Mapping[str, Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for every row of a table in which each row has a name."""
    return each_row(names, rows.values(), ids=rows)


@contextmanager
def named(row: str | Callable[[], str]) -> Iterator[None]:
    """Name the row of a table in the report of whatever fails inside; only then is a function called."""
    try:
        yield
    except BaseException as exc:  # what pytest.raises raises is no Exception
        exc.add_note(f"in row: {row() if callable(row) else row}")
        raise


def _folder(above: Path, number: int) -> Path:
    made = above / f"row{number}"
    made.mkdir()
    return made
