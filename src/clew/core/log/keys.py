"""How idempotency keys are stored: as hashes, because a key may hold what is nobody else's business."""

from __future__ import annotations

import re
from typing import Final

from blake3 import blake3

from clew.core.log.records import LOAD_STATE

HASHED: Final = "clew key "
"""How the ids of events and model calls begin that follow from an Idempotency-Key of a request. They are not
shown: nobody gave them."""
LOADED: Final = LOAD_STATE.removesuffix("state")
"""How the names of records begin by which an import finds its entries again. They are no keys of callers."""
_NAME: Final = re.compile(r"#[0-9a-f]{32}")
_TAG: Final = b"clewkey1"
_BYTES: Final = 16
_OF_TOKEN: Final = re.compile(r"t(?=[a-z]*[0-9])[a-z0-9]{9}:.")


def key_name(key: str) -> str:
    """The name of the record of an idempotency key. It needs no secret, so that a session that is copied to
    another store is found by its keys there too."""
    return "#" + blake3(_TAG + key.encode()).hexdigest(length=_BYTES)


def hashed_name(name: str) -> str:
    """The name of a record of a key as it is stored now; older versions stored the key itself."""
    return name if name.startswith(LOADED) or _NAME.fullmatch(name) else key_name(name)


def is_from_key(id: str) -> bool:
    """Whether the id of an event or a model call was made from an Idempotency-Key. Older versions put the id
    of the token in front of the key itself; an owner's key stood alone, and cannot be told from an id."""
    return id.startswith(HASHED) or _OF_TOKEN.match(id) is not None


def shareable_id(id: str | None) -> str | None:
    """The id of an event or a model call as it may leave the store: without the keys that older versions put
    into it."""
    return None if id is None or _OF_TOKEN.match(id) else id


def given_id(id: str | None) -> str | None:
    """The id of an event or a model call as a caller gave it; None: it was made from a key."""
    return None if id is None or is_from_key(id) else id
