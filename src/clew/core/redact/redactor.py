"""Secrets out of exports: what matches a rule becomes `[REDACTED:kind]`, with a report of what and where."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from clew.core.redact.rules import RULES, Rule
from clew.core.redact.values import LONGEST_NAME, is_named_secret
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
_SEALED: Final = frozenset(
    {"signature", "thoughtSignature", "thought_signature", "encrypted_content", "encryptedContent"}
)
"""Fields in which a provider checks every byte. They say nothing to people."""
_MEDIA_DATA: Final = frozenset({"data", "b64_json", "file_data", "image_url", "url"})


class RedactedPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a secret was. The secret itself is nowhere in a report."""

    kind: str
    place: str
    """As `entry 12: content[0].text`, or `session: title`."""
    count: int


class RedactionReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was replaced in an export."""

    total: int
    by_kind: Mapping[str, int]
    places: tuple[RedactedPlace, ...]
    """The first ten thousand."""


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
        self._rules = [rule for rule in (*own, *RULES) if rule.kind not in kept]
        self._names_count = "secret" not in kept
        self._counts: Counter[str] = Counter()
        self._places: Counter[tuple[str, str]] = Counter()

    def report(self) -> RedactionReport:
        """What was replaced until now."""
        places = (RedactedPlace(kind=kind, place=at, count=n) for (at, kind), n in self._places.items())
        by_kind = dict(sorted(self._counts.items()))
        return RedactionReport(total=self._counts.total(), by_kind=by_kind, places=tuple(places))

    def uncounted(self) -> Redactor:
        """The same rules for texts that are shown twice, so that the report counts them once."""
        other = Redactor()
        other._rules, other._names_count = self._rules, self._names_count
        return other

    def text(self, text: str, place: str) -> str:
        """The text without its secrets."""
        lower = text.lower()
        for rule in self._rules:
            if any(hint in lower for hint in rule.hints):
                text = self._apply(rule, text, place)
        return text

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

    def _apply(self, rule: Rule, text: str, place: str) -> str:
        def replace(match: re.Match[str]) -> str:
            if rule.accepts is not None and not rule.accepts(match):
                return match[0]
            group = next((g for g in ("secret", "quoted", "bare", "said") if match.groupdict().get(g)), None)
            start, end = match.span(group) if group else match.span()
            whole = match.string
            marker = self._marker(rule.kind, match, whole[start:end])
            if marker is None:
                return match[0]
            self._note(rule.kind, place)
            return f"{whole[match.start() : start]}{marker}{whole[end : match.end()]}"

        return rule.pattern.sub(replace, text)

    def _marker(self, kind: str, match: re.Match[str], secret: str) -> str | None:
        """What stands for a secret; None: it is none."""
        return f"[REDACTED:{kind}]"

    def _walk(self, value: Json, place: str, name: str) -> Json:
        if isinstance(value, str):
            return self._named(value, place, name)
        if isinstance(value, list):
            return [self._walk(item, f"{place}[{at}]", name) for at, item in enumerate(value)]
        if isinstance(value, dict):
            return dict(self._fields(value, place))
        return value

    def _fields(self, value: dict[str, Json], place: str) -> Iterator[tuple[str, Json]]:
        # Environments are often written as {"name": "DB_PASSWORD", "value": "…"}.
        told = value.get("name", value.get("key"))
        for name, item in value.items():
            if name in _SEALED or (name in _MEDIA_DATA and _is_media(value, item)):
                yield name, item
                continue
            clean = self.text(name, place)
            shown = clean if len(clean) <= LONGEST_SHOWN else f"{clean[:LONGEST_SHOWN]}…"
            at = f"{place}.{shown}" if "." in place or "]" in place or ":" in place else f"{place}: {shown}"
            known_as = told if name == "value" and isinstance(told, str) else name
            yield clean, self._walk(item, at, known_as)

    def _named(self, text: str, place: str, name: str) -> str:
        clean = self.text(text, place)
        if clean != text or not self._names_count or len(text) > 512 or "\n" in text:
            return clean
        if _SECRET_NAME.search(name[-LONGEST_NAME:]) and is_named_secret(name, text, quoted=True):
            self._note("secret", place)
            return "[REDACTED:secret]"
        return clean

    def _note(self, kind: str, place: str) -> None:
        self._counts[kind] += 1
        if (place, kind) in self._places or len(self._places) < MOST_PLACES:
            self._places[place, kind] += 1


def _own_rule(kind: str, pattern: str) -> Rule:
    if not _KIND.fullmatch(kind):
        raise InvalidError(f"a kind is of small letters, digits and dashes, not {kind!r}")
    try:
        return Rule(kind, ("",), re.compile(pattern))
    except re.error as exc:
        raise InvalidError(f"the rule {kind!r} is no regular expression: {exc}") from exc


def _is_media(holder: Mapping[str, Json], value: Json) -> bool:
    """An image or a file, as base64: it is not searched."""
    if not isinstance(value, str):
        return False
    if value.startswith("data:"):
        return ";base64," in value[:100]
    kind = holder.get("media_type", holder.get("mimeType", holder.get("mime_type")))
    return isinstance(kind, str) and kind.startswith(("image/", "audio/", "video/", "application/pdf"))
