"""S-24: definite secrets are taken out of what comes in, and nothing else is."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import msgspec

from clew.core.redact.definite import Definite
from clew.core.redact.hints import may_hold
from clew.core.redact.incoming import Incoming
from clew.core.redact.markers import count_markers
from clew.core.redact.redactor import Redactor
from clew.core.redact.rules import DEFINITE
from tests.core.redact.corpus_reader import harmless, with_secrets
from tests.core.redact.keys import AROUND, TEMPLATES, keys
from tests.support.effort import usually
from tests.support.rows import each_row

KEY = bytes(range(32))
HOME = Path(__file__).parents[2] / "home" / "files"
SEEDS = usually(4, thorough=60)
GUESSED = {
    "bearer", "basic", "cookie", "env", "json", "yaml", "toml", "code", "flag", "curl", "header", "prose",
    "netrc", "pgpass", "wif", "k8s", "mailgun",
}  # fmt: skip
"""Labels of the corpus that say that only a name or a word beside it tells the secret."""
NOT_SURE = {"mysql -> mysql://root:toor@", "Server=db;Database=app", "TWILIO_AUTH_TOKEN="}


def incoming() -> Incoming:
    return Incoming(lambda: KEY)


def test_every_definite_rule_has_a_sample() -> None:
    assert {rule.kind for rule in DEFINITE} == {kind for kind, _ in TEMPLATES}


def test_s24_a_definite_secret_is_replaced_wherever_it_stands() -> None:
    for kind, key in keys(SEEDS):
        for around in AROUND:
            check_replaced(kind, around(key))


def test_s24_a_definite_secret_is_replaced_behind_a_long_text() -> None:
    for kind, key in keys(SEEDS // 4):
        check_replaced(kind, "word " * 4000 + key)


def check_replaced(kind: str, text: str) -> None:
    shown = msgspec.json.decode(incoming().body(msgspec.json.encode({"content": text})))["content"]
    assert f"[redacted:{kind}:" in shown, text
    assert Definite(lambda: KEY).text(text, "") == shown, "the glance and the rules differ"


def test_s24_the_definite_secrets_of_the_corpus_are_found() -> None:
    for sample in with_secrets():
        if sample.label in GUESSED or any(sample.text.startswith(one) for one in NOT_SURE):
            continue
        shown = incoming().body(msgspec.json.encode({"content": sample.text})).decode()
        assert count_markers(shown.encode()) >= 1, sample.text
        for secret in sample.secrets:
            assert secret[:12] not in shown, sample.text


def test_guesses_are_left_to_exports() -> None:
    for sample in with_secrets():
        if sample.label in GUESSED - {"mailgun"}:
            assert incoming().text(sample.text) == sample.text


# -- nothing else


@each_row("text", harmless())
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert incoming().text(text) == text


@each_row(
    "text",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "sk-ant-api03-XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX",
        "sk_test_1234567890abcdefghij",
        "xoxb-your-bot-token-here",
        "postgres://user:password@localhost/db",
        "postgresql://scott:tiger@localhost/test",
        "https://user:pass@example.com/",
        "mysql://root:root@127.0.0.1",
        "postgres://app:${DB_PASSWORD}@db/app",
        "redis://:{password}@cache",
        "docker://alpine:3.19@sha256:4cdcd65f914e46bebcdcf85d39aba1fd5bbf54a116f11110ebd3caddf228f328",
        "http://localhost:3000/@scope/name",
        'if "-----BEGIN PRIVATE KEY-----" in text:',
        "-----BEGIN RSA PRIVATE KEY-----\n...\n-----END RSA PRIVATE KEY-----",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIn0.SflKxwRJSM",
        "MyVeryLongClassNameWithXY.method.another_very_long_function_name",
        "key-d41d8cd98f00b204e9800998ecf8427e",
        "[redacted:github-token:7f3a]",
        "postgres://app:[redacted:connection-string:7f3a]@db/app",
    ],
)
def test_examples_of_handbooks_and_markers_stay(text: str) -> None:
    assert incoming().text(text) == text
    assert Definite(lambda: KEY).text(text, "") == text


def test_nothing_is_replaced_in_ordinary_code() -> None:
    """Of the library of Python, which has tokens, keys, passwords and addresses in it all the time."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    assert len(files) > 100
    replaced = {}
    for file in files[:: usually(2, thorough=1)]:
        reader = incoming()
        reader.line(file.read_bytes())
        if reader.count:
            replaced[file.name] = reader.count
    assert replaced == {}


