"""The page for people: every view of it is the same document, and its script reads the address.

`web/` holds its sources, `bundle/` what is built of them: a checkout works without Node. It has no style and
no script but its own files, loads nothing from elsewhere, and cannot be put into a frame. Markup of messages
comes from the server, cleaned, and enters the document through one policy of Trusted Types.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Final

from clew.server.call import Answer, Call
from clew.server.routing import Routes

routes = Routes(prefix="")

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:;"
    " manifest-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script';"
    " trusted-types clew"
)
HTML: Final = "text/html; charset=utf-8"
SCRIPT: Final = "text/javascript; charset=utf-8"
STYLE: Final = "text/css; charset=utf-8"
TEXT: Final = "text/plain; charset=utf-8"
PICTURE: Final = "image/svg+xml"
MANIFEST: Final = "application/manifest+json"


@routes.get("/", scope=None, private=True, media_type=HTML)
async def home(call: Call) -> Answer:
    """The list of sessions."""
    return _document(call)


@routes.get("/s/{id}", scope=None, private=True, media_type=HTML)
async def session(call: Call, id: str) -> Answer:
    """A session. Whether there is one is told by the API, to those who may know."""
    return _document(call)


@routes.get("/compare", scope=None, private=True, media_type=HTML)
async def compare(call: Call) -> Answer:
    """Two branches or sessions side by side."""
    return _document(call)


@routes.get("/usage", scope=None, private=True, media_type=HTML)
async def usage(call: Call) -> Answer:
    """What all sessions have used."""
    return _document(call)


@routes.get("/app.js", scope=None, private=True, media_type=SCRIPT)
async def script(call: Call) -> Answer:
    """The script of the page."""
    return _own(_read("bundle/app.js"))


@routes.get("/later.js", scope=None, private=True, media_type=SCRIPT)
async def later(call: Call) -> Answer:
    """What the script loads when it is first looked at."""
    return _own(_read("bundle/later.js"))


@routes.get("/app.css", scope=None, private=True, media_type=STYLE)
async def style(call: Call) -> Answer:
    """The style of the page."""
    return _own(_read("bundle/app.css"))


@routes.get("/licences.txt", scope=None, private=True, media_type=TEXT)
async def licences(call: Call) -> Answer:
    """The licences of what is in the script."""
    return _own(_read("bundle/licences.txt"))


@routes.get("/icon.svg", scope=None, private=True, media_type=PICTURE)
async def icon(call: Call) -> Answer:
    """The sign of the page in tabs."""
    return _own(_read("icon.svg"))


@routes.get("/manifest.webmanifest", scope=None, private=True, media_type=MANIFEST)
async def manifest(call: Call) -> Answer:
    """What a browser needs to install the page as an app. Its addresses are beside its own."""
    return _own(_read("manifest.webmanifest"))


def _document(call: Call) -> Answer:
    return _own(_read("index.html").replace(b"@ROOT@", escape(call.url("")).encode()))


def _own(content: bytes) -> Answer:
    """A browser asks whether its copy is still the same: a new version of Clew shows at once."""
    tag = f'"{sha256(content).hexdigest()[:24]}"'
    headers = {"content-security-policy": POLICY, "cache-control": "private, no-cache"}
    return Answer(value=content, headers=headers, etag=tag)


@cache
def _read(name: str) -> bytes:
    return files(__name__).joinpath(name).read_bytes()
