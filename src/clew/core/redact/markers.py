"""What stands for a secret in a store: its kind and a keyed digest, as `[redacted:github-token:7f3a]`."""

from __future__ import annotations

import re
from typing import Final

from blake3 import blake3

KEY_SIZE: Final = 32
_DIGEST_SIZE: Final = 2
_MARKER: Final = re.compile(rb"\[redacted:[a-z0-9-]{1,40}:[0-9a-f]{4}\]")


def marker_of(kind: str, secret: str, key: bytes) -> str:
    """The same secret has the same marker everywhere in a store; without its key no guess can be tried."""
    return (
        f"[redacted:{kind}:{blake3(secret.encode(errors='surrogatepass'), key=key).hexdigest(_DIGEST_SIZE)}]"
    )


def markers_in(body: bytes) -> set[bytes]:
    """Those that stand for different secrets."""
    return set(_MARKER.findall(body))


def count_markers(body: bytes) -> int:
    """How many secrets were replaced in what is stored."""
    return len(_MARKER.findall(body))
