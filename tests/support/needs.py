"""What tests need that not every machine has, and how to install it.

`pytestmark = pytest.mark.needs("chromium")` skips a test where the program is missing; with `CI` set the
test fails instead. `need("nginx")` does the same inside a test or fixture. The last line of a run names all
that was skipped for this.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from typing import NamedTuple

import pytest


class Need(NamedTuple):
    is_there: Callable[[], bool]
    install: str


def _on_path(*names: str) -> Callable[[], bool]:
    """Servers lie in /usr/sbin, which is not on the path of every user."""
    return lambda: any(shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in names)


def _debian(package: str, *programs: str) -> Need:
    return Need(_on_path(*(programs or (package,))), f"apt-get install {package}")


def _has_postgresql() -> bool:
    if os.environ.get("CLEW_TEST_POSTGRES"):
        return True
    from tests.backends.postgres.servers.cluster import NoServerError, find_programs

    try:
        return find_programs().exists()
    except NoServerError:
        return False


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

NEEDS = {
    "PostgreSQL": Need(_has_postgresql, "apt-get install postgresql"),
    "chromium": Need(lambda: CHROMIUM is not None, "apt-get install chromium"),
    "node": Need(_on_path("npm"), "apt-get install nodejs npm"),
    "strace": _debian("strace"),
    "faketime": _debian("faketime"),
    "root": Need(lambda: os.geteuid() == 0, "run the tests as root"),
    "another user than root": Need(lambda: os.geteuid() != 0, "run the tests as another user"),
    "groff": _debian("groff"),
    "mandoc": _debian("mandoc"),
    "zsh": _debian("zsh"),
    "fish": _debian("fish"),
    "nginx": _debian("nginx"),
    "caddy": _debian("caddy"),
    "jq": _debian("jq"),
    "pgbouncer": _debian("pgbouncer"),
    "mkfs.ext4": _debian("e2fsprogs", "mkfs.ext4"),
    "mkfs.xfs": _debian("xfsprogs", "mkfs.xfs"),
    "git": _debian("git"),
    "openssl": _debian("openssl"),
    "patch": _debian("patch"),
    "systemd-analyze": Need(_on_path("systemd-analyze"), "apt-get install systemd"),
}

OPTIONAL = ("another user than root", "systemd-analyze")
"""What a build server need not have."""

_MARK = "needs "


def need(name: str, why: str = "") -> None:
    """Skip this test if `name` is missing, or fail it on a build server."""
    wanted = NEEDS[name]
    if not why and wanted.is_there():
        return
    reason = f"{_MARK}{name} ({wanted.install})"
    if os.environ.get("CI", "") not in ("", "0", "false") and name not in OPTIONAL:
        pytest.fail(f"{reason} {why}".rstrip(), pytrace=False)
    pytest.skip(reason)


def summary(skipped: Iterable[pytest.TestReport]) -> str:
    """Return one line with what was missing, how many tests it kept from running, and how to install it."""
    counts: dict[str, int] = {}
    for report in skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        _, mark, missing = reason.partition(_MARK)
        if mark:
            counts[missing] = counts.get(missing, 0) + 1
    return ", ".join(f"{count} without {missing}" for missing, count in sorted(counts.items()))
