"""F-37: the server is lost, and its replica takes its place.

One story, told once: everything up to a moment is replicated synchronously; then the replica stops
following, so that what comes next is lost with the server; then that is stopped at once, and the replica is
promoted. The same store, with both servers in its address, goes on.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import clew
from clew.errors import BackendUnavailableError, LeaseLostError, OutcomeUnknownError, ReadOnlyError
from clew.run import Run
from clew.store import Store
from clew.testing.backend.base import said, say, user
from tests.backends.postgres.servers.cluster import Cluster
from tests.backends.postgres.servers.replica import Replica, wait_for_each_other

pytestmark = pytest.mark.needs("PostgreSQL")


@dataclass
class Story:
    store: Store
    tmp: Path
    standby: dict[str, object] = field(default_factory=dict)
    lost: list[Run] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with ExitStack() as stack:
        primary = Cluster()
        stack.callback(primary.remove)
        primary.start()
        replica = Replica(primary)
        stack.callback(replica.remove)
        replica.start()
        wait_for_each_other(primary, on=True)
        both = f"127.0.0.1:{primary.port},127.0.0.1:{replica.port}"
        store = stack.enter_context(
            clew.open(f"postgresql://clew@{both}/postgres?target_session_attrs=read-write")
        )
        told = Story(store, tmp_path_factory.mktemp("failover"))
        _before(told, primary, replica)
        primary.stop(signal.SIGQUIT)
        replica.promote()
        _go_on(store)
        yield told


def _before(told: Story, primary: Cluster, replica: Replica) -> None:
    store = told.store
    for number in range(20):
        say(store.session("kept"), str(number))
    for _ in range(3):
        with store.session("leased").run() as run:
            told.epochs.append(run.epoch)
    _look_at_standby(told, replica)
    wait_for_each_other(primary, on=False)
    replica.leave()
    say(store.session("kept"), "lost")
    say(store.session("forgotten"), "lost")
    told.lost.append(store.session("leased").run())
    told.lost[0].append(user("lost"))


def _look_at_standby(told: Story, replica: Replica) -> None:
    """What a hot standby can do, while it is one. It may be a little behind, even when commits wait for it:
    they wait until it has them, not until it shows them."""
    with clew.open(replica.url, read_only=True) as standing:
        while len(standing.session("kept").messages()) < 20:
            pass
        told.standby["said"] = said(standing.get("kept"))
        told.standby["backup"] = standing.backup(told.tmp / "standby.db").path
        standing._engine.backend.pause(0.001)
        told.standby["refused"] = _refusal(standing)
    with clew.open(replica.url) as writing:
        told.standby["refused by the server"] = _refusal(writing)


def _refusal(store: Store) -> type[BaseException] | None:
    try:
        say(store.get("kept"), "x")
    except clew.ClewError as exc:
        return type(exc)
    return None


def _go_on(store: Store) -> None:
    """As a program does: again, with the same key, until it is known to be done."""
    while True:
        try:
            store.session("kept").append(user("after"), key="after")
        except (OutcomeUnknownError, BackendUnavailableError):
            continue
        return


def test_writing_goes_on_and_what_the_replica_had_is_there(story: Story) -> None:
    """P1: with synchronous replication every acknowledged entry survives, in its order."""
    assert said(story.store.get("kept"))[:21] == [*map(str, range(20)), "after"]
    assert story.store.verify(full=True).problems == ()


def test_what_only_the_lost_server_had_does_not_come_back(story: Story) -> None:
    """This process remembers rows and branches of it: they are not written again, nor taken for real."""
    store = story.store
    say(store.get("kept"), "and on")
    assert said(store.get("kept"))[20:] == ["after", "and on"]
    with pytest.raises(clew.SessionNotFoundError):
        store.get("forgotten")
    say(store.create("forgotten"), "anew")
    assert said(store.get("forgotten")) == ["anew"]
    assert store.verify(full=True).problems == ()


def test_a_lease_that_only_the_lost_server_knew_is_not_valid_again(story: Story) -> None:
    """F-37: epochs never go back, not even below those that only the lost server had given."""
    (lost,) = story.lost
    with pytest.raises(LeaseLostError):
        lost.append(user("from the past"))
    with story.store.session("leased").run() as run:
        assert run.epoch > max(*story.epochs, lost.epoch)
        with pytest.raises(LeaseLostError):
            lost.append(user("from the past"))
        run.append(user("now"))
    with pytest.raises(LeaseLostError):
        lost.append(user("from the past"))
    assert said(story.store.get("leased")) == ["now"]


def test_a_standby_can_be_read_and_backed_up(story: Story) -> None:
    assert story.standby["said"] == [*map(str, range(20))]
    assert story.standby["refused"] is ReadOnlyError
    assert story.standby["refused by the server"] is ReadOnlyError
    with clew.open(str(story.standby["backup"])) as backup:
        assert len(backup.get("kept").messages()) == 20
