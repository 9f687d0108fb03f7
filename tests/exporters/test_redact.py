"""Redaction in exports: where it looks, what it leaves, what it reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest

import clew
from clew.core.redact.redactor import Redactor
from clew.core.redact.rules import RULES
from tests.support.rows import each_row

KEY = "ghp_" + "a1B2" * 9
HUGE = {"n": 123456789012345678901234567890, "f": 0.1, "b": True, "z": None}
FORMATS: list[Literal["markdown", "html", "json", "jsonl"]] = ["markdown", "html", "json", "jsonl"]


def _session_full_of(key: str, store: clew.Store) -> clew.Session:
    """The key in every field that an export could show, on the path and beside it."""
    s = store.create(
        "leaky",
        title=f"title {key}",
        tags=[f"tag-{key}"],
        endpoint=f"https://u:{key}@host/",
        workspace=f"/tmp/{key}",
        metadata={"note": key, key: 1},
    )
    s.add_alias(f"alias-{key}")
    first = s.append({"role": "user", "content": f"use {key}"})[0]
    s.append(
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": f"so {key}"},
                {"type": "tool_use", "id": "t", "name": "sh", "input": {"cmd": f"curl -H {key}", key: [key]}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": f"ok {key}"}]},
        {"odd": {"deep": [{"x": key}]}},
    )
    s.annotate(first, label=f"label {key}", summary=key)
    s.append({"role": "user", "content": f"{key} to be forgotten"})
    s.rewind(3)
    s.append({"role": "user", "content": f"last {key}"})
    s.checkpoint(f"cp {key}", state={"k": key})
    s.set_var("v", key)
    s.add_event("log", {"k": key})
    s.start({"ask": key}, task=f"task {key}")
    s.fail(f"error {key}")
    s.compact(f"short {key}")
    s.set_summary(f"sum {key}")
    return s


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("whole", [False, True])
def test_no_field_of_an_export_holds_the_secret(store: clew.Store, format: str, whole: bool) -> None:
    _session_full_of(KEY, store)
    options = {"whole": whole} if format != "jsonl" else {}
    plain = store.export("leaky", format, **options)  # type: ignore[arg-type]
    assert KEY in plain
    redacted = store.export("leaky", format, redact=True, **options)  # type: ignore[arg-type]
    assert KEY not in redacted
    assert "[REDACTED:github-token]" in redacted.replace("\\", "")


def test_the_store_keeps_what_an_export_hides(store: clew.Store) -> None:
    s = _session_full_of(KEY, store)
    before = list(s.entries())
    store.export("leaky", "json", redact=True)
    assert list(s.entries()) == before


def test_the_report_says_what_and_where_but_not_the_secret(store: clew.Store) -> None:
    s = store.create("a", title="My title")
    s.append(
        {"role": "user", "content": f"{KEY} and {KEY}"}, {"role": "user", "content": "DB_PASSWORD=hunter2"}
    )
    redactor = Redactor()
    store.export("a", "markdown", redact=redactor)
    report = redactor.report()
    assert report.total == 3
    assert report.by_kind == {"github-token": 2, "secret": 1}
    assert [(p.kind, p.place, p.count) for p in report.places] == [
        ("github-token", "entry 0: content", 2),
        ("secret", "entry 1: content", 1),
    ]
    assert KEY not in repr(report)
    assert "hunter2" not in repr(report)


def test_s24_a_field_that_has_a_secret_for_a_name_is_reported_without_it() -> None:
    redactor = Redactor()
    redactor.value({KEY: {"password": "hunter2x"}}, "x")
    assert {place.kind for place in redactor.report().places} == {"github-token", "secret"}
    assert KEY not in repr(redactor.report())


def test_s24_i17_signatures_and_images_are_left_byte_for_byte() -> None:
    image = f"iVBORw0KGgo/{KEY}"
    message = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "x", "signature": KEY},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image}},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}},
        ],
    }
    assert Redactor().value(message, "x") == message


@each_row(
    ("given", "clean"),
    [
        (
            {"password": "hunter2", "user": "ann", "max_tokens": "4096"},
            {"password": "[REDACTED:secret]", "user": "ann", "max_tokens": "4096"},
        ),
        (
            [{"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "HOME", "value": "/root"}],
            [{"name": "DB_PASSWORD", "value": "[REDACTED:secret]"}, {"name": "HOME", "value": "/root"}],
        ),
        (HUGE, HUGE),
        (f"before {KEY} after", "before [REDACTED:github-token] after"),
        ("postgres://app:hunter2@db/prod", "postgres://app:[REDACTED:connection-string]@db/prod"),
    ],
)
def test_secrets_are_replaced_and_all_else_stays(given: Any, clean: Any) -> None:
    """Fields with a telling name, pairs of name and value of an environment, texts; numbers are exact."""
    assert Redactor().value(given, "x") == clean


def test_rules_of_your_own_come_first_and_kinds_can_be_kept() -> None:
    redactor = Redactor(extra={"badge": r"\bEMP-\d{6}\b"}, keep=["github-token"])
    assert redactor.text(f"I am EMP-123456, {KEY}", "x") == f"I am [REDACTED:badge], {KEY}"


def test_mistakes_in_the_settings_are_said() -> None:
    with pytest.raises(clew.InvalidError, match="no rule of kind 'githib'"):
        Redactor(keep=["githib"])
    with pytest.raises(clew.InvalidError, match="no regular expression"):
        Redactor(extra={"mine": "("})
    with pytest.raises(clew.InvalidError, match="small letters"):
        Redactor(extra={"My Rule": "x"})


def test_a_redacted_json_export_has_no_hashes_that_would_confirm_a_guess(store: clew.Store) -> None:
    s = store.create("a")
    s.append({"role": "user", "content": "PASSWORD=hunter2"})
    document = json.loads(store.export("a", "json", redact=True))
    assert document["session"]["hash"] is None
    assert [entry["hash"] for entry in document["entries"]] == [None]
    assert json.loads(store.export("a", "json"))["entries"][0]["hash"] == next(iter(s.entries())).hash


@each_row(
    "text",
    [
        "a" * 300_000,
        "-----BEGIN PRIVATE KEY-----" * 3_000,
        "password" * 30_000,
        "password=" * 20_000,
        "http://a:" * 20_000,
        "eyJaaaaaaaaa." * 15_000,
        "_-." * 70_000,
        "sk-" * 70_000,
        "sk-" * 70_000 + "T3BlbkFJ",
        "sk-ant-a-" * 20_000,
        "eyJ-" * 60_000,
        "xoxb-" * 50_000,
        "token " * 40_000,
        " --password" * 20_000,
        '\\"' * 90_000 + "password",
        "aws " * 50_000,
        "cookie=" * 30_000,
        "password%3D" * 20_000,
        "%25" * 90_000,
        "pass\u200bword=" * 20_000,
        "\u200b" * 200_000,
        "%41\n" * 40_000,
    ],
    ids=lambda text: text[:12] + text[-8:],
)
def test_s24_s55_no_text_makes_the_rules_slow(text: str) -> None:
    # A rule that goes back and forth would need hours for these, and run into the timeout.
    assert Redactor().text(text, "x")


def test_a_redacted_jsonl_file_can_be_imported_and_is_whole(store: clew.Store, tmp_path: Path) -> None:
    s = _session_full_of(KEY, store)
    store.export("leaky", "jsonl", path=tmp_path / "clean.jsonl", redact=True)
    with clew.open("memory:") as other:
        other.import_path(tmp_path / "clean.jsonl")
        copy = other.get("leaky")
        assert other.verify(full=True).ok
        assert copy.info.messages == s.info.messages
        assert copy.info.hash != s.info.hash
        assert copy.messages()[0] == {"role": "user", "content": "use [REDACTED:github-token]"}
        assert copy.info.bytes == sum(len(e.raw) for e in copy.entries() if e.kind == "message")
        assert KEY not in other.export("leaky", "jsonl")


def test_digests_of_appends_with_a_key_are_left_out(store: clew.Store) -> None:
    store.create("a").append({"role": "user", "content": "PASSWORD=hunter2"}, key="turn-1")
    assert '"type":"key"' in store.export("a", "jsonl")
    assert '"type":"key"' not in store.export("a", "jsonl", redact=True)


def test_a_jsonl_file_without_secrets_keeps_its_hashes(store: clew.Store) -> None:
    s = store.create("a")
    s.append({"role": "user", "content": "hi"})
    s.rewind(0)
    s.append({"role": "user", "content": "ho"})
    assert store.export("a", "jsonl", redact=True) == store.export("a", "jsonl")


def test_the_documentation_lists_every_kind() -> None:
    page = Path(__file__).parents[2].joinpath("docs/explanation/redaction.md").read_text("utf-8")
    assert {rule.kind for rule in RULES if f"`{rule.kind}`" not in page} == set()
