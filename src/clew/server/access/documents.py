"""What a share without secrets shows of the files inside of messages.

A file stands in a message as base64. The rules for secrets read texts: so a text is decoded for them and
encoded again, and a picture, which holds no text, stays as it is. All other files are left out, with a sign
in their place: a PDF, an archive or a recording has its words in ways that no rule reads. It is the content
that counts, not what a message says of it; and where a provider puts it does not matter either.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote_to_bytes

import msgspec

from clew.core.redact.redactor import Redactor
from clew.errors import CorruptError
from clew.model import Json

KIND: Final = "file"
FILE: Final = f"[REDACTED:{KIND}]"
"""Stands for a file that is left out."""

SHORTEST: Final = 16
"""Letters of base64 in which a secret may be."""
LONGEST: Final = 1000
"""Letters of base64 that are a file, whatever their field is called."""
NARROWEST: Final = 60
"""Letters of a line into which programs break base64."""

_PICTURES: Final = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")
_PDF: Final = b"%PDF-"
_FILES: Final = (
    _PDF, b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf", b"Rar!",
    b"RIFF", b"ID3", b"OggS", b"fLaC", b"\x1aE\xdf\xa3", b"II*\x00", b"MM\x00*", b"SQLite format 3\x00",
    b"\xd0\xcf\x11\xe0",
)  # fmt: skip
"""How documents, archives, recordings, databases and other pictures begin."""
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_FOR_FILES: Final = frozenset({"b64_json", "base64", "blob", "bytes", "fileData", "file_data"})
"""Fields that hold a file, whatever stands beside them,"""
_DATA: Final = "data"
"""and one that does if the object says of which type it is."""
_TYPES: Final = ("contentType", "content_type", "format", "mediaType", "media_type", "mimeType", "mime_type")
_SEALED: Final = frozenset(
    {"encryptedContent", "encrypted_content", "signature", "thoughtSignature", "thought_signature"}
)
"""Fields that only a provider reads. They may be long, and are no files."""

_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]++={0,2}+")
_URL: Final = re.compile(
    r"data:(?P<head>[^,\s]{0,200}?);base64,(?P<data>[A-Za-z0-9+/_%-]++={0,2}+)", re.IGNORECASE
)
"""A file inside of a text, as in Markdown."""
_SPACES: Final = re.compile(r"\s++")


class ShareRedactor(Redactor):
    """Replaces secrets, also in texts that stand in messages as base64, and leaves out other files than
    pictures."""

    def text(self, text: str, place: str) -> str:
        """A text, and the files in it."""
        if "base64," in text:
            text = _URL.sub(lambda found: self._address(found["head"], found["data"], place), text)
        return super().text(text, place)

    def value(self, value: Json, place: str, name: str = "") -> Json:
        return super().value(self._without_files(value, place, name, {}), place, name)

    def raw(self, raw: bytes, place: str, name: str = "") -> bytes:
        try:
            value = msgspec.json.decode(raw)
        except msgspec.MsgspecError as error:
            raise CorruptError(f"{place} cannot be read to look for secrets: {error}") from error
        clean = self._without_files(value, place, name, {})
        return super().raw(raw if clean == value else msgspec.json.encode(clean), place, name)

    def uncounted(self) -> ShareRedactor:
        return ShareRedactor()

    # -- files

    def _without_files(self, value: Json, place: str, name: str, holder: Mapping[str, Json]) -> Json:
        if isinstance(value, str):
            return value if len(value) < SHORTEST else self._field(value, place, name, holder)
        if isinstance(value, list):
            return [self._without_files(one, place, name, holder) for one in value]
        if isinstance(value, dict):
            return {key: self._without_files(one, place, key, value) for key, one in value.items()}
        return value

    def _field(self, text: str, place: str, name: str, holder: Mapping[str, Json]) -> str:
        """One text of a message."""
        is_file = name in _FOR_FILES or (name == _DATA and any(kind in holder for kind in _TYPES))
        if text[:5].lower() == "data:":
            head, comma, data = text[5:].partition(",")
            if head[-7:].lower() == ";base64":
                return self._address(head[:-7], data, place)
            return self._plain_address(text[: 5 + len(head + comma)], data, place) if comma else text
        is_long = len(text) >= LONGEST and name not in _SEALED
        content = _decoded(text, is_loose=is_file)
        if content is None:
            return self._text_of_file(text, place) if is_file else text
        clean = self._content(content, place)
        if clean is None and (is_file or _looks_like_file(content) or is_long):
            return self._left_out(place)
        return text if clean is None or clean == content else base64.b64encode(clean).decode()

    def _address(self, head: str, data: str, place: str) -> str:
        """A file as a `data:` address."""
        content = _decoded(unquote_to_bytes(data).decode("latin-1") if "%" in data else data, is_loose=True)
        clean = None if content is None else self._content(content, place)
        if clean is None:
            data = self._left_out(place)
        elif clean != content:
            data = base64.b64encode(clean).decode()
        return f"data:{head};base64,{data}"

    def _plain_address(self, head: str, data: str, place: str) -> str:
        """The same for one whose content is percent-encoded."""
        content = unquote_to_bytes(data.encode(errors="replace"))
        clean = self._content(content, place)
        if clean is None:
            return head + self._left_out(place)
        return head + (data if clean == content else quote(clean))

    def _text_of_file(self, text: str, place: str) -> str:
        """What stands in the field of a file and is not encoded."""
        clean = self._content(text.encode(errors="replace"), place)
        return self._left_out(place) if clean is None else clean.decode(errors="replace")

    def _left_out(self, place: str) -> str:
        self._note(KIND, place, is_possible=False)
        return FILE

    def _content(self, content: bytes, place: str) -> bytes | None:
        """A file without secrets; None: it can be neither read nor shown as it is."""
        if not content.startswith(_PDF):
            for coding in ("utf-16",) if content.startswith(_UTF_16) else ("utf-8",):
                try:
                    text = content.decode(coding)
                except UnicodeDecodeError:
                    continue
                if "\x00" not in text:
                    clean = self._document(text, place)
                    return content if clean == text else clean.encode(coding, errors="replace")
        is_picture = content.startswith(_PICTURES) or (content[:4], content[8:12]) == (b"RIFF", b"WEBP")
        return content if is_picture else None

    def _document(self, text: str, place: str) -> str:
        if text.lstrip()[:1] in ("{", "["):
            try:
                return self.raw(text.encode(), place).decode()
            except (CorruptError, RecursionError):
                pass  # not all of it is JSON
        clean = self._without_files(text, place, "", {})
        return self.text(clean, place)


def _looks_like_file(content: bytes) -> bool:
    return content.startswith(_FILES) or content[4:8] == b"ftyp"


def _lines(text: str) -> list[str]:
    """The lines of a text, if it may be base64: all but the last have one length."""
    lines = text.splitlines()
    width = len(lines[0]) if lines else 0
    is_even = all(len(line) == width for line in lines[:-1]) and all(
        len(line) <= width for line in lines[-1:]
    )
    return lines if len(lines) == 1 or (is_even and width >= NARROWEST) else []


def _decoded(text: str, *, is_loose: bool) -> bytes | None:
    """What a text says in base64; None: it is none. `is_loose`: with any spaces in it. Else it is one line,
    or lines of one length, as programs break them: a list of words is no base64."""
    plain = _SPACES.sub("", text) if is_loose else "".join(_lines(text))
    if _BASE64.fullmatch(plain) is None:
        return None
    plain = plain.rstrip("=").replace("-", "+").replace("_", "/")
    if len(plain) % 4 == 1:
        return None
    return base64.b64decode(plain + "=" * (-len(plain) % 4))
