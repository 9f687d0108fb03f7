"""Texts with the colours of a terminal are judged as a person reads them, on the corpus of secrets."""

from __future__ import annotations

import re
from collections.abc import Callable

from clew.core.redact.hints import may_hold
from clew.core.redact.incoming import Incoming
from clew.core.redact.redactor import Redactor
from tests.core.redact.corpus_reader import harmless, with_secrets
from tests.core.redact.keys import keys
from tests.support.rows import each_row

RED, END = "\x1b[33m", "\x1b[39;49;00m"
Way = tuple[str, Callable[[str], str]]
WAYS: list[Way] = [
    ("words", lambda text: re.sub(r"(\w+)", rf"{RED}\1{END}", text)),
    ("values", lambda text: re.sub(r"([:=] ?)(\S+)", rf"\1{RED}\2{END}", text)),
    ("signs", lambda text: re.sub(r"([^\w\s])", rf"{RED}\1{END}", text)),
    ("the middle of words", lambda text: re.sub(r"(\w{4})(?=\w)", rf"\1{RED}", text)),
    ("letters", lambda text: re.sub(r"(.)", rf"{RED}\1{END}", text)),
    ("words, as JSON writes it", lambda text: re.sub(r"(\w+)", r"\\u001b[33m\1\\u001b[0m", text)),
]
SEQUENCE = re.compile(r"(?:\x1b|\\u001b)\[[0-9;]*m")


@each_row("way", WAYS)
def test_a_coloured_secret_is_found_where_the_plain_one_is(way: Way) -> None:
    name, colored = way
    for sample in with_secrets():
        redactor, plain = Redactor(), Redactor()
        expected = plain.text(sample.text, "corpus")
        if expected == sample.text:
            continue
        shown = redactor.text(colored(sample.text), "corpus")
        assert SEQUENCE.sub("", shown) == expected, name
        assert SEQUENCE.findall(shown) == SEQUENCE.findall(colored(sample.text)), "all colours stay, in order"
        assert redactor.report() == plain.report()


@each_row("way", WAYS)
def test_colours_make_no_secret_of_what_is_none(way: Way) -> None:
    name, colored = way
    for text in harmless():
        assert Redactor().text(colored(text), "corpus") == colored(text), name


def test_a_type_annotation_in_the_colours_of_pytest_stays() -> None:
    text = "def login(password: \x1b[96mstr\x1b[39;49;00m) -> \x1b[94mNone\x1b[39m"
    assert Redactor().text(text, "x") == text
    assert Redactor().value({"password": "\x1b[96mstr\x1b[39;49;00m"}, "x") == {
        "password": "\x1b[96mstr\x1b[39;49;00m"
    }


TYPES = [
    "bytes32", "uint256", "int64,", "str|None=None", "Uint8Array;", "Ed25519PrivateKey", "Buffer<Uint8>",
    "SecretStr", "pydantic.SecretStr|None=None,", "sha256", "Option<String>,", "Annotated[str, Form()]",
]  # fmt: skip


@each_row("name", TYPES)
def test_a_type_with_digits_stays(name: str) -> None:
    for text in (f"secret_token: {name}", f"secret_token: {RED}{name}{END})"):
        assert Redactor().text(text, "x") == text


def test_a_colour_ends_a_word_where_a_key_begins_and_where_it_ends() -> None:
    key = "ghp_" + "a1B2" * 9
    for before, behind in (("Token", "ok"), ("", "."), ("x\x1b]8;;https://host/", "\x1b\\")):
        text = f"{before}{RED}{key}{END}{behind}"
        assert Redactor().text(text, "x") == text.replace(key, "[REDACTED:github-token]")
    assert Redactor().text(f"\x1b[{key}", "x") == "\x1b[[REDACTED:github-token]", "this was no sequence"
    link = "\x1b]8;;https://me:q7TzPw0Lk2@host\x1b\\here\x1b]8;;\x1b\\"
    assert Redactor().text(link, "x") == link.replace("q7TzPw0Lk2", "[REDACTED:connection-string]")


def test_a_rule_of_the_caller_reads_the_text_with_and_without_its_colours() -> None:
    redactor = Redactor(extra={"house": r"house-\d+", "red": r"\x1b\[31m"})
    assert redactor.text("ho\x1b[1muse-1\x1b[31m2", "x") == "[REDACTED:house]\x1b[1m[REDACTED:red]"


def test_a_coloured_key_does_not_come_in() -> None:
    for kind, key in keys(5):
        if "\n" in key or "://" in key:
            continue
        for text in (f"{key[:9]}{RED}{key[9:]}{END}", f"{RED}{key}{END}"):
            incoming = Incoming(lambda: bytes(32))
            clean = incoming.value([text])[0]
            assert "[redacted:" in clean, (kind, text)
            assert key[-12:] not in clean
            assert SEQUENCE.findall(clean) == SEQUENCE.findall(text)


def test_what_is_sure_and_what_is_possible_is_told_apart() -> None:
    redactor = Redactor(extra={"house": "house-1"})
    key = keys(5)[35][1]
    redactor.text(f"{key} ghp_{'x' * 36} DB_PASSWORD=hunTer22x house-1", "text")
    redactor.value({"password": "hunTer22x"}, "value")
    report = redactor.report()
    assert (report.total, report.possible) == (5, 3), "an example of a handbook is no sure secret"
    assert {place.kind: place.possible for place in report.places} == {
        "house": 0,
        "github-token": 1,
        "secret": 1,
    }


def test_the_glance_looks_through_colours() -> None:
    key = keys(5)[35][1]
    assert may_hold(f'"{key[:6]}\\u001b[31m{key[6:]}"'.encode())
    assert not may_hold(b'"\\u001b[31mpassed\\u001b[0m"')
