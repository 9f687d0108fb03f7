"""A share up to an entry tells nothing of what came later, on no route and whatever it is asked.

Two stores are the same up to that entry, and one of them goes on in every way: their answers are equal, byte
for byte, with headers.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.server.access.shares import REACHED, add_share
from clew.server.routing import Route
from tests.server.access.requests import IDLE, Caller, name_of, path_of, queries, routes, send
from tests.server.access.twins import Twins, difference, each_once, open_twins
from tests.server.conftest import Running
from tests.server.live.client import Stream
from tests.server.routes.asking import assistant, user

Serve = Callable[..., Running]
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40_000)).decode()


class Known:
    """What whoever asks may know or guess: tokens, ids of entries, and names."""

    def __init__(self) -> None:
        self.tokens: dict[str, str] = {}
        self.places: dict[str, str] = {}
        self.tags: list[str] = []


def begin(store: clew.Store, known: Known, tmp_path: Path) -> None:
    session = store.create("login", tags=["first"], workspace=tmp_path)
    session.append(user("Please fix the login"))
    session.append(
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I read it"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                {"type": "tool_use", "id": "call-1", "name": "Bash", "input": {"command": "ls"}},
            ],
        }
    )
    at = session.head
    first = next(session.entries())
    known.places |= {"first": first.id, "at": list(session.entries())[-1].id}
    for redact in (True, False):
        name = "without secrets" if redact else "with secrets"
        known.tokens[name] = add_share(store, session, at=at, redact=redact)[1]
        known.tokens[f"{name}, from the start"] = add_share(
            store, session, at=clew.Head("", -1), redact=redact
        )[1]
    known.places["not yet"] = f"{at.branch}.{at.position + 1}"
    known.places["far"] = f"{at.branch}.{at.position + 70}"
    known.tags.append(f'"{first.hash}"')


def go_on(store: clew.Store, known: Known, tmp_path: Path) -> None:
    """Everything that can happen to a session."""
    session = store.get("login")
    first = next(session.entries())
    at = session.head
    answer = {"type": "tool_result", "tool_use_id": "call-1", "content": "a b", "is_error": True}
    session.append({"role": "user", "content": [answer]})
    for number in range(70):
        session.append(assistant(f"later {number}"), user(f"more {number}"))
    known.places["later"] = session.append(user("the last of all"))[0].id
    known.tags.append(f'"{next(session.entries(last=1)).hash}"')
    session.update(
        title="Renamed", tags=["later"], model="later-model", vendor="later", endpoint="https://later",
        workspace=tmp_path / "later", metadata={"agent": "later-agent", "parent": "other", "x": 1},
        expires_at="never", idle_timeout=60,
    )  # fmt: skip
    session.add_alias("alias")
    session.annotate(first, note="a later note", label="later", summary="later")
    session.set_var("var", "later")
    session.set_document("doc", b"later")
    session.add_event("log", {"text": "later"})
    session.add_usage(model="later-model", input_tokens=5, output_tokens=6, cost="7")
    session.set_summary("a later summary")
    files = tmp_path / "files"
    files.mkdir()
    (files / "later.txt").write_text("later")
    session.checkpoint("point", files=files, state={"later": 1})
    session.compact("a later compaction")
    session.truncate(keep_last=3)
    known.places["truncated"] = next(session.entries(last=1)).id
    with session.run(request="later", task="later") as run:
        run.append(user("in a run"))
        run.checkpoint(iteration=1, state={"later": 1})
        run.complete("later")
    fork = session.fork("forked", at=first)
    known.places["of a fork"] = fork.append(user("in a fork"))[0].id
    store.create("child", metadata={"parent": "login"}).append(user("in a subagent"))
    session.rewind(first)
    known.places["elsewhere"] = session.append(user("on another branch"))[0].id
    early = session.fork("early", at=clew.Head("", -1))
    known.places["other root"] = early.append(user("another beginning"))[0].id
    session.rewind(at)
    known.places["beside"] = session.append(user("beside what was later"))[0].id
    session.start("later")
    session.fail("later")
    session.clear()
    known.places["anew"] = session.append(user("all anew"))[0].id
    store.create("other", title="other").append(user("in another session"))
    store.delete("forked", purge=True)
    store.delete("child")
    session.close()


@pytest.fixture
def known() -> Known:
    return Known()


@pytest.fixture
def twins(tmp_path: Path, known: Known) -> Iterator[Twins]:
    with open_twins(
        tmp_path, lambda store: begin(store, known, tmp_path), lambda store: go_on(store, known, tmp_path)
    ) as found:
        known.places |= {"start": "start", "a position": "1", "a later position": "5", "point": "point"}
        yield found


def requests(route: Route, known: Known) -> Iterator[tuple[str, dict[str, Any], dict[str, str]]]:
    """Paths, queries and headers, with each place that there is, was or might be."""
    for place in known.places.values():
        values = {
            "id": "login", "entry": place, "other": place, "at": place, "before": place, "after": place,
            "cursor": place, "label": "later", "format": "markdown", "number": "0", "text": "later",
        }  # fmt: skip
        for query in queries(route, values):
            yield path_of(route, values), query, {}
        for query in ({"after": "start"}, {"view": "blocks", "after": "start"}, {"after": place}):
            if route.path.endswith("/live"):
                yield path_of(route, values), query, {}
        yield path_of(route, values), {}, {"last-event-id": place}
    for extra in (
        {"view": "html"}, {"view": "line"}, {"last": 2, "view": "blocks"}, {"newest_first": "true"},
        {"format": "html"}, {"format": "json"}, {"format": "markdown", "whole": "true"},
        {"format": "json", "whole": "true"}, {"format": "html", "whole": "true"}, {"format": "jsonl"},
        {"damaged": "skip"}, {"repair": "false"}, {"max_messages": 1}, {"usage": "true"},
    ):  # fmt: skip
        values = {"id": "login", "entry": known.places["at"], "number": "0"}
        yield path_of(route, values), extra, {}
    for tag in (*known.tags, "*"):
        yield (
            path_of(route, {"id": "login", "entry": known.places["first"], "number": "0"}),
            {},
            {"if-none-match": tag},
        )


def test_a_share_is_called_what_the_session_was_called_when_it_was_made(serve: Serve) -> None:
    """And one that ends before that is called after its messages: the title may tell of what followed."""
    server = serve()
    session = server.store.create("login")
    session.append(user("Please fix the login"))
    before = session.head
    session.append(assistant("The door of the cellar was open"))
    session.update(title="The open cellar")
    now, early, live = (add_share(server.store, session, at=at)[1] for at in (session.head, before, None))
    session.update(title="Closed")
    titles = []
    for token in (now, early, live):
        with server.client(token) as client:
            info = client.get("/api/v1/sessions/login").json()
            titles.append((info["title"], info["title_is_auto"]))
    assert titles == [("The open cellar", False), ("Please fix the login", True), ("Closed", False)]


def test_a_live_share_does_not_tell_how_far_a_branch_goes_that_was_left(serve: Serve) -> None:
    server = serve(heartbeat=0.001)
    session = server.store.create("login")
    session.append(*(user(str(number)) for number in range(5)))
    branch = session.head.branch
    session.rewind(1)
    session.append(user("instead"))
    caller = Caller(server, add_share(server.store, session, at=None)[1])
    live = next(route for route in routes() if route.path.endswith("/sessions/{id}/live"))
    told = []
    for position in (4, 5, 9):
        id = f"{branch}.{position}"
        answer = send(caller, live, "/api/v1/sessions/login/live", headers={"last-event-id": id})
        told.append(answer.body.partition(IDLE)[0].replace(b'"position":%d}' % position, b'"position":N}'))
    assert b"event: moved" in told[0]
    assert told[0] == told[1] == told[2]


def test_the_pulse_of_a_stream_does_not_tell_that_the_session_goes_on(serve: Serve) -> None:
    server = serve(heartbeat=0.5)
    session = server.store.create("login")
    session.append(user("Please fix the login"))
    _, token = add_share(server.store, session, at=session.head)
    is_heard = threading.Event()

    def go_on() -> bool:
        """Far longer than between two signs of life; whether there was one meanwhile."""
        for _ in range(20_000):
            if is_heard.is_set():
                return True
            session.append(user("later"))
        return False

    with (
        ThreadPoolExecutor(1) as pool,
        Stream(server.url, "/api/v1/sessions/login/live", token) as stream,
    ):
        stream.next("head")
        writer = pool.submit(go_on)
        assert list(stream.events(most=10**6)) == []
        is_heard.set()
        assert writer.result()
    assert stream.parser.comments == ["hello", "still here"]


def test_a_share_up_to_an_entry_answers_as_if_nothing_had_come_later(twins: Twins, known: Known) -> None:
    told, fine = [], set()
    for kind, token in known.tokens.items():
        plain, later = twins.callers(token)
        for route in routes():
            if route.path not in REACHED or route.method != "GET":
                continue
            for path, query, headers in each_once(requests(route, known)):
                what = f"{kind}: {name_of(route)} {path} {query} {headers}"
                answers = [send(one, route, path, query=query, headers=headers) for one in (plain, later)]
                found = difference(what, *answers)
                if found is not None:
                    told.append(found)
                if answers[0].status == 200:
                    fine.add(route.path)
    assert fine == REACHED
    assert told == [], f"{len(told)} answers tell of it\n" + "\n".join(told[:20])
