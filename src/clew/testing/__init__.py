"""The specification of Clew as tests, for whoever writes a backend; and the tools to break one.

    from clew.testing import BackendConformance, DurableConformance

    class TestMine(BackendConformance, DurableConformance):
        @pytest.fixture
        def backend(self, tmp_path): ...      # a fresh, empty Backend
        def reopen(self, backend): ...        # close it, open the same place again

`clew.testing.machine.make_machine` compares any backend with a small model. It needs Hypothesis, the
classes need pytest: nothing is imported before it is used, because the crash tests start processes
by the hundred that need neither.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from clew.testing.conformance import BackendConformance, DurableConformance
    from clew.testing.conformance_adapter import AdapterConformance
    from clew.testing.conformance_chain import check_chain, check_store
    from clew.testing.machine import make_machine

__all__ = [
    "AdapterConformance",
    "BackendConformance",
    "DurableConformance",
    "check_chain",
    "check_store",
    "make_machine",
]

_HOMES: Final = {
    "AdapterConformance": "conformance_adapter",
    "BackendConformance": "conformance",
    "DurableConformance": "conformance",
    "check_chain": "conformance_chain",
    "check_store": "conformance_chain",
    "make_machine": "machine",
}
_PARTS: Final = (
    "conformance_adapter",
    "conformance_append",
    "conformance_base",
    "conformance_beside",
    "conformance_chain",
    "conformance_concurrent",
    "conformance_context",
    "conformance_deletion",
    "conformance_documents",
    "conformance_durable",
    "conformance_durable_runs",
    "conformance_events",
    "conformance_expiry",
    "conformance_fencing",
    "conformance_forks",
    "conformance_inputs",
    "conformance_inside",
    "conformance_lease_time",
    "conformance_leases",
    "conformance_listing",
    "conformance_log",
    "conformance_marks",
    "conformance_points",
    "conformance_progress",
    "conformance_reading",
    "conformance_records",
    "conformance_resuming",
    "conformance_retention",
    "conformance_sessions",
    "conformance_settings",
    "conformance_status",
    "conformance_storage",
    "conformance_streams_storage",
    "conformance_together",
    "conformance_transactions",
    "conformance_turns",
    "conformance_usage",
    "conformance_usage_sums",
    "machine",
    "machine_base",
    "machine_runs",
)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _explain_assertions()
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def _explain_assertions() -> None:
    """Let pytest show the values of a failed assertion, as it does in test files."""
    import pytest

    names = (f"{__name__}.{part}" for part in _PARTS)
    pytest.register_assert_rewrite(*(name for name in names if name not in sys.modules))
