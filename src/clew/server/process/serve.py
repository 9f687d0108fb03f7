"""Run a server: open the store, listen, serve until a signal comes, and leave nothing behind.

One process serves by itself; several are children of one that starts them (`workers.py`). Either way the
signals mean the same: SIGTERM and SIGINT stop it, running requests first; the second one ends it at once;
SIGHUP reads the tokens again and opens the log anew.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

import msgspec

import clew
from clew.backends.registry import parse
from clew.errors import InvalidError
from clew.server.process import sockets as listening
from clew.server.process.access_log import AUDIT, Log, LogHandler
from clew.server.process.notify import Manager
from clew.server.process.settings import Settings

if TYPE_CHECKING:
    from clew.server.process.following import Follower
    from clew.server.process.loop import Loop
    from clew.store import Store

_FILES: Final = 8192
"""Descriptors that a process asks for, if it may have as many."""
_SPARE: Final = 200
"""Descriptors for everything but connections."""
_CONNECTIONS: Final = 2000
_LOGGERS: Final = ("clew", "uvicorn", "asyncio", "mcp")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a server is run; what it does is in `Settings`."""

    host: str | None = None
    """None: the loopback addresses."""
    port: int | None = None
    """None: the usual one, or the next that is free; 0: any that is free."""
    unix_socket: Path | None = None
    """Listen there; on a host too only if one, or a port, is named."""
    workers: int = 1
    sync: bool = False
    log_file: Path | None = None
    quiet: bool = False
    """No line for each request on standard error."""
    new_token: bool = False
    grace: float = 10.0
    """Seconds that running requests have when it stops."""


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server is to be found."""

    store: str
    """Its address, fit to be shown."""
    url: str | None
    """Where people reach it; None: only at `unix_socket`."""
    urls: tuple[str, ...]
    """Where programs reach it: the addresses of this machine, if it listens on all of them."""
    local: str | None
    """Where a program of this machine reaches it."""
    unix_socket: str | None
    token_file: str
    pid: int
    port_is_other: bool
    """The usual port was taken."""
    is_open: bool
    """Other machines reach it."""


class NoTokenError(InvalidError):
    """Other machines would reach the server, and no token was made for them."""

    def __init__(self, host: str) -> None:
        super().__init__(f"{host} is open to other machines, and the store has no token for them yet")


def serve(
    address: str | None,
    settings: Settings,
    options: Options,
    *,
    on_start: Callable[[Started], None] = lambda _: None,
) -> int:
    """Serve the store at an address until a signal ends it. The number of that signal."""
    _check_workers(address, options)
    manager = Manager()
    with ExitStack() as stack:
        with _opened(address, settings) as store:
            sockets, started, settings = _prepare(store, settings, options, stack)

            def on_ready() -> None:
                manager.ready()
                on_start(started)

            stack.callback(_announce(store.location, started, has_page=settings.page))
            if options.workers == 1:
                with _log(options) as log:
                    process = Process(store, settings, options, sockets, log, manager, on_started=on_ready)
                    return process.run(abandon=stack.close, address=address)
        from clew.server.process.workers import Workers

        workers = Workers(
            lambda: _opened(address, settings),
            settings,
            options,
            sockets,
            manager,
            address=address,
            on_ready=on_ready,
        )
        return workers.run()


@contextmanager
def _opened(address: str | None, settings: Settings) -> Iterator[Store]:
    with clew.open(address, **({"read_only": True} if settings.read_only else {})) as store:
        yield store


@contextmanager
def _log(options: Options) -> Iterator[Log]:
    """The log, which also takes what is told by `logging`."""
    log = Log(options.log_file, is_quiet=options.quiet)
    with attached(log):
        yield log


@contextmanager
def attached(log: Log) -> Iterator[None]:
    """What is told by `logging` goes to this log, and the log is closed at the end."""
    handler = LogHandler(log)
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [(one, one.propagate) for one in loggers]
    audit = logging.getLogger(AUDIT)
    level = audit.level
    for one in loggers:
        one.addHandler(handler)
        one.propagate = False
    audit.setLevel(logging.INFO)
    try:
        yield
    finally:
        audit.setLevel(level)
        for one, propagate in before:
            one.removeHandler(handler)
            one.propagate = propagate
        log.close()


def _check_workers(address: str | None, options: Options) -> None:
    scheme = parse(address)[0]
    if options.workers < 1:
        raise InvalidError(f"{options.workers} workers cannot serve; there is at least 1")
    if options.workers > 1 and scheme != "postgresql":
        raise InvalidError(
            f"{options.workers} workers need a PostgreSQL store, and this one is {scheme}; "
            "one process serves it, without --workers"
        )


# -- before the first connection


def _prepare(
    store: Store, settings: Settings, options: Options, stack: ExitStack
) -> tuple[list[socket.socket], Started, Settings]:
    """Listen, and say where; the settings with the names under which the server may be asked for."""
    from clew.server.access.tokens import has_token, new_own_token, own_token, token_path

    is_tcp = options.unix_socket is None or options.host is not None or options.port is not None
    is_open = is_tcp and options.host is not None and not listening.is_loopback(options.host)
    if is_open and not has_token(store):
        raise NoTokenError(options.host or "")
    (new_own_token if options.new_token else own_token)(store.location)
    sockets: list[socket.socket] = []
    if options.unix_socket is not None:
        path = options.unix_socket.absolute()
        one = listening.listen_on_path(path)
        found = os.lstat(path)
        stack.callback(listening.remove_path, path, one, (found.st_dev, found.st_ino))
        sockets.append(one)
    port = 0
    if is_tcp:
        tcp = listening.listen(options.host, options.port)
        for one in tcp:
            stack.callback(one.close)
        sockets += tcp
        port = tcp[0].getsockname()[1]
    listens = _names(sockets) if is_tcp else []
    names = [_written(host, port) for name in listens for host in listening.reached_at(name)]
    urls = tuple(f"http://{name}{settings.root_path}" for name in names)
    started = Started(
        store=store.location,
        url=settings.public_url or (urls[0] if urls else None),
        urls=urls,
        local=urls[-1 if is_open else 0] if urls else None,
        unix_socket=str(options.unix_socket) if options.unix_socket else None,
        token_file=token_path(store.location),
        pid=os.getpid(),
        port_is_other=is_tcp and options.port is None and port != listening.USUAL_PORT,
        is_open=is_open,
    )
    heard = (_written(host, port) for host in listens)
    hosts = [*settings.hosts, *heard, *names, *_own_names(options.host, port, is_open=is_open)]
    if is_tcp and not is_open:
        hosts.append(f"localhost:{port}")
    if options.unix_socket is not None:
        hosts.append("localhost")
    known = tuple(dict.fromkeys(hosts))
    outside = urls[0] if is_open else None
    settings = msgspec.structs.replace(settings, hosts=known, outside=outside, workers=options.workers)
    return sockets, started, settings


def _names(sockets: list[socket.socket]) -> list[str]:
    """The addresses that are listened on."""
    return [one.getsockname()[0] for one in sockets if one.family != socket.AF_UNIX]


def _written(host: str, port: int) -> str:
    """As clients write it: `127.0.0.1:8731`, `[::1]:8731`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _own_names(host: str | None, port: int, *, is_open: bool) -> list[str]:
    """More names of this machine, if the server listens for other ones. A name that an attacker chooses is
    none."""
    if not is_open or host is None:
        return []
    found = {host, socket.gethostname()}
    if host in ("0.0.0.0", "::", "*", ""):
        found |= {"localhost", "127.0.0.1", "::1"}
        with suppress(OSError):
            known = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
            found |= {str(address[0]).partition("%")[0] for *_, address in known}
    return [_written(name, port) for name in sorted(found)]


