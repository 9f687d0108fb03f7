"""The text of a token: `clew_<id>_<secret>`, a form that scanners for secrets and our own redaction know.

The secret has 256 random bits. So a plain hash of it is enough to store, and no list of guesses helps.
"""

from __future__ import annotations

import hmac
import re
import secrets
from string import ascii_letters, digits
from typing import Final, Literal, NamedTuple

from blake3 import blake3

OWN: Final = "own"
"""The id of the token that a server has by itself."""
_PURPOSE: Final = b"clew: a token, 1\0"
_LETTERS: Final = digits + ascii_letters
_BYTES: Final = 32
_LENGTH: Final = 43
"""Letters of 256 bits in base 62."""
_FORM: Final = re.compile(rf"clew_(own|[ts][a-z0-9]{{9}})_([A-Za-z0-9]{{{_LENGTH}}})")

_ANYWHERE: Final = re.compile(rf"clew_([a-z0-9]{{3,16}})_[A-Za-z0-9]{{{_LENGTH}}}".encode())


class Parsed(NamedTuple):
    """A token, taken apart."""

    id: str
    secret: str

    def __repr__(self) -> str:
        return f"<token {self.id}>"


def parsed(text: str) -> Parsed | None:
    """None: it is no token."""
    found = _FORM.fullmatch(text)
    return Parsed(found[1], found[2]) if found else None


def new_id(kind: Literal["t", "s"]) -> str:
    """Of a token or a share: no secret, and not to be guessed either."""
    return kind + "".join(secrets.choice(_LETTERS[:36]) for _ in range(9))


def new_secret(id: str) -> str:
    """The text of a new token with this id."""
    number, letters = int.from_bytes(secrets.token_bytes(_BYTES)), ""
    for _ in range(_LENGTH):
        number, digit = divmod(number, len(_LETTERS))
        letters += _LETTERS[digit]
    return f"clew_{id}_{letters}"


def hash_of(token: str) -> str:
    """What a store keeps of it."""
    return blake3(_PURPOSE + token.encode()).hexdigest()


def is_hash_of(token: str, known: str) -> bool:
    """Whether a token is the one that was kept. It takes as long whether it is or not."""
    return hmac.compare_digest(hash_of(token), known)


def is_same(one: str, other: str) -> bool:
    """Whether two secrets are equal. It takes as long whether they are or not."""
    return hmac.compare_digest(one.encode(), other.encode())


def masked(content: bytes) -> bytes:
    """A text without the secrets of tokens: an error may repeat what it was given in the wrong place."""
    return _ANYWHERE.sub(rb"clew_\1_***", content)
