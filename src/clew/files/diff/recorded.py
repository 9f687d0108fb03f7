"""Which files a snapshot says something of.

A snapshot of a directory holds all of it: what is not there, was not there, unless it had to be skipped. One
that came with an import holds the files that an agent recorded at that moment, and its rules name them, those
that were absent too. Of any other file it says nothing: after a restart an agent begins its list anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container
from functools import cached_property
from typing import Final, TypeAlias

from clew.model.files import Snapshot

Recording: TypeAlias = Container[bytes] | None
"""The paths of which a side of a comparison says whether they were there; None: all."""
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


class Recorded:
    """The paths of which a snapshot says whether they were there."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, bytes) or (self._named is not None and path not in self._named):
            return False
        return path not in self._skipped and not any(path.startswith(one + b"/") for one in self._skipped)

    @cached_property
    def _named(self) -> frozenset[bytes] | None:
        """None: all there are."""
        if self._snapshot.root:
            return None
        return frozenset(
            os.fsencode(_ESCAPED.sub(r"\1", pattern.removeprefix("/"))) for pattern in self._snapshot.include
        )

    @cached_property
    def _skipped(self) -> frozenset[bytes]:
        return frozenset(os.fsencode(one.path.rstrip("/")) for one in self._snapshot.skipped)


class Looked:
    """The paths of which a look into a directory says whether they are there: what is ignored is passed over,
    but not gone."""

    def __init__(self, place: str) -> None:
        self._place = os.fsencode(place)

    def __contains__(self, path: object) -> bool:
        return isinstance(path, bytes) and not os.path.lexists(os.path.join(self._place, path))