def _announce(location: str, started: Started, *, has_page: bool) -> Callable[[], None]:
    """Tell other programs of this user where the store is served; what takes it back."""
    from clew.server.access.state import forget_running, set_running

    if started.url is None:
        return lambda: None
    set_running(location, started.url, local=started.local, page=has_page)
    return lambda: forget_running(location)


# -- one process


class Process:
    """One process that serves: the only one, or a worker."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        options: Options,
        sockets: list[socket.socket],
        log: Log,
        manager: Manager,
        *,
        on_started: Callable[[], None],
        worker: int = 0,
    ) -> None:
        from clew.server.application import Server
        from clew.server.process.loop import Loop
        from clew.server.process.protocol import Limits

        self.app = Server(store, settings)
        self.app.metrics.numbers.worker = self._worker = worker
        self.app.on_finished.append(log.request)
        self._store = store
        self._options = options
        self._sockets = sockets
        self._log = log
        self._manager = manager
        self._signal = 0
        self._abandon: Callable[[], None] = lambda: None
        self._follower: Follower | None = None
        self.loop: Loop = Loop(
            self.app,
            log,
            limits=Limits(connections=min(_CONNECTIONS, _raised_limit() - _SPARE)),
            grace=options.grace,
            on_started=on_started,
            on_tick=self._tick,
        )

    def run(self, *, abandon: Callable[[], None], address: str | None = None) -> int:
        """Until a signal comes: its number. `abandon`: what is left to do when it has to end at once."""
        self._abandon = abandon
        is_terminal = sys.stderr.isatty() or sys.stdout.isatty()
        # A terminal that is closed sends SIGHUP too: there the server ends, as every program does.
        hung_up = self._stop if is_terminal else self._reload
        handlers = {signal.SIGINT: self._stop, signal.SIGTERM: self._stop, signal.SIGHUP: hung_up}
        with handled(handlers):
            self._serve(address)
        return self._signal

    def run_as_worker(self, *, address: str | None, unblock: Iterable[signal.Signals]) -> None:
        """Until the process that started it says so, which has blocked these signals. A terminal's Ctrl-C
        goes to all processes: it is left to that one."""
        with handled({signal.SIGTERM: self._stop, signal.SIGHUP: self._reload}):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, unblock)
            self._serve(address)

    def _serve(self, address: str | None) -> None:
        from clew.server.process.loop import run

        if self._options.sync and self._worker == 0:
            from clew.server.process.following import Follower

            self._follower = Follower(self._store, address, self._log)
            self._follower.start()
        gc.collect()
        gc.freeze()  # what was imported stays; it need not be looked at again
        try:
            run(self.loop, self._sockets)
        finally:
            if self._follower is not None:
                self._follower.stop()
        if self.loop.cut:
            # Their threads would keep the process. What they did not commit, they did not do.
            self._end_at_once(0)

    # -- signals

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self._signal:
            self._end_at_once(128 + number)
        self._signal = number
        self._manager.stopping()
        self.loop.stop()

    def _reload(self, number: int, frame: FrameType | None) -> None:
        # A thread: the signal may have come while a lock is held that this needs.
        threading.Thread(target=self.reload, name="clew-reload", daemon=True).start()

    def reload(self) -> None:
        """Read the tokens again, and open the log anew."""
        self._manager.reloading()
        try:
            self.app.sign_in.forget()
            self._log.reopen()
            if self._follower is not None:
                self._follower.rescan()
            self._log.note("reloaded: tokens were read again, the log was opened anew")
        except (clew.ClewError, OSError) as exc:
            self._log.failed("reload failed", exc)
        self._manager.ready()

    def _end_at_once(self, code: int) -> None:
        """As if it were killed, but without leaving files behind. A store survives that."""
        self._log.flush()
        self._abandon()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(code or (130 if self._signal == signal.SIGINT else 0))

    def _tick(self) -> None:
        self._manager.alive()
        self.app.metrics.see(self.app)
        self.app.metrics.tell()


@contextmanager
def handled(handlers: Mapping[signal.Signals, Callable[[int, FrameType | None], None]]) -> Iterator[None]:
    """These signals call these functions until the end of the block."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raised_limit() -> int:
    """Each connection is a descriptor, and many systems allow few unless asked."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _FILES
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return int(soft)
    return int(wanted)
