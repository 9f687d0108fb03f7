"""Tasks of Cline and of Roo Code: `tasks/<id>/api_conversation_history.json` and the files beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from clew.core.messages.dialects.base import texts_in
from clew.importers.contract import OnBytes, OnProblem, Problem, SourceEntry, SourceSession
from clew.importers.programs import cline_task
from clew.importers.programs.cline_people import is_human, model_told, task_of, working_directory
from clew.importers.reading.ids import digest, session_id, version
from clew.importers.reading.values import document, items, mapping, plain_name, text, when, without
from clew.model import Json

NAME: Final = "cline"

_HISTORY: Final = "api_conversation_history.json"
_MESSAGE: Final = frozenset({"role", "content"})
_TITLE_LENGTH: Final = 200
_EDITORS: Final = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_EXTENSIONS: Final = ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline")
_TOLD: Final = frozenset({"id", "task", "workspace", "cwdOnTaskInitialization", "parentTaskId"})


def recognises(path: Path, beginning: bytes) -> bool:
    if path.name != _HISTORY and not (path.parent / "ui_messages.json").is_file():
        return False
    return beginning.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[") and b'"role"' in beginning


def known_places(home: Path) -> list[Path]:
    roots = [home / ".config" / editor for editor in _EDITORS]
    roots += [home / "Library" / "Application Support" / editor for editor in _EDITORS]
    roots += [home / ".vscode-server" / "data"]
    storages = [root / "User" / "globalStorage" / name for root in roots for name in _EXTENSIONS]
    return [*(storage / "tasks" for storage in storages), home / ".cline" / "data" / "tasks"]


def files(path: Path) -> list[Path]:
    # A task is called by the time of its birth.
    return sorted(path.rglob(_HISTORY), key=lambda file: file.parent.name) if path.is_dir() else [path]


def read(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    on_bytes(path.stat().st_size)
    try:
        messages = [mapping(message) for message in items(document(path))]
    except (ValueError, RecursionError) as exc:
        on_problem(Problem(path=str(path), line=getattr(exc, "lineno", None), reason=f"no JSON: {exc}"))
        return
    task = path.absolute().parent
    more = cline_task.metadata(task)
    used = cline_task.Models(more)
    shown = cline_task.Shown(task, used, on_problem)
    about = cline_task.about(task)
    first = messages[0] if messages else {}
    title = text(about.get("task")) or task_of(first)
    above = text(about.get("parentTaskId"))
    model = _model(messages) or shown.model() or used.last()
    yield SourceSession(
        id=session_id(NAME, task.name),
        aliases=(task.name,),
        entries=_entries(messages, shown, is_ordered=above is not None),
        title=title[:_TITLE_LENGTH] if title else None,
        workspace=plain_name(about.get("cwdOnTaskInitialization"))
        or text(about.get("workspace"))
        or working_directory(first),
        model=model.name if model else plain_name(about.get("modelId")) or _model_shown(messages),
        vendor=model.vendor if model else None,
        created_at=when(task.name) or when(first.get("ts")) or when(about.get("ts")),
        metadata=without(about, _TOLD),
        parent=session_id(NAME, above) if above else None,
        shares_calls=False,
        events=shown.events,
        usage=shown.usage,
        vars=lambda: {"task_metadata": more} if more is not None else {},
    )


def _entries(
    messages: list[dict[str, Json]], shown: cline_task.Shown, *, is_ordered: bool
) -> Iterator[SourceEntry]:
    """`is_ordered`: the model of another task wrote the first message."""
    sent = iter(shown.requests())
    parent: str | None = None
    moment: Json = None
    for message in messages:
        if message.get("role") == "user":
            moment = next(sent, moment)
        uid = version(parent, str(message.get("role")), digest(message))
        by_program = is_ordered and parent is None
        yield _entry(message, uid, parent, moment, by_program=by_program)
        parent = uid


def _entry(
    message: dict[str, Json], uid: str, parent: str | None, sent: Json, *, by_program: bool
) -> SourceEntry:
    at = when(message.get("ts")) or when(sent)
    rest = without(message, _MESSAGE)
    notes = {"source": rest} if rest else {}
    if message.get("isSummary"):
        # Roo keeps what it summarised, and sends what follows the summary.
        summary = "\n".join(texts_in(message.get("content")))
        return SourceEntry(
            uid=uid, parent=parent, message={"text": summary}, kind="compaction", at=at, notes=notes
        )
    plain = {name: value for name, value in message.items() if name in _MESSAGE} or message
    spoken = message.get("role") != "user" or (is_human(message) and not by_program)
    return SourceEntry(
        uid=uid, parent=parent, message=plain, at=at, human=None if spoken else False, notes=notes
    )


def _model(messages: list[dict[str, Json]]) -> cline_task.Model | None:
    told = (cline_task.model_in(message.get("modelInfo")) for message in reversed(messages))
    return next(filter(None, told), None)


def _model_shown(messages: list[dict[str, Json]]) -> str | None:
    """Roo tells the model itself, and nobody else, which one it is."""
    return next(filter(None, map(model_told, reversed(messages))), None)
