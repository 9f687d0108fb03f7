"""`clew serve`: the store over HTTP."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import click

from clew.backends.registry import parse
from clew.cli.app import INTERRUPTED, OK, Refused, Settings, command
from clew.cli.output import Output
from clew.cli.store import exists, must_exist, opened
from clew.cli.text import clew_command, from_home, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew.server.access.state import Running
    from clew.server.process.serve import Options, Started

_PACKAGES: Final = {"uvicorn": "uvicorn>=0.54", "httptools": "httptools>=0.6"}
"""What the extra `server` brings, as in pyproject.toml."""
_NO_BROWSER: Final = "no browser was found; open the address yourself, or set $BROWSER"
_SECONDS: Final = click.FloatRange(0, 3600)


@command(
    "serve",
    "clew serve                        serve your store on this machine",
    "clew serve --open                 and open it in your browser; a running one is opened again",
    "clew serve --sign-in              print a fresh sign-in address of the running one",
    "clew serve --sync                 and follow the agents of this machine",
    "clew serve --port 9000            on this port",
    "clew serve --unix-socket c.sock   on a socket that only you can use",
    "clew serve --host 0.0.0.0         for other machines; needs clew token add",
    "clew serve --public-url URL       behind a proxy, or through ssh -L",
    "clew serve --json --port 0        any free port, told in JSON",
)
@click.option("--host", metavar="HOST", help="Listen on this address  [default: 127.0.0.1 and ::1]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Listen on this port; 0: any free one  [default: 8731, or the next free one]",
)
@click.option(
    "--unix-socket",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="PATH",
    help="Listen on a socket that only you can use",
)
@click.option("--public-url", metavar="URL", help="Where people reach it, if that is elsewhere")
@click.option("--proxy", is_flag=True, help="Believe the proxy in front what it says of clients")
@click.option("--root-path", metavar="PATH", default="", help="The path below which a proxy offers it")
@click.option(
    "--cors", metavar="ORIGIN", multiple=True, help="Let pages of this origin call it; may be repeated"
)
@click.option(
    "--allow",
    type=click.Choice(["files"]),
    multiple=True,
    metavar="WHAT",
    help="files: let tokens with the scope files restore directories of this machine",
)
@click.option("--read-only", is_flag=True, help="Refuse everything that changes the store")
@click.option("--no-page", is_flag=True, help="Serve no page for browsers")
@click.option("--no-mcp", is_flag=True, help="Offer agents no tools at /mcp")
@click.option("--open", "opens", is_flag=True, help="Open the page in your browser, signed in")
@click.option(
    "--sign-in", "signs_in", is_flag=True, help="Print a fresh sign-in address of the running server"
)
@click.option("--sync", is_flag=True, help="Follow the agents of this machine, as clew watch does")
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    metavar="N",
    help="Serve with N processes; needs a PostgreSQL store",
)
@click.option("--new-token", is_flag=True, help="Make a new token for yourself; the old one ends")
@click.option(
    "--grace",
    type=_SECONDS,
    default=10.0,
    metavar="SECONDS",
    help="How long running requests may take when it stops  [default: 10]",
)
@click.option(
    "--log-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a line for each request there  [default: standard error]",
)
@click.option("-q", "--quiet", is_flag=True, help="Print no line for each request")
@click.pass_obj
def serve_command(
    settings: Settings,
    host: str | None,
    port: int | None,
    unix_socket: Path | None,
    public_url: str | None,
    proxy: bool,
    root_path: str,
    cors: tuple[str, ...],
    allow: tuple[str, ...],
    read_only: bool,
    no_page: bool,
    no_mcp: bool,
    opens: bool,
    signs_in: bool,
    sync: bool,
    workers: int,
    new_token: bool,
    grace: float,
    log_file: Path | None,
    quiet: bool,
) -> int:
    """Only programs of this machine reach it, and only with a token. The token is made at the first start and
    kept in a file that only you can read; the command says which. A browser signs in with the address that
    is shown on a terminal: its code works once, for two minutes. --open starts your browser with an
    address of its own; $BROWSER names the browser. If a server of this store is already running on this
    machine, --open opens it instead of starting another, and --sign-in prints an address with a fresh code.

    For other machines name a --host, after clew token add has made a token for them; put a proxy with TLS in
    front, because the connections of this command are not encrypted.

    SIGTERM and Ctrl-C stop it: running requests are finished, streams are told to come back. A second signal
    ends it at once. SIGHUP reads the tokens again and opens the log file anew. /health and /ready answer
    without a token, /metrics needs one. At /mcp agents search their past sessions, with a token, as with
    clew mcp.
    """
    _check_install()
    from clew.server.process.serve import NoTokenError, Options, serve
    from clew.server.process.settings import Settings as ServerSettings

    chosen = Options(
        host=host,
        port=port,
        unix_socket=unix_socket,
        workers=workers,
        sync=sync,
        log_file=log_file,
        quiet=quiet,
        new_token=new_token,
        grace=grace,
    )
    asked = ServerSettings(
        public_url=_public_url(public_url),
        root_path=_root_path(root_path, public_url),
        proxy=proxy,
        cors=cors,
        read_only=read_only,
        allow_files="files" in allow,
        page=not no_page,
        mcp=not no_mcp,
    )
    if opens and (no_page or (unix_socket is not None and host is None and port is None)):
        raise click.UsageError("--open needs a page at an address: leave out --no-page, or add --port")
    if signs_in and opens:
        raise click.UsageError("--open signs in by itself: leave out --sign-in")
    if (signs_in or opens) and (server := _running(settings)) is not None:
        (_sign_in if signs_in else _open_again)(settings, *server)
        return OK
    if signs_in:
        raise Refused(f"no server of this store runs here; start one: {clew_command(settings, 'serve')}")
    if read_only:
        must_exist(settings.store)
        if sync:
            raise click.UsageError("--sync writes to the store, and --read-only forbids it")
    is_new = not exists(settings.store)
    try:
        number = serve(
            settings.store,
            asked,
            chosen,
            on_start=lambda started: _begin(
                settings, chosen, started, is_new=is_new, has_page=asked.page, opens=opens
            ),
        )
    except NoTokenError as exc:
        make = clew_command(settings, "token", "add", "NAME")
        raise Refused(f"{exc}; {make} --scope write makes one") from None
    if not quiet and not settings.json and sys.stderr.isatty():
        click.echo("clew: stopped", err=True)
    return INTERRUPTED if number == signal.SIGINT else OK


def _check_install() -> None:
    missing = {name: needed for name, needed in _PACKAGES.items() if not _is_there(name)}
    if missing:
        wanted = " ".join(f"'{one}'" for one in missing.values())
        raise Refused(f"packages are missing: {', '.join(missing)}; pip install {wanted}")


def _is_there(package: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(package) is not None
    except ValueError:  # it was made unavailable
        return False


def _public_url(url: str | None) -> str | None:
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise click.UsageError(f"--public-url {url!r} is not of the form https://host or https://host/path")
    return url.rstrip("/")


def _root_path(path: str, public_url: str | None) -> str:
    """That of the public address, unless another one is named."""
    path = path or (urlsplit(public_url).path if public_url else "")
    if path and not path.startswith("/"):
        raise click.UsageError(f"--root-path {path!r} does not begin with a slash")
    return path.rstrip("/")


# -- a server that is already running


def _running(settings: Settings) -> tuple[Running, str] | None:
    """The server of this store on this machine, and where the store is."""
    if parse(settings.store)[0] == "memory" or not exists(settings.store):
        return None
    from clew.cli.commands.serving.browser import find_server

    with opened(settings) as store:
        location = store.location
        found = find_server(location)
    return None if found is None else (found, location)


def _sign_in(settings: Settings, server: Running, location: str) -> None:
    """Print a one-time address. Its code is a file in the user's own directory, as that of each start."""
    from time import time

    from clew.server.access.browser import CODE_LASTS, new_code

    out = Output(settings)
    url = f"{server.url}/#once={new_code(location, time())}"
    if settings.json:
        out.record({"url": url, "expires_in": CODE_LASTS, "pid": server.pid, "store": location})
        return
    out.line(url)
    if out.is_terminal:
        out.line(_once())


