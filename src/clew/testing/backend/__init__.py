"""The storage contract (clew/backends/contract.py) as tests.

Each part is one module: transactions, sessions, records, log, streams, objects, search. A backend that
passes them carries a store: all above the contract is the same code for every backend, and its tests run
on Clew's own backends. `clew.testing.machine` then plays the whole public surface of a store on your
backend and compares it with a model.

P.., J.. and S.. are the numbers of promises, rules of histories and attacks.
"""

from __future__ import annotations

from clew.backends.contract import Backend
from clew.testing.backend.durable_runs import DurableRunConformance
from clew.testing.backend.log import LogConformance
from clew.testing.backend.objects import ObjectConformance
from clew.testing.backend.purged_files import PurgedFileConformance
from clew.testing.backend.records import RecordConformance
from clew.testing.backend.search import SearchConformance
from clew.testing.backend.search_pages import FindingConformance
from clew.testing.backend.sessions import StorageConformance
from clew.testing.backend.streams import StreamStorageConformance
from clew.testing.backend.transactions import TransactionConformance

__all__ = ["BackendConformance", "DurableConformance"]


class DurableConformance(PurgedFileConformance, DurableRunConformance):
    """For backends whose `capabilities.durability` is not "memory". A subclass gives `reopen`."""


class BackendConformance(
    TransactionConformance,
    StorageConformance,
    RecordConformance,
    LogConformance,
    StreamStorageConformance,
    ObjectConformance,
    SearchConformance,
    FindingConformance,
):
    """Every backend passes each test of this class. A subclass gives a fixture `backend`:

        class TestMine(BackendConformance):
            @pytest.fixture
            def backend(self):
                return MyBackend()

    It may add tests; it may not weaken one. A durable backend is tested as one too:
    `class TestMine(BackendConformance, DurableConformance)`.
    """

    def test_a_durable_backend_is_tested_as_one(self, backend: Backend) -> None:
        """A backend that promises to survive a restart passes DurableConformance; no other can."""
        assert isinstance(self, DurableConformance) == (backend.capabilities.durability != "memory")
