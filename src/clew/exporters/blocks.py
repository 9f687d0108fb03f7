"""Images and files inside messages: typed parts of OpenAI, Anthropic and MCP.

Dialects that write them in other ways give their media parts such a shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import msgspec

from clew.core.messages.dialects import Dialect, Part, dialect_of
from clew.core.messages.dialects.base import is_blank
from clew.core.messages.dialects.google import typed_in
from clew.model import Entry, Json, Message

RASTER: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Images that hold nothing but a picture. SVG is a program, and is never shown as one."""


LEFT_OUT: Final = "[REDACTED:"
"""No base64 begins so."""


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
    """The media of a part of a message, if it is such a part. In the place of a file that was left out stands
    a sign, which is told with its name."""
    found = _media_of(part)
    if found is None or found.data is None or not found.data.startswith(LEFT_OUT):
        return found
    return Media(found.type, f"{found.name} {found.data}".strip(), None)


def _media_of(part: Json) -> Media | None:
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


# ── A message as blocks for people to read: what was said, thought, called, answered and shown ────
# Nothing of a message is passed over in silence: what its dialect does not know is shown as its JSON.

BlockKind: TypeAlias = Literal["text", "thinking", "call", "result", "media", "data"]

SEALED: Final = "(sealed by the provider)"
"""Instead of reasoning that only its provider can read."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    kind: BlockKind
    text: str = ""
    """Of a call: its arguments; of media: a name, if there is one."""
    name: str | None = None
    """Of a call or a result: the tool."""
    call: str | None = None
    """What a call and its result have in common; also of media that are part of a result."""
    is_error: bool = False
    is_json: bool = False
    media: Media | None = None
    value: Json = None
    """Of a call: its arguments as they stand in the message. Of a result: the hunks of a patch, if known."""
    answers: tuple[Block, ...] = ()
    """Of a call: its result, and the media in it, once `pairs` has put them there."""
    place: str = ""
    """Of such a result: where it stands in the session."""
    seconds: float | None = None
    """Of such a result: how long it took, as the times of the entries say."""


_TAGGED: Final = re.compile(
    r"<(command-name|command-message|command-args|local-command-stdout|local-command-stderr"
    r"|bash-input|bash-stdout|bash-stderr)>([^<]*)</\1>"
)
"""What a program writes of a command that its user gave, and of what it printed, under the user's name."""


def blocks_shown(entry: Entry) -> list[Block]:
    """The blocks of a message as people read them: of a command that a program wrote down, its words."""
    found = blocks_of(entry.message)
    if not entry.injected:
        return found
    return [
        msgspec.structs.replace(block, text=_untagged(block.text)) if block.kind == "text" else block
        for block in found
    ]


def _untagged(text: str) -> str:
    """`/compact` of `<command-name>/compact</command-name>…`; a text with more in it stays as it is."""
    if not text.lstrip().startswith("<") or _TAGGED.sub("", text).strip():
        return text
    said = [words.strip() for tag, words in _TAGGED.findall(text) if tag != "command-message"]
    return " ".join(filter(None, said)) or text


def blocks_of(message: Message) -> list[Block]:
    """In the order in which they stand in the message; without those that say nothing. Of a prompt for which
    the model got more, such as the files that it names, what was typed."""
    dialect = dialect_of(message)
    found: list[Block] = []
    is_displayed = bool(typed_in(message))
    for part in dialect.parts(message):
        if not (is_displayed and part.kind == "text" and part.speaker == "other"):
            found += _shown(dialect, part)
    return found


def _shown(dialect: Dialect, part: Part) -> Iterable[Block]:
    kind, text = part.kind, part.text
    if kind == "text":
        return () if text is None or is_blank(text) else (Block(kind="text", text=text),)
    if kind == "call":
        return (msgspec.structs.replace(_tool(part, "call", *_as_text(part.value)), value=part.value),)
    if kind == "result":
        return _result(dialect, part)
    if kind == "thinking" and part.value is None:
        shown = SEALED if text is None else text
        return () if is_blank(shown) else (Block(kind="thinking", text=shown),)
    if kind == "media" and text is None and (media := media_in(part.value)) is not None:
        return (Block(kind="media", text=media.name, media=media),)
    return (_data(part.value) if text is None else Block(kind="data", text=text),)


def _result(dialect: Dialect, part: Part) -> Iterable[Block]:
    if not isinstance(part.value, list):
        return (_tool(part, "result", *_as_text(part.value)),)
    inside = [block for each in dialect.inside(part) for block in _shown(dialect, each)]
    text = "\n".join(block.text for block in inside if block.kind != "media")
    told = _tool(part, "result", text, False)
    media = (block for block in inside if block.kind == "media")
    return (told, *(msgspec.structs.replace(block, call=told.call, name=told.name) for block in media))


def _tool(part: Part, kind: BlockKind, text: str, is_json: bool) -> Block:
    name, key = (part.call.name, part.call.id) if part.call else (None, None)
    return Block(kind=kind, name=name, text=text, is_json=is_json, call=key, is_error=part.is_error)


def _as_text(value: Json) -> tuple[str, bool]:
    """A value as a text, indented if it is JSON, and whether it is."""
    if value is None:
        return "", False
    if not isinstance(value, str):
        return _indented(value), True
    if value[:1] in "{[" and len(value) < 1_000_000:
        try:
            return _indented(msgspec.json.decode(value)), True
        except msgspec.DecodeError:
            pass
    return value, False


def _data(value: Json) -> Block:
    return Block(kind="data", text=_indented(value), is_json=True)


def _indented(value: Json) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
