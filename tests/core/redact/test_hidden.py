"""S-24: no way of writing a text hides a secret in it: characters without width, and codes of addresses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from urllib.parse import quote

import pytest

from clew.core.redact import escapes
from clew.core.redact.escapes import Edit, ShownText
from clew.core.redact.hints import may_hold
from clew.core.redact.incoming import Incoming
from clew.core.redact.redactor import Redactor
from tests.core.redact.corpus_reader import harmless, with_secrets
from tests.core.redact.keys import keys
from tests.support.rows import each_row

JOINER, SOFT, MARK, TAG = "\u200d", "\u00ad", "\ufeff", "\U000e0041"
Way = tuple[str, Callable[[str], str]]


def coded(text: str) -> str:
    """Each character but letters, digits and blanks by its code."""
    return quote(text, safe=" ")


def all_coded(text: str) -> str:
    return "".join(f"%{ord(one):02X}" if "!" <= one <= "~" else one for one in text)


def spread(sign: str) -> Callable[[str], str]:
    """This sign between all letters that are not blanks."""
    return lambda text: re.sub(r"(?<=[!-~])(?=[!-~])", lambda _: sign, text)


WITHOUT_WIDTH: list[Way] = [
    ("joiners", spread(JOINER)),
    ("soft hyphens", spread(SOFT)),
    ("byte order marks", spread(MARK)),
    ("tags", spread(TAG)),
    ("several", spread(JOINER + SOFT + "\u2063")),
    ("in the middle of words", lambda text: re.sub(r"(\w{4})(?=\w)", rf"\1{JOINER}", text)),
    ("as JSON writes it", spread("\\u200b")),
]
CODED: list[Way] = [
    ("signs", coded),
    ("everything", all_coded),
    ("twice", lambda text: coded(coded(text))),
    ("joiners inside", lambda text: all_coded(text).replace("%", "%E2%80%8B%", 1) if text else text),
]


@each_row("way", WITHOUT_WIDTH + CODED)
def test_s24_a_hidden_secret_is_found_where_the_plain_one_is(way: Way) -> None:
    name, hide = way
    for sample in with_secrets():
        if not sample.text.isascii() or Redactor().text(sample.text, "") == sample.text:
            continue
        shown = Redactor().text(hide(sample.text), "corpus")
        for secret in sample.secrets:
            piece = hide(secret if len(secret) < 12 else secret[2:-2])
            assert piece not in shown, (name, sample.text)
        assert "[REDACTED:" in shown, (name, sample.text)


@each_row("way", WITHOUT_WIDTH + CODED)
def test_what_only_looks_like_a_secret_stays_however_it_is_written(way: Way) -> None:
    name, hide = way
    for text in harmless():
        assert Redactor().text(hide(text), "corpus") == hide(text), name


@each_row("way", WITHOUT_WIDTH[:6] + CODED)
def test_s24_a_hidden_key_does_not_come_in(way: Way) -> None:
    name, hide = way
    for kind, key in keys(2):
        hidden = f"it is {hide(key)} now"
        for clean in (
            Incoming(lambda: bytes(32)).value([hidden])[0],
            Incoming(lambda: bytes(32)).text(hidden),
            json.loads(Incoming(lambda: bytes(32)).line(json.dumps({"a": hidden}).encode()))["a"],
        ):
            assert "[redacted:" in clean, (name, kind, hidden)
            assert kind == "connection-string" or hide(key[-12:]) not in clean, (name, kind)


def test_s24_a_key_that_json_writes_in_codes_does_not_come_in() -> None:
    for kind, key in keys(1):
        if "\n" in key:
            continue
        raw = '{"content":"' + "".join(f"\\u{ord(one):04x}" for one in key) + '"}'
        assert f"[redacted:{kind}:" in Incoming(lambda: bytes(32)).body(raw.encode()).decode(), kind


@each_row(
    ("text", "clean"),
    [
        ("a gh\u200bp_{0}\u200b{1} b", "a [K] b"),
        ("a%20ghp%5F{0}{1}%20b", "a%20[K]%20b"),
        ("a%2520ghp%255F{0}{1}%2520b", "a%2520[K]%2520b"),
        ("x=%67hp_{0}{1}&y=1", "x=[K]&y=1"),
        ("\u200bghp_{0}{1}\u200b", "\u200b[K]\u200b"),
        ("\x1b[31mgh\x1b[0m\u200bp%5F{0}{1}.", "\x1b[31m[K]\x1b[0m."),
        ("ok \u26a0\ufe0f ghp_{0}{1} \u26a0\ufe0f", "ok \u26a0\ufe0f [K] \u26a0\ufe0f"),
        ("{1}%zz ghp_{0}{1} 100%", "{1}%zz [K] 100%"),
    ],
)
def test_s24_the_marker_stands_for_the_whole_key_and_for_nothing_else(text: str, clean: str) -> None:
    halves = "a7Kq2Zt9Xw1bN4sVc8", "Lm3Pf6Rj5YhDe0GuTi"
    shown = Redactor().text(text.format(*halves), "x")
    assert shown == clean.format(*halves).replace("[K]", "[REDACTED:github-token]")


@pytest.mark.parametrize("way", ["without", "with gaps", "decoded"])
def test_an_edit_replaces_just_the_stretch_that_shows_it(way: escapes.Way) -> None:
    """Every stretch of a text with all sorts of hiding, compared with what its characters show one by one."""
    units = [
        ("a", "a"),
        ("\x1b[1m", ""),
        ("b", "b"),
        ("\u200b", ""),
        ("c", "c"),
        ("%41", "%41"),
        ("\u00ad", ""),
    ]
    units += [("d", "d"), ("%2542", "%2542"), ("\x1b[0m", ""), ("e", "e")]
    codes = {"%41": "A", "%2542": "B"}
    if way != "decoded":
        units = [("x", "x") if raw in codes else (raw, plain) for raw, plain in units]
    shown = [
        codes.get(raw, plain) if way == "decoded" else plain or (" " if way == "with gaps" else "")
        for raw, plain in units
    ]
    text = ShownText("".join(raw for raw, _ in units), way)
    assert text.plain == "".join(shown)
    places = [at for at, plain in enumerate(shown) for _ in plain]
    for start in range(len(text.plain)):
        for end in range(start + 1, len(text.plain) + 1):
            first, last = places[start], places[end - 1]
            before, behind = (
                "".join(raw for raw, _ in units[:first]),
                "".join(raw for raw, _ in units[last + 1 :]),
            )
            edited = text.edited([Edit(start, end, "[M]")]).text
            assert edited.startswith(f"{before}[M]"), (start, end)
            assert edited.endswith(behind), (start, end)
            kept = edited[len(before) + 3 : len(edited) - len(behind)]
            inside = [raw for raw, _ in units[first : last + 1] if raw.startswith("\x1b")]
            assert kept == "".join(inside), (start, end)


def test_a_text_of_nothing_but_what_hides_is_read_once() -> None:
    """The work grows with the text: each stretch is listed once, whatever stands beside it."""
    for unit in ("\u200b", "a\u200b", "%25", "%41", "\x1b[", "\x1b[31m", "\\\\", "\\u200b", "%e2%80%8b"):
        text = ShownText(unit * 20_000, "decoded")
        assert len(text._spans) <= 20_000
        assert Redactor().text(unit * 20_000, "x") == unit * 20_000
        assert not may_hold((unit * 20_000).encode())
