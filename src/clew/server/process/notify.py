"""What a service manager is told: systemd's `Type=notify`, and its watchdog."""

from __future__ import annotations

import os
import socket
import time

_LONGEST_WATCH = 3600.0


class Manager:
    """The service manager that started this process, if one did."""

    def __init__(self) -> None:
        """The variables are taken out of the environment: programs that this one starts are not the
        service."""
        self._address = os.environ.pop("NOTIFY_SOCKET", "")
        pid = os.environ.pop("WATCHDOG_PID", "")
        micros = os.environ.pop("WATCHDOG_USEC", "")
        is_ours = micros.isdecimal() and pid in ("", str(os.getpid()))
        self._every = min(int(micros) / 1e6 / 3, _LONGEST_WATCH) if is_ours else None
        self._next = 0.0

    def ready(self) -> None:
        """It serves; also after a reload."""
        self._tell("READY=1")

    def reloading(self) -> None:
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._tell("STOPPING=1")

    def alive(self) -> None:
        """Called often; said as often as the watchdog wants it."""
        now = time.monotonic()
        if self._every is not None and now >= self._next:
            self._next = now + self._every
            self._tell("WATCHDOG=1")

    def _tell(self, text: str) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as one:
                one.settimeout(1.0)
                one.connect(address)
                one.send(text.encode())
        except OSError:  # it does not listen any more; the server is no worse for it
            pass
