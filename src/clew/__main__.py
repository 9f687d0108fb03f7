"""`python -m clew` is `clew`."""

from __future__ import annotations

from clew.cli import main

if __name__ == "__main__":
    main()
