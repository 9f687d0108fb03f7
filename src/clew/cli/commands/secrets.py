"""`clew secrets`: where secrets lie in what is stored, and what happens to those that come in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, get_args

import click
import msgspec

import clew
from clew.cli.app import ERROR, Command, Settings, group, session_argument
from clew.cli.names import branch_names, entry_name, short_id
from clew.cli.output import Output, progress
from clew.cli.store import all_sessions, entries_of_tree, opened, session_of
from clew.cli.table import Column
from clew.cli.text import count, one_line
from clew.core.conversation.annotations import own_annotations
from clew.core.log.ids import parse_entry_id
from clew.core.log.lines import decode_lines
from clew.core.redact.markers import markers_in
from clew.errors import CorruptError
from clew.model import Json, RedactionPolicy

if TYPE_CHECKING:
    from clew.core.redact.redactor import Redactor

POLICIES: Final[dict[RedactionPolicy, str]] = {
    "import": "definite secrets are replaced in what is imported; appends of programs stay as they are",
    "all": "definite secrets are replaced in all that comes in, also in what programs append",
    "off": "nothing is replaced",
}
ADVICE: Final = (
    "What is stored is not changed: make these keys invalid where they come from."
    " clew export --redact leaves them out, clew rm --purge removes a session for good."
)
_NO_KEY: Final = bytes(32)
"""A scan shows no marker, so it needs no key."""
_EVENTS: Final = 1000


@group(
    "secrets",
    "clew secrets scan               list where secrets are in the store",
    "clew secrets scan login --json  the same for one session, for programs",
    "clew secrets policy             show what happens to secrets that come in",
    "clew secrets policy all         replace them in all that comes in",
)
def secrets_command() -> None:
    pass


# -- policy


@secrets_command.command("policy", cls=Command)
@click.argument("policy", required=False, type=click.Choice(get_args(RedactionPolicy)))
@click.pass_obj
def secrets_policy(settings: Settings, policy: RedactionPolicy | None) -> None:
    """Show or set what happens to secrets that come in.

    import: definite secrets are replaced by markers in what is imported from other programs (default).
    all: also in what programs append to the store. off: nothing is replaced. The policy is kept in the
    store. What is stored already stays as it is.

    Piped: the policy.
    """
    out = Output(settings)
    with opened(settings, create=policy is not None) as store:
        if policy is not None:
            store.set_redaction(policy)
        found = store.redaction
    if out.json:
        out.record({"policy": found})
    elif out.is_terminal:
        out.texts([f"{found}: {POLICIES[found]}"])
    else:
        out.row(found)


# -- scan


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a secret lies. The secret itself is nowhere in it."""

    session: str
    place: str
    """The name of an entry, or what of the session it is."""
    field: str
    kind: str
    count: int
    possible: int = 0
    """Those of `count` that are guesses."""


@secrets_command.command("scan", cls=Command)
@session_argument("ids", nargs=-1, metavar="[ID]...")
@click.option(
    "--all-rules",
    is_flag=True,
    help="Also list possible secrets: guesses by the name or the words beside a value",
)
@click.pass_obj
def secrets_scan(settings: Settings, ids: tuple[str, ...], all_rules: bool) -> int:
    """List where secrets are in the store, never the secrets.

    It looks at messages on all branches, annotations, titles, settings, variables, events, checkpoints,
    runs, documents that are texts, and kept lines of imported files; not at snapshots of files, and not into
    the trash. Without ID it looks at all sessions.

    The rules are those of clew export --redact. Possible secrets, which are guesses, are counted; they are
    listed with --all-rules.

    Piped: session, place, kind, how many, and field, separated by tabs. Exit code 1 if a secret is listed, 0
    if there is none.
    """
    out = Output(settings)
    with opened(settings) as store, progress("scanning") as report:
        sessions = [session_of(store, id).id for id in ids] or [info.id for info in all_sessions(store)]
        scan = Scan(store)
        found: list[Finding] = []
        guesses = 0
        for number, id in enumerate(sessions):
            report(id, number, len(sessions))
            for one in scan.session(id):
                guesses += one.possible
                if all_rules or one.count > one.possible:
                    found.append(one if all_rules else _without_guesses(one))
        shown = {id: short_id(store, id) for id in {one.session for one in found}} if out.is_terminal else {}
    if out.json:
        for one in found:
            out.record(one)
    else:
        _print(out, found, shown)
    if out.is_terminal or not out.json:
        _conclude(out, found, len(sessions), scan.unreadable, 0 if all_rules else guesses)
    return ERROR if found else 0


def _without_guesses(one: Finding) -> Finding:
    return msgspec.structs.replace(one, count=one.count - one.possible, possible=0)


def _kind(one: Finding) -> str:
    return f"possible {one.kind}" if one.possible == one.count else one.kind


def _print(out: Output, found: Sequence[Finding], shown: dict[str, str]) -> None:
    if not found:
        return
    columns = [
        Column("SESSION"),
        Column("PLACE"),
        Column("KIND"),
        Column("N", right=True),
        Column("FIELD", style="dim", flexible=True),
    ]
    rows = (
        [
            shown.get(one.session, one.session),
            one.place,
            _kind(one) if out.is_terminal else one.kind,
            one.count,
            one.field,
        ]
        for one in found
    )
    out.rows(columns, rows)


