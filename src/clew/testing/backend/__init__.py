"""The storage contract (clew/backends/contract.py) as tests.

Read it by its parts, one module each: transactions, sessions, listing, log, records, streams, objects,
search; for durable backends also durable and purge. Everything above the contract is the same code for every
backend, and is tested on Clew's own. `clew.testing.machine` plays the whole public surface of a store on your
backend and compares it with a model.

P.., J.. and S.. are the numbers of promises, rules of histories and attacks.
"""

from __future__ import annotations

from clew.backends.contract import Backend
from clew.testing.backend.listing import ListingConformance
from clew.testing.backend.log import LogConformance
from clew.testing.backend.objects import ObjectConformance
from clew.testing.backend.purge import PurgeConformance
from clew.testing.backend.records import RecordConformance
from clew.testing.backend.search import SearchConformance
from clew.testing.backend.search_pages import SearchPageConformance
from clew.testing.backend.sessions import SessionConformance
from clew.testing.backend.streams import StreamConformance
from clew.testing.backend.transactions import TransactionConformance

__all__ = ["BackendConformance", "DurableConformance"]


class DurableConformance(PurgeConformance):
    """For backends whose `capabilities.durability` is not "memory". A subclass gives `reopen`."""


class BackendConformance(
    TransactionConformance,
    SessionConformance,
    ListingConformance,
    LogConformance,
    RecordConformance,
    StreamConformance,
    ObjectConformance,
    SearchConformance,
    SearchPageConformance,
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
