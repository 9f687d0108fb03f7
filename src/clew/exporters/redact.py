"""Exports without secrets: what `redact=` means. The rules are those of `core/redact`."""

from __future__ import annotations

from clew.core.redact.redactor import RedactedPlace, RedactionReport, Redactor
from clew.errors import InvalidError

__all__ = ["RedactedPlace", "RedactionReport", "Redactor", "redactor_of"]


def redactor_of(redact: bool | Redactor) -> Redactor | None:
    """What `redact=` means: no, yes, or yes and I want the report."""
    if isinstance(redact, Redactor):
        return redact
    if not isinstance(redact, bool):
        raise InvalidError(f"redact must be True, False or a Redactor, not {redact!r}")
    return Redactor() if redact else None
