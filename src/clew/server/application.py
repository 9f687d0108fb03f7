"""The ASGI application: the steps that every request goes through, in their order."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
import zlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    MutableMapping,
)
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import quote, unquote

import msgspec

from clew.aio.bridge import Bridge
from clew.errors import ClewError, KeyReusedError
from clew.model import utc
from clew.server import problems
from clew.server.access import audit, shares
from clew.server.access.browser import cookie_name
from clew.server.access.guard import SAFE_HEADERS, Asked, Guard, as_file
from clew.server.access.keys import KeyHashes
from clew.server.access.limits import Limits
from clew.server.access.principal import NOBODY, Principal, check_reach
from clew.server.access.secret import masked
from clew.server.access.shared import without_secrets
from clew.server.access.sign_in import SignIn, refused
from clew.server.call import SMALL, Answer, Call, Upload
from clew.server.conversations.errors import error_of, is_face
from clew.server.decoding import body_of, query_of, too_large
from clew.server.live import sse
from clew.server.live.hub import Hub
from clew.server.mcp.http.routes import Endpoint
from clew.server.problems import Problem, problem_of
from clew.server.process.metrics import Metrics
from clew.server.process.settings import Settings
from clew.server.routing import API, Route, Router, parts_of
from clew.server.rows.door import Door
from clew.session import Session
from clew.store import Store

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

T = TypeVar("T")

log = logging.getLogger("clew.server")

MOST_KNOWN: Final = 10_000
"""Sessions whose ids are remembered."""
WORTH_PACKING: Final = 4096
PACKING: Final = 1
"""The level of gzip: an answer is packed while its client waits."""
MOST_OF_NOBODY: Final = 4096
"""Bytes of a request that needs no token, as a sign-in."""

PLAIN_TEXT: Final = "text/plain; charset=utf-8"

_encode = msgspec.json.Encoder().encode
_NO_UNICODE: Final = re.compile("[\ud800-\udfff]")


def encode(value: Any) -> bytes:
    """A value as JSON. Names of files may be no Unicode: what is not is replaced in them."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_in_unicode(msgspec.to_builtins(value)))


def _in_unicode(value: Any) -> Any:
    match value:
        case str():
            return _NO_UNICODE.sub("\ufffd", value)
        case list() | tuple():
            return [_in_unicode(one) for one in value]
        case dict():
            return {_in_unicode(name): _in_unicode(one) for name, one in value.items()}
        case _:
            return value


class Finished(msgspec.Struct, kw_only=True):
    """A request that was answered, for the log and the metrics."""

    method: str
    path: str
    """As it was sent, without its query."""
    route: str | None = None
    """The route's path, as `/api/v1/sessions/{id}`; None: no route was found."""
    client: str = ""
    principal: str | None = None
    status: int = 0
    received: int = 0
    sent: int = 0
    seconds: float = 0.0
    is_live: bool = False
    """It was a stream of events, which lasts as long as its client listens."""
    error: str | None = None
    """Names an error of the server in its log."""


