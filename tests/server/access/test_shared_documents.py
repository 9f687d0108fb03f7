"""A share without secrets looks into the files inside of messages, in whatever form a provider keeps them."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from typing import Any

from clew.server.access.documents import FILE, ShareRedactor
from clew.server.access.shares import add_share
from tests.server.access.requests import Caller, routes, send
from tests.server.conftest import Running
from tests.server.routes.asking import S
from tests.support.rows import each_row

KEY = "sk-ant-api03-" + "a7Bc9" * 18 + "AA"
HIDDEN = "hunter2Xq9Lm"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8
PDF = b"%PDF-1.7\n1 0 obj (" + KEY.encode() + b") endobj\nstream\n\xff\xfe\x00 endstream"


def coded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def forms(content: bytes, media_type: str) -> Iterator[dict[str, Any]]:
    """Messages with a file, as providers and frameworks write them."""
    data = coded(content)
    url = f"data:{media_type};base64,{data}"
    ending = media_type.rpartition("/")[2]
    parts: list[dict[str, Any]] = [
        {
            "type": "document",
            "title": "t",
            "source": {"type": "base64", "media_type": media_type, "data": data},
        },
        {"type": "file", "file": {"filename": f"x.{ending}", "file_data": url}},
        {"type": "file", "file": {"filename": f"x.{ending}", "file_data": data}},
        {"type": "input_file", "filename": f"x.{ending}", "file_data": url},
        {"type": "input_audio", "input_audio": {"data": data, "format": ending}},
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "input_image", "image_url": url},
        {"document": {"format": ending, "name": "x", "source": {"bytes": data}}},
        {"type": "resource", "resource": {"uri": "file:///x", "mimeType": media_type, "blob": data}},
        {"type": "audio", "mimeType": media_type, "data": data},
        {"type": "file", "mediaType": media_type, "data": data},
        {"type": "file", "source_type": "base64", "mime_type": media_type, "data": data},
        {"kind": "binary", "media_type": media_type, "data": data},
        {"type": "text", "text": f"see ![it]({url}) and go on"},
    ]
    for part in parts:
        yield {"role": "user", "content": [{"type": "text", "text": "look"}, part]}
    yield {
        "role": "user",
        "parts": [{"text": "look"}, {"inlineData": {"mimeType": media_type, "data": data}}],
    }
    yield {"role": "user", "parts": [{"inline_data": {"mime_type": media_type, "data": data}}]}
    result = {"type": "tool_result", "tool_use_id": "c", "content": [parts[0]]}
    yield {"role": "user", "content": [result]}
    yield {"type": "function_call_output", "call_id": "c", "output": data}


TEXTS = {
    "text/plain": f"my key is {KEY}\nand no more".encode(),
    "text/markdown": f"# Keys\n\n- `{KEY}`\n- grüße\n".encode(),
    "application/json": json.dumps({"a": [{"password": HIDDEN}], "b": KEY}).encode(),
    "text/x-escaped": ('{"b": "' + "".join(f"\\u{ord(one):04x}" for one in KEY) + '"}').encode(),
    "text/csv": f"name,key\r\nanna,{KEY}\r\n".encode("utf-16"),
    "image/svg+xml": f"<svg><text>{KEY}</text></svg>".encode(),
    "application/pdf": f"a text that says it is a PDF: {KEY}".encode(),
    "image/png": f"a text that says it is a picture: {KEY}".encode(),
    "text/nested": f"data:text/plain;base64,{coded(f'deeper: {KEY}'.encode())}".encode(),
}
FILES = {
    "application/pdf": PDF,
    "audio/wav": b"RIFF\x10\x00\x00\x00WAVEfmt \xff\xfe" + KEY.encode() + bytes(range(256)) * 5,
    "application/zip": b"PK\x03\x04\xff\xfe" + KEY.encode() + bytes(range(256)) * 5,
    "text/plain": gzip.compress(KEY.encode() * 3) + bytes(range(256)) * 5,
    "image/png": PDF,
    "image/tiff": b"II*\x00\xff\xfe" + KEY.encode() + bytes(range(256)) * 5,
}


def told(server: Running, token: str, id: str) -> Iterator[bytes]:
    """All that a share can get."""
    paths = ["", "/entries", "/context", "/summary"]
    paths += [f"/entries?view={view}" for view in ("raw", "blocks", "html", "line")]
    paths += [f"/export?format={format}" for format in ("markdown", "html", "json")]
    with server.client(token) as client:
        entries = client.get(f"{S}/{id}/entries").json()["data"]
        for entry in entries:
            paths += [f"/entries/{entry['id']}?view={view}" for view in ("raw", "blocks", "html")]
            paths += [f"/entries/{entry['id']}/media/{number}" for number in range(2)]
        for path in paths:
            yield client.get(f"{S}/{id}{path}").content
    live = next(route for route in routes() if route.path.endswith("/sessions/{id}/live"))
    for view in ("raw", "blocks", "html"):
        yield send(Caller(server, token), live, f"{S}/{id}/live", query={"after": "start", "view": view}).body


def opened(content: bytes) -> bytes:
    """With all that stands in it as base64, at any depth."""
    found = [content]
    for run in re.findall(rb"[A-Za-z0-9+/_-]{16,}", content.replace(b"\\n", b"").replace(b"\\/", b"/")):
        plain = run.replace(b"-", b"+").replace(b"_", b"/")
        plain = plain[:-1] if len(plain) % 4 == 1 else plain
        inside = base64.b64decode(plain + b"=" * (-len(plain) % 4))
        found.append(opened(inside) if len(run) < 20_000 else inside)
    return b"\n".join((*found, *(one.replace(b"\x00", b"") for one in found)))


@each_row("media_type", list(TEXTS))
def test_a_text_inside_a_message_is_shown_without_its_secrets(server: Running, media_type: str) -> None:
    id = f"of-{media_type.replace('/', '-')}"
    session = server.store.create(id)
    session.append(*forms(TEXTS[media_type], media_type))
    _, token = add_share(server.store, session, at=None)
    everything = list(told(server, token, id))
    for one in everything:
        shown = opened(one)
        assert KEY.encode() not in shown, one[:300]
        assert HIDDEN.encode() not in shown, one[:300]
    assert b"[REDACTED:anthropic-key]" in opened(b"".join(everything))


@each_row("media_type", list(FILES))
def test_a_file_that_is_no_picture_is_left_out_with_a_sign(server: Running, media_type: str) -> None:
    id = f"of-{media_type.replace('/', '-')}"
    session = server.store.create(id)
    session.append(*forms(FILES[media_type], media_type))
    _, token = add_share(server.store, session, at=None)
    _, whole = add_share(server.store, session, at=None, redact=False)
    for one in told(server, token, id):
        assert KEY.encode() not in opened(one), one[:300]
    with server.client(token) as client, server.client(whole) as other:
        entries = client.get(f"{S}/{id}/entries").json()["data"]
        assert [str(one["message"]).count(FILE) for one in entries] == [1] * len(entries)
        for entry in entries:
            assert client.get(f"{S}/{id}/entries/{entry['id']}/media/0").status_code == 404
        assert FILE in client.get(f"{S}/{id}/entries/{entries[0]['id']}?view=html").text
        assert FILE in client.get(f"{S}/{id}/export?format=markdown").text
        kept = other.get(f"{S}/{id}/entries/{entries[0]['id']}/media/0")
        assert kept.content == FILES[media_type], "without redaction all is served"


def test_a_picture_is_shown_as_it_is(server: Running) -> None:
    session = server.store.create("p")
    session.append(*forms(PNG, "image/png"))
    _, token = add_share(server.store, session, at=None)
    with server.client(token) as client:
        entries = client.get(f"{S}/p/entries").json()["data"]
        assert [one["message"] for one in entries] == session.messages()
        assert client.get(f"{S}/p/entries/{entries[0]['id']}/media/0").content == PNG


@each_row(
    "text",
    [
        "word " * 400,
        "\n".join(f"src/clew/server/file-{number}" for number in range(300)),
        "a7" * 32,
        "short",
        "data: this, and nothing else",
        "data:,",
        "",
        "é" * 2000,
        coded(b"this text has no secret in it at all"),
    ],
)
def test_what_is_no_file_and_holds_no_secret_stays_letter_for_letter(text: str) -> None:
    raw = json.dumps({"role": "user", "content": text}).encode()
    assert ShareRedactor().raw(raw, "here") == raw


@each_row("wrapped", ["76", "url", "unpadded", "crlf", "percent"])
def test_base64_is_known_in_all_its_ways(wrapped: str) -> None:
    content = (f"\xff\xfb\xfe key {KEY} " * 3).encode()
    data = {
        "76": base64.encodebytes(content).decode(),
        "url": base64.urlsafe_b64encode(content).decode(),
        "unpadded": coded(content).rstrip("="),
        "crlf": base64.encodebytes(content).decode().replace("\n", "\r\n"),
        "percent": "data:text/plain," + "".join(f"%{byte:02x}" for byte in content),
    }[wrapped]
    for message in ({"output": data}, {"mimeType": "text/plain", "data": data}, {"file_data": data}):
        clean = ShareRedactor().value(message, "here")
        assert clean != message
        assert KEY.encode() not in opened(json.dumps(clean).encode())


def test_a_field_for_a_file_that_holds_a_plain_text_is_read_as_one() -> None:
    for media_type in ("application/pdf", "text/plain", "image/png"):
        message = {"media_type": media_type, "data": f"no base64, but {KEY}"}
        assert KEY not in str(ShareRedactor().value(message, "here"))
        assert KEY not in str(ShareRedactor().value({"url": f"data:{media_type};base64,AAAA {KEY}"}, "here"))


def test_texts_inside_texts_come_to_an_end() -> None:
    content = KEY.encode()
    for _ in range(20):
        content = coded(content).encode()
    clean = ShareRedactor().value({"output": content.decode()}, "here")
    assert KEY.encode() not in opened(json.dumps(clean).encode())
