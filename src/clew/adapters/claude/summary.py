"""The summary that the Claude Agent SDK folds out of transcript lines, kept up to date with the head.

It is written only when it changes, with the place up to which it was folded: it holds for that place and for
all that follows on the same branch. After a rewind or a fork it is folded anew, from the path.
"""

from __future__ import annotations

import json
from typing import Any, Final

import clew
from clew.adapters.claude.sessions import Place
from clew.adapters.common.sessions import missing

try:
    from claude_agent_sdk import SessionKey, SessionStoreEntry, fold_session_summary
except ImportError as exc:
    raise missing("claude", exc) from exc

_DOCUMENT: Final = "summary"


def fold(session: clew.Session, place: Place, lines: list[Any], before: clew.Head) -> None:
    """Let the summary cover lines that were just appended behind `before`."""
    kept = _kept(session, before)
    earlier = kept
    if kept is None and before.position >= 0:
        earlier = _folded(place.session, None, session.messages(at=before))
    data = _folded(place.session, earlier, lines)
    if kept is None or kept != data:
        head = session.head
        value = {"branch": head.branch, "position": head.position, "data": data}
        session.set_document(_DOCUMENT, json.dumps(value).encode())


def summary_of(session: clew.Session, name: str) -> dict[str, Any]:
    """What the SDK keeps of a session, as it is at the head; opaque to all but the SDK."""
    kept = _kept(session, session.head)
    return _folded(name, None, session.messages()) if kept is None else kept


def _kept(session: clew.Session, head: clew.Head) -> dict[str, Any] | None:
    """The summary that was written, if it holds for this head."""
    written = session.get_document(_DOCUMENT)
    value: dict[str, Any] = {} if written is None else json.loads(written)
    if value.get("branch") != head.branch or value["position"] > head.position:
        return None
    data: dict[str, Any] = value["data"]
    return data


def _folded(
    name: str, earlier: dict[str, Any] | None, lines: list[SessionStoreEntry] | Any
) -> dict[str, Any]:
    key: SessionKey = {"project_key": "", "session_id": name}
    before = None if earlier is None else {"session_id": name, "mtime": 0, "data": earlier}
    return fold_session_summary(before, key, lines)["data"]  # type: ignore[arg-type]