class Server:
    """A store as an ASGI application."""

    def __init__(self, store: Store, settings: Settings) -> None:
        from clew.server.routes import all_routes

        self.store = store
        self.settings = settings
        self.router = Router(all_routes(settings))
        self.guard = Guard(settings)
        self.limits = Limits(settings, store._engine.host)
        self.sign_in = SignIn(store, settings.token)
        self.bridge = store._engine.service(Bridge)
        self._known: dict[str, Session] = {}
        self.metrics = Metrics()
        self.on_finished: list[Callable[[Finished], None]] = [self.metrics.count]
        self.on_stopping: list[Callable[[], None]] = []
        """Called when the server is about to stop: streams are to end, and their clients to come back."""
        self.hub = Hub(store._engine, self.sign_in.is_valid, settings.streams)
        self.on_stopping.append(self.hub.stop)
        self.is_ready = True
        self.in_flight = 0
        """Requests that are being answered, with streams."""
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="clew-http")
        self._slow_threads = ThreadPoolExecutor(settings.slow_threads, thread_name_prefix="clew-http-slow")
        self.key_hashes = KeyHashes(store._engine)
        self.mcp = Endpoint()
        self.rows = Door(store._engine, read_only=settings.read_only, is_alone=settings.workers == 1)

    # -- ASGI

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "lifespan":
                await self._live(receive, send)
            case "http":
                await self._serve(scope, receive, send)
            case "websocket":
                await send({"type": "websocket.close", "code": 1008})

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.close()
        await send({"type": "lifespan.shutdown.complete"})

    def close(self) -> None:
        """End the streams, and let go of the threads. The store stays open. Idempotent."""
        self.hub.stop()
        self.rows.close()
        self._threads.shutdown(wait=False)
        self._slow_threads.shutdown(wait=False)

    def stop_streams(self) -> None:
        """The server stops: whatever would go on for ever ends now."""
        for tell in self.on_stopping:
            tell()

    # -- one request

    def _home(self, scope: Scope, root: str) -> str | None:
        """The address of the page, by the name by which the server was asked for; None: it has none."""
        if not self.settings.page:
            return None
        if self.settings.public_url is not None:
            return f"{self.settings.public_url}/"
        host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        return f"{scope.get('scheme', 'http')}://{host}{root}/"

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
        began = time.perf_counter()
        done = Finished(method=scope["method"], path=raw_path.decode("latin-1"), client=_client(scope))
        root = self.settings.root_path or scope.get("root_path", "")
        parts = parts_of(raw_path, root)
        sender = _Sender(
            scope, receive, send, done, speaks_openai=is_face(parts), home=self._home(scope, root)
        )
        self.in_flight += 1
        try:
            answer, route = await self._answer(scope, receive, sender, done, root, parts)
            await sender.send(answer, route)
        except Problem as problem:
            await sender.send_problem(problem)
        except ClewError as error:
            if sender.has_begun:
                raise
            await sender.send_problem(problem_of(error, utc(self.store._engine.host.now())))
        except _ClientGone:
            done.status = 499
        except Exception:
            # Whatever it is, the client hears that it failed, and the log says why.
            done.error = secrets.token_hex(6)
            log.exception("%s %s failed (%s)", done.method, done.route, done.error)
            if sender.has_begun:
                raise
            await sender.send_problem(_unexpected(done.error))
        finally:
            self.in_flight -= 1
            done.seconds = time.perf_counter() - began
            for tell in self.on_finished:
                tell(done)

    async def _answer(
        self, scope: Scope, receive: Receive, sender: _Sender, done: Finished, root: str, parts: list[str]
    ) -> tuple[Answer, Route | None]:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        asked = self.guard.check(scope, headers)
        done.client = asked.client
        sender.headers |= self.guard.cors_headers(asked)
        if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            return Answer(status=204, headers=self.guard.preflight(asked, headers)), None
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        route, values = self.router.find(method, parts)
        done.route = route.path
        principal = await self._principal(route, asked, headers)
        done.principal = principal.name
        call = Call(self, route, headers, principal, parts, asked)
        call.root = quote(unquote(root.rstrip("/")), safe="/")
        with self.limits.working(principal):
            await self._check_reach(call, route, values)
            call.query_string = scope.get("query_string", b"")
            arguments: dict[str, Any] = {"call": call, **values}
            if route.query is not None:
                arguments["query"] = query_of(call.query_string, route.query)
            elif call.query_string and not (route.is_private and route.scope is None):  # a page reads its own
                raise Problem(422, "invalid", "The request is not valid", "this route takes no parameters")
            if route.body is Upload:
                self._refuse_encoding(headers)
                arguments["body"] = Upload(self._pieces(headers, receive, done, self.settings.max_import))
            elif route.body is not None:
                most = route.max_body or self.settings.max_body if route.scope is not None else MOST_OF_NOBODY
                content = await self._body(headers, receive, done, most)
                sender.is_body_read = True
                decode = partial(body_of, content, route.body, headers, most)
                call.size = len(content)
                arguments["body"] = decode() if call.size <= SMALL else await self.in_thread(decode)
            answer = await self._handle(route, arguments)
            audit.note_call(call, arguments)
            if principal.redact:
                answer = await self.in_thread(partial(without_secrets, answer, route))
        return answer, route

    async def _principal(self, route: Route, asked: Asked, headers: dict[str, str]) -> Principal:
        """Who calls, and whether that caller may use this route at all."""
        if route.scope is None:
            return NOBODY
        credential = None
        try:
            credential = self.sign_in.credential(headers, cookie_name(asked.port))
            if credential is None:
                raise refused("the request has no token")
            if credential.token is None:
                self.guard.check_cookie(asked, route.method, headers)
            find = partial(self.sign_in.find, credential)
            known = self.sign_in.is_known(credential)
            principal = find() if known else await self.in_thread(find)
        except Problem as problem:
            if problem.status == 401 and "authorization" in headers:
                await self.in_thread(partial(self.limits.failed, asked))
            raise
        self.limits.check_rate(principal)
        if not principal.may(route.scope):
            raise _forbidden(route, principal)
        # The rows of the store see to it themselves.
        is_reading = route.scope in ("read", "store") or route.method == "GET"
        if self.settings.read_only and not is_reading:
            raise Problem(403, "read_only", "The server only reads", "it was started with --read-only")
        return principal

    async def _check_reach(self, call: Call, route: Route, values: dict[str, str]) -> None:
        """Before a function of ours runs for a caller who may see some sessions only."""
        principal = call.principal
        if principal.kind == "share":
            shares.check_reach(principal, route)
        elif principal.is_bound:
            check_reach(principal, route)
            is_opened = (route.method, route.path) == ("PUT", f"{API}/sessions/{{id}}")  # or made by it
            if route.path.startswith(f"{API}/sessions/{{id}}") and not is_opened:
                await self.in_thread(partial(call.check_visible, values["id"]))

    async def _body(self, headers: dict[str, str], receive: Receive, done: Finished, most: int) -> bytes:
        return b"".join([piece async for piece in self._pieces(headers, receive, done, most)])

    async def _pieces(
        self, headers: dict[str, str], receive: Receive, done: Finished, most: int
    ) -> AsyncIterator[bytes]:
        """The body as it comes, never more than so many bytes."""
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length[:20]) > most:
            raise too_large(most)
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _ClientGone
            piece: bytes = message.get("body", b"")
            done.received += len(piece)
            if done.received > most:
                raise too_large(most)
            yield piece
            if not message.get("more_body", False):
                return

    def _refuse_encoding(self, headers: dict[str, str]) -> None:
        """Of a body that is not unpacked."""
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if encoding != "identity":
            raise Problem(
                415,
                "unsupported_encoding",
                "The body must not be compressed",
                f"Content-Encoding is {encoding[:40]!r}",
                next="send the file as it is; a file that is compressed with zstd is imported as such",
            )

    async def _handle(self, route: Route, arguments: dict[str, Any]) -> Answer:
        try:
            async with asyncio.timeout(None if route.is_slow else self.settings.timeout):
                if route.is_async:
                    return _answer_of(await route.handler(**arguments))
                return await self.in_thread(partial(_encoded, route, arguments), slow=route.is_slow)
        except KeyReusedError as error:
            raise arguments["call"].as_sent(error) from error
        except TimeoutError:
            raise self._too_slow(route) from None

    def _too_slow(self, route: Route) -> Problem:
        is_read = route.method == "GET"
        return Problem(
            503,
            "timeout" if is_read else "outcome_unknown",
            "The request took too long",
            f"it was not done after {self.settings.timeout:g} seconds"
            + ("" if is_read else "; it may still happen"),
            next=None if is_read else "repeat it with the same Idempotency-Key: it happens once",
            retryable=True,
            headers={"retry-after": "1"},
        )

    def in_thread(self, work: Callable[[], T], *, slow: bool = False) -> asyncio.Future[T]:
        """Do something that blocks in a thread of this server. What may take minutes has threads of its own:
        other requests do not wait for it."""
        threads = self._slow_threads if slow else self._threads
        return asyncio.get_running_loop().run_in_executor(threads, work)

    # -- sessions that were asked for before

    def known_session(self, id: str) -> Session | None:
        """A session by its id, without a look into the store. It may be deleted by now, but it is never
        another one: the number by which a handle knows its session is not used again."""
        return self._known.get(id)

    def know_session(self, id: str, session: Session) -> None:
        if session.id != id:
            return  # an alias can be moved
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[id] = session

    def forget_session(self, id: str) -> None:
        self._known.pop(id, None)


