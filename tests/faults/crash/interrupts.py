"""Ctrl-C: a child whose main thread is interrupted again and again in the middle of appends."""

from __future__ import annotations

import dis
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import clew
from clew.backends.contract import Transaction
from tests.faults.crash.common import chain_of, check_file, message, said, texts
from tests.faults.history.checker import History, check, log_of
from tests.support.children import Child, ProcessFailed

Tell = Callable[[Any], None]


def append_under_fire(tell: Tell, path: str, interrupts: int, others: int) -> None:
    """Append in the main thread, and in others beside it, while somebody presses Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    store = clew.open(path)
    history = History()
    stop = threading.Event()
    unexpected: list[str] = []
    unknown: list[str] = []

    def append(name: str, session: clew.Session, number: int) -> None:
        values = [f"{name}.{number}", f"{name}.{number}+"]
        with history.append(name, session.id, values):
            session.append(*map(message, values))

    def work(name: str) -> None:
        session = store.session(name)
        number = 0
        while not stop.is_set():
            number += 1
            try:
                append(name, session, number)
            except clew.OutcomeUnknownError:
                unknown.append(name)  # the main thread led, and was interrupted
            except BaseException as error:  # noqa: BLE001 (told to the test)
                unexpected.append(repr(error))
                return

    threads = [threading.Thread(target=work, args=(f"t{n}",), daemon=True) for n in range(others)]
    for thread in threads:
        thread.start()
    session = store.session("main")
    number = 0
    caught = 0
    while caught < interrupts:
        try:
            tell("fire")
            while True:
                number += 1
                append("main", session, number)
        except KeyboardInterrupt:
            caught += 1
        except clew.ClewError as error:
            unexpected.append(repr(error))
            caught += 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    append("main", session, number + 1)
    stop.set()
    for thread in threads:
        thread.join()
    with clew.open(path) as other:
        other.session("another").append(message("nobody holds the store"))
    sessions = [store.get(info.id) for info in store.list() if info.id != "another"]
    logs = {each.id: log_of(each) for each in sessions}
    tell(
        {
            "unexpected": unexpected[:5],
            "unknown": len(unknown),
            "violations": said(check(history.operations, logs)),
            "wrong": [line for each in sessions for line in chain_of(each)],
            "appended": len(history.operations),
        }
    )
    store.close()
    tell(check_file(Path(path)))


def fire(path: str, interrupts: int, others: int) -> list[Any]:
    """Press Ctrl-C so often, whatever the child does at that moment."""
    child = Child(append_under_fire, path, interrupts, others)
    while (heard := child.hear()) == "fire":
        child.kill(signal.SIGINT)
    integrity = child.hear()
    if child.wait() != 0:
        raise ProcessFailed(f"the child ended with {child.status}")
    return [heard, integrity]


# Ctrl-C at every point, one after the other

CLEW = os.path.dirname(clew.__file__)


class Interrupter:
    """Raises KeyboardInterrupt at the Nth point at which the interpreter looks for signals.

    It does so after calls, at the start of functions and at the end of loops; here only in Clew's
    own code. Counts on without raising when N is 0.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.points = 0
        self.place = ""
        self._before: dict[FrameType, str] = {}

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(CLEW):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            before = self._before.get(frame, "")
            self._before[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if before.startswith(("CALL", "RESUME", "JUMP_BACKWARD")):
                self.points += 1
                if self.points == self.number:
                    self.place = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
                    raise KeyboardInterrupt
        return self.trace

    def run(self, function: Callable[[], object]) -> bool:
        """Whether the function was interrupted."""
        sys.settrace(self.trace)
        try:
            function()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(None)
        return False


def interrupt_everywhere(path: str, role: str) -> dict[str, Any]:
    """Interrupt an append at every point: of a lone caller, of a leader, of one who waits."""
    store = clew.open(path)
    play = {"alone": _alone, "leader": _leader, "waiter": _waiter}[role]
    session, beside = store.session("s"), store.session("beside")
    session.append(message("warm"))
    play(store, Interrupter(0))
    wrong: dict[str, str] = {}
    number = 0
    while True:
        number += 1
        interrupter = Interrupter(number)
        before = [session.info.messages, beside.info.messages]
        raised = play(store, interrupter)
        if interrupter.points < number:
            break
        problems = [*raised, *_problems(store, path, before)]
        if problems:
            wrong[f"{number} at {interrupter.place}"] = "; ".join(problems)
    if broken := [*chain_of(session), *chain_of(beside)]:
        wrong["the chains at the end"] = "; ".join(broken)
    return {"points": number - 1, "wrong": wrong}


def _two(name: str) -> list[dict[str, Any]]:
    return [message(f"{name} one"), message(f"{name} two")]


def _alone(store: clew.Store, interrupter: Interrupter) -> list[str]:
    session = store.get("s")
    interrupter.run(lambda: session.append(*_two("main")))
    return []


def _leader(store: clew.Store, interrupter: Interrupter) -> list[str]:
    """The main thread commits while another waits for it."""
    beside = Beside(store)

    def lead(_: Transaction) -> None:
        beside.start_and_queue()

    interrupter.run(lambda: store._engine.run(lead))
    return beside.end()


def _waiter(store: clew.Store, interrupter: Interrupter) -> list[str]:
    """Another thread commits; the main thread waits, and behind it a third."""
    first, third = Beside(store), Beside(store)
    session = store.get("s")
    started, is_over = threading.Event(), threading.Event()

    def lead(_: Transaction) -> None:
        started.set()
        while not store._engine.committer._queue and not is_over.is_set():
            time.sleep(0)
        third.start_and_queue()

    first.start(lambda: store._engine.run(lead))
    started.wait()
    interrupter.run(lambda: session.append(*_two("main")))
    is_over.set()
    return [*first.end(), *third.end()]


class Beside:
    """A thread that appends while the main thread is interrupted."""

    def __init__(self, store: clew.Store) -> None:
        self._store = store
        self._thread: threading.Thread | None = None
        self._raised: list[str] = []

    def start(self, work: Callable[[], object]) -> None:
        def run() -> None:
            try:
                work()
            except clew.OutcomeUnknownError:
                pass
            except BaseException as error:  # noqa: BLE001 (told to the test)
                self._raised.append(repr(error))

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def start_and_queue(self) -> None:
        """Append, and return when the append waits for its turn."""
        queue = self._store._engine.committer._queue
        before = len(queue)
        session = self._store.get("beside")
        self.start(lambda: session.append(*_two("beside")))
        while len(queue) == before and not self._raised:
            time.sleep(0)

    def end(self) -> list[str]:
        if self._thread is not None:
            self._thread.join()
        return self._raised


def _problems(store: clew.Store, path: str, before: list[int]) -> list[str]:
    """Whether anything is locked, or half there."""
    after = Beside(store)
    after.start(lambda: store.get("beside").append(*_two("after")))
    problems = after.end()
    try:
        with clew.open(path) as other:
            other.session("another").append(message("nobody holds the file"))
    except clew.StoreBusyError:
        problems.append("the file is held")
    for session, had in zip((store.get("s"), store.get("beside")), before, strict=True):
        count = session.info.messages - had
        new = [str(each["content"]) for each in session.messages(last=count)] if count else []
        pairs = zip(new[::2], new[1::2], strict=False)
        if len(new) != count or count % 2 or any(b != a.replace("one", "two") for a, b in pairs):
            problems.append(f"half a batch: {new}")
    return problems


def interrupt_handing_over(path: str) -> dict[str, Any]:
    """Interrupt the first `append_nowait` of a store at every point; then others go on."""
    wrong: dict[str, str] = {}
    number = 0
    while True:
        number += 1
        store = clew.open(f"{path}.{number}")
        session = store.session("s")
        interrupter = Interrupter(number)
        interrupter.run(lambda: session.append_nowait(*_two("main")))  # noqa: B023 (used at once)
        beside = Beside(store)
        beside.start(lambda: _hand_over_and_flush(store))  # noqa: B023
        if problems := beside.end():
            wrong[f"{number} at {interrupter.place}"] = "; ".join(problems)
        found = texts(session)
        if found not in (["after one", "after two"], ["main one", "main two", "after one", "after two"]):
            wrong[f"{number} at {interrupter.place}"] = str(found)
        store.close()
        if interrupter.points < number:
            break
    return {"points": number - 1, "wrong": wrong}


def _hand_over_and_flush(store: clew.Store) -> None:
    store.get("s").append_nowait(*_two("after"))
    store.flush()
