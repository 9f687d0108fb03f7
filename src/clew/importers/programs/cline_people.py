"""Who speaks in a user message of Cline or Roo: both write a lot under the name of the human."""

from __future__ import annotations

import re
from typing import Final

from clew.core.messages.dialects.base import texts_in, type_of
from clew.core.messages.text import inside
from clew.importers.reading.values import items
from clew.model import Json

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
    if any(_HUMAN.search(text) for result in results for text in texts_in(result)):
        return True
    return any(
        _HUMAN.search(text) or (text.strip() and not _PROGRAM.match(text)) for text in texts_in(content)
    )


def working_directory(message: dict[str, Json]) -> str | None:
    for text in texts_in(message.get("content")):
        if found := _CWD.search(text):
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
    for text in texts_in(message.get("content")):
        for _, task in inside(text, "task"):
            return task.strip()
    return None
