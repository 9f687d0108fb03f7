"""How well secrets are told from what only looks like them, on the labelled corpus beside this file."""

from __future__ import annotations

from clew.core.redact.redactor import Redactor
from tests.core.redact.corpus_reader import Sample, harmless, with_secrets
from tests.support.rows import each_row

KNOWN_MISSES = {"prose: login with ann", "pgpass: db.example.com", "wif: AGE or WIF: 5N"}
"""What no rule finds: nothing but its place in a sentence or a line says what it is."""

PIECE = 12


def _is_hidden(secret: str, text: str) -> bool:
    pieces = [secret[at : at + PIECE] for at in range(max(1, len(secret) - PIECE + 1))]
    return not any(piece in text for piece in pieces)


def _misses() -> list[Sample]:
    found = []
    for sample in with_secrets():
        shown = Redactor().text(sample.text, "corpus")
        found += [sample for secret in sample.secrets if not _is_hidden(secret, shown)]
    return found


def _is_known(sample: Sample) -> bool:
    return any(f"{sample.label}: {sample.text}".startswith(known) for known in KNOWN_MISSES)


def test_the_corpus_is_large_enough_to_say_something() -> None:
    assert len(with_secrets()) >= 100
    assert len(harmless()) >= 125


def test_precision_and_recall_are_what_the_documentation_says() -> None:
    total = sum(len(sample.secrets) for sample in with_secrets())
    hit = total - len(_misses())
    wrong = sum(Redactor().text(text, "corpus") != text for text in harmless())
    assert hit / total >= 0.97, f"recall {hit}/{total}"
    assert hit / (hit + wrong) == 1.0, f"precision {hit}/{hit + wrong}"


def test_only_the_known_misses_are_missed() -> None:
    assert [sample.text for sample in _misses() if not _is_known(sample)] == []


@each_row("text", harmless())
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert Redactor().text(text, "corpus") == text


def test_redacting_twice_changes_nothing_more() -> None:
    for sample in with_secrets():
        once = Redactor().text(sample.text, "corpus")
        assert Redactor().text(once, "corpus") == once
