"""The specification: what a backend must do, and what a store on it then does.

Read it by its parts. The first six are the contract of storage (clew/backends/contract.py): whoever
writes a backend makes these pass first, and then nearly all else passes too, because everything above
is the same for every backend. The others are what users are promised; P.., I.., J.. and S.. are the
numbers of promises, bad inputs, rules of histories and attacks.
"""

from __future__ import annotations

from clew.backends.contract import Backend
from clew.testing.conformance_append import AppendConformance
from clew.testing.conformance_beside import BesideConformance
from clew.testing.conformance_concurrent import ConcurrencyConformance
from clew.testing.conformance_context import ContextConformance
from clew.testing.conformance_damaged import DamageConformance
from clew.testing.conformance_deletion import DeletionConformance
from clew.testing.conformance_depth import DepthConformance
from clew.testing.conformance_documents import DocumentConformance
from clew.testing.conformance_durable_runs import DurableRunConformance
from clew.testing.conformance_events import EventConformance
from clew.testing.conformance_expiry import ExpiryConformance
from clew.testing.conformance_fencing import FencingConformance
from clew.testing.conformance_files import FileConformance
from clew.testing.conformance_finding import FindingConformance
from clew.testing.conformance_forks import ForkConformance
from clew.testing.conformance_given_times import GivenTimeConformance
from clew.testing.conformance_inputs import InputConformance
from clew.testing.conformance_inside import InsideConformance
from clew.testing.conformance_lease_time import LeaseTimeConformance
from clew.testing.conformance_leases import LeaseConformance
from clew.testing.conformance_listing import ListingConformance
from clew.testing.conformance_log import LogConformance
from clew.testing.conformance_marks import MarkConformance
from clew.testing.conformance_objects import ObjectConformance
from clew.testing.conformance_outcomes import OutcomeConformance
from clew.testing.conformance_points import PointConformance
from clew.testing.conformance_porting import PortingConformance
from clew.testing.conformance_progress import ProgressConformance
from clew.testing.conformance_purged_files import PurgedFileConformance
from clew.testing.conformance_reading import ReadingConformance
from clew.testing.conformance_records import RecordConformance
from clew.testing.conformance_remembered_roots import RememberedRootConformance
from clew.testing.conformance_replacing import ReplaceConformance
from clew.testing.conformance_resuming import ResumeConformance
from clew.testing.conformance_retention import RetentionConformance
from clew.testing.conformance_search import SearchConformance
from clew.testing.conformance_sessions import SessionConformance
from clew.testing.conformance_settings import SettingsConformance
from clew.testing.conformance_speakers import SpeakerConformance
from clew.testing.conformance_status import StatusConformance
from clew.testing.conformance_storage import StorageConformance
from clew.testing.conformance_streams_storage import StreamStorageConformance
from clew.testing.conformance_together import TogetherConformance
from clew.testing.conformance_transactions import TransactionConformance
from clew.testing.conformance_turns import TurnConformance
from clew.testing.conformance_usage import UsageConformance
from clew.testing.conformance_usage_sums import UsageSumConformance
from clew.testing.conformance_watching import WatchConformance

__all__ = ["BackendConformance", "DurableConformance"]


class DurableConformance(PurgedFileConformance, DurableRunConformance):
    """For backends whose `capabilities.durability` is not "memory". A subclass gives `reopen`."""


class BackendConformance(
    TransactionConformance,
    StorageConformance,
    RecordConformance,
    StreamStorageConformance,
    ObjectConformance,
    LogConformance,
    SessionConformance,
    SettingsConformance,
    ListingConformance,
    AppendConformance,
    GivenTimeConformance,
    ConcurrencyConformance,
    ReadingConformance,
    MarkConformance,
    ReplaceConformance,
    ContextConformance,
    PointConformance,
    ForkConformance,
    DepthConformance,
    FileConformance,
    RememberedRootConformance,
    BesideConformance,
    DocumentConformance,
    PortingConformance,
    TogetherConformance,
    InsideConformance,
    DeletionConformance,
    DamageConformance,
    StatusConformance,
    OutcomeConformance,
    LeaseConformance,
    FencingConformance,
    EventConformance,
    UsageConformance,
    UsageSumConformance,
    ResumeConformance,
    TurnConformance,
    ExpiryConformance,
    RetentionConformance,
    LeaseTimeConformance,
    ProgressConformance,
    WatchConformance,
    SearchConformance,
    FindingConformance,
    SpeakerConformance,
    InputConformance,
):
    """Every backend passes this, each test of it. A subclass gives a fixture `backend`:

        class TestMine(BackendConformance):
            @pytest.fixture
            def backend(self):
                return MyBackend()

    It may add tests; it may not weaken one. A backend that is durable is tested as such too:
    `class TestMine(BackendConformance, DurableConformance)`.
    """

    def test_a_durable_backend_is_tested_as_one(self, backend: Backend) -> None:
        """Whoever promises to survive a restart passes DurableConformance, and nobody else can."""
        assert isinstance(self, DurableConformance) == (backend.capabilities.durability != "memory")
