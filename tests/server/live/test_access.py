"""Who may follow what, and for how long: S-36, and the reach of tokens and shares."""

from __future__ import annotations

from datetime import timedelta

from clew.server.access.shares import add_share
from clew.server.access.tokens import add_token, remove_token
from tests.server.conftest import TOKEN, Running
from tests.server.live.client import Event, Stream
from tests.support.rows import each_row
from tests.support.waiting import until

AWS = "AKIA" + "IOSFODNN7" + "EXAMPLE"


def open_stream(server: Running, path: str, token: str, last_id: str | None = None) -> Stream:
    return Stream(server.url, f"/api/v1{path}", token, last_id)


def status(server: Running, path: str, token: str) -> tuple[int, object]:
    with server.client(token) as client:
        answer = client.get(f"/api/v1{path}")
        return answer.status_code, answer.json()["code"]


@each_row("path", ["/sessions/s/live", "/live", "/live?session=s"])
def test_a_stream_ends_when_its_token_is_revoked(timed: Running, path: str) -> None:
    server = timed
    server.store.session("s")
    _, token = add_token(server.store, "reader")
    with open_stream(server, path, token) as stream, open_stream(server, path, TOKEN) as other:
        stream.next("head")
        other.next("head")
        remove_token(server.store, "reader")
        event = stream.next_in(server)
        assert (event.event, event.data, event.has_id) == ("bye", {"reason": "revoked"}, False)
        assert list(stream.events()) == []
        server.store.get("s").append({"role": "user", "content": "x"})
        assert other.next().event in ("entry", "change")  # nobody else is concerned
    assert status(server, path, token) == (401, "unauthorized")


def test_a_stream_ends_with_its_token(timed: Running) -> None:
    timed.store.create("s")
    _, token = add_token(timed.store, "brief", lasts=timedelta(seconds=60))
    with open_stream(timed, "/sessions/s/live", token) as stream:
        stream.next("head")
        before = timed.clock.now
        assert stream.next_in(timed, seconds=5).data == {"reason": "revoked"}
        assert timed.clock.now - before > 59 * 1_000_000


def test_who_signs_out_ends_the_streams_of_that_cookie_and_no_others(timed: Running) -> None:
    server = timed
    cookies = []
    with server.client(None) as client:
        for _ in range(2):
            answer = client.post("/api/v1/login", json={"token": TOKEN})
            cookies.append(answer.headers["set-cookie"].partition(";")[0])
            client.cookies.clear()
    with (
        Stream(server.url, "/api/v1/live", "", cookie=cookies[0]) as stream,
        Stream(server.url, "/api/v1/live", "", cookie=cookies[1]) as other,
        open_stream(server, "/live", TOKEN) as program,
    ):
        for one in (stream, other, program):
            one.next("head")
        with server.client(None) as client:
            headers = {"cookie": cookies[0], "origin": server.url}
            assert client.post("/api/v1/logout", headers=headers).status_code == 204
        assert stream.next_in(server).data == {"reason": "revoked"}
        assert list(stream.events()) == []
        server.store.create("s")
        assert [one.next("change").data["session"] for one in (other, program)] == ["s", "s"]


def test_a_bound_token_is_told_of_sessions_as_its_lists_give_them(server: Running) -> None:
    base = server.store.create("base")
    base.append({"role": "user", "content": "x"})
    _, token = add_token(server.store, "bound", tags=["t"])
    with open_stream(server, "/live", token) as stream:
        stream.next("head")
        fork = base.fork("mine")
        fork.update(tags=["t"])
        fork.add_usage(cost=1)
        server.store.create("other", metadata={"parent": "mine"}).add_usage(cost=2)
        while (told := stream.next("change").data)["info"]["usage"]["cost"] is None:
            pass
        with server.client(token) as client:
            (row,) = client.get("/api/v1/sessions?usage=true").json()["data"]

    assert told["info"] == row
    assert (row["forked_from"], row["usage"]["cost"], row["subagents"]) == (None, "1", 0)


def test_a_bound_token_hears_of_its_sessions_only(server: Running) -> None:
    mine, other = server.store.create("mine", tags=["t"]), server.store.create("other")
    _, token = add_token(server.store, "bound", tags=["t"])
    with open_stream(server, "/live", token) as stream:
        begin = stream.next("head")
        for session in (other, mine, other):
            session.append({"role": "user", "content": "x"})
        server.store.delete("other")
        server.store.delete("mine")
        server.store.restore_deleted("mine")
        server.store.get("mine").append({"role": "user", "content": "end"})
        heard: list[Event] = []
        while not heard or heard[-1].data["messages"] < 2:
            heard.append(stream.next())
    with open_stream(server, "/live", token, begin.id) as again:
        told = again.next("change")

    assert {event.data["session"] for event in heard} == {"mine"}
    assert told.data["session"] == "mine"


def test_s19_a_stream_tells_a_bound_token_no_note_of_a_session_of_others(server: Running) -> None:
    base = server.store.create("base")
    (shared,) = base.append({"role": "user", "content": "x"})
    base.annotate(shared, note="before the fork")
    fork = base.fork("mine")
    fork.update(tags=["t"])
    base.annotate(shared, note="secret of the base", label="secret")
    _, token = add_token(server.store, "bound", tags=["t"])
    with open_stream(server, "/sessions/mine/live?after=start", token) as stream:
        assert stream.next("entry").data["annotations"] == {"note": "before the fork"}
    with open_stream(server, "/sessions/base/live?after=start", TOKEN) as stream:
        assert stream.next("entry").data["annotations"]["label"] == "secret"


def test_a_session_that_loses_its_tag_is_gone_for_a_bound_token(timed: Running) -> None:
    s = timed.store.create("s", tags=["t"])
    _, token = add_token(timed.store, "bound", tags=["t"])
    with open_stream(timed, "/sessions/s/live", token) as stream:
        stream.next("head")
        s.update(tags=[])

        assert stream.next_in(timed).event == "gone"


def test_views_are_those_of_entries(server: Running) -> None:
    s = server.store.create("s")
    s.append({"role": "user", "content": "**hi** <script>"})
    with server.client() as client:
        for view in ("raw", "blocks", "html", "line"):
            with open_stream(server, f"/sessions/s/live?after=start&view={view}", TOKEN) as stream:
                told = stream.next("entry").data
            assert told.pop("session") == "s"
            assert view == "raw" or "<script>" not in str(told.get("html", ""))
            answer = client.get(f"/api/v1/sessions/s/entries?view={view}")
            if answer.status_code == 200:
                assert told == answer.json()["data"][0]


def test_a_stream_of_a_share_gives_back_its_place_when_its_client_leaves(server: Running) -> None:
    s = server.store.create("s")
    _, token = add_share(server.store, s, at=None)
    with open_stream(server, "/sessions/s/live", token) as stream:
        stream.next("head")
        assert server.app.hub.streams == 1
    until(lambda: not server.app.hub.streams)
