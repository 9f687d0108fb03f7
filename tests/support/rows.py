"""Tables of cases in one test, as the suites of `clew.testing` have them."""

from __future__ import annotations

from clew.testing.rows import each_named_row, each_row, named

__all__ = ["each_named_row", "each_row", "named"]
