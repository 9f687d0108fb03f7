"""JSON and times as Go writes them: an exported file is the one that its program would have written."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Final

from clew.model import Json

ZERO_TIME: Final = "0001-01-01T00:00:00Z"
"""No time at all."""
_FOR_SCRIPTS: Final = {ord("<"): r"\u003c", ord(">"): r"\u003e", ord("&"): r"\u0026"}
_ALWAYS: Final = {0x2028: r"\u2028", 0x2029: r"\u2029"}


def go_json(value: Json, *, pretty: bool = False, html: bool = True) -> bytes:
    """Outside of strings none of the replaced characters is found in JSON."""
    separators = (",", ": ") if pretty else (",", ":")
    text = json.dumps(value, ensure_ascii=False, indent=2 if pretty else None, separators=separators)
    return text.translate({**_ALWAYS, **_FOR_SCRIPTS} if html else _ALWAYS).encode()


def go_time(moment: datetime) -> str:
    """In UTC, without zeros at the end."""
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat()
    return (text.rstrip("0") if "." in text else text) + "Z"


def parse_go_time(text: Json) -> datetime | None:
    """None: no time, or none that is set."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) and text != ZERO_TIME else None
    except ValueError:
        return None
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)
