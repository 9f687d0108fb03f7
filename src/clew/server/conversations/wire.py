"""The types of the Conversations API, as OpenAI's clients send and read them."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from clew.model import Json
from clew.server.conversations.items import KINDS, PARTS, ROLES

MOST_ITEMS: Final = 20
"""Of one request."""

Metadata: TypeAlias = Annotated[
    dict[Annotated[str, msgspec.Meta(max_length=64)], Annotated[str, msgspec.Meta(max_length=512)]],
    msgspec.Meta(max_length=16, description="At most 16 pairs of texts."),
]
Order: TypeAlias = Literal["asc", "desc"]
Include: TypeAlias = Literal[
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
]

_PART: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"type": {"enum": sorted(PARTS)}},
    "required": ["type"],
}
_MESSAGE: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "type": {"const": "message"},
        "role": {"enum": sorted(ROLES)},
        "content": {"anyOf": [{"type": "string"}, {"type": "array", "items": _PART}]},
    },
    "required": ["role", "content"],
}
_OTHERS: Final[list[Json]] = [
    {
        "type": "object",
        "properties": {"type": {"const": name}},
        "required": ["type", *kind.required],
    }
    for name, kind in KINDS.items()
    if name != "message"
]
Item: TypeAlias = Annotated[
    dict[str, Json],
    msgspec.Meta(
        title="Item",
        description="An item as OpenAI's Responses API has it: a message, a call, an output, a thought.",
        extra_json_schema={"anyOf": [_MESSAGE, *_OTHERS]},
    ),
]
Items: TypeAlias = Annotated[list[Item], msgspec.Meta(max_length=MOST_ITEMS)]


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation: a session of the store."""

    id: str
    object: Literal["conversation"] = "conversation"
    created_at: int
    """In seconds since 1970."""
    metadata: dict[str, str]
    """The texts in the metadata of the session, without the name of its framework."""


class DeletedConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation that was put in the trash of the store."""

    id: str
    object: Literal["conversation.deleted"] = "conversation.deleted"
    deleted: bool = True


class ItemList(msgspec.Struct, frozen=True, kw_only=True):
    """Some items of a conversation."""

    object: Literal["list"] = "list"
    data: list[dict[str, Json]]
    first_id: str | None
    last_id: str | None
    """Pass it as `after` for the next page."""
    has_more: bool


class NewConversation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conversation to be made."""

    items: Items | None = None
    """The first items; at most 20."""
    metadata: Metadata | None = None


class ChangedConversation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of a conversation."""

    metadata: Metadata | None
    """Replaces the pairs that are there; null: none."""


class NewItems(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Items to be added at the end."""

    items: Items
    """At most 20."""


class Included(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"listed": "include[]"}
):
    """Which parts of items to show. They are all shown: the store never leaves something out."""

    include: tuple[Include, ...] = ()
    """Is taken for the sake of clients, and changes nothing."""
    listed: tuple[Include, ...] = ()
    """The same, as OpenAI's own clients write it."""


class ItemsQuery(Included, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which items to list."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20
    """How many at most."""
    order: Order = "desc"
    """Newest first, or `asc`: oldest first."""
    after: str | None = None
    """Only those that come after the item of this id, in this order."""
