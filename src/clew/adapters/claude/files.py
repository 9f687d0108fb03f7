"""Checkpoints of an agent's files, beside its transcript.

The Claude Agent SDK refuses its own file checkpoints if there is a `session_store`. Here hooks take a Clew
checkpoint before each prompt and a snapshot after each turn. By the snapshot a restore knows which changes
the agent made and which ones people made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from anyio import to_thread
from claude_agent_sdk import HookContext, HookInput, HookJSONOutput, HookMatcher, SessionKey
from claude_agent_sdk.types import HookEvent

import clew
from clew.adapters.claude.transcript import Place, entry_of, open_session

if TYPE_CHECKING:
    from clew.model.files import OnConflict, RestoreReport

_NAME: Final = "prompt-"
_AFTER: Final = "files_after_turn"
"""The variable that names the snapshot after the last turn."""
_SHOWN: Final = 200


class FileCheckpoints:
    """Takes a checkpoint of a directory before each prompt, and brings the directory back to it.

        files = store.file_checkpoints("project")
        options = ClaudeAgentOptions(session_store=store, hooks=files.hooks)

    The checkpoints are called `prompt-1`, `prompt-2` and so on, each with the beginning of its prompt as its
    state: `store.session(key).checkpoints()` lists them.
    """

    def __init__(
        self,
        store: clew.Store,
        root: str | os.PathLike[str],
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        timeout: float = 600.0,
    ) -> None:
        """`include` and `exclude` are those of `store.snapshot`; `timeout` is in seconds."""
        self._store = store
        if not os.fspath(root):
            raise clew.errors.RootRefusedError(
                "", "the path is empty; name a directory, as '.' for the present one"
            )
        self._root = os.path.abspath(root)
        self._include, self._exclude = tuple(include), tuple(exclude)
        self._timeout = timeout

    @property
    def hooks(self) -> dict[HookEvent, list[HookMatcher]]:
        """The hooks for `ClaudeAgentOptions`; you can add your own to the dict."""
        return {
            "UserPromptSubmit": [HookMatcher(hooks=[self.before_prompt], timeout=self._timeout)],
            "Stop": [HookMatcher(hooks=[self.after_turn], timeout=self._timeout)],
        }

    async def before_prompt(
        self, asked: HookInput, tool_use_id: str | None, context: HookContext
    ) -> HookJSONOutput:
        """Take a checkpoint. If that fails, the agent goes on, and its user gets a message."""
        return await _trying(self._keep_before, asked)

    async def after_turn(
        self, asked: HookInput, tool_use_id: str | None, context: HookContext
    ) -> HookJSONOutput:
        """Keep the files after a turn, so that a restore does not take the agent's work for that of
        others."""
        return await _trying(self._keep_after, asked)

    def _keep_before(self, asked: dict[str, Any]) -> None:
        session = self._session(asked)
        names = [one.name for one in session.checkpoints() if one.name.startswith(_NAME)]
        numbers = [int(name.removeprefix(_NAME)) for name in names if name.removeprefix(_NAME).isdecimal()]
        prompt = str(asked.get("prompt") or "").encode(errors="replace").decode()
        session.checkpoint(
            f"{_NAME}{max(numbers, default=0) + 1}",
            files=self._root,
            state={"prompt": prompt[:_SHOWN]},
            include=self._include,
            exclude=self._exclude,
        )

    def _keep_after(self, asked: dict[str, Any]) -> None:
        session = self._session(asked)
        before = session.get_var(_AFTER)
        after = self._store.snapshot(self._root, include=self._include, exclude=self._exclude)
        session.set_var(_AFTER, after.id)
        if isinstance(before, str):
            self._store.delete_snapshot(before)  # one is enough: that of the last turn

    def _session(self, asked: dict[str, Any]) -> clew.Session:
        path = Path(asked["transcript_path"])  # <project key>/<session id>.jsonl
        place = Place(path.parent.name, asked["session_id"])
        # Outside the lease: the run that holds it, if there is one, is the agent's own.
        return open_session(self._store, place, workspace=asked.get("cwd")).outside_lease()

    async def rewind(
        self, key: SessionKey, to: str, *, on_conflict: OnConflict = "overwrite"
    ) -> clew.model.Moved:
        """Go back with the conversation and the files together; `store.session(key).undo()` takes it back.

        Args:
            key: Of the session.
            to: A checkpoint, or the uuid of a transcript line. That line is then the last one that stays, and
                the files are those of the last checkpoint before it.
            on_conflict: What to do with files that changed since the end of the last turn, as in
                `store.restore`: people may have worked on them.

        To go on from there, start a new agent with `resume`.
        """
        session, point = self._find(key, to)
        work = partial(session.rewind, point, files=self._root, on_conflict=on_conflict)
        return await to_thread.run_sync(work)

    async def rewind_files(
        self, key: SessionKey, to: str, *, dry_run: bool = False, on_conflict: OnConflict = "overwrite"
    ) -> RestoreReport:
        """Bring the files back, and leave the conversation where it is.

        The arguments are those of `rewind`; with `dry_run` it only reports what it would do.
        """
        session, point = self._find(key, to)
        work = partial(session.restore_files, point, self._root, dry_run=dry_run, on_conflict=on_conflict)
        return await to_thread.run_sync(work)

    def _find(self, key: SessionKey, to: str) -> tuple[clew.Session, str]:
        place = Place.of(key)
        return self._store.get(place.id), entry_of(self._store, place, to) or to


async def _trying(work: Callable[[dict[str, Any]], None], asked: HookInput) -> HookJSONOutput:
    try:
        await to_thread.run_sync(work, cast("dict[str, Any]", asked))
    except (clew.ClewError, OSError) as error:
        return {"systemMessage": f"The files were not kept: {error}"}
    return {}
