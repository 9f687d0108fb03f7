"""S-33: `clew doctor` says when a store is come by with too many rights, or over an open wire."""

from __future__ import annotations

import uuid

import psycopg
import pytest

import clew
from clew.backends.postgres import connection
from clew.backends.postgres.connection import ConnectionCheck, check_connection
from clew.errors import BackendUnavailableError
from tests.cli.inside import in_pipe, on_terminal


def told(place: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    monkeypatch.setenv("CLEW_STORE", place)
    return {row[0]: row[1:] for row in (line.split("\t") for line in in_pipe("doctor").splitlines())}


def test_s33_a_superuser_is_too_much_for_a_store(
    postgres_place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clew.open(postgres_place).close()
    found = told(postgres_place, monkeypatch)
    assert found["role"][:2] == [
        "warning",
        "the role clew is a superuser: its password opens everything on the server",
    ]
    assert found["wire"][:2] == ["ok", "the server is on this machine"]
    for width in (60, 80, 200):
        assert "use-postgresql.md" in on_terminal("doctor", width=width).replace("\n  ", "")


def test_a_role_of_its_own_is_as_it_should_be(
    postgres_place: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = f"plain_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN".encode())
        admin.execute(f"GRANT CREATE ON DATABASE {admin.info.dbname} TO {role}".encode())
        try:
            place = postgres_place.replace("clew@", f"{role}@")
            clew.open(place).close()
            assert told(place, monkeypatch)["role"][:2] == ["ok", f"the role {role} is not a superuser"]
        finally:
            admin.execute(f"DROP OWNED BY {role} CASCADE".encode())
            admin.execute(f"DROP ROLE {role}".encode())


@pytest.mark.parametrize(
    ("encrypted", "verified", "state"),
    [(False, False, "warning"), (True, False, "warning"), (True, True, "ok")],
)
def test_s33_a_wire_that_others_can_tap_is_told(
    postgres_place: str, monkeypatch: pytest.MonkeyPatch, encrypted: bool, verified: bool, state: str
) -> None:
    far = ConnectionCheck("app", False, "db.example.com", False, encrypted, verified)
    monkeypatch.setattr(connection, "check_connection", lambda *_: far)
    clew.open(postgres_place).close()
    check, text, step = told(postgres_place, monkeypatch)["wire"]
    assert check == state
    assert "db.example.com" in text
    assert (step == "add sslmode=verify-full to the address") == (state == "warning")


def test_a_server_that_is_not_there_is_an_error_without_a_password() -> None:
    with pytest.raises(BackendUnavailableError) as raised:
        check_connection("postgresql://u:hunter2@127.0.0.1:1/db", 2.0)
    assert "hunter2" not in f"{raised.value!r}{raised.value.__context__!r}{raised.value.__cause__!r}"
