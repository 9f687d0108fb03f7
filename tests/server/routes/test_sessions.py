"""Sessions over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from clew.errors import LeaseLostError
from clew.server.routing import encoded
from tests.server.conftest import Running
from tests.server.routes.asking import JSON, S, plain, raw, refusal, rows, user
from tests.support.rows import each_row


def info_of(server: Running, id: str) -> Any:
    """What the library says of a session, as JSON."""
    return plain(server.store.get(id).info)


def listed(client: httpx.Client, **params: Any) -> list[str]:
    answer = client.get(S, params=params)
    assert answer.status_code == 200, answer.text
    return [one["id"] for one in answer.json()["data"]]


# -- lists with usage


def test_a_list_tells_what_sessions_and_their_subagents_used(server: Running, client: httpx.Client) -> None:
    store = server.store
    store.create("p", workspace="/w/clew", model="m").add_usage(input_tokens=5, output_tokens=2, cost="0.10")
    store.create("c", metadata={"parent": "p"}).add_usage(input_tokens=1, cost="1.15")
    store.create("d", metadata={"parent": "c"}).add_usage(output_tokens=7, model="no such model")
    store.create("free")
    rows = {one["id"]: one for one in client.get(S, params={"usage": "true"}).json()["data"]}
    assert rows["p"]["usage"] == {
        "cost": "1.25",
        "input_tokens": 6,
        "output_tokens": 9,
        "total_tokens": 15,
        "calls": 3,
        "unpriced": 1,
    }
    assert {id: one["subagents"] for id, one in rows.items()} == {"p": 2, "c": 1, "d": 0, "free": 0}
    assert (rows["d"]["usage"]["cost"], rows["free"]["usage"]["cost"]) == (None, None)
    for id, row in rows.items():
        alone = client.get(f"{S}/{id}", params={"usage": "true"})
        assert (alone.json(), "etag" in alone.headers) == (row, False)
        assert client.get(f"{S}/{id}").json() == info_of(server, id)
    plain = client.get(S).json()["data"]
    assert plain == [info_of(server, one["id"]) for one in plain], "without usage the rows are as ever"


def test_a_list_tells_how_many_forks_and_copies_sessions_have(server: Running, client: httpx.Client) -> None:
    store = server.store
    base = store.create("base")
    base.append({"role": "user", "content": "hi"})
    base.fork("fork").fork("deeper")
    store.delete(base.fork("in the trash").id)
    store.create("agent", metadata={"parent": "base"})
    store.create("copy", metadata={"copied_from": "base"})
    rows = client.get(S, params={"usage": "true"}).json()["data"]
    assert {one["id"]: one["forks"] for one in rows} == {
        "base": 3, "fork": 1, "deeper": 0, "copy": 0, "agent": 0,
    }  # fmt: skip
    assert client.get(f"{S}/base", params={"usage": "true"}).json()["forks"] == 3
    assert "forks" not in client.get(S).json()["data"][0]


def test_lists_are_filtered_by_project_model_and_cost(server: Running, client: httpx.Client) -> None:
    store = server.store
    store.create("a", workspace="/w/clew", model="m").add_usage(cost="0.10")
    store.create("b", workspace="/v/clew", model="n").add_usage(cost="2")
    store.create("c", workspace="/w/other", model="m")
    assert listed(client, project="clew") == ["b", "a"]
    assert listed(client, model="m") == ["c", "a"]
    assert listed(client, project="clew", model="m") == ["a"]
    assert listed(client, min_cost="0.1") == ["b", "a"]
    page = client.get(S, params={"project": "clew", "limit": 1, "usage": "true"})
    assert [one["id"] for one in client.get(page.links["next"]["url"]).json()["data"]] == ["a"]
    for wrong in ("-1", "a lot", "1e3"):
        assert client.get(S, params={"min_cost": wrong}).status_code == 422


# -- making and finding


def test_a_session_is_made_found_and_listed(server: Running, client: httpx.Client) -> None:
    made = client.post(S, json={"id": "a", "title": "First"})
    assert made.status_code == 201
    assert made.headers["location"] == f"{S}/a"
    found = client.get(made.headers["location"])
    assert found.json() == made.json() == info_of(server, "a")
    assert listed(client) == ["a"]


def test_all_settings_arrive_in_the_store(server: Running, client: httpx.Client) -> None:
    given = {
        "id": "a", "title": "T", "workspace": "/tmp/w", "tags": ["x", "y"], "vendor": "v",
        "endpoint": "https://e", "model": "m", "metadata": {"k": [1, {"d": None}]},
        "expires_at": "2031-01-02T03:04:05.000006Z", "idle_timeout": 60,
        "created_at": "2020-01-01T00:00:00+02:00",
    }  # fmt: skip
    assert client.post(S, json=given).status_code == 201
    info = server.store.get("a").info
    assert (info.title, info.workspace_given, info.tags) == ("T", "/tmp/w", ("x", "y"))
    assert (info.vendor, info.endpoint, info.model) == ("v", "https://e", "m")
    assert info.metadata == {"k": [1, {"d": None}]}
    assert info.expires_at == datetime(2031, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert info.idle_timeout == timedelta(minutes=1)
    assert info.created_at == datetime(2019, 12, 31, 22, tzinfo=UTC)


@each_row("idle", ["PT30M", 1800, 1800.0])
def test_a_duration_is_seconds_or_iso_8601(server: Running, client: httpx.Client, idle: Any) -> None:
    made = client.post(S, json={"idle_timeout": idle, "never_expires": True})
    info = server.store.get(made.json()["id"]).info
    assert info.idle_timeout == timedelta(minutes=30)
    assert info.never_expires


def test_a_post_needs_no_body_where_all_of_it_is_optional(server: Running, client: httpx.Client) -> None:
    made = client.post(S)
    assert made.status_code == 201
    assert server.store.get(made.json()["id"]).id == made.json()["id"]
    assert client.put(f"{S}/b").status_code == 201


def test_put_opens_or_makes(server: Running, client: httpx.Client) -> None:
    made = client.put(f"{S}/a", json={"title": "one"})
    again = client.put(f"{S}/a", json={"title": "two"})
    assert (made.status_code, again.status_code) == (201, 200)
    assert again.json()["title"] == "one"
    assert refusal(client.put(f"{S}/a", json={}, headers={"if-none-match": "*"})) == (412, "session_exists")
    assert client.put(f"{S}/b", json={}, headers={"if-none-match": "*"}).status_code == 201


def test_an_id_that_is_taken_is_refused(server: Running, client: httpx.Client) -> None:
    server.store.create("a").add_alias("b")
    for id in ("a", "b"):
        answer = client.post(S, json={"id": id})
        assert refusal(answer) == (409, "session_exists")
        assert answer.json()["session"] == id


# -- ids


RESERVED = ":/?#[]@!$&'()*+,;=%\"<>\\^`{|} ~-._"
IDS = ["a/b", "a:b#c@d", "100%", "%2F", "..", "ü", "a b", "~x", "?q=1", "💡", *RESERVED]


@each_row("id", [*IDS, *(f"a{letter}b" for letter in RESERVED)])
def test_s37_an_id_of_any_characters_leads_to_exactly_that_session(
    server: Running, client: httpx.Client, id: str
) -> None:
    server.store.session(id)
    server.store.session("b")
    hexed = "".join(f"%{byte:02X}" for byte in id.encode())
    for part in (hexed, encoded(id)):
        assert client.get(raw(client, f"{S}/{part}")).json()["id"] == id
    client.delete(raw(client, f"{S}/{hexed}")).raise_for_status()
    made = client.post(S, json={"id": id})
    assert client.get(raw(client, made.headers["location"])).json()["id"] == id


@each_row("part", ["%00", "a%00b", "x" * 4096, "%FF", "%2E%2E%2F%2E%2E"])
def test_s37_what_can_be_no_id_is_refused_or_not_there(client: httpx.Client, part: str) -> None:
    assert client.get(raw(client, f"{S}/{part}")).status_code in (400, 404, 422)


# -- lists


def test_filters_are_those_of_the_library(server: Running, client: httpx.Client) -> None:
    store = server.store
    store.create("a", tags=["x", "y"], metadata={"customer": "acme", "n": 1, "agent": "codex"})
    store.create("b", tags=["x"], metadata={"customer": "other"}, workspace="/tmp/b")
    store.create("c", metadata={"parent": "a"})
    store.get("b").start()
    assert listed(client) == [one.id for one in store.list()]
    assert listed(client, tag="x") == ["b", "a"]
    assert listed(client, tag=["x", "y"]) == ["a"]
    assert listed(client, status="running") == ["b"]
    assert listed(client, workspace="/tmp/b") == ["b"]
    assert listed(client, agent="codex") == ["a"]
    assert listed(client, parent="a") == ["c"]
    assert listed(client, subagents="false") == ["b", "a"]
    assert listed(client, where='{"customer": "acme"}') == ["a"]
    assert listed(client, where='{"n": 1}') == ["a"]
    assert listed(client, **{"where.customer": "acme"}) == ["a"]
    assert listed(client, **{"where.customer": "acme", "where.agent": "codex"}) == ["a"]
    assert listed(client, **{"where.n": "1"}) == []
    assert listed(client, since="1d") == ["b", "c", "a"]
    assert listed(client, until="2020-01-01") == []
    client.delete(f"{S}/a").raise_for_status()
    assert listed(client, deleted="true") == ["a", "c"]  # its subagent too


@each_row(
    "params",
    [
        {"where": "x"}, {"where": "[1]"}, {"where": "[" * 5000}, {"where.a b": "1"}, {"status": "lost"},
        {"limit": "0"}, {"limit": "201"}, {"limit": "x"}, {"cursor": "nonsense"}, {"tag": ""},
        {"since": "yesterday"}, {"subagents": "maybe"},
    ],
)  # fmt: skip
def test_a_filter_that_cannot_be_one_is_refused(client: httpx.Client, params: dict[str, str]) -> None:
    answer = client.get(S, params=params)
    assert answer.status_code == 422, answer.text
    assert answer.json()["code"] in ("invalid", "invalid_query")


def test_an_unknown_parameter_is_refused_with_those_that_there_are(client: httpx.Client) -> None:
    answer = client.get(S, params={"sttus": "running"})
    assert answer.status_code == 422
    assert "'sttus'" in answer.json()["detail"]
    assert "status" in answer.json()["detail"]


def test_pages_lead_on_with_the_same_filters(server: Running, client: httpx.Client) -> None:
    for number in range(7):
        server.store.create(f"s{number}", tags=["x", "é&"], metadata={"k": "v w"})
        server.store.create(f"t{number}")
    asked = {"limit": 3, "tag": ["x", "é&"], "where.k": "v w"}
    found = [one["id"] for one in rows(client, S, **asked)]
    assert found == [f"s{number}" for number in reversed(range(7))]


# -- one session


def test_a_client_that_knows_the_session_gets_304_until_anything_changes(
    server: Running, client: httpx.Client
) -> None:
    tag = client.post(S, json={"id": "a"}).headers["etag"]
    session = server.store.get("a")
    changes: list[Callable[[], Any]] = [
        lambda: session.update(title="new"),
        lambda: session.append(user("x")),
        lambda: session.update(metadata={"a": 1}),
        lambda: session.start(),
        lambda: session.add_alias("other"),
        lambda: session.clear(),
    ]
    for change in changes:
        same = client.get(f"{S}/a", headers={"if-none-match": tag})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
        change()
        other = client.get(f"{S}/a", headers={"if-none-match": tag})
        assert other.status_code == 200, change
        tag = other.headers["etag"]
        assert tag.startswith("W/")


# -- merge patch


def patched(client: httpx.Client, patch: Any, **headers: str) -> httpx.Response:
    sent = {"content-type": "application/merge-patch+json", **headers}
    return client.patch(f"{S}/a", content=json.dumps(patch), headers=sent)


def test_a_patch_changes_what_it_names(server: Running, client: httpx.Client) -> None:
    server.store.create("a", title="T", tags=["x"], model="m", vendor="v", metadata={"a": 1, "b": 2})
    answer = patched(client, {"model": None, "tags": ["y"], "idle_timeout": 5})
    assert answer.status_code == 200
    info = server.store.get("a").info
    assert answer.json() == info_of(server, "a")
    assert (info.title, info.tags, info.model, info.vendor) == ("T", ("y",), None, "v")
    assert info.metadata == {"a": 1, "b": 2}
    assert info.idle_timeout == timedelta(seconds=5)
    patched(client, {"title": None, "tags": None, "idle_timeout": None}).raise_for_status()
    info = server.store.get("a").info
    assert (info.title, info.tags, info.idle_timeout) == (None, (), None)


def test_expiry_is_set_and_taken_away(server: Running, client: httpx.Client) -> None:
    server.store.create("a")
    patched(client, {"never_expires": True}).raise_for_status()
    assert server.store.get("a").info.never_expires
    patched(client, {"title": "x"}).raise_for_status()
    assert server.store.get("a").info.never_expires
    patched(client, {"never_expires": False}).raise_for_status()
    assert not server.store.get("a").info.never_expires
    patched(client, {"expires_at": "2031-01-01T00:00:00Z"}).raise_for_status()
    assert server.store.get("a").info.expires_at == datetime(2031, 1, 1, tzinfo=UTC)
    patched(client, {"expires_at": None}).raise_for_status()
    assert server.store.get("a").info.expires_at is None


@each_row(
    ("before", "patch", "after"),
    # Those of RFC 7396, appendix A, that begin with an object; each inside of the metadata.
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": 1}, None, {}),
    ],
)
def test_metadata_are_merged_at_every_depth(
    server: Running, client: httpx.Client, before: Any, patch: Any, after: Any
) -> None:
    server.store.delete("a")
    server.store.create("a", metadata=before)
    patched(client, {"metadata": patch}).raise_for_status()
    assert server.store.get("a").info.metadata == after


def test_a_patch_that_is_nested_too_deep_is_refused(server: Running, client: httpx.Client) -> None:
    server.store.create("a", metadata={"a": 1})
    deep = '{"a":' * 400 + "1" + "}" * 400
    answer = client.patch(f"{S}/a", content=f'{{"metadata": {deep}}}', headers=JSON)
    assert answer.status_code == 422
    assert server.store.get("a").info.metadata == {"a": 1}


@each_row(
    "patch", [{"titel": "x"}, {"title": 1}, {"tags": "x"}, {"tags": [""]}, {"metadata": []}, [], "x", None]
)
def test_a_patch_that_says_something_else_is_refused(
    server: Running, client: httpx.Client, patch: Any
) -> None:
    server.store.session("a")
    assert patched(client, patch).status_code == 422


def test_two_patches_of_one_reader_do_not_overwrite_each_other(server: Running, client: httpx.Client) -> None:
    server.store.create("a")
    tag = client.get(f"{S}/a").headers["etag"]
    assert patched(client, {"title": "one"}, **{"if-match": tag}).status_code == 200
    late = patched(client, {"title": "two"}, **{"if-match": tag})
    assert refusal(late) == (412, "session_changed")
    assert server.store.get("a").info.title == "one"
    assert patched(client, {"title": "two"}, **{"if-match": late.headers["etag"]}).status_code == 200
    assert patched(client, {"title": "three"}, **{"if-match": "*"}).status_code == 200
    assert patched(client, {"title": "four"}, **{"if-match": "x"}).status_code == 400


# -- deleting


def test_the_trash_and_back(server: Running, client: httpx.Client) -> None:
    server.store.create("a").append(user("x"))
    assert client.delete(f"{S}/a").status_code == 204
    assert client.get(f"{S}/a").status_code == 404
    assert client.delete(f"{S}/a").status_code == 404
    assert client.post(f"{S}/a/restore").json() == info_of(server, "a")
    assert refusal(client.post(f"{S}/a/restore")) == (404, "session_not_found")


def test_a_purge_removes_for_good(server: Running, client: httpx.Client) -> None:
    server.store.create("a")
    assert client.delete(f"{S}/a", params={"purge": "true"}).status_code == 204
    assert listed(client, deleted="true") == []
    server.store.create("b")
    server.store.delete("b")
    server.store.create("b")
    assert client.delete(f"{S}/b", params={"purge": "true", "deleted": "true"}).status_code == 204
    assert listed(client) == ["b"]
    assert client.delete(f"{S}/b", params={"deleted": "true"}).status_code == 422


def test_a_session_with_a_worker_is_deleted_by_force_only(server: Running, client: httpx.Client) -> None:
    session = server.store.create("a")
    run = session.run(owner="w")
    held = client.delete(f"{S}/a")
    assert (held.status_code, held.json()["code"], held.json()["owner"]) == (423, "lease_held", "w")
    assert int(held.headers["retry-after"]) > 0
    assert client.delete(f"{S}/a", params={"force": "true"}).status_code == 204
    server.store.restore_deleted("a")
    with pytest.raises(LeaseLostError):
        run.complete()


def test_a_delete_by_a_reader_of_an_old_head_is_refused(server: Running, client: httpx.Client) -> None:
    tag = client.post(S, json={"id": "a"}).headers["etag"]
    server.store.get("a").append(user("x"))
    assert refusal(client.delete(f"{S}/a", headers={"if-match": tag})) == (412, "head_moved")
    assert server.store.find("a") is not None


def test_a_restored_id_may_be_taken(server: Running, client: httpx.Client) -> None:
    server.store.create("a")
    server.store.delete("a")
    server.store.create("a")
    assert refusal(client.post(f"{S}/a/restore")) == (409, "session_exists")


# -- names and activity


def test_aliases(server: Running, client: httpx.Client) -> None:
    store = server.store
    store.create("a")
    store.create("b")
    assert client.put(f"{S}/a/aliases/x%2Fy").json() == {"data": ["x/y"]}
    assert client.get(f"{S}/x%2Fy/aliases").json() == {"data": ["x/y"]}
    taken = client.put(f"{S}/b/aliases/x%2Fy")
    assert refusal(taken) == (409, "alias_exists")
    assert taken.json()["session"] == "a"
    assert client.put(f"{S}/b/aliases/x%2Fy", params={"move": "true"}).json() == {"data": ["x/y"]}
    assert store.get("x/y").id == "b"
    assert refusal(client.delete(f"{S}/a/aliases/x%2Fy")) == (404, "alias_not_found")
    assert client.delete(f"{S}/b/aliases/x%2Fy").status_code == 204
    assert store.find("x/y") is None


def test_a_touched_session_is_listed_first(server: Running, client: httpx.Client) -> None:
    server.store.create("a")
    server.store.create("b")
    before = server.store.get("a").info.updated_at
    assert client.post(f"{S}/a/touch").json() == info_of(server, "a")
    assert server.store.get("a").info.updated_at > before
    assert listed(client) == ["a", "b"]


# -- who may change something


# -- a server that only reads


def test_a_lease_that_cannot_be_read_makes_no_session(client: httpx.Client, server: Running) -> None:
    answer = client.put("/api/v1/sessions/new", json={}, headers={"clew-lease": ""})
    assert refusal(answer) == (400, "invalid_header")
    assert server.store.find("new") is None
