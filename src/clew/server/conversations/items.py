"""The items of OpenAI's Responses API: which kinds there are, and what OpenAI's server adds to what comes in.

An item is kept as it came, with an id, a status and a list of parts where it has none, because OpenAI's
clients expect them. Nothing is ever taken out of it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from blake3 import blake3

from clew.model import Entry, Json, Message
from clew.server.problems import Problem

ID_BYTES: Final = 24
MOST_OF_AN_ID: Final = 256
_ID: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{MOST_OF_AN_ID}}}")
NO_IDS: Final = frozenset({"", "__fake_id__"})
"""What the Agents SDK writes where a model gave no id."""
BY_PLACE: Final = re.compile(r"[a-z]+_clew_(.+)", re.DOTALL)
"""The id of an item that has none of its own: the kind, and the id of the entry."""

ROLES: Final = frozenset(
    {"unknown", "user", "assistant", "system", "critic", "discriminator", "developer", "tool"}
)
PARTS: Final = frozenset(
    {
        "input_text",
        "output_text",
        "text",
        "summary_text",
        "reasoning_text",
        "refusal",
        "input_image",
        "computer_screenshot",
        "input_file",
    }
)


class Kind(NamedTuple):
    """A kind of item."""

    prefix: str
    """Of the ids that OpenAI gives to these items."""
    required: tuple[str, ...] = ()
    """Fields without which an item of this kind is refused."""
    filled: Mapping[str, Json] = {"status": "completed"}
    """What OpenAI's clients expect to find, and callers need not give."""


NO_STATUS: Final[Mapping[str, Json]] = {}
BY_CLIENT: Final[Mapping[str, Json]] = {"status": "completed", "execution": "client"}

KINDS: Final[Mapping[str, Kind]] = {
    "message": Kind("msg", ("role", "content")),
    "function_call": Kind("fc", ("arguments", "call_id", "name")),
    "function_call_output": Kind("fco", ("output",)),
    "reasoning": Kind("rs", ("summary",), NO_STATUS),
    "file_search_call": Kind("fs", ("queries",)),
    "web_search_call": Kind("ws", ("action",)),
    "image_generation_call": Kind("ig"),
    "computer_call": Kind("cu", ("call_id",), {"status": "completed", "pending_safety_checks": ()}),
    "computer_call_output": Kind("cuo", ("call_id", "output")),
    "code_interpreter_call": Kind("ci", ("container_id",)),
    "local_shell_call": Kind("lsh", ("action", "call_id")),
    "local_shell_call_output": Kind("lsho", ("output",), NO_STATUS),
    "shell_call": Kind("sh", ("action", "call_id")),
    "shell_call_output": Kind("sho", ("call_id", "output")),
    "apply_patch_call": Kind("apc", ("call_id", "operation")),
    "apply_patch_call_output": Kind("apco", ("call_id",)),
    "tool_search_call": Kind("tsc", ("arguments",), BY_CLIENT),
    "tool_search_output": Kind("tso", ("tools",), BY_CLIENT),
    "additional_tools": Kind("at", ("role", "tools"), NO_STATUS),
    "configuration_update": Kind("cfg", (), NO_STATUS),
    "compaction": Kind("cmp", ("encrypted_content",), NO_STATUS),
    "mcp_list_tools": Kind("mcpl", ("server_label", "tools"), NO_STATUS),
    "mcp_approval_request": Kind("mcpr", ("arguments", "name", "server_label"), NO_STATUS),
    "mcp_approval_response": Kind("mcpa", ("approval_request_id", "approve"), NO_STATUS),
    "mcp_call": Kind("mcp", ("arguments", "name", "server_label"), NO_STATUS),
    "custom_tool_call": Kind("ctc", ("call_id", "input", "name"), NO_STATUS),
    "custom_tool_call_output": Kind("ctco", ("call_id", "output"), NO_STATUS),
    "program": Kind("prog", ("call_id", "code", "fingerprint"), NO_STATUS),
    "program_output": Kind("progo", ("call_id", "result")),
}


def new_id(prefix: str, *told: str | None) -> str:
    """An id as OpenAI makes them. The same for the same texts; at random if one of them is missing."""
    if None in told or not told:
        return f"{prefix}_{secrets.token_hex(ID_BYTES)}"
    text = b"".join(b"%d:%s" % (len(part), part) for part in (str(one).encode() for one in told))
    return f"{prefix}_{blake3(text).hexdigest(length=ID_BYTES)}"


# -- what comes in


def taken(items: Sequence[Mapping[str, Json]], *named: str | None) -> list[dict[str, Json]]:
    """Items as they are kept. `named` tells the request from all others: its repeats make the same ids."""
    return [_taken(item, f"items[{at}]", (*named, str(at))) for at, item in enumerate(items)]


