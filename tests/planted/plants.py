"""Forty bugs to plant, one at a time, by replacing a few words of the source.

They were written without a look at the tests: slips that a colleague could make, and a reviewer overlook.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple


class Plant(NamedTuple):
    """One bug."""

    name: str
    file: str
    """Below src/clew."""
    old: str
    """Stands there exactly once."""
    new: str
    reach: str = ""
    """`file:function` that runs if the planted code does; empty: the function that holds it. A plant in a
    constant needs it."""

    def applied_to(self, source: Path) -> str:
        """Return the text of the file with the bug in it. ValueError: the old text is not there just once."""
        text = (source / self.file).read_text(encoding="utf-8")
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: its text occurs {count} times in {self.file}, and not once")
        return text.replace(self.old, self.new)


PLANTS: Final = (
    # -- core
    Plant(
        "an append compares the position of `expect`, not its branch",
        "core/conversation/append.py",
        "if expect is not None and expect != (actual := head_of(tx, row.head)):",
        "if expect is not None and expect.position != (actual := head_of(tx, row.head)).position:",
    ),
    Plant(
        "a repeated key looks for its batch one entry too far",
        "core/conversation/append.py",
        "last = use.first + use.count - 1",
        "last = use.first + use.count",
    ),
    Plant(
        "a worker whose lease has ended still writes beside the conversation",
        "core/runs/access.py",
        "if access.fence and (row.fence != access.fence or row.epoch != access.epoch):",
        "if access.fence and row.fence and (row.fence != access.fence or row.epoch != access.epoch):",
    ),
    Plant(
        "a lease on another machine expires without the grace for its clock",
        "core/log/lease.py",
        "over = now.wall > lease.until_wall + GRACE",
        "over = now.wall > lease.until_wall",
    ),
    Plant(
        "a second undo goes to the move before by number",
        "core/conversation/moves.py",
        "link=row.redo, undo=undone.link, redo=-1",
        "link=row.redo, undo=row.undo - 1, redo=-1",
    ),
    Plant(
        "a fork at an earlier entry gets the checkpoints after it",
        "core/conversation/fork.py",
        'copy_checkpoints(tx, base.sid, new_sid, tip if checkpoints == "path" else None)',
        "copy_checkpoints(tx, base.sid, new_sid, base.head)",
    ),
    Plant(
        "the first entry of a branch is not found on a long path",
        "core/log/tree.py",
        "after = bisect_right(segments, position, key=lambda segment: segment.first)",
        "after = bisect_left(segments, position, key=lambda segment: segment.first)",
    ),
    Plant(
        "the trash is purged a day early",
        "core/retention/rules.py",
        "    if due > now:\n",
        "    if due - DAY > now:\n",
    ),
    Plant(
        "a search in named sessions ignores the project",
        "core/search/search.py",
        "        if request.project is not None and project_of(row.workspace) != request.project:\n"
        "            return False\n",
        "",
    ),
    Plant(
        "the sum of cached tokens adds the input tokens",
        "core/streams/usage.py",
        "all_cache_read=counts.cache_read +",
        "all_cache_read=counts.input +",
    ),
    Plant(
        "annotations keep their secrets in an export",
        "core/redact/redactor.py",
        "raw=self.raw(entry.raw, place), annotations=notes)",
        "raw=self.raw(entry.raw, place))",
    ),
    # -- files
    Plant(
        "a diff loses a last line that has no newline",
        "files/diff/text.py",
        '    return [line + "\\n" for line in lines] + ([last] if last else [])',
        '    return [line + "\\n" for line in lines]',
    ),
    Plant(
        "empty files are taken for renamed ones",
        "files/diff/trees.py",
        "if gone.old is not None and kind_of(gone.old) == 0 and gone.old.size:",
        "if gone.old is not None and kind_of(gone.old) == 0:",
    ),
    Plant(
        "a restore sees a conflict by the target, not by the last snapshot",
        "files/restore/plan.py",
        "node.is_conflict = not _is_same(node.last, now)",
        "node.is_conflict = not _is_same(target, now)",
    ),
    Plant(
        "a restore touches a repository that is called .GIT",
        "files/restore/plan.py",
        "return name.lower() == NEVER or",
        "return name == NEVER or",
    ),
    Plant(
        "garbage collection goes on although a snapshot was taken meanwhile",
        "files/upkeep/gc.py",
        "if snapshots.counters_of(tx).taken != self._taken:",
        "if snapshots.counters_of(tx).taken < self._taken:",
    ),
    # -- backends
    Plant(
        "memory: a page of the oldest sessions begins with the last one of the page before",
        "backends/memory.py",
        "if (_moment(row), id) > (moment, row.id)]",
        "if (_moment(row), id) >= (moment, row.id)]",
    ),
    Plant(
        "sqlite: a stream of events repeats the last event of a page",
        "backends/sqlite/sql.py",
        "AND stream = ? AND stream <> '' AND key > ?",
        "AND stream = ? AND stream <> '' AND key >= ?",
        reach="backends/sqlite/reader.py:read_events",
    ),
    Plant(
        "sqlite: a purge leaves the model calls of the session",
        "backends/sqlite/sql.py",
        '    "DELETE FROM usage WHERE key BETWEEN ?1 << 32 AND ?1 << 32 | 4294967295",\n',
        "",
        reach="backends/sqlite/writer.py:drop_session",
    ),
    Plant(
        "jsonl: a replaced file is acknowledged before its directory is synced",
        "backends/jsonl/disk.py",
        "    if durable:\n        sync_directory(file.directory)",
        "",
        reach="backends/jsonl/disk.py:write_whole",
    ),
    Plant(
        "jsonl: the index calls a log safe that was not synced",
        "backends/jsonl/writer.py",
        "length if durable else append.safe",
        "length",
    ),
    Plant(
        "jsonl: dropped events come back when the index is built anew",
        "backends/jsonl/writer.py",
        "            self.batch.of_session(sid).add(jsonl.EventsGoneLine(sid, upto))\n",
        "",
        reach="backends/jsonl/writer.py:drop_events",
    ),
    Plant(
        "http: a transaction finds a session by the name that it has just given up",
        "backends/http/transaction.py",
        '("session", row.sid), *([] if is_same_name else [("names",)]))',
        '("session", row.sid))',
    ),
    Plant(
        "postgres: erased messages can still be found by their words",
        "backends/postgres/transaction.py",
        "        if frames:\n            self._erase_texts(branch, positions)\n",
        "",
        reach="backends/postgres/transaction.py:erase_entries",
    ),
    Plant(
        "postgres: reading in pieces loses a last piece of one entry",
        "backends/postgres/reader.py",
        "starts = range(first, last + 1, ENTRIES_AT_ONCE)",
        "starts = range(first, last, ENTRIES_AT_ONCE)",
    ),
    # -- what reads the files of agents
    Plant(
        "a file with a byte order mark is continued three bytes too early",
        "importers/reading/jsonlines.py",
        "start, offset, lines = offset, offset + size, number",
        "start, offset, lines = offset, offset + len(line), number",
    ),
    Plant(
        "a second rollback in Codex goes to the wrong turn",
        "importers/programs/codex/rollout.py",
        "                del self._turns[-dropped:]\n",
        "",
        reach="importers/programs/codex/rollout.py:_heed",
    ),
    Plant(
        "an import never comes back to a last line that had no end",
        "importers/ledger.py",
        "        if source.waits and not self.is_sync:\n            return None\n",
        "",
        reach="importers/ledger.py:unchanged",
    ),
    # -- exporters
    Plant(
        "long code stands in a page without HTML escapes",
        "exporters/page/text.py",
        "return html.escape(shown) if len(shown) > MOST_CODE else",
        "return shown if len(shown) > MOST_CODE else",
    ),
    Plant(
        "unchanged lines of a diff bear their old numbers",
        "exporters/page/diff.py",
        'number = line.new if line.mark != "-" else line.old',
        'number = line.new if line.mark == "+" else line.old',
    ),
    # -- server
    Plant(
        "a stream that resumes believes its address before Last-Event-ID",
        "server/live/routes.py",
        "return header or query.after",
        "return query.after or header",
    ),
    Plant(
        "a share link works after its end",
        "server/access/sign_in.py",
        "if record.expires is not None and record.expires <= self._host.now():",
        "if isinstance(record, TokenRecord) and record.expires and record.expires <= self._host.now():",
    ),
    Plant(
        "a share link may also change its session",
        "server/access/shares.py",
        'if route.method == "GET" and route.path in REACHED:',
        "if route.path in REACHED:",
    ),
    Plant(
        "mcp: a token that is bound to a workspace searches all of them",
        "server/mcp/view.py",
        "        found = self.principal.within(workspace, tags)\n"
        "        return None if found is None else Scope(*found)",
        "        return Scope(workspace, tuple(tags))",
    ),
    # -- command line and screen
    Plant(
        "cli: a move that could not restore all files ends with 0",
        "cli/commands/move.py",
        "return PARTLY if files is not None and files.failed else 0",
        "return 0",
    ),
    Plant(
        "cli: the last entry of a branch is not found by its short name",
        "cli/names.py",
        "branch.first <= place.position <= branch.last",
        "branch.first <= place.position < branch.last",
    ),
    Plant(
        "ui: a slow search replaces the results of the words typed after it",
        "cli/ui/search.py",
        "if found.words != self.words or not self.is_attached:",
        "if not self.is_attached:",
    ),
    # -- adapters
    Plant(
        "openai: a compaction takes the latest items for all of them",
        "adapters/openai_agents.py",
        "newest(session, limit + 1)",
        "newest(session, limit)",
    ),
    Plant(
        "langgraph: a list of checkpoints ends after its first page",
        "adapters/langgraph/read.py",
        "rows[-1][0] if len(rows) == count else None",
        "rows[-1][0] if len(rows) > count else None",
    ),
    # -- asyncio
    Plant(
        "aio: a task that is cancelled while it takes a lease keeps it",
        "aio/bridge.py",
        "            taking.add_done_callback(partial(self._give_back, give_back))\n",
        "",
        reach="aio/bridge.py:acquire",
    ),
)