def _open_again(settings: Settings, server: Running, location: str) -> None:
    from clew.cli.commands.serving.browser import open_running

    out = Output(settings)
    is_open = open_running(server, location)
    if settings.json:
        told = {"url": server.url, "pid": server.pid, "store": location}
        out.record({**told, "is_running": True, "is_open": is_open})
    else:
        shown = f"{from_home(location)} is already served at {server.url} (process {server.pid})"
        click.echo(one_line(shown if out.is_terminal else f"clew: {shown}"), err=not out.is_terminal)
    if given := _other_options():
        click.echo(f"clew: the running server keeps its settings; ignored: {', '.join(given)}", err=True)
    if not is_open:
        prints = f"{clew_command(settings, 'serve')} --sign-in"
        click.echo(f"clew: no browser was found; {prints} prints an address for one", err=True)


def _other_options() -> list[str]:
    """The options of this command that would have been for a new server."""
    context = click.get_current_context()
    said = click.core.ParameterSource.COMMANDLINE
    return [
        one.opts[0]
        for one in context.command.params
        if one.name not in ("opens", "quiet") and context.get_parameter_source(one.name or "") is said
    ]


# -- what is said at the start


def _begin(
    settings: Settings, options: Options, started: Started, *, is_new: bool, has_page: bool, opens: bool
) -> None:
    _say_start(settings, options, started, is_new=is_new, has_page=has_page)
    if opens:
        from clew.cli.commands.serving.browser import open_page

        open_page(started, lambda: click.echo(f"clew: {_NO_BROWSER}", err=True))


