"""Requests to a server, and what they fail with. The one module that knows urllib3."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import msgspec
import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationParseError,
    NewConnectionError,
    SSLError,
)

from clew.backends.http.address import Address
from clew.backends.http.errors import error_of, is_known, problem_in
from clew.backends.http.wire import (
    COMPRESSED_FROM,
    ENCODINGS,
    MOST_SENT,
    TIME_HEADER,
    TooLargeError,
    compress,
    decompress,
)
from clew.errors import (
    AccessDeniedError,
    BackendError,
    BackendUnavailableError,
    ClewError,
    InvalidUrlError,
    StoreBusyError,
    StoreClosedError,
)

API: Final = "/api/v1/rows/"
CONNECTIONS: Final = 16
"""That are kept open for other threads."""
LONGEST_WAIT: Final = 5.0
"""Seconds to wait at once when a server asks for patience."""
_NEVER_DONE: Final = (NewConnectionError, ConnectTimeoutError, LocationParseError)

_decode_any = msgspec.json.Decoder(dict[str, Any]).decode
S = TypeVar("S")


class LostError(Exception):
    """The answer was lost: the request may have been carried out, or not."""


class Connection:
    """A server, from any number of threads."""

    def __init__(self, address: Address, token: str, timeout: float, ca: str | None) -> None:
        self.location = address.shown
        self.timeout = timeout
        self.clock = ServerClock()
        self.is_closed = False
        self.requests = 0
        """Sent so far."""
        self._address = address
        self._ca = ca
        self._headers = {
            "authorization": f"Bearer {token}",
            "accept-encoding": ENCODINGS[0],
            "content-type": "application/json",
            "user-agent": "clew",
        }
        self._packs = ""
        """The encoding that the server takes; empty: none."""
        self.gate = Gate()
        self._pool = self._open()

    def __repr__(self) -> str:
        return f"<Connection to {self.location}>"  # the token is a secret

    def _open(self) -> urllib3.HTTPConnectionPool:
        address = self._address
        if address.scheme == "http":
            return urllib3.HTTPConnectionPool(address.host, address.port, maxsize=CONNECTIONS)
        try:
            context = ssl.create_default_context(cafile=self._ca)
        except OSError as error:
            raise InvalidUrlError(f"the certificates in ca cannot be read: {error}") from error
        return urllib3.HTTPSConnectionPool(
            address.host, address.port, maxsize=CONNECTIONS, ssl_context=context
        )

    def accept(self, encodings: list[str]) -> None:
        """The server takes requests in these encodings."""
        self._packs = next((name for name in ENCODINGS if name in encodings), "")

    def post(self, what: str, body: bytes, *, timeout: float | None = None) -> bytes:
        """Send a request; the body of the answer. LostError: it may have been carried out. Else errors of
        clew.errors: it was not, or it was refused."""
        deadline = time.monotonic() + self.timeout
        while True:
            status, headers, content = self._send(what, body, timeout or self.timeout)
            if status == 200:
                return content
            wait = _patience(status, headers)
            if wait is None or time.monotonic() + wait > deadline:
                raise self._refusal(status, headers, content)
            time.sleep(wait)

    def _send(self, what: str, body: bytes, timeout: float) -> tuple[int, Any, bytes]:
        headers = dict(self._headers)
        if self._packs and len(body) >= COMPRESSED_FROM:
            body = compress(self._packs, body)
            headers["content-encoding"] = self._packs
        with self.gate.passed():
            if self.is_closed:
                raise StoreClosedError(self.location)
            self.requests += 1
            began = time.monotonic()
            try:
                response = self._pool.urlopen(
                    "POST",
                    self._address.path + API + what,
                    body=body,
                    headers=headers,
                    retries=False,
                    redirect=False,
                    timeout=urllib3.Timeout(connect=min(timeout, self.timeout), read=timeout),
                    preload_content=False,
                    decode_content=False,
                )
                try:
                    content = _whole(response)
                except BaseException:
                    response.close()  # an answer that was not read to its end is not followed by another
                    raise
                response.release_conn()
            except _NEVER_DONE as error:
                raise self._unreachable(error) from error
            except SSLError as error:
                raise self._insecure(error) from error
            except (HTTPError, OSError) as error:
                raise LostError(self._told(error)) from error
        self.clock.note(response.headers.get(TIME_HEADER), began)
        encoding = response.headers.get("content-encoding", "")
        try:
            return response.status, response.headers, decompress(encoding, content)
        except TooLargeError:
            raise BackendError(f"an answer of {self.location} is larger than {MOST_SENT} bytes") from None
        except ValueError as error:
            raise LostError(f"an answer of {self.location} cannot be unpacked: {error}") from error

    # -- errors

    def _told(self, error: Exception) -> str:
        reason = str(error).rpartition(": ")[2] or type(error).__name__
        return f"the connection to {self.location} was lost: {reason}"

    def _unreachable(self, error: Exception) -> ClewError:
        reason = str(error).rpartition(": ")[2]
        return BackendUnavailableError(
            f"no server can be reached at {self.location} ({reason}): is `clew serve` running there?"
        )

    def _insecure(self, error: Exception) -> ClewError:
        return BackendUnavailableError(
            f"no safe connection to {self.location}: {str(error).rpartition(': ')[2]};"
            " for a certificate of your own pass ca='/path/to/ca.pem'"
        )

    def _refusal(self, status: int, headers: Any, content: bytes) -> ClewError:
        kind = headers.get("content-type", "").partition(";")[0]
        if 300 <= status < 400:
            return InvalidUrlError(
                f"{self.location} sends its callers elsewhere (status {status}); redirects are not followed:"
                " open the address that it leads to"
            )
        try:
            told = _decode_any(content) if kind == "application/problem+json" else {}
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            told = {}
        problem = problem_in(told)
        next = f"; {told['next']}" if isinstance(told.get("next"), str) else ""
        if status == 401:
            return AccessDeniedError(
                f"{self.location} does not accept the token: pass token=… to clew.open(), or set CLEW_TOKEN"
                if told
                else f"{self.location} asks for a sign-in of its own (status 401): is this a Clew server?"
            )
        if status == 403 and not is_known(problem):
            return AccessDeniedError(f"{self.location} refuses: {problem.detail or 'status 403'}{next}")
        if status == 404 and problem.code in ("", "no_such_route"):
            return InvalidUrlError(f"there is no Clew server at {self.location}, or it is an older one")
        if not problem.code:
            return BackendUnavailableError(
                f"{self.location} answered with status {status}, and not as Clew does"
            )
        if status == 429:
            return StoreBusyError(f"{self.location} takes no more requests for a while: {problem.detail}")
        if is_known(problem):
            return error_of(problem)
        return error_of(
            msgspec.structs.replace(problem, detail=f"{self.location} refuses: {problem.detail}{next}")
        )

    # -- forks, and the end

    def abandon(self) -> None:
        """In a forked child: leave the connections to the parent."""
        self.gate = Gate()
        self.clock.renew()
        self._pool = self._open()

    def close(self) -> None:
        self.is_closed = True
        self._pool.close()


def _whole(response: urllib3.BaseHTTPResponse) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := response.read(1 << 20):
        size += len(piece)
        if size > MOST_SENT:
            raise BackendError(f"an answer of the server is larger than {MOST_SENT} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _patience(status: int, headers: Any) -> float | None:
    """How long to wait before the same request is sent again; None: that would not help. With these the
    server has not looked at the request."""
    if status != 429:
        return None
    try:
        return min(max(float(headers.get("retry-after", "")), 0.05), LONGEST_WAIT)
    except ValueError:
        return 0.5


class Gate:
    """Lets threads pass, unless the process is about to fork."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._is_shut = False

    @contextmanager
    def passed(self) -> Iterator[None]:
        with self._changed:
            while self._is_shut:
                self._changed.wait()
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def shut(self, seconds: float) -> None:
        """Let no thread pass any more, and wait until none is inside."""
        with self._changed:
            self._is_shut = True
            self._changed.wait_for(lambda: not self._inside, seconds)

    def open(self) -> None:
        with self._changed:
            self._is_shut = False
            self._changed.notify_all()


class ServerClock:
    """The server's clock, without asking it each time: every answer says what it shows, exact to half a round
    trip; in between, the monotonic clock of this machine goes on."""

    SHARPER: Final = 10.0
    """Seconds after which a measurement is replaced, even by one that took longer."""

    def __init__(self) -> None:
        self.renew()
        self._distance: float | None = None
        self._error = 0.0
        self._measured = 0.0
        self._last = 0

    def renew(self) -> None:
        self._lock = threading.Lock()

    def note(self, told: str | None, began: float) -> None:
        if told is None or not told.isascii() or not told.isdigit() or len(told) > 18:
            return
        now = time.monotonic()
        with self._lock:
            error = now - began
            is_old = now - self._measured > self.SHARPER
            if self._distance is None or is_old or error < self._error:
                self._distance = int(told) - (began + now) / 2 * 1e6
                self._error, self._measured = error, now

    def now(self) -> int:
        """Microseconds since 1970; never goes back."""
        with self._lock:
            distance = (
                self._distance if self._distance is not None else (time.time() - time.monotonic()) * 1e6
            )
            self._last = max(self._last, int(time.monotonic() * 1e6 + distance))
            return self._last
