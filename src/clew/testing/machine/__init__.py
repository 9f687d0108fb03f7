"""A state machine that compares any backend with a small model of a store. It needs Hypothesis.

TestMine = make_machine(MyBackend, reopen=reopen)
"""

from __future__ import annotations

from clew.testing.machine.machine import make_machine

__all__ = ["make_machine"]
