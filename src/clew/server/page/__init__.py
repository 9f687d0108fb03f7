"""The page for people at `/`: it signs a browser in, and shows the newest sessions as plain text.

It has no style and no script but its own files, loads nothing from elsewhere, and cannot be put into a frame.
"""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files
from typing import Final

from clew.server.call import Answer, Call
from clew.server.routing import Routes

routes = Routes(prefix="")

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script';"
    " trusted-types 'none'"
)
HTML: Final = "text/html; charset=utf-8"
SCRIPT: Final = "text/javascript; charset=utf-8"
STYLE: Final = "text/css; charset=utf-8"


@routes.get("/", scope=None, private=True, media_type=HTML)
async def index(call: Call) -> Answer:
    """The page."""
    content = _read("index.html").replace(b"@ROOT@", escape(call.url("")).encode())
    return _own(content)


@routes.get("/page.js", scope=None, private=True, media_type=SCRIPT)
async def script(call: Call) -> Answer:
    """Its script."""
    return _own(_read("page.js"))


@routes.get("/page.css", scope=None, private=True, media_type=STYLE)
async def style(call: Call) -> Answer:
    """Its style."""
    return _own(_read("page.css"))


def _own(content: bytes) -> Answer:
    return Answer(value=content, headers={"content-security-policy": POLICY})


@cache
def _read(name: str) -> bytes:
    return files(__name__).joinpath(name).read_bytes()
