"""Secrets out of exports: what matches a rule becomes `[REDACTED:kind]`, with a report of what and where."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

import msgspec

from clew.core.redact import sealed
from clew.core.redact.escapes import Edit, ShownText, Way, coded_lines, has_coded, without_escapes
from clew.core.redact.rules import RULES, SHAPES, Rule
from clew.core.redact.values import LONGEST_NAME, is_named_secret, is_surely_secret
from clew.errors import CorruptError, InvalidError
from clew.model import Entry, Json

MOST_PLACES: Final = 10_000
"""Places that a report lists. Whatever is beyond is replaced and counted all the same."""
LONGEST_SHOWN: Final = 60
"""Letters of a field's name in a report."""

_KIND: Final = re.compile(r"[a-z0-9-]{1,40}")
_SECRET_NAME: Final = re.compile(
    r"(?i)pass(?:word|wd|phrase|code)|pwd|secret|token|credential|api[_-]?key|(?:access|auth|private|encryption"
    r"|signing|master|account)[_-]?key"
)
_SHAPES: Final = frozenset(SHAPES)


class RedactedPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a secret was. The secret itself is nowhere in a report."""

    kind: str
    place: str
    """As `entry 12: content[0].text`, or `session: title`."""
    count: int
    possible: int = 0
    """Those of `count` that are guesses, by a name or by words beside the value."""


class RedactionReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was replaced in an export."""

    total: int
    by_kind: Mapping[str, int]
    places: tuple[RedactedPlace, ...]
    """The first ten thousand."""
    possible: int = 0
    """Those of `total` that are guesses, by a name or by words beside the value."""


