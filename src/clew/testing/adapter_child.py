"""A process that writes to a conversation through an adapter: started by the tests of adapters."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module

import msgspec

import clew
from clew.testing.conformance_adapter import TURNS, AdapterConformance


def main(order: bytes) -> None:
    module, name, url, conversation, worker = msgspec.json.decode(order, type=tuple[str, str, str, str, str])
    kind = getattr(import_module(module), name)
    tests: AdapterConformance = kind()
    with clew.open(url) as store:
        adapter = tests.make(store)
        for turn in range(TURNS):
            asyncio.run(tests.write(adapter, conversation, tests.numbered(f"{worker}-{turn}")))


if __name__ == "__main__":
    main(sys.argv[1].encode())
