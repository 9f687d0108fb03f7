"""Tests to subclass when you write a backend, an adapter or an importer: `pip install '.[testing]'`.

    from clew.testing.backend import BackendConformance, DurableConformance

    class TestMine(BackendConformance, DurableConformance):
        @pytest.fixture
        def backend(self, tmp_path): ...      # a fresh, empty Backend
        def reopen(self, backend): ...        # close it, open the same place again

| module | what is in it |
|---|---|
| `clew.testing.backend` | `BackendConformance` and `DurableConformance`: the storage contract as tests |
| `clew.testing.machine` | `make_machine`: compares any backend with a small model of a store |
| `clew.testing.adapter` | `AdapterConformance`, for adapters to a framework |
| `clew.testing.importer` | `ImporterConformance`, for readers of another program's files |
| `clew.testing.rows` | `each_row`, `named`: tables of cases in one test, whose failures name their row |
| `clew.testing.chain` | `check_store`, `check_chain`: recompute from the log all that is kept beside it |

Nothing is imported here: `chain` is used by processes that need neither pytest nor Hypothesis.
"""

from __future__ import annotations

import sys

if "pytest" in sys.modules:  # let it show the values of a failed assertion, as it does in test files
    import pytest

    pytest.register_assert_rewrite(
        *(f"{__name__}.{name}" for name in ("adapter", "backend", "chain", "importer", "machine"))
    )
