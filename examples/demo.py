"""A small agent's story, told by what it keeps in Clew: `make demo`, or `clew demo`.

The story is part of the command line, src/clew/cli/demo; this file tells it from a checkout.
"""

from __future__ import annotations

import sys

from clew.cli.demo.story import PAUSE, main, tell

__all__ = ["PAUSE", "main", "tell"]

if __name__ == "__main__":
    sys.exit(main())