def _say_start(
    settings: Settings, options: Options, started: Started, *, is_new: bool, has_page: bool
) -> None:
    """The token itself is never said: not on a terminal, not to a pipe."""
    out = Output(settings)
    if settings.json:
        told = {"url": started.url, "urls": started.urls, "unix_socket": started.unix_socket}
        out.record({**told, "pid": started.pid, "token_file": started.token_file, "store": started.store})
    elif out.is_terminal:
        for line in _screen(settings, options, started, is_new=is_new, has_page=has_page):
            out.line(line)
    else:
        where = started.url or started.unix_socket or ""
        click.echo(
            one_line(f"clew: serving {started.store} at {where}; the token is in {started.token_file}"),
            err=True,
        )
    sys.stdout.flush()


def _screen(
    settings: Settings, options: Options, started: Started, *, is_new: bool, has_page: bool
) -> Iterator[str]:
    yield one_line(f"Serving {from_home(started.store)}{', a new store' if is_new else ''}")
    yield ""
    if started.unix_socket is not None:
        yield _field("Socket", from_home(os.path.abspath(started.unix_socket)))
    listens = started.urls if started.is_open else started.urls[:1]
    for name, url in zip(["Address", *[""] * len(listens)], listens, strict=False):
        yield _field(name, url)
    if started.url is not None and started.url not in started.urls:
        yield _field("Public", started.url)
    yield _field("Token", f"in {from_home(started.token_file)}")
    if has_page and started.url is not None:
        from time import time

        from clew.server.access.browser import new_code

        yield _field("Browser", f"{started.url}/#once={new_code(started.store, time())}")
        yield _field("", _once())
    yield ""
    if started.port_is_other:
        yield "Port 8731 is taken by another program: this is the next free one."
    if started.is_open:
        yield "Connections are not encrypted: put a proxy with TLS in front."
    if options.sync:
        yield "The agents of this machine are followed."
    yield "Ctrl-C stops it."
    yield ""


def _once() -> str:
    from clew.server.access.browser import CODE_LASTS

    return f"works once, within {CODE_LASTS // 60} minutes"


def _field(name: str, value: str) -> str:
    return f"  {name:<9}{one_line(value)}"
