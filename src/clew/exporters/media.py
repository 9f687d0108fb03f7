"""Images and files inside messages: typed parts of OpenAI, Anthropic and MCP.

Dialects that write them in other ways give their media parts such a shape.
"""

from __future__ import annotations

from typing import Final

import msgspec

from clew.model import Json

RASTER: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Images that hold nothing but a picture. SVG is a program, and is never shown as one."""


class Media(msgspec.Struct, frozen=True):
    type: str
    """As `image/png`; empty when the message does not say."""
    name: str
    data: str | None
    """Base64; None: it lies elsewhere."""
    url: str | None = None

    @property
    def size(self) -> int | None:
        return None if self.data is None else len(self.data) * 3 // 4


def media_in(part: Json) -> Media | None:
    """The media of a part of a message, if it is such a part."""
    if isinstance(part, str):
        return _of_url(part, "image") if part.startswith(("data:", "http:", "https:")) else None
    if not isinstance(part, dict):
        return None
    name = _text(part, "filename", "title", "name")
    for field in ("source", "file_data", "input_audio", "file"):
        if isinstance(inner := part.get(field), dict):
            return _of_source(inner, name or _text(inner, "filename"), part)
    for field in ("image_url", "audio_url", "video_url", "file_data", "url", "image"):
        value = part.get(field)
        value = value.get("url") if isinstance(value, dict) else value
        if isinstance(value, str) and value:
            return _of_url(value, name or field.removesuffix("_url").removesuffix("_data"))
    if isinstance(part.get("data"), str):
        return _of_source(part, name, part)
    return Media("", name or _text(part, "type"), None) if part.get("type") else None


def _of_source(source: dict[str, Json], name: str, part: dict[str, Json]) -> Media:
    kind = _text(source, "media_type", "mimeType", "mime_type") or _text(part, "media_type", "mimeType")
    data = source.get("data", source.get("file_data"))
    url = _text(source, "url", "file_id") or None
    if isinstance(data, str) and data.startswith("data:"):
        return _of_url(data, name)
    return Media(kind, name or _text(part, "type") or "file", data if isinstance(data, str) else None, url)


def _of_url(url: str, name: str) -> Media:
    if not url.startswith("data:"):
        return Media("", name, None, url)
    head, _, data = url.partition(",")
    kind = head.removeprefix("data:").partition(";")[0]
    return Media(kind, name, data if head.endswith(";base64") else None)


def _text(holder: dict[str, Json], *fields: str) -> str:
    return next((holder[field] for field in fields if isinstance(holder.get(field), str)), "")
