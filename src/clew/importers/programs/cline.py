"""Tasks of Cline and of Roo Code: `tasks/<id>/api_conversation_history.json` and the files beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from clew.core.messages.dialects.base import texts_in, type_of
from clew.core.messages.text import inside
from clew.importers.contract import (
    OnBytes,
    OnProblem,
    SourceEntry,
    SourceEvent,
    SourceSession,
    SourceUsage,
)
from clew.importers.reading.files import files_below
from clew.importers.reading.seen import entry_of
from clew.importers.reading.values import (
    Counted,
    count,
    decode_or_none,
    digest,
    document,
    items,
    kind,
    mapping,
    money,
    plain_name,
    session_id,
    text,
    unreadable,
    version,
    when,
    without,
)
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
    if not path.is_dir():
        return [path]
    return sorted(files_below(path, _HISTORY, beginning=_HISTORY), key=lambda file: file.parent.name)


def read(path: Path, on_problem: OnProblem, on_bytes: OnBytes) -> Iterator[SourceSession]:
    on_bytes(path.stat().st_size)
    try:
        messages = [mapping(message) for message in items(document(path))]
    except (ValueError, RecursionError) as exc:
        on_problem(unreadable(path, exc))
        return
    task = path.absolute().parent
    more = metadata(task)
    used = Models(more)
    shown = Shown(task, used, on_problem)
    told = about(task)
    first = messages[0] if messages else {}
    title = text(told.get("task")) or task_of(first)
    above = text(told.get("parentTaskId"))
    model = _model(messages) or shown.model() or used.last()
    yield SourceSession(
        id=session_id(NAME, task.name),
        aliases=(task.name,),
        entries=_entries(messages, shown, is_ordered=above is not None),
        title=title[:_TITLE_LENGTH] if title else None,
        workspace=plain_name(told.get("cwdOnTaskInitialization"))
        or text(told.get("workspace"))
        or working_directory(first),
        model=model.name if model else plain_name(told.get("modelId")) or _model_shown(messages),
        vendor=model.vendor if model else None,
        created_at=when(task.name) or when(first.get("ts")) or when(told.get("ts")),
        metadata=without(told, _TOLD),
        parent=session_id(NAME, above) if above else None,
        shares_calls=False,
        events=shown.events,
        usage=shown.usage,
        vars=lambda: {"task_metadata": more} if more is not None else {},
    )


def _entries(messages: list[dict[str, Json]], shown: Shown, *, is_ordered: bool) -> Iterator[SourceEntry]:
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


def _model(messages: list[dict[str, Json]]) -> Model | None:
    told = (model_in(message.get("modelInfo")) for message in reversed(messages))
    return next(filter(None, told), None)


def _model_shown(messages: list[dict[str, Json]]) -> str | None:
    """Only the model's prompt says in Roo which model it is."""
    return next(filter(None, map(model_told, reversed(messages))), None)


# -- who speaks in a message: both programs write a lot under the name of the human


_HUMAN: Final = re.compile(r"<(task|feedback|user_message|answer)>")
_PROGRAM: Final = re.compile(
    r"\s*(<environment_details>|<explicit_instructions|<file_content|<folder_content|<hook_context"
    r"|\[TASK RESUMPTION\]|\[ERROR\]|\[[^\]\n]{1,400}\] Result:)"
)
_CWD: Final = re.compile(r"# Current (?:Working|Workspace) Directory \(([^)\n]{1,1000})\)")
_MODEL: Final = re.compile(r"^<model>([^<\n]{1,200})</model>$", re.MULTILINE)


def is_human(message: dict[str, Json]) -> bool:
    """Whether a person said any of it: the task, an answer, a remark on what a tool did."""
    content = message.get("content")
    results = [block.get("content") for block in items(content) if type_of(block) == "tool_result"]
    if any(_HUMAN.search(said) for result in results for said in texts_in(result)):
        return True
    return any(
        _HUMAN.search(said) or (said.strip() and not _PROGRAM.match(said)) for said in texts_in(content)
    )


def working_directory(message: dict[str, Json]) -> str | None:
    for said in texts_in(message.get("content")):
        if found := _CWD.search(said):
            return found[1]
    return None


def model_told(message: dict[str, Json]) -> str | None:
    """The model, as Roo's details of the environment name it."""
    if message.get("role") == "user":
        for text in texts_in(message.get("content")):
            if text.lstrip().startswith("<environment_details>") and (found := _MODEL.search(text)):
                return found[1]
    return None


