"""`clew.server.app`, as a user's own program calls it."""

from __future__ import annotations

import importlib

import clew
import clew.server


def test_it_can_be_called_again_and_whatever_was_imported_before() -> None:
    """A module of the same name would take its place as soon as it is imported."""
    importlib.import_module("clew.server.application")
    with clew.open("memory:") as store:
        for _ in range(2):
            clew.server.app(store, token="a secret").close()
