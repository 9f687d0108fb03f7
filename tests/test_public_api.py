"""What is public: the names of `clew`, one surface with two faces, a suite that hides no test."""

from __future__ import annotations

import ast
import graphlib
import inspect
import re
from collections import Counter
from collections.abc import Awaitable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import msgspec
import pytest

import clew
from clew import errors, model
from clew.model import files, search, transfer
from clew.testing.backend import BackendConformance, DurableConformance
from tests.support.rows import each_row

NAMES = """
    AsyncRun AsyncSession AsyncStore BackendError Branch Capabilities Change Checkpoint ClewError
    ConflictError Context CorruptError Entry Event Head HeadMovedError Hit InvalidError KeyReusedError
    LeaseHeldError LeaseLostError Maintenance NotFoundError OutcomeUnknownError Page Retention Run
    SearchPage Session SessionDeletedError SessionExistsError SessionInfo SessionNotFoundError Snapshot
    Stats Status Store StoreBusyError Tree Usage UsageTotals Watch copy copy_async open open_async
"""
"""What most programs need. Other errors are in `clew.errors`, other values in `clew.model`."""

STORE = """
    backup capabilities clear close compare create delete delete_snapshot diff export export_pieces
    facets find finish_restore flush gc get get_snapshot import_path interrupted latest list list_files
    load location maintain pending_restores read read_file redaction removals repair restore
    restore_deleted retention search session sessions_with_snapshot set_redaction set_retention snapshot
    snapshots stats sweep sync transact undo_restore upsert usage vacuum verify watch watch_files
"""

SESSION = """
    add_alias add_event add_event_nowait add_events add_usage annotate append append_nowait attach
    checkpoint checkpoints clear close compact complete context count_events delete_checkpoint
    delete_document delete_var documents entries events fail file_history follow fork get_checkpoint
    get_document get_var head info lease messages moves new_fork_id outline outside_lease redo
    remove_alias reopen replace restore_files resume rewind run set_document set_metadata set_summary
    set_var start status_changes summary touch tree truncate turn undo update usage usage_records vars
"""

RUN = sorted([*SESSION.split(), "lost", "renew", "secret"])

FACES = [
    (clew.Store, clew.AsyncStore, STORE.split()),
    (clew.Session, clew.AsyncSession, SESSION.split()),
    (clew.Run, clew.AsyncRun, RUN),
]
each_method = each_row(
    ("sync", "aio", "name"),
    [(sync, aio, name) for sync, aio, names in FACES for name in names],
    ids=lambda row: f"{row[0].__name__}.{row[2]}",
)
AT_ONCE = {"add_event_nowait", "append_nowait", "outside_lease", "maintain", "watch_files"}
"""Do not wait, so there is nothing to await."""
KNOWN = {"location", "capabilities", "lost", "secret"}
"""Properties that need no storage, and no await."""
ENTERED = {"run": "Taking", "turn": "AsyncIterator[H]"}
"""Entered with `async with`; what that gives is on the async face written so."""


def public(owner: object) -> list[str]:
    return sorted(name for name in dir(owner) if not name.startswith("_"))


def test_the_public_names_are_these() -> None:
    """A name that comes or goes is a decision: write it here too."""
    found = [name for name in public(clew) if not isinstance(getattr(clew, name), ModuleType)]

    assert sorted(found) == NAMES.split()
    assert clew.__version__


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        clew.does_not_exist  # noqa: B018


def test_every_error_is_public_and_says_what_it_is() -> None:
    """Under one base, each with a code of its own."""
    classes: dict[str, Any] = {name: value for name, value in vars(errors).items() if inspect.isclass(value)}
    found = {name: value for name, value in classes.items() if value.__module__ == errors.__name__}

    assert "LeaseLostError" in found
    assert {name for name in NAMES.split() if name.endswith("Error")} < set(found)
    assert all(issubclass(error, clew.ClewError) for error in found.values())
    assert all(error.__doc__ for error in found.values())
    assert [
        code for code, times in Counter(error.code for error in found.values()).items() if times > 1
    ] == []


def test_values_that_come_back_are_frozen() -> None:
    public_values = [value for part in (model, files, search, transfer) for value in vars(part).values()]
    structs = [
        value
        for value in public_values
        if inspect.isclass(value) and issubclass(value, msgspec.Struct) and value is not msgspec.Struct
    ]

    assert len(structs) >= 45
    assert all(struct.__struct_config__.frozen for struct in structs)


@each_row(("sync", "aio", "names"), FACES)
def test_both_faces_have_the_same_names(sync: type, aio: type, names: list[str]) -> None:
    """`AsyncStore.over` and `blocking` alone have no counterpart: they make the one out of the other."""
    assert public(sync) == names
    assert [name for name in public(aio) if name not in ("over", "blocking")] == names


