"""Make docs/pictures.

    python -m tools.pictures                  # all of them; needs chromium
    python -m tools.pictures ls graph web     # some; `web`: all of the page of `clew serve`
    python -m tools.pictures --to DIRECTORY   # elsewhere, to look at them

Each picture comes in two forms, for light and for dark pages.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tools.pictures import page, terminal


def main() -> None:
    printed = (*terminal.SCREENS, "page")
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("names", nargs="*", help=f"of {', '.join((*printed, 'web', *page.VIEWS))}")
    options.add_argument("--to", type=Path, default=terminal.PICTURES)
    given = options.parse_args()
    chosen = given.names or [*printed, "web"]
    views = list(page.VIEWS) if "web" in chosen else [name for name in page.VIEWS if name in chosen]
    given.to.mkdir(exist_ok=True)
    for file, content in terminal.made([name for name in printed if name in chosen]):
        save(given.to / file, content)
    for file, content in page.made(views):
        save(given.to / file, content)


def save(path: Path, content: bytes) -> None:
    if terminal.is_the_same(path, content):
        print(f"{path.name}  says the same")
        return
    path.write_bytes(content)
    print(f"{path.name}  {len(content) / 1000:.0f} kB")


main()