class Redactor:
    """Replaces secrets, and keeps count. One for each export; give it as `redact=` to get the report.

    Args:
        extra: Your own rules: a kind, and a pattern of what to replace.
        keep: Kinds that are left as they are.
    """

    def __init__(self, *, extra: Mapping[str, str] | None = None, keep: Iterable[str] = ()) -> None:
        kept = frozenset(keep)
        own = [_own_rule(kind, pattern) for kind, pattern in (extra or {}).items()]
        unknown = sorted(kept - {rule.kind for rule in (*RULES, *own)})
        if unknown:
            raise InvalidError(
                f"no rule of kind {unknown[0]!r} to keep; docs/explanation/redaction.md lists them"
            )
        self._use([rule for rule in (*own, *RULES) if rule.kind not in kept])
        self._names_count = "secret" not in kept
        self._counts: Counter[str] = Counter()
        self._places: Counter[tuple[str, str]] = Counter()
        self._possible: Counter[tuple[str, str]] = Counter()
        self._all_possible = 0

    def _use(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._exact = [rule for rule in rules if rule.is_own or rule in _SHAPES]

    def report(self) -> RedactionReport:
        """What was replaced until now."""
        places = (
            RedactedPlace(kind=kind, place=at, count=n, possible=self._possible[at, kind])
            for (at, kind), n in self._places.items()
        )
        return RedactionReport(
            total=self._counts.total(),
            by_kind=dict(sorted(self._counts.items())),
            places=tuple(places),
            possible=self._all_possible,
        )

    def uncounted(self) -> Redactor:
        """The same rules for texts that are shown twice, so that the report counts them once."""
        other = Redactor()
        other._use(self._rules)
        other._names_count = self._names_count
        return other

    def text(self, text: str, place: str) -> str:
        """The text without its secrets. Its escape sequences stay, and are no part of what is judged."""
        if not ShownText(text).differs:
            text = self._read(self._rules, text, place, "as it is")
        else:
            # A colour may stand inside of a word, or between two; a key, or what a rule of the caller finds,
            # may begin with what looks like the end of a sequence.
            text = self._read(self._rules, text, place, "without")
            text = self._read(self._rules, text, place, "with gaps")
            text = self._read(self._exact, text, place, "as it is")
        return self._decoded(text, place) if has_coded(text) else text

    def _decoded(self, text: str, place: str) -> str:
        """The same for what percent signs stand for: only lines in which there are some are read again."""
        shown = []
        for is_coded, lines in groupby(coded_lines(text), lambda line: line.is_coded):
            part = "".join(line.text for line in lines)
            shown.append(self._read(self._rules, part, place, "decoded") if is_coded else part)
        return "".join(shown)

    def value(self, value: Json, place: str, name: str = "") -> Json:
        """A JSON value without the secrets in its texts; a new one, the given one stays as it is.

        `name` is that of the field or variable which holds it.
        """
        return self._walk(value, place, name)

    def raw(self, raw: bytes, place: str, name: str = "") -> bytes:
        """The same for JSON text; byte for byte what was given if there is no secret in it."""
        try:
            value = msgspec.json.decode(raw)
        except msgspec.MsgspecError as error:
            raise CorruptError(f"{place} cannot be read to look for secrets: {error}") from error
        clean = self._walk(value, place, name)
        return raw if clean == value else msgspec.json.encode(clean)

    def entry(self, entry: Entry) -> Entry:
        """The entry with another body; id, hash and time stay those of the stored one."""
        if entry.kind == "removed":
            return entry
        place = f"entry {entry.position}"
        notes = {
            name: self._walk(note, f"{place} annotations", name) for name, note in entry.annotations.items()
        }
        return msgspec.structs.replace(entry, raw=self.raw(entry.raw, place), annotations=notes)

    def _read(self, rules: Iterable[Rule], text: str, place: str, way: Way) -> str:
        """Apply rules to a text, read in this way."""
        shown = ShownText(text, way)
        lower = shown.plain.lower()
        for rule in rules:
            edits = self._edits(rule, shown.plain, place) if any(hint in lower for hint in rule.hints) else ()
            if edits:
                shown = shown.edited(edits)
        return shown.text

    def _edits(self, rule: Rule, text: str, place: str) -> list[Edit]:
        edits = []
        for match in rule.pattern.finditer(text):
            if rule.accepts is not None and not rule.accepts(match):
                continue
            group = next((g for g in ("secret", "quoted", "bare", "said") if match.groupdict().get(g)), None)
            start, end = match.span(group) if group else match.span()
            start = start if rule.begin is None else rule.begin(match)
            secret = text[start:end]
            marker = self._marker(rule.kind, match, secret)
            if marker is not None:
                self._note(rule.kind, place, is_possible=not _is_sure(rule, match, secret))
                edits.append(Edit(start, end, marker))
        return edits

    def _marker(self, kind: str, match: re.Match[str] | None, secret: str) -> str | None:
        """What stands for a secret; None: it is none. No match: a value that its field gives away."""
        return f"[REDACTED:{kind}]"

    def _walk(
        self, value: Json, place: str, name: str, *, holder_name: str = "", is_of_model: bool = True
    ) -> Json:
        """`holder_name`: the field that the value stands in; `is_of_model`: no user and no tool made it."""
        if isinstance(value, str):
            return self._named(value, place, name)
        if isinstance(value, list):
            return [
                self._walk(item, f"{place}[{at}]", name, holder_name=holder_name, is_of_model=is_of_model)
                for at, item in enumerate(value)
            ]
        if isinstance(value, dict):
            return dict(self._fields(value, place, holder_name, is_of_model=is_of_model))
        return value

    def _fields(
        self, value: dict[str, Json], place: str, holder_name: str, *, is_of_model: bool
    ) -> Iterator[tuple[str, Json]]:
        is_of_model = is_of_model and sealed.is_of_model(value)
        # Environments are often written as {"name": "DB_PASSWORD", "value": "…"}.
        told = value.get("name", value.get("key"))
        for name, item in value.items():
            is_sealed = is_of_model and sealed.is_sealed(value, holder_name, name, item)
            if is_sealed or sealed.is_media(value, name, item):
                yield name, item
                continue
            clean = self.text(name, place)
            shown = clean if len(clean) <= LONGEST_SHOWN else f"{clean[:LONGEST_SHOWN]}…"
            at = f"{place}.{shown}" if "." in place or "]" in place or ":" in place else f"{place}: {shown}"
            known_as = told if name == "value" and isinstance(told, str) else name
            below = is_of_model and not sealed.is_given_to_tools(value, name)
            yield clean, self._walk(item, at, known_as, holder_name=name, is_of_model=below)

    def _named(self, text: str, place: str, name: str) -> str:
        clean = self.text(text, place)
        if clean != text or not self._names_count or len(text) > 512 or "\n" in text:
            return clean
        shown = without_escapes(text)
        if _SECRET_NAME.search(name[-LONGEST_NAME:]) and is_named_secret(name, shown, quoted=True):
            marker = self._marker("secret", None, shown)
            if marker is not None:
                self._note("secret", place, is_possible=True)
                return marker
        return clean

    def _note(self, kind: str, place: str, *, is_possible: bool) -> None:
        self._counts[kind] += 1
        self._all_possible += is_possible
        if (place, kind) in self._places or len(self._places) < MOST_PLACES:
            self._places[place, kind] += 1
            self._possible[place, kind] += is_possible


def _is_sure(rule: Rule, match: re.Match[str], secret: str) -> bool:
    return rule.is_own or (rule.definite and is_surely_secret(rule.kind, match, secret))


def _own_rule(kind: str, pattern: str) -> Rule:
    if not _KIND.fullmatch(kind):
        raise InvalidError(f"a kind is of small letters, digits and dashes, not {kind!r}")
    try:
        return Rule(kind, ("",), re.compile(pattern), is_own=True)
    except re.error as exc:
        raise InvalidError(f"the rule {kind!r} is no regular expression: {exc}") from exc