@each_method
def test_both_faces_take_the_same_arguments(sync: type, aio: type, name: str) -> None:
    """The same parameters in the same order, of the same kind and type, with the same defaults.
    Where the one takes a handle, the other takes its counterpart."""
    first, second = inspect.getattr_static(sync, name), inspect.getattr_static(aio, name)
    if isinstance(first, property):
        assert isinstance(second, property)
        return
    parameters = list(inspect.signature(first).parameters.values())
    others = list(inspect.signature(second).parameters.values())

    assert parameters == [
        other.replace(annotation="Run | None") if other.annotation == "AsyncRun | None" else other
        for other in others
    ]


@each_method
def test_the_async_face_is_awaited(sync: type, aio: type, name: str) -> None:
    """Methods are coroutines, iterators async ones, properties that read storage are awaitable."""
    first, second = inspect.getattr_static(sync, name), inspect.getattr_static(aio, name)
    if isinstance(second, property):
        awaited = _awaited(second)
        assert awaited == (name not in KNOWN)
    elif name in ("entries", "export_pieces", "watch"):
        assert inspect.isasyncgenfunction(second)
    elif name in ENTERED:
        assert not inspect.iscoroutinefunction(second)
        assert hasattr(_entered(aio, name), "__aenter__")
    else:
        assert inspect.iscoroutinefunction(second) == (name not in AT_ONCE)
    assert not inspect.iscoroutinefunction(first)


def _entered(aio: type, name: str) -> object:
    """What a method gives to `async with`, of a session that is never used."""

    class Nothing:
        """Stands for whatever a handle is made of."""

        def __getattr__(self, name: str) -> Nothing:
            return Nothing()

        def __call__(self) -> Nothing:
            return Nothing()

    handle: Any = object.__new__(aio)
    vars(handle).update(_bridge=Nothing(), _session=Nothing())
    return getattr(handle, name)()


def _awaited(value: property) -> bool:
    assert value.fget is not None
    origin: Any = getattr(get_type_hints(value.fget)["return"], "__origin__", None)
    return inspect.isclass(origin) and issubclass(origin, Awaitable)


@each_method
def test_both_faces_give_the_same(sync: type, aio: type, name: str) -> None:
    """The same result, but that a session or a store is one of the same face."""
    first, second = inspect.getattr_static(sync, name), inspect.getattr_static(aio, name)
    if isinstance(first, property):
        first, second = first.fget, second.fget
    if name in ENTERED:
        assert str(second.__annotations__["return"]) == ENTERED[name]
        return
    given, awaited = str(first.__annotations__["return"]), str(second.__annotations__["return"])
    unwrapped = (
        awaited.removeprefix("Awaitable[").removesuffix("]") if awaited.startswith("Awaitable[") else awaited
    )

    for awaitable in ("AsyncIterator", "AsyncSession", "AsyncRun"):
        unwrapped = unwrapped.replace(awaitable, awaitable.removeprefix("Async"))
    assert unwrapped == given


def test_opening_takes_the_same_arguments() -> None:
    assert list(inspect.signature(clew.open).parameters.values()) == list(
        inspect.signature(clew.open_async).parameters.values()
    )


def imported(body: list[ast.stmt]) -> Iterator[str]:
    """What is imported as soon as a module is: not in functions, and not for types only."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.ClassDef | ast.Try | ast.With):
            yield from imported(node.body)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.dump(node.test):
            yield from imported([*node.body, *node.orelse])


def importing_part(source: str) -> str:
    """A module without what follows its first function or class, unless there may be an import in that."""
    parts = re.split(r"^(?=async def|def|class|@)", source, maxsplit=1, flags=re.MULTILINE)
    return source if re.search(r"^ {0,8}(?:import|from) ", "".join(parts[1:]), re.MULTILINE) else parts[0]


def test_no_module_imports_itself_through_another() -> None:
    """Else whether a module can be imported depends on which other one was imported first."""
    source = Path(clew.__file__).parent.parent
    files = {
        ".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): file
        for file in source.rglob("*.py")
    }
    graph: dict[str, set[str]] = {name: set() for name in files}
    for name, file in files.items():
        for found in imported(ast.parse(importing_part(file.read_text("utf-8"))).body):
            while found and found not in files:
                found = found.rpartition(".")[0]
            if found and not f"{name}.".startswith(f"{found}."):  # a package is there before its modules
                graph[name].add(found)

    assert len(graph) > 200
    graphlib.TopologicalSorter(graph).prepare()


def test_no_conformance_test_hides_another() -> None:
    """Two parts of the suite with a test of one name: the second would never run."""
    parts = {part for suite in (BackendConformance, DurableConformance) for part in suite.__mro__}
    times = Counter(name for part in parts for name in vars(part) if name.startswith("test_"))

    assert [name for name, count in times.items() if count > 1] == []
    assert len(times) > 150


def test_every_conformance_test_says_what_it_promises() -> None:
    """The suite is the specification: each test is a sentence, and its docstring says the promise."""
    for suite in (BackendConformance, DurableConformance):
        for name in dir(suite):
            if name.startswith("test_"):
                assert inspect.getdoc(getattr(suite, name)), name
