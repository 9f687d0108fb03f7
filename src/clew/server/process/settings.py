"""What can be set of a server."""

from __future__ import annotations

from typing import Final

import msgspec

MIB: Final = 1024 * 1024
MOST_LISTED: Final = 200
"""Of one page."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one application. The defaults are for one user on one machine."""

    token: str | None = None
    """The token of the owner, who may do everything; None: the one that is kept for this store."""
    public_url: str | None = None
    """Where people reach it, if that is not where it listens: behind a proxy, or through `ssh -L`."""
    hosts: tuple[str, ...] = ()
    """More names, with their ports, under which it may be asked for."""
    root_path: str = ""
    """The path below which a proxy offers it, as `/clew`."""
    proxy: bool = False
    """Believe what a proxy says of the client: only behind one that sets these headers itself."""
    outside: str | None = None
    """Where other machines reach a server that listens for them; links that are made here lead there."""
    cors: tuple[str, ...] = ()
    """Origins of other pages that may call it, each exactly as a browser writes it."""
    read_only: bool = False
    """Refuse whatever changes the store."""
    allow_files: bool = False
    """Let callers with the scope `files` restore files in directories of this machine."""
    page: bool = True
    """Serve the page for people at `/`."""
    mcp: bool = True
    """Let agents search their past at `/mcp`."""

    max_body: int = 32 * MIB
    """Bytes of a request, unpacked."""
    max_import: int = 1024 * MIB
    """Bytes of a file that is imported."""
    max_batch: int = 1000
    """Messages, or events, of one request."""
    max_depth: int = 512
    """Lists and objects inside each other in a request."""
    timeout: float = 30.0
    """Seconds for a request; exports, imports and streams are excepted."""
    workers: int = 1
    """Processes that serve the store together: what one has not heard of, another one may have done."""
    threads: int = 8
    """Requests that are worked on at the same time; more wait."""
    slow_threads: int = 4
    """The same for those that may take minutes: imports, the beginnings of exports, checks, restores."""
    rate: float = 1000.0
    """Requests a second of one stored token, on average; of a share a tenth. The owner's are not counted."""
    burst: int = 5000
    """Requests that a token may send at once."""
    concurrent: int = 1000
    """Requests of one caller that are not answered yet."""
    sign_ins: int = 20
    """Failed sign-ins of one address, or of one user of this machine, at once; then one every two seconds."""
    streams: int = 64
    """Open streams of one caller."""
    stream_deadline: float = 20.0
    """Seconds for a client to take what a stream has sent it; a slower one is cut off, and resumes."""
    heartbeat: float = 15.0
    """Seconds between the comments that keep an idle stream open."""

    def __repr__(self) -> str:
        """Without the token: settings end up in logs and tracebacks."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__ if name != "token"}
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in fields.items())})"
