"""The sessions of the demo store of which there is most to see."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Final

import clew
from tools.pictures.tale import Clock, Tale

RED, GREEN, BOLD, OFF = "\x1b[31m", "\x1b[32m", "\x1b[1m", "\x1b[0m"

AUTH: Final = '''"""Tokens that a browser keeps for an hour."""

import hmac
import time
from hashlib import sha256

SKEW = 30
SECRET = b"of the tests"


def sign(user: str, issued: str) -> str:
    return hmac.new(SECRET, f"{user}.{issued}".encode(), sha256).hexdigest()


def issue(user: str, now: float) -> str:
    return f"{user}.{now:.0f}.{sign(user, f'{now:.0f}')}"


def is_valid(token: str, now: float | None = None) -> bool:
    user, issued, mac = token.rsplit(".", 2)
    # The clock of the browser may be wrong; ours counts.
    age = (now or time.time()) - float(issued)
    return hmac.compare_digest(mac, sign(user, issued))
'''
SESSION: Final = '''"""The cookie of a browser."""

import time


def seconds_left(sent: float, lasts: float = 3600) -> float:
    return sent + lasts - time.time()
'''
TESTS: Final = """from harbor.auth import is_valid, issue


def test_fresh_token(clock):
    assert is_valid(issue("skipper", now=clock()), now=clock())


def test_expired_token(clock):
    token = issue("skipper", now=clock())
    clock.tick(3601)
    assert not is_valid(token, now=clock())
"""
README: Final = (
    "# harbor\n\nBooks berths for boats, and tells the harbour master who comes in with the tide.\n"
)
HARBOR: Final = {
    "README.md": README,
    "pyproject.toml": '[project]\nname = "harbor"\nversion = "3.2.0"\nrequires-python = ">=3.12"\n',
    "src/harbor/__init__.py": "",
    "src/harbor/auth.py": AUTH,
    "src/harbor/session.py": SESSION,
    "src/harbor/berths.py": "def free(berths: list[int], taken: set[int]) -> list[int]:\n"
    "    return [berth for berth in berths if berth not in taken]\n",
    "tests/test_auth.py": TESTS,
}
POLICY: Final = '''"""How long tokens are good, and for whom."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TokenPolicy:
    lifetime: float = 3600
    skew: float = 30

    def allows(self, age: float) -> bool:
        return -self.skew <= age <= self.lifetime