def _conclude(out: Output, found: Sequence[Finding], looked_at: int, unreadable: int, guesses: int) -> None:
    """`guesses`: possible secrets that are not listed."""
    where = count(looked_at, "session")
    damage = f"; {count(unreadable, 'part')} could not be read, clew verify says which" if unreadable else ""
    more = f"{count(guesses, 'possible secret')}: clew secrets scan --all-rules" if guesses else ""
    if not found:
        click.echo(f"no secret found in {where}{damage}{f'; {more}' if more else ''}", err=True)
        return
    kinds: Counter[str] = Counter()
    for one in found:
        kinds[one.kind] += one.count - one.possible
        kinds[f"possible {one.kind}"] += one.possible
    kinds = +kinds
    told = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    held = count(len({one.session for one in found}), "session")
    is_sure = any(one.count > one.possible for one in found)
    what = count(kinds.total(), "secret" if is_sure else "possible secret")
    told = f"{what} in {held} of {looked_at:,}: {told}{damage}{f'; {more}' if more else ''}"
    if not out.is_terminal:
        click.echo(told, err=True)
        return
    out.texts(["", told, ADVICE])


Row = tuple[str, str, str, int, int]
"""Place, field, kind, how many, and how many of them are guesses."""


class Scan:
    """Looks through sessions. What forks share is looked at once."""

    def __init__(self, store: clew.Store) -> None:
        self._store = store
        self._seen: set[str] = set()
        """Branches that were looked at."""
        self._known: set[bytes] = set()
        """What would stand for the secrets that were found in the session that is looked at."""
        self.unreadable = 0

    def session(self, id: str) -> Iterator[Finding]:
        """All that was found in a session."""
        session = self._store.find(id)
        if session is None:  # removed meanwhile
            return
        self._known = set()
        for part in (self._settings, self._entries, self._beside, self._events, self._documents, self._lines):
            try:
                for place, field, kind, number, possible in part(session):
                    yield Finding(session.id, one_line(place), one_line(field), kind, number, possible)
            except CorruptError:
                self.unreadable += 1

    def _settings(self, session: clew.Session) -> Iterator[Row]:
        info = session.info
        if not info.title_is_auto:
            yield from self._in_value(info.title, "title")
        for name in ("workspace_given", "endpoint", "model"):
            yield from self._in_value(getattr(info, name), name.partition("_")[0])
        yield from self._in_value(list(info.tags), "tags")
        yield from self._in_value(dict(info.metadata), "metadata")
        if info.run is not None:
            for name in ("request", "response", "error"):
                yield from self._in_value(getattr(info.run, name), f"run: {name}")

    def _entries(self, session: clew.Session) -> Iterator[Row]:
        tree = session.tree()
        names = branch_names(branch.id for branch in tree.branches)
        fresh = {branch.id for branch in tree.branches} - self._seen
        self._seen |= fresh
        for entry in entries_of_tree(self._store, tree):
            head = parse_entry_id(entry.id)
            if head is None or head.branch not in fresh:
                continue
            place = entry_name(names, clew.Head(head.branch, entry.position))
            yield from self._in_body(entry.raw, place)
            if entry.annotations:
                for _, field, kind, number, possible in self._in_value(dict(entry.annotations), place):
                    yield place, f"annotations.{field}", kind, number, possible

    def _beside(self, session: clew.Session) -> Iterator[Row]:
        yield from self._noted(session)
        for name, value in session.vars().items():
            yield from self._in_value(value, f"variable {name}", name)
        for checkpoint in session.checkpoints():
            if checkpoint.session == session.id:
                yield from self._in_value(checkpoint.state, f"checkpoint {checkpoint.name}")

    def _noted(self, session: clew.Session) -> Iterator[Row]:
        """What the session itself noted at entries."""
        names = branch_names(branch.id for branch in session.tree().branches)
        with self._store._engine.read() as reader:
            noted = own_annotations(reader, session._sid)
        for head, value in noted:
            place = entry_name(names, head)
            for _, field, kind, number, possible in self._in_body(value, place):
                yield place, f"annotations.{field}", kind, number, possible

    def _events(self, session: clew.Session) -> Iterator[Row]:
        after: clew.Event | None = None
        while events := session.events(after=after, limit=_EVENTS):
            for event in events:
                yield from self._in_value(event.data, f"event {event.cursor}")
            after = events[-1]

    def _documents(self, session: clew.Session) -> Iterator[Row]:
        after: str | None = None
        while page := session.documents(after=after, limit=64):
            for name, content in page:
                yield from self._in_text(content, f"document {name}")
            after = page[-1][0]

    def _lines(self, session: clew.Session) -> Iterator[Row]:
        """What is kept of the lines of an imported file; only secrets that were found nowhere else."""
        with self._store._engine.read() as reader:
            for _, value in reader.scan_records(session._sid, "line"):
                record = decode_lines(value)
                start = 0
                for number, size in zip(record.numbers, record.sizes, strict=True):
                    known = self._known.copy()
                    found = list(self._in_text(record.text[start : start + size], f"line {number}"))
                    if self._known > known:
                        for place, _, kind, times, possible in found:
                            yield place, "of its file", kind, times, possible
                    start += size

    # -- one text or value

    def _in_value(self, value: Json, place: str, name: str = "") -> Iterator[Row]:
        if value:
            yield from self._in_body(msgspec.json.encode(value, enc_hook=str), place, name)

    def _in_body(self, raw: bytes, place: str, name: str = "") -> Iterator[Row]:
        rules = self._marking()
        self._known |= markers_in(rules.raw(raw, "at", name))
        yield from _rows(rules, place)

    def _in_text(self, content: bytes, place: str) -> Iterator[Row]:
        if b"\0" not in content:
            rules = self._marking()
            self._known |= markers_in(rules.text(content.decode(errors="replace"), "at").encode())
            yield from _rows(rules, place)

    def _marking(self) -> Redactor:
        from clew.core.redact.definite import Marking

        return Marking(_NO_KEY)


def _rows(rules: Redactor, place: str) -> Iterator[Row]:
    for one in rules.report().places:
        field = one.place.removeprefix("at").removeprefix(": ")
        yield place, field, one.kind, one.count, one.possible
