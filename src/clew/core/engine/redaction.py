"""What a store keeps about secrets: its policy, and the key of its markers.

The policy says where definite secrets are replaced before anything is stored: in what is imported (the
default), in all that comes in, or nowhere. It is a record of the store, so every program that opens the store
goes by it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final, get_args

import msgspec
from blake3 import blake3
from msgspec import Meta

from clew.backends.contract import STORE_WIDE, Reader, Transaction
from clew.core.log.records import decoder
from clew.core.redact.markers import KEY_SIZE
from clew.errors import CorruptError, InvalidError
from clew.model import RedactionPolicy

if TYPE_CHECKING:
    from clew.core.engine.engine import EngineLike
    from clew.core.redact.incoming import Incoming

DEFAULT: Final[RedactionPolicy] = "import"
_POLICIES: Final[tuple[RedactionPolicy, ...]] = get_args(RedactionPolicy)

HexKey = Annotated[str, Meta(pattern=f"^[0-9a-f]{{{2 * KEY_SIZE}}}$")]

_decode_policy = decoder(str, "the record of the redaction policy")
decode_key: Callable[[bytes], str] = decoder(HexKey, "the record of the key of redaction")


def decode_policy(value: bytes) -> RedactionPolicy:
    try:
        return check_policy(_decode_policy(value))
    except InvalidError as error:
        raise CorruptError(f"the record of the redaction policy is damaged: {error}") from error


def policy_of(reader: Reader) -> RedactionPolicy:
    value = reader.get_record(STORE_WIDE, "redaction", "policy")
    return DEFAULT if value is None else decode_policy(value)


def check_policy(policy: str) -> RedactionPolicy:
    for known in _POLICIES:
        if policy == known:
            return known
    raise InvalidError(f"a redaction policy is one of {', '.join(_POLICIES)}, not {policy!r}")


def set_policy(tx: Transaction, policy: RedactionPolicy) -> None:
    """With "all" the key is made too: an append inside a transaction cannot make it."""
    if policy != policy_of(tx):
        tx.put_record(STORE_WIDE, "redaction", "policy", msgspec.json.encode(policy))
    if policy == "all":
        _keep_key(tx, _new_key())


def incoming(engine: EngineLike, *, writes: bool = True) -> Incoming:
    """What definite secrets pass through on their way into this store."""
    from clew.core.redact.incoming import Incoming  # most processes never need it

    return Incoming(_Key(engine, writes=writes))


def of_appends(engine: EngineLike) -> Incoming | None:
    """The same for what callers store; None: the policy leaves that as it is."""
    with engine.read() as reader:
        return incoming(engine) if policy_of(reader) == "all" else None


def secret_of(engine: EngineLike, purpose: str) -> bytes:
    """Derive a secret of this store for one purpose: 32 bytes that never change.

    It follows from the key of the markers, which is made if the store has none. That writes, so call this
    outside of a transaction.
    """
    return blake3(_Key(engine, writes=True)(), derive_key_context=purpose).digest()


class _Key:
    """The key of a store, made when the first secret is found. It must be asked outside of a transaction that
    other callers wait for, because it may have to be written. Without `writes` it is one for this time."""

    def __init__(self, engine: EngineLike, *, writes: bool) -> None:
        self._engine = engine
        self._writes = writes
        self._known: bytes | None = None

    def __call__(self) -> bytes:
        if self._known is None:
            with self._engine.read() as reader:
                value = reader.get_record(STORE_WIDE, "redaction", "key")
            if value is None:
                fresh = _new_key()
                value = self._engine.run(lambda tx: _keep_key(tx, fresh)) if self._writes else fresh
            self._known = bytes.fromhex(decode_key(value))
        return self._known


def _new_key() -> bytes:
    return msgspec.json.encode(secrets.token_hex(KEY_SIZE))


def _keep_key(tx: Transaction, fresh: bytes) -> bytes:
    """The key that the store has; another process may have made one meanwhile."""
    known = tx.get_record(STORE_WIDE, "redaction", "key")
    if known is None:
        tx.put_record(STORE_WIDE, "redaction", "key", fresh)
    return fresh if known is None else known