def given_ids(items: Sequence[Mapping[str, Json]]) -> list[str]:
    """The ids that a client gave to its items."""
    return [item["id"] for item in items if item.get("id") is not None and item["id"] not in NO_IDS]


def _taken(item: Mapping[str, Json], place: str, named: tuple[str | None, ...]) -> dict[str, Json]:
    name = _kind_of(item, place)
    kind = KINDS[name]
    for field in kind.required:
        if field not in item:
            raise refused(f"{place}.{field}", "missing_required_parameter", "this field is missing")
    if item.get("id") is not None:
        _check_id(item["id"], f"{place}.id")
    if name == "message":
        _check_message(item, place)
    return complete(item, name, lambda: new_id(kind.prefix, *named))


def _kind_of(item: Mapping[str, Json], place: str) -> str:
    name = item.get("type", "message" if "role" in item else "item_reference" if "id" in item else None)
    if isinstance(name, str) and name in KINDS:
        return name
    if name == "item_reference":
        raise refused(place, "invalid_value", "items cannot be references here: send the item itself")
    raise refused(
        f"{place}.type", "invalid_value", f"there is no such type of items; there is {', '.join(KINDS)}"
    )


def _check_id(id: Json, place: str) -> None:
    if not isinstance(id, str) or (id not in NO_IDS and not _ID.fullmatch(id)) or BY_PLACE.fullmatch(id):
        told = f"an id has up to {MOST_OF_AN_ID} letters, digits, underscores and dashes"
        raise refused(place, "invalid_value", told)


def _check_message(item: Mapping[str, Json], place: str) -> None:
    role, content = item["role"], item["content"]
    if not isinstance(role, str) or role not in ROLES:
        raise refused(
            f"{place}.role", "invalid_value", f"there is no such role; there is {', '.join(sorted(ROLES))}"
        )
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise refused(f"{place}.content", "invalid_type", "the content is a text, or a list of parts")
    for at, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str) or kind not in PARTS:
            told = f"there is no such type of parts; there is {', '.join(sorted(PARTS))}"
            raise refused(f"{place}.content[{at}].type", "invalid_value", told)


def refused(param: str, code: str, detail: str) -> Problem:
    """An answer to something in the request, which it names."""
    return Problem(
        400, code, "The request is not valid", f"Invalid '{param}': {detail}.", fields={"param": param}
    )


# -- what OpenAI's server adds


def complete(item: Mapping[str, Json], name: str, make_id: Any) -> dict[str, Json]:
    """The item with all that a client expects of one that a server shows."""
    id = item.get("id")
    whole: dict[str, Json] = {
        **item,
        "id": make_id() if not isinstance(id, str) or id in NO_IDS else id,
        "type": name,
    }
    for field, value in KINDS[name].filled.items():
        if whole.get(field) is None:
            whole[field] = list(value) if isinstance(value, tuple) else value
    if name == "message":
        whole["content"] = _parts(whole["content"], whole["role"])
    return whole


def _parts(content: Json, role: str) -> list[Json]:
    said = "output_text" if role == "assistant" else "input_text"
    parts = [{"type": said, "text": content}] if isinstance(content, str) else content
    return [_part(part) for part in parts]


def _part(part: dict[str, Json]) -> dict[str, Json]:
    match part.get("type"):
        case "output_text" if part.get("annotations") is None:
            return {**part, "annotations": []}
        case "input_image" | "computer_screenshot" if part.get("detail") is None:
            return {**part, "detail": "auto"}
    return part


# -- what goes out


def has_own_id(item: Message) -> bool:
    id = item.get("id")
    return isinstance(id, str) and id not in NO_IDS


def shown(entry: Entry) -> dict[str, Json]:
    """A message of a session as an item. One that a client of this API wrote is shown as it is kept."""
    item = entry.message
    name = item.get("type", "message")
    if not _can_show(item, name):
        raise Problem(
            400,
            "unsupported_item",
            "This conversation cannot be shown as items of OpenAI",
            f"its message {entry.id} is not written as OpenAI's Responses API writes items",
            next="read it as a session, at /api/v1/sessions/{id}/entries",
        )
    return complete(item, name, lambda: place_id(entry, name))


def _can_show(item: Message, name: Json) -> bool:
    if not isinstance(name, str) or name not in KINDS:
        return False
    if name != "message":
        return True
    role, content = item.get("role"), item.get("content")
    if not isinstance(role, str) or role not in ROLES or item.get("tool_calls") or item.get("function_call"):
        return False
    return isinstance(content, str) or (
        isinstance(content, list)
        and all(isinstance(part, dict) and part.get("type") in PARTS for part in content)
    )


def place_id(entry: Entry, name: str | None = None) -> str:
    """The id of an item by the place where it stands: for those that have none of their own."""
    kind = KINDS.get(name or entry.message.get("type", "message"), KINDS["message"])
    return f"{kind.prefix}_clew_{entry.id}"
