"""Tables of cases in one test, with a session of its own for each row."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from clew.store import Store
from tests.support.rows import each_row

_numbers = count()


def each_session(
    names: str | tuple[str, ...], rows: Iterable[Any], *, ids: Callable[[Any], str] | Iterable[str] = repr
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `each_row`, but `s` is a new and empty session of the same store for each row."""

    def fold(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)
        takes_store = "store" in signature.parameters

        @functools.wraps(test)
        def run(self: object, store: Store, **given: Any) -> None:
            if takes_store:
                given["store"] = store
            test(self, s=store.session(f"s{next(_numbers)}"), **given)

        kept = [value for name, value in signature.parameters.items() if name not in ("s", "store")]
        wanted = inspect.Parameter("store", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Store)
        run.__signature__ = signature.replace(parameters=[*kept, wanted])  # type: ignore[attr-defined]
        return each_row(names, rows, ids=ids)(run)

    return fold