def task_of(message: dict[str, Json]) -> str | None:
    for said in texts_in(message.get("content")):
        for _, task in inside(said, "task"):
            return task.strip()
    return None


# -- what lies beside the conversation: what was shown and paid, and the name of the task


_PAID: Final = frozenset({"api_req_started", "deleted_api_reqs"})
_KEPT: Final = frozenset({"checkpoint_created", "condense_context", "sliding_window_truncation", "error"})


class Model(NamedTuple):
    name: str
    vendor: str | None


class Shown:
    """`ui_messages.json`: the same story again, and only here its costs, times and checkpoints."""

    def __init__(self, task: Path, used: Models, on_problem: OnProblem) -> None:
        self._messages = [mapping(each) for each in items(_beside(task / "ui_messages.json", on_problem))]
        self._used = used

    def requests(self) -> list[Json]:
        """When each message was sent to the model."""
        return [each.get("ts") for each in self._messages if each.get("say") == "api_req_started"]

    def usage(self) -> list[SourceUsage]:
        paid = [each for each in self._messages if kind(each.get("say")) in _PAID]
        names = Counted()
        told = [_usage(each, names.name(each), f"request-{at}", self._used) for at, each in enumerate(paid)]
        return [usage for usage in told if usage is not None]

    def model(self) -> Model | None:
        """That of the last request."""
        told = (model_in(each.get("modelInfo")) for each in reversed(self._messages))
        return next(filter(None, told), None)

    def events(self) -> list[SourceEvent]:
        names = Counted()
        return [
            SourceEvent(
                id=names.name(each),
                type=str(each["say"]),
                data=each,
                at=when(each.get("ts")),
                formerly=f"{each.get('ts')}-{number}",
            )
            for number, each in enumerate(self._messages)
            if kind(each.get("say")) in _KEPT
        ]


def model_in(info: Json) -> Model | None:
    """What a message or a request says of the model that it was for."""
    model = plain_name(mapping(info).get("modelId"))
    return Model(model, plain_name(mapping(info).get("providerId"))) if model else None


class Models:
    """Which model a task used since when, as `task_metadata.json` tells it."""

    def __init__(self, metadata: Json) -> None:
        self._used: list[tuple[datetime, Model]] = []
        for use in map(mapping, items(mapping(metadata).get("model_usage"))):
            at, model = when(use.get("ts")), plain_name(use.get("model_id"))
            if at and model:
                self._used.append((at, Model(model, plain_name(use.get("model_provider_id")))))

    def last(self) -> Model | None:
        return self._used[-1][1] if self._used else None

    def at(self, moment: datetime | None) -> Model | None:
        before = [model for at, model in self._used if moment and at <= moment]
        return before[-1] if before else None


def _usage(shown: dict[str, Json], name: str, formerly: str, used: Models) -> SourceUsage | None:
    """`name`: of a call that does not tell its time; `formerly` as of `SourceUsage`."""
    told = mapping(decode_or_none(shown.get("text")))
    read, write = count(told.get("cacheReads")), count(told.get("cacheWrites"))
    sent, received = count(told.get("tokensIn")), count(told.get("tokensOut"))
    if not (read or write or sent or received):
        return None
    # Only one of the two protocols counts the cache as a part of the prompt.
    cached = 0 if told.get("apiProtocol") == "openai" else read + write
    at = when(shown.get("ts"))
    model = model_in(shown.get("modelInfo")) or used.at(at)
    return SourceUsage(
        id=str(shown["ts"]) if at else name,
        formerly=None if at else formerly,
        model=model.name if model else None,
        vendor=model.vendor if model else None,
        input_tokens=sent + cached,
        output_tokens=received,
        cache_read_tokens=read,
        cache_write_tokens=write,
        cost=money(told.get("cost")),
        at=at,
    )


def about(task: Path) -> dict[str, Json]:
    """What the list of tasks says of this one. A damaged list is as if it were not there."""
    own = mapping(_beside(task / "history_item.json"))
    if own:
        return own
    return mapping(entry_of(task.parent.parent / "state" / "taskHistory.json", task.name, listed))


def listed(path: str, key: str) -> Json:
    """What a list of tasks says of one of them."""
    tasks = items(_beside(Path(path)))
    return next((mapping(item) for item in tasks if mapping(item).get("id") == key), {})


def metadata(task: Path) -> Json:
    return _beside(task / "task_metadata.json")


def _beside(path: Path, on_problem: OnProblem | None = None) -> Json:
    try:
        return document(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as exc:
        if on_problem:
            on_problem(unreadable(path, exc))
        return None
