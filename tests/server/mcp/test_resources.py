"""Sessions, entries and trees as Markdown: what a client reads, and what it never reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from markdown_it import MarkdownIt
from mcp.client import Client

import clew
from clew import Session, Store
from clew.server.access.principal import Principal
from clew.server.mcp.budget import TOKENS, tokens
from clew.server.mcp.places import place_in
from clew.server.mcp.prompts import PROMPTS
from clew.server.mcp.resources.handlers import TEMPLATES
from clew.server.mcp.resources.uris import entry_uri, named, session_uri, tree_uri
from clew.server.mcp.text import RECORDED
from clew.server.mcp.view import View
from tests.server.mcp import reference
from tests.server.mcp.connected import MODES, connected, refused
from tests.support.rows import each_row

IDS = (
    "claude-code:0b1c", "a/b", "../../etc/passwd", "user@host@3.1", "100%", "50%2Foff", "a?b#c",
    "größe 日本 🧵", "line\nbreak\u202e`tick`", "tree", "entries", "%", "x" * 512,
)  # fmt: skip
SECRET = "sk-ant-api03-" + "A" * 80


@pytest.fixture
def store() -> Iterator[Store]:
    with clew.open("memory:") as store:
        yield store


@pytest.fixture
def view(store: Store) -> View:
    return View(store=store)


def say(session: Session, *texts: str) -> list[str]:
    """The ids of entries that a person and an assistant say in turn."""
    roles = ("user", "assistant")
    return [
        session.append({"role": roles[number % 2], "content": text})[0].id
        for number, text in enumerate(texts)
    ]


def read(view: View, *uris: str, mode: str = "auto") -> list[types.ReadResourceResult]:
    async def use(client: Client) -> list[types.ReadResourceResult]:
        return [await client.read_resource(uri) for uri in uris]

    return connected(view, use, mode)


def page(view: View, uri: str) -> str:
    """The text of a resource."""
    (found,) = read(view, uri)
    (content,) = found.contents
    assert isinstance(content, types.TextResourceContents)
    assert (content.uri, content.mime_type) == (uri, "text/markdown")
    return content.text


def listed(view: View, cursor: str | None = None, mode: str = "auto") -> types.ListResourcesResult:
    async def use(client: Client) -> types.ListResourcesResult:
        return await client.list_resources(cursor=cursor)

    return connected(view, use, mode)


def parts(markdown: str) -> list[tuple[str, str]]:
    """The headings and blocks of code of a page, as a program that reads Markdown sees them. It is nothing
    but headings, paragraphs, lists and code."""
    found, inside = [], ""
    for token in MarkdownIt("commonmark").parse(markdown):
        if token.type in ("heading_open", "paragraph_open"):
            inside = token.tag
        elif token.type == "inline":
            found.append((inside, token.content))
        elif token.type == "fence":
            found.append(("code", token.content))
        else:
            assert token.type.startswith(("heading", "paragraph", "bullet_list", "list_item")), token
    return found


def codes(markdown: str) -> list[str]:
    """What stands in backticks in a line of a page."""
    tokens = MarkdownIt("commonmark").parse(markdown)
    return [one.content for token in tokens for one in token.children or () if one.type == "code_inline"]


# -- addresses


@each_row("id", IDS)
def test_every_id_is_one_part_of_an_address(id: str) -> None:
    assert re.fullmatch(r"clew://session/[\w%.~-]+", session_uri(id), re.ASCII)
    for uri in (session_uri(id), tree_uri(id), entry_uri(id, "b/7.12")):
        meant = named(uri)
        assert meant is not None
        assert meant.session == id
    assert meant is not None
    assert meant.entry is not None
    assert (meant.entry.branch, meant.entry.position) == ("b/7", 12)
    assert named(f"{session_uri(id)}/entries/b%2F7.12") == meant


@each_row(
    "uri",
    [
        "", "clew://session/", "clew://session", "clew://sessions/a", "file:///etc/passwd",
        "clew://session//tree", "clew://session/a/", "clew://session/a/tree/b", "clew://session/a/entries",
        "clew://session/a/entries/12", "clew://session/a/entries/a checkpoint",
        "clew://session/a/entries/u.007", "clew://session/a?x=1", "clew://session/a#x", "clew://session/%ff",
        "clew://session/" + "a" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_address_names_nothing(uri: str) -> None:
    assert named(uri) is None


# -- sessions


@pytest.mark.parametrize("mode", MODES)
@each_row("id", IDS)
def test_a_listed_session_can_be_read_whatever_its_id_holds(
    store: Store, view: View, id: str, mode: str
) -> None:
    entry = say(store.create(id), "Where is the thread?")[0]
    resource = listed(view, mode=mode).resources[0]
    assert resource.uri == session_uri(id), "the newest one"
    found = read(view, resource.uri, entry_uri(id, entry), tree_uri(id), mode=mode)
    texts = [one.contents[0].text for one in found if isinstance(one.contents[0], types.TextResourceContents)]
    assert len(texts) == 3
    assert place_in(id, entry) in codes(texts[0])
    assert all(text.startswith(f"{RECORDED}\n\n#") for text in texts)
    assert "Where is the thread?" in texts[0]
    assert "Where is the thread?" in texts[1]
    assert all(char.isprintable() for text in (resource.name, *texts) for char in text.replace("\n", ""))


def test_each_entry_stands_below_a_heading_with_role_time_and_place(store: Store, view: View) -> None:
    session = store.create("demo", title="A *thread*", metadata={"agent": "claude-code"})
    ids = say(session, "Where is it?", "In the ```maze```.")
    times = [entry.time.isoformat(timespec="seconds") for entry in session.entries()]
    found = parts(page(view, session_uri("demo")))
    assert found[0] == ("p", RECORDED)
    assert found[1] == ("h1", r"A \*thread\*")
    assert found[2][1].startswith("Session `demo`: claude-code, pending, 2 messages, active ")
    assert found[3:] == [
        ("h2", f"user · {times[0]} · `demo@{ids[0]}`"),
        ("code", "Where is it?\n"),
        ("h2", f"assistant · {times[1]} · `demo@{ids[1]}`"),
        ("code", "In the ```maze```.\n"),
    ]


def test_secrets_are_replaced_and_counted_unless_they_are_revealed(store: Store, view: View) -> None:
    ids = say(store.create("demo", title=f"key {SECRET}"), f"the key is {SECRET}")
    for uri in (session_uri("demo"), entry_uri("demo", ids[0])):
        assert "secret" in page(view, uri).splitlines()[-1]
        assert SECRET in page(View(store=store, reveals=True), uri)
    assert SECRET not in str(listed(view).resources)


def test_a_long_session_is_cut_between_entries_and_says_where_to_read_on(store: Store, view: View) -> None:
    session = store.create("demo")
    ids = say(session, *(f"number {number} " + "word " * 150 for number in range(100)))
    text = page(view, session_uri("demo"))
    assert TOKENS * 0.8 < tokens(text) <= TOKENS
    shown = [said for kind, said in parts(text) if kind == "code"]
    first = 100 - len(shown)
    assert [int(said.split()[1]) for said in shown] == list(range(first, 100))
    assert all(said.count("word") == 150 for said in shown)
    assert f"read_session with place `demo@{ids[first - 1]}` and after=0" in text


def test_a_long_entry_is_cut_and_says_where_the_whole_is(store: Store, view: View) -> None:
    ids = say(store.create("demo"), "start " + "x" * 10_000 + " end")
    text = page(view, session_uri("demo"))
    assert " end" not in text
    assert entry_uri("demo", ids[0]) in text
    assert " end\n" in page(view, entry_uri("demo", ids[0]))


@each_row("letter", ["`", "x ", "\u202e", "🧵"])
def test_no_page_is_longer_than_its_budget(store: Store, view: View, letter: str) -> None:
    session = store.create(letter, title=letter * 200)
    ids = say(session, letter * 100_000, letter * 100_000)
    for uri in (session_uri(letter), entry_uri(letter, ids[0])):
        text = page(view, uri)
        assert tokens(text) <= TOKENS
        assert "Cut here." in text


def test_calls_of_tools_are_one_line_and_whole_in_their_entry(store: Store, view: View) -> None:
    session = store.create("demo")
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make lint"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "all\nchecks\npassed"}
    asked = session.append({"role": "assistant", "content": [call]})[0].id
    session.append({"role": "user", "content": [result]})
    text = page(view, session_uri("demo"))
    assert "[tool] " in text
    assert "make lint" in text
    assert "all\nchecks" not in text
    assert '"command"' in page(view, entry_uri("demo", asked))


def test_a_note_stands_beside_its_entry_in_the_session_only(store: Store, view: View) -> None:
    session = store.create("demo")
    (entry,) = say(session, "The door is blue.")
    before = page(view, entry_uri("demo", entry))
    session.annotate(entry, note="It was painted green.")
    assert "It was painted green." in page(view, session_uri("demo"))
    assert page(view, entry_uri("demo", entry)) == before, "a client may keep an entry for a day"


def test_a_session_without_messages_is_a_page_too(store: Store, view: View) -> None:
    store.create("demo")
    assert [kind for kind, _ in parts(page(view, session_uri("demo")))] == ["p", "h1", "p"]
    assert "0 messages" in page(view, tree_uri("demo"))


def test_ids_that_would_be_read_as_one_another_are_kept_apart(store: Store, view: View) -> None:
    ids = ("50%2Foff", "50/off", "50%252Foff", "a@b", "a", "a@0")
    entries = [say(store.create(id), f"I am {id!r}.")[0] for id in ids]
    for id, entry in zip(ids, entries, strict=True):
        assert f"I am {id!r}." in page(view, session_uri(id))
        assert f"I am {id!r}." in page(view, entry_uri(id, entry))


def test_an_alias_names_its_session(store: Store, view: View) -> None:
    store.create("demo").add_alias("other name")
    assert "`demo`" in page(view, session_uri("other name"))


# -- trees


def test_a_tree_tells_branches_checkpoints_forks_and_subagents(store: Store, view: View) -> None:
    session = store.create("demo")
    ids = say(session, "one", "two", "three")
    session.checkpoint("before the storm")
    session.rewind(ids[0])
    say(session, "another two")
    session.fork("fork", at=ids[0])
    store.create("helper", metadata={"parent": "demo"})
    text = page(view, tree_uri("demo"))
    headings = [said for kind, said in parts(text) if kind == "h2"]
    assert headings == ["Branches", "Checkpoints", "Forks", "Subagents"]
    assert "- 1: entries 0 to 2 of this session" in text
    assert "- 2: entries 1 to 1 of this session, behind 0 of branch 1, this session stands at 1" in text
    assert "- `demo@before the storm`, " in text
    assert "- `fork`: of `demo`, behind entry 0" in text
    assert "- `helper`" in text


def test_a_large_tree_is_cut_and_says_so(store: Store, view: View) -> None:
    session = store.create("demo")
    say(session, "one")
    for number in range(400):
        session.checkpoint(f"checkpoint {number:04} {'x' * 60}")
    text = page(view, tree_uri("demo"))
    assert tokens(text) <= TOKENS
    assert re.search(r"\d+ more lines left out", text)


# -- what is not there


@each_row(("mode", "code"), [("auto", -32602), ("legacy", -32002)])
@each_row("uri", ["clew://session/none", "test://none", "clew://session/demo/entries/none.3"])
def test_a_resource_that_is_not_there_is_an_error_of_the_protocol(
    store: Store, view: View, uri: str, mode: str, code: int
) -> None:
    store.session("demo")
    error = refused(view, lambda client: client.read_resource(uri), mode)
    assert (error.code, error.data) == (code, {"uri": uri})


def test_sessions_of_other_workspaces_are_read_if_all_are_seen_but_never_listed(
    store: Store, tmp_path: Path
) -> None:
    say(store.create("mine", workspace=tmp_path / "here"), "mine")
    say(store.create("theirs", workspace=tmp_path / "other"), "theirs")
    view = View(store=store, workspace=str(tmp_path / "here"), sees_all=True)
    assert "theirs" in page(view, session_uri("theirs"))
    assert [one.name for one in listed(view).resources] == ["mine"]


def test_whoever_was_shown_one_session_by_a_link_reads_nothing(store: Store) -> None:
    ids = say(store.create("demo"), "hello")
    shared = Principal(id="s1", name="share", kind="share", scopes=frozenset({"read"}), session="demo")
    view = View(store=store, principal=shared)
    assert listed(view).resources == []
    for uri in (session_uri("demo"), tree_uri("demo"), entry_uri("demo", ids[0])):
        assert refused(view, lambda client, uri=uri: client.read_resource(uri)).code == -32602  # type: ignore[misc]


# -- lists, templates, completions


@pytest.mark.parametrize("mode", MODES)
def test_the_list_has_the_newest_sessions_first_page_by_page(store: Store, view: View, mode: str) -> None:
    for number in range(120):
        store.create(f"session {number}")
    first = listed(view, mode=mode)
    assert first.next_cursor is not None
    second = listed(view, first.next_cursor, mode)
    third = listed(view, second.next_cursor, mode)
    found = [one.name for page in (first, second, third) for one in page.resources]
    assert found[0] == "session 119"
    assert sorted(found) == sorted(f"session {number}" for number in range(120))
    assert third.next_cursor is None


@each_row("mode", MODES)
def test_a_wrong_cursor_is_refused(view: View, mode: str) -> None:
    error = refused(view, lambda client: client.list_resources(cursor="\x1b" * 5000), mode)
    assert error.code == -32602
    assert len(error.message) <= 1000
    assert error.message.isprintable()


def test_the_reference_names_every_address_and_every_prompt() -> None:
    page = reference.PAGE.read_text("utf-8")
    for template in TEMPLATES:
        assert f"| `{template.uri_template}` |" in page
    for prompt in PROMPTS:
        assert f"| `{prompt.name}` | `{prompt.argument}` |" in page


def test_only_entries_may_be_kept_and_only_by_whoever_read_them(store: Store, view: View) -> None:
    ids = say(store.create("demo"), "hello")
    found = read(view, session_uri("demo"), tree_uri("demo"), entry_uri("demo", ids[0]))
    assert [one.ttl_ms for one in (*found, listed(view))] == [0, 0, 24 * 60 * 60 * 1000, 0]
    assert {one.cache_scope for one in (*found, listed(view))} == {"private"}


@each_row("mode", MODES)
@each_row(
    ("ref", "argument"),
    [
        (types.ResourceTemplateReference(uri="clew://session/{id}"), "id"),
        (types.ResourceTemplateReference(uri="clew://session/{id}/tree"), "id"),
        (types.PromptReference(name="handoff"), "session"),
    ],
)
def test_ids_of_here_are_completed(store: Store, ref: Any, argument: str, mode: str) -> None:
    store.session("codex:1", workspace="/srv/here")
    store.session("codex:2", workspace="/srv/here/other")
    store.session("claude:1", workspace="/srv/here")
    view = View(store=store, workspace="/srv/here")

    async def use(client: Client) -> Any:
        return await client.complete(ref, {"name": argument, "value": "co"})

    assert connected(view, use, mode).completion.values == ["codex:1"]


def test_no_more_than_a_hundred_ids_are_completed(store: Store, view: View) -> None:
    for number in range(120):
        store.create(f"codex:{number}")

    async def use(client: Client) -> Any:
        ref = types.ResourceTemplateReference(uri="clew://session/{id}")
        nothing = await client.complete(ref, {"name": "entry", "value": ""})
        return nothing.completion, (await client.complete(ref, {"name": "id", "value": ""})).completion

    nothing, found = connected(view, use)
    assert nothing.values == []
    assert (len(found.values), found.has_more) == (100, True)


# -- capabilities


@each_row(("mode", "tells_of_lists"), [("auto", True), ("legacy", False)])
def test_capabilities_are_those_that_a_client_of_its_revision_has(
    view: View, mode: str, tells_of_lists: bool
) -> None:
    async def use(client: Client) -> types.ServerCapabilities:
        return client.server_capabilities

    able = connected(view, use, mode)
    assert able.resources is not None
    assert (able.resources.subscribe, able.resources.list_changed) == (True, tells_of_lists)
    assert able.prompts is not None
    assert able.tools is not None
    assert not able.prompts.list_changed
    assert not able.tools.list_changed
    assert able.completions is not None