def _answer_of(found: Any) -> Answer:
    return found if isinstance(found, Answer) else Answer(value=found)


def _forbidden(route: Route, principal: Principal) -> Problem:
    next = f"use a token that has it: clew token add NAME --scope={route.scope} makes one"
    if route.scope == "store":
        next += "; it is as good as the database file, so programs that need less use the HTTP API"
    return Problem(
        403,
        "forbidden",
        "The token does not allow this",
        f"this needs the scope `{route.scope}`, which the token {principal.name!r} does not have",
        next=next,
    )


def _encoded(route: Route, arguments: dict[str, Any]) -> Answer:
    """What a function answers that blocks, encoded in its thread: other requests need not wait for that."""
    answer = _answer_of(route.handler(**arguments))
    if answer.stream is None and not isinstance(answer.value, bytes):
        answer.value = encode(answer.value)
    return answer


class _ClientGone(Exception):
    """The client went away before its request was whole."""


class _Sender:
    """Sends one answer."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        done: Finished,
        *,
        speaks_openai: bool = False,
        home: str | None = None,
    ) -> None:
        """`home`: the address of the page, where people sign in."""
        self._scope = scope
        self._speaks_openai = speaks_openai
        self._home = home
        self._receive = receive
        self._send = send
        self._done = done
        self._headers = dict(scope["headers"])
        self.headers: dict[str, str] = {}
        """On whatever is answered."""
        self.is_body_read = b"transfer-encoding" not in self._headers and (
            self._headers.get(b"content-length", b"0") == b"0"
        )
        """Nothing of the request is still on its way."""
        self.has_begun = False

    async def send_problem(self, problem: Problem) -> None:
        if self._is_a_person():
            answer = Answer(
                value=masked(problems.sentence_of(problem, self._home).encode("utf-8", "replace")),
                status=problem.status,
                headers=problem.headers,
                media_type=PLAIN_TEXT,
            )
            await self.send(answer, None)
            return
        if self._speaks_openai:
            answer = error_of(problem, repeatable=b"idempotency-key" in self._headers)
        else:
            answer = Answer(
                value=problem.content,
                status=problem.status,
                headers=problem.headers,
                media_type=problems.MEDIA_TYPE,
            )
        answer.value = masked(encode(answer.value))
        await self.send(answer, None)

    def _is_a_person(self) -> bool:
        """A browser was sent to this address: only then it asks for a page. Programs get problems."""
        return self._scope["method"] == "GET" and b"text/html" in self._headers.get(b"accept", b"")

    async def send(self, answer: Answer, route: Route | None) -> None:
        status = answer.status or (route.status if route else 200)
        media_type = answer.media_type or (route.media_type if route else "application/json")
        headers = {**SAFE_HEADERS, **self.headers, **answer.headers}
        if headers["cache-control"] != "no-store":  # no cache gives one caller what another one was told
            headers["vary"] = ", ".join(filter(None, (headers.get("vary"), "authorization, cookie")))
        if not self.is_body_read:  # what comes is not the next request: so no other one can follow
            headers["connection"] = "close"
        if answer.etag is not None:
            headers["etag"] = answer.etag
            if status == 200 and self._scope["method"] in ("GET", "HEAD") and self._is_known(answer.etag):
                headers.pop("content-length", None)  # of what is not sent
                await self._begin(304, headers)
                await self._end(b"")
                return
        if "content-security-policy" not in answer.headers:  # which a page of our own has
            as_file(headers, media_type)
        if answer.stream is not None:
            headers["content-type"] = media_type
            self._done.is_live = media_type.startswith(sse.MEDIA_TYPE)
            await self._begin(status, headers)
            await self._stream(answer)
            return
        if status == 204:
            await self._begin(status, headers)
            await self._end(b"")
            return
        content = answer.value if isinstance(answer.value, bytes) else encode(answer.value)
        headers["content-type"] = media_type
        takes_gzip = b"gzip" in self._headers.get(b"accept-encoding", b"")
        if takes_gzip and len(content) >= WORTH_PACKING and "content-encoding" not in headers:
            content = _packed(content)
            headers["content-encoding"] = "gzip"
            headers["vary"] = ", ".join(filter(None, (headers.get("vary"), "accept-encoding")))
        headers["content-length"] = str(len(content))
        await self._begin(status, headers)
        await self._end(content)

    def _is_known(self, etag: str) -> bool:
        given = self._headers.get(b"if-none-match", b"").decode("latin-1")
        tags = {tag.strip().removeprefix("W/") for tag in given.split(",")}
        return etag.removeprefix("W/") in tags or "*" in tags

    async def _begin(self, status: int, headers: dict[str, str]) -> None:
        self.has_begun = True
        self._done.status = status
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
            }
        )

    async def _end(self, content: bytes) -> None:
        if self._scope["method"] == "HEAD":
            content = b""
        self._done.sent += len(content)
        await self._send({"type": "http.response.body", "body": content})

    async def _stream(self, answer: Answer) -> None:
        """Send pieces as they come. A client that goes away ends it at once, wherever it waits."""
        assert answer.stream is not None
        pieces = answer.stream
        if self._scope["method"] == "HEAD":
            await self._end(b"")
            return
        sending = asyncio.ensure_future(self._send_all(pieces, answer.deadline))
        leaving = asyncio.ensure_future(self._client_leaves())
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_sent = sending.done()
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            await _close(pieces)
        if not is_sent:
            raise _ClientGone
        sending.result()

    async def _send_all(self, pieces: Iterator[bytes] | AsyncIterator[bytes], deadline: float | None) -> None:
        if isinstance(pieces, AsyncIterator):
            async for piece in pieces:
                await self._piece(piece, deadline)
        else:
            loop = asyncio.get_running_loop()
            while piece := await loop.run_in_executor(None, _next, pieces):
                await self._piece(piece, deadline)
        await self._end(b"")

    async def _client_leaves(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _piece(self, piece: bytes, deadline: float | None) -> None:
        self._done.sent += len(piece)
        try:
            async with asyncio.timeout(deadline):
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        except TimeoutError:
            raise _ClientGone from None  # it does not read what it is sent


def _packed(content: bytes) -> bytes:
    packer = zlib.compressobj(PACKING, wbits=31)  # gzip
    return packer.compress(content) + packer.flush()


def _next(pieces: Iterator[bytes]) -> bytes:
    """Empty at the end."""
    return next((piece for piece in pieces if piece), b"")


async def _close(pieces: Iterator[bytes] | AsyncIterator[bytes]) -> None:
    """End a generator, so that it gives back what it holds."""
    if isinstance(pieces, AsyncGenerator):
        await pieces.aclose()
    elif isinstance(pieces, Generator):
        await asyncio.get_running_loop().run_in_executor(None, pieces.close)


def _client(scope: Scope) -> str:
    found = scope.get("client")
    return found[0] if found else ""


def _unexpected(id: str) -> Problem:
    return Problem(
        500,
        "unexpected",
        "The server failed",
        f"an error that was not expected; the log of the server has it as {id}",
        fields={"error": id},
    )
