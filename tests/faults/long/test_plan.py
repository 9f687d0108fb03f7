"""A slice of the long version: each campaign of `make faults`, on each of its backends."""

from __future__ import annotations

import pytest

from tests.faults.__main__ import Part, run
from tests.faults.plan import PLAN
from tests.faults.subjects import PostgresSubject, available
from tests.support.effort import usually
from tests.support.needs import need

SCALE = usually(0.03, thorough=0.1)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (planned.key, name)
        for planned in PLAN
        for name in (*available(), PostgresSubject.name)
        if planned.is_for(name)
    ],
)
def test_a_campaign_of_the_long_version_breaks_no_promise(key: str, name: str) -> None:
    planned = next(each for each in PLAN if each.key == key)
    for program in planned.programs:
        need(program)
    if "power" in key:
        need("root")
    if name == PostgresSubject.name:
        need("PostgreSQL")

    row = run(Part(planned, name, 0), SCALE * planned.parts, 1, "")

    assert row.wrong == []
    assert row.cycles > 0
