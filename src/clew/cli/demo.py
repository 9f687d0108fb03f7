"""`clew demo`."""

from __future__ import annotations

from clew.cli.app import command


@command("demo", "clew demo")
def demo_command() -> int:
    """A story of an agent that goes wrong, rewinds, forks, crashes and resumes.

    It takes some seconds, in a store of its own that is removed at the end, and checks everything it
    claims: exit code 1 if something does not hold.
    """
    from clew.cli.story.telling import main

    return main()
