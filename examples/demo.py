"""A small agent's story, told by what it keeps in Clew: `make demo`, or `clew demo`.

The story is part of the command line, src/clew/cli/story; this file tells it from a checkout.
"""

from __future__ import annotations

import sys

from clew.cli.story.chapters import tell
from clew.cli.story.narrator import PAUSE
from clew.cli.story.telling import main

__all__ = ["PAUSE", "main", "tell"]

if __name__ == "__main__":
    sys.exit(main())
