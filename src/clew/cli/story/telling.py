"""A small agent's story, told by what it keeps in Clew: `clew demo`.

Converse, set a checkpoint, go wrong, rewind, fork, crash (a real process, a real kill -9), resume, compact,
undo. It runs on the embedded default, one SQLite file in a temporary directory, and checks what it claims:
a claim that does not hold ends it with exit code 1.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

from rich.console import Console

from clew.cli.story.chapters import tell
from clew.cli.story.narrator import Untrue

WIDTH: Final = 100


def main() -> int:
    console = Console(highlight=False)
    console.width = min(console.width, WIDTH)
    if isinstance(sys.stdout.encoding, str) and not sys.stdout.encoding.lower().startswith("utf"):
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal without lanes
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="clew-demo-") as directory:
            tell(console, Path(directory))
    except KeyboardInterrupt:
        console.print("\ninterrupted; the temporary store is removed")
        return 130
    except Untrue as exc:
        console.print(f"\n[bold red]✗ This did not hold:[/] {exc}")
        return 1
    return 0
