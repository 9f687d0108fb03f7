"""A process that writes to a conversation through an adapter: started by the tests of adapters."""

from __future__ import annotations

import sys
from importlib import import_module

import msgspec

from clew.testing.conformance_adapter import AdapterConformance


def main(order: bytes) -> None:
    module, name, url, conversation, worker = msgspec.json.decode(order, type=tuple[str, str, str, str, str])
    kind = getattr(import_module(module), name)
    tests: AdapterConformance = kind()
    tests.work(url, conversation, worker)


if __name__ == "__main__":
    main(sys.argv[1].encode())