'''
FAILED: Final = f"""{BOLD}========================== test session starts =============================={OFF}
collected 6 items

tests/test_auth.py {GREEN}.{OFF}{RED}F{OFF}{GREEN}....{OFF}   {RED}[100%]{OFF}

=================================== FAILURES ===================================
{RED}{BOLD}____________________________ test_expired_token ________________________________{OFF}

    def test_expired_token(clock):
        token = issue("skipper", now=clock())
        clock.tick(3601)
>       assert not is_valid(token, now=clock())
{RED}{BOLD}E       AssertionError: assert not True{OFF}

{BOLD}{RED}tests/test_auth.py{OFF}:11: AssertionError
{RED}================== {BOLD}1 failed{OFF}, {GREEN}5 passed{OFF}{RED} in 0.31s =================={OFF}"""
PASSED: Final = f"{GREEN}......{OFF}\n{GREEN}{BOLD}6 passed{OFF} in 0.29s"


def harbor(store: clew.Store, clock: Clock, folder: Path) -> Tale:
    """A fix that went too far, was taken back, and was done again with less; and a fork with a third way."""
    for path, content in HARBOR.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content, "utf-8")
    tale = Tale(
        store, clock, agent="claude-code", model="claude-opus-4-5", project="harbor", name="expired-token",
        title="Let tokens expire", tags=("auth", "starred"), folder=folder,
    )  # fmt: skip
    session = tale.session
    tale.user(
        "`test_expired_token` fails since this morning. "
        "Find out why, and fix it with as **little change** as you can."
    )
    tale.think(
        "A token carries the time when it was issued. I look at how its age is checked before I run anything."
    )
    tale.say("I read the module first, then I run its tests.")
    tale.read("src/harbor/auth.py")
    tale.read("tests/test_auth.py")
    tale.run("pytest -q tests/test_auth.py", f"Exit code 1\n{FAILED}", failed=True)
    tale.say("The age is computed, and then never compared.")
    tale.checkpoint("before the fix")

    tale.say("I put the rules for tokens in a class of their own, so that each client can have others.")
    tale.write("src/harbor/policy.py", POLICY)
    tale.edit(
        "src/harbor/auth.py",
        "def is_valid(token: str, now: float | None = None) -> bool:\n",
        "def is_valid(token: str, now: float | None = None, policy: TokenPolicy = TokenPolicy()) -> bool:\n",
    )
    tale.edit(
        "src/harbor/auth.py",
        "from hashlib import sha256\n",
        "from hashlib import sha256\n\nfrom harbor.policy import TokenPolicy\n",
    )
    tale.edit(
        "src/harbor/auth.py",
        "    return hmac.compare_digest(mac, sign(user, issued))",
        "    return policy.allows(age) and hmac.compare_digest(mac, sign(user, issued))",
    )
    tale.run("pytest -q", PASSED)
    tale.say("Done: `TokenPolicy` decides how long a token is good. All 6 tests pass.")
    tale.checkpoint("with a policy class")
    tale.user("That is a new file and a new class for one missing comparison. Too much.")
    clock.wait(30)
    session.rewind("before the fix", files=True)

    tale.user("One guard is enough: compare the age, nothing else.")
    tale.edit(
        "src/harbor/auth.py",
        "    age = (now or time.time()) - float(issued)\n",
        "    age = (now or time.time()) - float(issued)\n"
        "    if not -SKEW <= age <= 3600:\n        return False\n",
    )
    tale.run("pytest -q", PASSED)
    tale.run("git diff --stat", " src/harbor/auth.py | 2 ++\n 1 file changed, 2 insertions(+)")
    tale.say(
        "Fixed with one guard. A token is good for one hour, give or take the skew:\n\n"
        "```python\nif not -SKEW <= age <= 3600:\n    return False\n```\n\n"
        "| age | before | now |\n|---|---|---|\n| 10 s | valid | valid |\n| 3,601 s | **valid** | refused |\n"
        "| −31 s | **valid** | refused |"
    )
    tale.checkpoint("one guard")
    _other_places(store, clock, tale)
    tale.user("This is what the form looks like after an hour. Is the message clear?", image=_form())
    tale.say(
        "It says *what* happened, but not what to do. I would write:\n\n"
        "> Your sign-in has ended. Sign in again to go on.\n\n"
        "The contrast of the grey line is 4.6 : 1, which is enough."
    )
    tale.checkpoint("done")
    session.complete()
    _third_way(store, tale)
    return tale


def _other_places(store: clew.Store, clock: Clock, tale: Tale) -> None:
    """A subagent looks for them."""
    prompt = (
        "Find other places in src/ that compare times with the clock of the browser. Report files and lines."
    )
    found = (
        "Two places:\n\n1. `src/harbor/session.py:7`, the cookie\n2. `src/harbor/audit.py:88`, only for logs"
    )
    tale.user("Are there other places like this?")
    told = {"description": "Find uses of browser time", "prompt": prompt, "subagent_type": "Explore"}
    call = tale.call("Task", told, None)
    child = Tale(
        store, clock, agent="claude-code", model="claude-haiku-4-5", project="harbor", name="other-places",
        title="Find uses of browser time", parent=tale, call=call,
    )  # fmt: skip
    child.user(prompt)
    child.call(
        "Grep",
        {"pattern": r"time\.time\(\)", "path": "src", "output_mode": "content"},
        "src/harbor/auth.py:21:    age = (now or time.time()) - float(issued)\n"
        "src/harbor/session.py:7:    return sent + lasts - time.time()\n"
        "src/harbor/audit.py:88: at=time.time()",
    )
    child.say(found)
    child.session.complete()
    tale.session.append(
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": found}]}
    )
    tale.edit(
        "src/harbor/session.py",
        "    return sent + lasts - time.time()",
        "    return max(0.0, sent + lasts - time.time())",
    )
    tale.say("Only `session.py` matters. It has the same guard now; the log may show any time.")


def _third_way(store: clew.Store, tale: Tale) -> None:
    """A fork from before the fix, in which the check is done somewhere else."""
    _files_of(store, tale, "before the fix")
    other = tale.fork("before the fix")
    other.session.update(title="Let tokens expire: in the middleware", tags=["auth"])
    other.user("Try it in the middleware instead: a token that is too old never reaches a handler.")
    other.write(
        "src/harbor/middleware.py",
        '"""What every request passes."""\n\nfrom harbor.auth import SKEW\n\n\n'
        "def is_too_old(age: float) -> bool:\n    return not -SKEW <= age <= 3600\n",
    )
    other.run("pytest -q", f"Exit code 1\n{FAILED}", failed=True)
    other.say(
        "The test calls `is_valid` itself, so the middleware does not help it. "
        "The guard in `auth.py` is the better place."
    )
    other.checkpoint("middleware")
    other.session.complete()
    _files_of(store, tale, "done")


def _files_of(store: clew.Store, tale: Tale, name: str) -> None:
    """Bring back what the folder held at a checkpoint."""
    snapshot = tale.session.get_checkpoint(name).snapshot
    assert snapshot is not None
    store.restore(snapshot, tale.folder)


def _form() -> str:
    """A picture of a form, as base64."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (420, 190), "#f6f8fa")
    draw = ImageDraw.Draw(image)
    draw.rounded_rectangle((20, 16, 400, 174), 8, fill="#ffffff", outline="#d0d7de")
    draw.text((40, 34), "Harbor", fill="#1f2328", font_size=20)
    draw.text((40, 68), "Your token has expired.", fill="#cf222e", font_size=15)
    draw.rounded_rectangle((40, 98, 380, 126), 5, fill="#ffffff", outline="#8c959f")
    draw.text((50, 103), "Token", fill="#8c959f", font_size=14)
    draw.rounded_rectangle((40, 136, 128, 162), 5, fill="#1f883d")
    draw.text((60, 140), "Sign in", fill="#ffffff", font_size=14)
    file = io.BytesIO()
    image.quantize(64).save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode()


def running(store: clew.Store, clock: Clock) -> Tale:
    """A session that works while one looks at it, with a summary and two subagents."""
    tale = Tale(
        store, clock, agent="claude-code", model="claude-sonnet-4-5", project="tidepool", name="calendar",
        title="Move bookings to the new calendar", tags=("calendar",),
    )  # fmt: skip
    tale.user("Move the list of bookings to the new calendar API. Keep the old one until all tests pass.")
    tale.call(
        "Glob", {"pattern": "src/**/*.ts"}, "src/api/bookings.ts\nsrc/api/calendar.ts\nsrc/pages/Bookings.tsx"
    )
    tale.run("npm test -- --run", f"{GREEN}✓{OFF} 41 tests\n{GREEN}{BOLD}41 passed{OFF} in 3.2s")
    tale.work(18, 120_000)
    tale.say("`src/api/calendar.ts` has the new calls. Both are tested side by side.")
    tale.session.compact(
        "The new calls are in `src/api/calendar.ts`, with 41 tests. The page still uses the old ones.",
        tokens=151_000,
    )
    tale.user("Good. Now the page, and look for other users of the old API.")
    todos = [
        ("Find users of the old API", "in_progress"),
        ("Move the page", "in_progress"),
        ("Remove the old calls", "pending"),
    ]
    tale.call(
        "TodoWrite",
        {"todos": [{"content": text, "status": status, "activeForm": text} for text, status in todos]},
        "Todos have been modified successfully.",
    )
    jobs = (
        (
            "Find users of the old API",
            "List every import of src/api/bookings.",
            "Three: `Bookings.tsx`, `Export.tsx`, `Print.tsx`.",
        ),
        (
            "Move the page to the new API",
            "Change src/pages/Bookings.tsx to the calls of src/api/calendar.ts.",
            None,
        ),
    )
    for title, prompt, answer in jobs:
        told = {"description": title, "prompt": prompt, "subagent_type": "general-purpose"}
        call = tale.call("Task", told, None)
        child = Tale(
            store, clock, agent="claude-code", model="claude-haiku-4-5", project="tidepool", name=title,
            title=title, parent=tale, call=call,
        )  # fmt: skip
        child.user(prompt)
        child.run(
            "rg -l api/bookings src", "src/pages/Bookings.tsx\nsrc/pages/Export.tsx\nsrc/pages/Print.tsx"
        )
        if answer is None:
            child.call("Read", {"file_path": "src/pages/Bookings.tsx"}, "export function Bookings() { … }")
            child.session.start()
            continue
        child.say(answer)
        child.session.complete()
        result = {"type": "tool_result", "tool_use_id": call, "content": answer}
        tale.session.append({"role": "user", "content": [result]})
    tale.session.start()
    return tale


def image_size(store: clew.Store, clock: Clock) -> None:
    """Codex, with a patch, and a disk that was full."""
    tale = Tale(
        store, clock, agent="codex", model="gpt-5-codex", project="lighthouse", name="image-size",
        title="Make the image smaller", tags=("deploy",),
    )  # fmt: skip
    tale.user("Make the image of the lamp service smaller. It has 1.2 GB!")
    tale.think("**Looking at the layers first**")
    tale.run(
        "docker history lamp | head -3",
        "IMAGE   CREATED BY    SIZE\n3f1c…   pip install   911MB\n9a20…   COPY . /app   214MB",
    )
    patch = (
        "*** Begin Patch\n*** Update File: deploy/Dockerfile\n@@\n FROM python:3.13-slim\n"
        "-RUN pip install -r requirements.txt\n+COPY requirements.lock .\n"
        "+RUN pip install --no-cache-dir -r requirements.lock\n COPY . /app\n"
        "*** Add File: deploy/.dockerignore\n+.git\n+.venv\n*** End Patch"
    )
    done = "Success. Updated the following files:\nM deploy/Dockerfile\nA deploy/.dockerignore"
    tale.call("apply_patch", {"patch": patch}, done)
    tale.run("docker build -t lamp .", "ERROR: failed to solve: no space left on device\n", failed=True)
    tale.say(
        "The patch is in. The build failed, because **the disk is full**: free some space and build again."
    )
    tale.session.fail("docker build: no space left on device")


def tides(store: clew.Store, clock: Clock) -> None:
    """Gemini reads a table."""
    tale = Tale(
        store, clock, agent="gemini-cli", model="gemini-2.5-pro", project="almanac", name="tides",
        title="Read the tables of tides", tags=("data",),
    )  # fmt: skip
    tale.user("The tables of tides come as text with columns. Write a parser that says which line is wrong.")
    tale.call(
        "read_file",
        {"absolute_path": "/home/ada/projects/almanac/data/2026-11.txt"},
        "01 04:12 3.9\n01 10:31 0.7\n01 16:40 4.1",
    )
    tale.run("python -m almanac.read data/2026-11.txt", "120 lines, 0 wrong")
    tale.say("`almanac.read` reads a month in 2 ms, and names the line and the column of the first error.")
    tale.session.complete()


def certificates(store: clew.Store, clock: Clock) -> None:
    """A worker that was cut off in the middle of its work."""
    tale = Tale(
        store, clock, agent="claude-code", model="claude-sonnet-4-5", project="lighthouse",
        name="certificates", title="Renew the certificates of staging",
    )  # fmt: skip
    tale.user("Renew the certificates of staging, one host after the other, and check each.")
    tale.run("certbot renew --cert-name lamp-1", "Congratulations, all renewals succeeded.")
    tale.say("lamp-1 is done. Next is lamp-2.")
    run = tale.session.run(lease=5, detached=True)
    run.checkpoint(iteration=1, state={"host": "lamp-2"})
    clock.wait(60)
    store.interrupted()
