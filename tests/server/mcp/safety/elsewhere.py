"""A store with sessions here and elsewhere, and callers who may see those that are here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

import clew
from clew.server.access.principal import OWNER, Principal
from tests.server.mcp.safety.asking import ELSEWHERE, HERE
from tests.support.rows import each_named_row

MARK: Final = "zebra"
"""Every text, name and id of what is elsewhere has it."""
TAG: Final = "ours"
"""The tag of sessions that are here."""


def fill(store: clew.Store, files: Path) -> None:
    """Write sessions that share trees, aliases, subagents and words. `files`: a folder to make."""
    files.mkdir()
    here = store.create("here", workspace=HERE, title="ours", tags=[TAG])
    here.append({"role": "user", "content": "a shared beginning"})
    (files / "a.txt").write_text("one\n")
    here.checkpoint("begun", files=files)
    away = store.create(f"{MARK}-away", workspace=ELSEWHERE, title=MARK, tags=[MARK])
    away.append({"role": "user", "content": f"{MARK} shared words"})
    away.add_alias(f"{MARK}-alias")
    (files / f"{MARK}.txt").write_text(MARK)
    away.checkpoint(f"{MARK}-checkpoint", files=files)
    away.add_usage(model=f"{MARK}-model", input_tokens=5, cost="7")
    fork = here.fork(f"{MARK}-fork")
    fork.update(workspace=ELSEWHERE, title=MARK, tags=[MARK])
    fork.append({"role": "user", "content": f"{MARK} on a branch of the same tree, shared"})
    fork.checkpoint(f"{MARK}-later")
    back = away.fork("back")
    back.update(workspace=HERE, title="came from elsewhere", tags=[TAG])
    away.append({"role": "assistant", "content": f"{MARK} said after the fork, shared"})
    child = store.create(f"{MARK}-child", workspace=ELSEWHERE, metadata={"parent": "here"})
    child.append({"role": "user", "content": f"{MARK} a subagent elsewhere, shared"})
    child.add_usage(model=f"{MARK}-model", input_tokens=5, cost="9")
    ours = store.create("child", workspace=HERE, metadata={"parent": f"{MARK}-away"})
    ours.append({"role": "user", "content": "a subagent here"})
    here.add_usage(model="ours", input_tokens=1, cost="1")
    gone = store.create(f"{MARK}-gone", workspace=HERE)
    gone.append({"role": "user", "content": f"{MARK} in the trash, shared"})
    store.delete(gone.id)
    store.create(f"{MARK}-nowhere").append({"role": "user", "content": f"{MARK} works nowhere, shared"})


def secret_names(store: clew.Store) -> list[str]:
    """Every id, alias and place of what is elsewhere, and entries of it by way of sessions that are here."""
    ids = [f"{MARK}-{one}" for one in ("away", "alias", "fork", "child", "gone", "nowhere", "unheard-of")]
    entries = [entry.id for id in ("away", "fork", "child") for entry in store.get(f"{MARK}-{id}").entries()]
    entries = [
        id for id in entries if id not in {one.id for s in ("here", "back") for one in store.get(s).entries()}
    ]
    points = [*entries, "0", "1", f"{MARK}-checkpoint", f"{MARK}-later"]
    foreign = [f"{id}@{point}" for id in ids for point in points]
    crossed = [f"here@{point}" for point in (*entries, f"{MARK}-later", f"{MARK}-checkpoint", "9")]
    return [*ids, *foreign, *crossed, *(f"back@{id}" for id in entries)]


def bound(**limits: Any) -> Principal:
    """Whoever has a token with limits."""
    return replace(OWNER, kind="token", **limits)


BOUND: Final[dict[str, dict[str, Any]]] = {
    "a token of a workspace": {"principal": bound(workspace=HERE), "workspace": None, "sees_all": True},
    "a token of a tag": {"principal": bound(tags=(TAG,)), "workspace": None, "sees_all": True},
}
"""What the views of tokens with limits have."""
EACH_CALLER = each_named_row("limits", {"on stdio": {}, **BOUND})
"""Run a test for each kind of caller who is to see what is here, with the fields of its view."""