def test_nothing_is_replaced_in_the_recorded_home() -> None:
    """What real agents wrote while they worked on a website."""
    files = [path for path in HOME.rglob("*") if path.is_file()]
    assert len(files) > 10
    reader = incoming()
    for file in files:
        for line in file.read_bytes().splitlines():
            reader.line(line)
    assert reader.count == 0


# -- what it leaves


def test_what_holds_no_secret_is_the_same_object() -> None:
    body = b'{"role":"user","content":"see https://example.com/a?b=c 3f2eaf3f46b3a47a96879d043a56019619c5"}'
    assert incoming().body(body) is body


@each_row("name", ["signature", "thoughtSignature", "encrypted_content"])
def test_i17_signed_and_sealed_reasoning_stays_byte_for_byte(name: str) -> None:
    _, key = keys(1)[35]
    message = {"content": [{"type": "thinking", "thinking": f"use {key}", name: key}]}
    shown = msgspec.json.decode(incoming().body(msgspec.json.encode(message)))
    assert shown["content"][0][name] == key
    assert key not in shown["content"][0]["thinking"]


def test_i17_media_stay_byte_for_byte() -> None:
    data = "iVBORw0KGgo/AKIAQQ3BY7WETV4STCDM/" + "A/b+" * 2000
    source = {"type": "base64", "media_type": "image/png", "data": data}
    body = msgspec.json.encode({"content": [{"type": "image", "source": source}]})
    assert incoming().body(body) is body or incoming().body(body) == body


def test_redacting_twice_changes_nothing() -> None:
    for _, key in keys(1):
        once = incoming().text(f"a {key} b")
        assert incoming().text(once) == once
        assert Redactor().text(once, "") == once


def test_the_same_secret_has_the_same_marker_and_another_store_has_another() -> None:
    _, key = keys(1)[35]
    _, other = keys(2)[35 + len(TEMPLATES)]
    assert incoming().text(key) == incoming().text(f"x {key}")[2:]
    assert incoming().text(key) != incoming().text(other)
    assert incoming().text(key) != Incoming(lambda: bytes(32)).text(key)


def test_the_key_is_asked_for_when_there_is_a_secret() -> None:
    asked = []

    def key() -> bytes:
        asked.append(1)
        return KEY

    reader = Incoming(key)
    reader.body(b'{"content":"nothing"}')
    assert not asked
    reader.text(keys(1)[35][1])
    assert asked


def test_secrets_are_counted_by_what_was_replaced() -> None:
    reader = incoming()
    _, key = keys(1)[35]
    body = reader.body(msgspec.json.encode({"a": key, "b": [f"{key} {key}"], key: 1}))
    assert reader.count == 4 == count_markers(body)
    assert reader.uncounted().count == 0


# -- lines and states


def test_a_line_keeps_all_other_bytes() -> None:
    _, key = keys(1)[35]
    line = b'{ "b": 1.50,  "a":"x \\u00e9 %s" }' % key.encode()
    clean = incoming().line(line)
    before, _, after = clean.partition(b"[redacted:")
    assert line.startswith(before)
    assert after.endswith(b'" }')
    assert key.encode() not in clean


def test_a_secret_that_json_hides_is_found_in_a_line() -> None:
    _, key = keys(1)[35]
    hidden = b'{"a":"\\u%04x%s"}' % (ord(key[0]), key[1:].encode())
    assert key[4:].encode() not in incoming().line(hidden)


def test_a_line_that_is_no_json_is_cleaned() -> None:
    _, key = keys(1)[35]
    assert key.encode() not in incoming().line(b"\xff\xfe broken " + key.encode() + b" {")


def test_what_a_reader_remembers_is_cleaned() -> None:
    _, key = keys(1)[35]
    for texts in ([key], [key * 1, {"title": f"{key} and more " * 5}], {"a": [1, None, key]}):
        clean = incoming().packed(msgspec.msgpack.encode(texts))
        assert key.encode() not in clean
        assert b"[redacted:github-token:" in clean
    state = msgspec.msgpack.encode([1, "nothing", {"x": [None]}])
    assert incoming().packed(state) is state
    for more in range(200):  # the byte before a text, which tells how long it is, may be a letter
        clean = incoming().packed(msgspec.msgpack.encode([f"{key} {'w' * more}"]))
        assert key.encode() not in clean


@each_row("size", [19, 20, 21, 4096, 100_000])
def test_the_glance_looks_at_the_whole_text(size: int) -> None:
    key = keys(1)[35][1].encode()
    for before in (b"a" * size + b" ", b"/" * size, b"+a" * size + b'"'):
        assert may_hold(before + key)
        assert may_hold(key + b" " + before)
