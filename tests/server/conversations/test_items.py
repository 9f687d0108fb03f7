"""Items of every kind that OpenAI's package knows go in and come back the same."""

from __future__ import annotations

import inspect
from typing import Any, Required, cast, get_args, get_origin, get_type_hints

import openai
from openai.types.conversations import Message
from openai.types.responses.response_includable import ResponseIncludable
from openai.types.responses.response_input_item_param import ResponseInputItemParam

from clew.server.conversations import items as ours
from clew.server.conversations import wire
from tests.server.conftest import Running
from tests.server.conversations.made_items import KINDS, Maker
from tests.support.effort import usually
from tests.support.rows import each_row

EACH = usually(6, thorough=100)


def answered(call: Any) -> Any:
    return call.http_response.json()


@each_row("name", KINDS)
def test_an_item_comes_back_as_it_went_in(sdk: openai.OpenAI, server: Running, name: str) -> None:
    made = [Maker(seed).item(name) for seed in range(EACH)]
    id = sdk.conversations.create().id
    raw = sdk.conversations.items.with_raw_response
    for start in range(0, len(made), 20):
        batch = made[start : start + 20]
        assert answered(raw.create(id, items=cast("Any", batch)))["data"] == batch
    listed = answered(raw.list(id, order="asc", limit=100))["data"]
    assert listed == made
    for item in made[:3]:
        assert answered(raw.retrieve(item["id"], conversation_id=id)) == item
    for parsed, item in zip(sdk.conversations.items.list(id, order="asc"), made, strict=False):
        assert isinstance(parsed, KINDS[name])
        assert parsed.to_dict() == item
    session = server.store.get(id)
    assert session.messages() == made
    session.context()
    server.store.export(id, "markdown")
    server.store.search("heron", session=id, tools=True)


def test_a_long_conversation_of_all_kinds_survives_a_deletion_in_its_middle(
    sdk: openai.OpenAI, server: Running
) -> None:
    maker = Maker(0)
    made = [maker.item(name) for name in KINDS]
    id = sdk.conversations.create(items=cast("Any", made[:20])).id
    sdk.conversations.items.create(id, items=cast("Any", made[20:]))
    sdk.conversations.items.delete(made[11]["id"], conversation_id=id)
    raw = sdk.conversations.items.with_raw_response
    assert answered(raw.list(id, order="asc", limit=100))["data"] == made[:11] + made[12:]
    server.store.get(id).undo()
    assert answered(raw.list(id, order="asc", limit=100))["data"] == made


@each_row("name", ours.KINDS)
def test_an_item_without_what_may_be_left_out_is_completed(sdk: openai.OpenAI, name: str) -> None:
    whole = Maker(1).item(name)
    kind = ours.KINDS[name]
    given = {field: value for field, value in whole.items() if field not in ("id", *kind.filled)}
    id = sdk.conversations.create().id
    raw = sdk.conversations.items.with_raw_response
    (item,) = answered(raw.create(id, items=[cast("Any", given)]))["data"]
    assert item == {**given, "id": item["id"], **{k: _plain(v) for k, v in kind.filled.items()}}
    assert item["id"].startswith(f"{kind.prefix}_")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def test_the_kinds_are_those_of_openais_package() -> None:
    """A new version of the package may have more of them."""
    assert set(ours.KINDS) == set(KINDS)
    for name, shown in KINDS.items():
        needed = {field for field, about in shown.model_fields.items() if about.is_required()}
        kind = ours.KINDS[name]
        assert set(kind.filled) <= needed, name
        required = {field for fields in _required_of(name) for field in fields} & needed
        rest = required - {"id", "type", *kind.filled}
        if name == "message":
            rest -= {"status"}
        assert set(kind.required) == rest, name
        assert needed <= {"id", "type", *kind.required, *kind.filled}, name


def test_roles_parts_and_includables_are_those_of_openais_package() -> None:
    assert set(get_args(Message.model_fields["role"].annotation)) == ours.ROLES
    (part,) = get_args(Message.model_fields["content"].annotation)
    parts = get_args(get_args(part)[0])
    assert {get_args(part.model_fields["type"].annotation)[0] for part in parts} == ours.PARTS
    assert set(get_args(wire.Include)) == set(get_args(ResponseIncludable))


def _required_of(name: str) -> list[set[str]]:
    """The fields that a caller has to give, by each of the shapes that OpenAI's package has for a kind."""
    found = []
    for shape in get_args(ResponseInputItemParam):
        hints = get_type_hints(shape, include_extras=True)
        if f"'{name}'" in str(hints["type"]):
            found.append({field for field, hint in hints.items() if get_origin(hint) is Required})
    assert found, f"nothing of kind {name} in {inspect.getsourcefile(Message)}"
    return found
