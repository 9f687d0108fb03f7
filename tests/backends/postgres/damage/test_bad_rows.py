"""S-51: a value that nobody wrote, in the row of a session on a server, costs that session."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql

import clew

BAD = {
    "a status that does not exist": "status = 99",
    "a time that no calendar knows": "created = 9223372036854775807",
    "a text that is no UTF-8": r"preview = '\xff'::bytea",
    "a digest that is too short": r"digest = '\x00'::bytea",
    "a position that no entry has": "position = -7",
}


@pytest.mark.parametrize("bad", BAD)
def test_s51_p6_a_bad_row_costs_its_session_and_no_other(emptied_postgres: str, bad: str) -> None:
    with clew.open(emptied_postgres) as store:
        for id in ("one", "two", "three"):
            store.session(id).append({"role": "user", "content": f"said in {id}"})
    plain, _, schema = emptied_postgres.partition("?schema=")
    with psycopg.connect(plain, autocommit=True) as connection:
        table = sql.Identifier(schema.partition("&")[0] or "clew", "sessions")
        connection.execute(sql.SQL("UPDATE {} SET " + BAD[bad] + " WHERE id = %s").format(table), (b"two",))
    with clew.open(emptied_postgres) as store:
        found = {info.id: info.damaged for info in store.list()}
        assert found["two"]
        assert (found["one"], found["three"]) == (None, None)
        assert [message["content"] for message in store.get("one").messages()] == ["said in one"]
        with pytest.raises(clew.errors.CorruptSessionError):
            store.get("two")
        assert any("'two'" in problem for problem in store.verify().problems)
        assert store.delete("two", purge=True)
        assert {info.id for info in store.list()} == {"one", "three"}
