"""No tool tells a secret (S-24): not from any field, and not where an answer is cut through one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.redact.redactor import Redactor
from clew.server.mcp.entries import MOST_HEARD
from clew.server.mcp.hint import hint_of
from clew.server.mcp.text import SECRET
from clew.server.mcp.view import View
from tests.core.redact.corpus_reader import with_secrets
from tests.core.redact.keys import keys
from tests.server.mcp.safety.asking import HERE, ask, call, view_of, walk
from tests.support.rows import named


def is_known(text: str) -> bool:
    return Redactor().text(text, "") != text


RULES = dict(keys(1))
KEYS = [*RULES.values(), *{one.label: one.text for one in with_secrets() if is_known(one.text)}.values()]
"""One for each rule that knows the shape of keys, and some that are known by what stands before them."""
SOME = KEYS[::8]
OTHERS = [key for key in KEYS if key not in SOME]
PART = 12
"""So many letters of a secret in a row are too many."""
CUTS = (100, 300, 1500)
"""Where answers cut texts."""


def parts(text: str) -> set[str]:
    """The parts of a text that are secret: those that the redactor takes out."""
    clean = Redactor().text(text, "")
    assert clean != text
    found = {text[at : at + PART] for at in range(len(text) - PART + 1)}
    return {one for one in found if one not in clean and not set(one) & set(" \n\"'")}


def fill(store: clew.Store, id: str, key: str) -> clew.Session:
    """A session with a key in every field, also where texts are cut."""
    line = " ".join(key.split())
    session = store.create(id, workspace=HERE, title=f"title {line}"[:400], metadata={"agent": line})
    session.append({"role": "user", "content": f"needle {key}"})
    for number, cut in enumerate(CUTS):
        said = f"needle {number} ".ljust(cut - 1 - len(key) // 2, ".") + f" {key} and more"
        coloured = f"\x1b[1m{key[:9]}\x1b[31m{key[9:]}\x1b[0m" if "\n" not in key else key
        given = {
            "command": f"echo {said}",
            "path": f"/tmp/key={line}",
            "env": [{"name": "KEY", "value": said}],
        }
        use = {"type": "tool_use", "id": f"c{number}", "name": f"Bash {line}", "input": given}
        result = {
            "type": "tool_result",
            "tool_use_id": f"c{number}",
            "content": f"{said}\n{coloured}\n{said}",
        }
        session.append({"role": "assistant", "content": [{"type": "text", "text": said}, use]})
        session.append({"role": "user", "content": [result]})
        spoken = {
            "id": f"d{number}",
            "type": "function",
            "function": {"name": "f", "arguments": json.dumps(given)},
        }
        session.append({"role": "assistant", "content": f"{said}\n{coloured}", "tool_calls": [spoken]})
        session.append({"role": "tool", "tool_call_id": f"d{number}", "content": said})
    session.annotate(session.head, note=f"needle note {key}", noted_by=line)
    if len(line.encode()) <= 500:
        session.checkpoint(line)
        session.add_usage(model=line, input_tokens=1, cost="1")
    session.compact(f"needle {key}")
    untitled = store.create(f"{id} untitled", workspace=HERE, metadata={"parent": id})
    untitled.append({"role": "user", "content": f"needle {line}"})
    return session


def told(view: View, id: str, key: str) -> Iterator[Any]:
    """All that tools say of it."""
    everyone = ["user", "assistant", "tool", "system", "other"]
    for tools, cut in (("fold", 300), ("full", 1500), ("none", 100)):
        yield walk(
            view, "read_session", "entries", place=f"{id}@0", roles=everyone, tools=tools, max_chars=cut,
            max_tokens=20_000, after=100,
        )  # fmt: skip
    yield walk(view, "search_sessions", "hits", query="needle", limit=30, tools=True)
    yield ask(view, "list_sessions", limit=100)
    yield ask(view, "session_overview", session=id)
    yield ask(view, "usage_summary", session=id)
    line = " ".join(key.split())
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("session_overview", {"session": line}),
        ("read_session", {"place": f"{id}@no {line}"}),
        ("read_session", {"place": id, key: 1}),
        ("read_session", {"place": id, "tools": key}),
        ("search_sessions", {"query": "needle", "cursor": key}),
        ("search_sessions", {"query": "needle", "since": line}),
        ("list_sessions", {"workspace": f"/tmp/key={line}"}),
        ("diff_files", {"a": id, "cursor": line}),
    ]
    for tool, arguments in wrong:
        result = call(view, tool, **arguments)
        assert result.is_error
        yield str(result.content)


def texts(value: Any) -> str:
    """All texts in an answer, without what JSON does to them."""
    if isinstance(value, dict):
        return "\n".join(map(texts, value.values()))
    if isinstance(value, list):
        return "\n".join(map(texts, value))
    return value if isinstance(value, str) else ""


@pytest.mark.parametrize("keys", [SOME, OTHERS], ids=["some", "others"])
def test_s24_no_rule_lets_a_secret_out(keys: list[str]) -> None:
    for key in keys:
        with clew.open("memory:") as store, named(repr(key)):
            fill(store, "s", key)
            secret = parts(key)
            for answer in told(view_of(store), "s", key):
                said = texts(answer)
                assert not [one for one in secret if one in said], said[:3000]


def test_s24_secrets_are_counted_and_told_only_if_the_server_reveals_them() -> None:
    key = RULES["github-token"]
    with clew.open("memory:") as store:
        fill(store, "s", key)
        for tool, arguments in (
            ("search_sessions", {"query": "needle"}),
            ("list_sessions", {}),
            ("session_overview", {"session": "s"}),
            ("read_session", {"place": "s@0"}),
            ("usage_summary", {}),
        ):
            hidden = ask(view_of(store), tool, **arguments)
            shown = ask(view_of(store, reveals=True), tool, **arguments)
            assert hidden["redacted"] > 0
            assert (key in texts(hidden), key in texts(shown)) == (False, True)
            assert shown["redacted"] == 0


def test_s24_a_diff_tells_no_line_of_a_key(tmp_path: Path) -> None:
    """Also where only lines in the middle of it are part of the diff."""
    middle = [f"{number:02d}{'MIIEowIBAAKCAQEA7' * 3}" for number in range(40)]
    begin, end = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
    files = tmp_path / "files"
    files.mkdir()

    def write(name: str, *lines: str) -> None:
        (files / name).write_text("\n".join(lines) + "\n")

    with clew.open(tmp_path / "store.db") as store:
        session = store.create("s", workspace=HERE)
        session.append({"role": "user", "content": "go"})
        write("changed.txt", begin, *middle, end)
        write("rotated", RULES["github-token"])
        write("gone.txt", begin, *middle, end)
        session.checkpoint("a", files=files)
        write(
            "changed.txt", begin, *middle[:20], middle[20].replace("M", "N"), *middle[21:], end, "a new line"
        )
        write("rotated", RULES["github-token"].replace("a7", "b8"))
        (files / "gone.txt").unlink()
        write(f"{RULES['npm-token']}.txt", "new", RULES["jwt"])
        session.checkpoint("b", files=files)
        answers = [ask(view_of(store), "diff_files", a=a, b=b) for a, b in (("s@a", "s@b"), ("s@b", "s@a"))]
        revealed = texts(ask(view_of(store, reveals=True), "diff_files", a="s@a", b="s@b"))
        assert all(one["redacted"] for one in answers)
        for secret in (*middle, RULES["npm-token"], RULES["jwt"], RULES["github-token"]):
            assert not [part for part in parts_of(secret) if part in texts(answers)]
            assert secret in revealed or secret in middle
        assert "a new line" in texts(answers)
        assert "only secrets differ" in texts(answers)


def parts_of(secret: str) -> set[str]:
    return {secret[at : at + PART] for at in range(len(secret) - PART + 1)}


def test_s24_a_title_that_was_cut_out_of_a_prompt_does_not_end_in_a_secret() -> None:
    with clew.open("memory:") as store:
        for number in range(30):
            content = f"{'x' * number} {RULES['openrouter-key']} for you"
            store.create(f"s{number}", workspace=HERE).append({"role": "user", "content": content})
        titles = [one["title"] for one in ask(view_of(store), "list_sessions", limit=100)["sessions"]]
        hints = [hint_of([info]) for info in store.list(limit=100)]
        assert len(titles) == len(hints) == 30
        for told in (*titles, *hints):
            assert not [part for part in parts_of(RULES["openrouter-key"]) if part in told]


def test_s24_the_line_of_a_call_tells_no_part_of_a_secret_in_a_long_result() -> None:
    key = RULES["github-token"]
    with clew.open("memory:") as store:
        session = store.create("s", workspace=HERE)
        for number, before in enumerate((MOST_HEARD - 20, MOST_HEARD + SECRET - 20)):
            use = {"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {"command": "cat log"}}
            session.append({"role": "assistant", "content": [use]})
            content = f"{'x' * (before - 1)}\n{key}\n"
            result = {
                "type": "tool_result",
                "tool_use_id": f"c{number}",
                "content": content,
                "is_error": True,
            }
            session.append({"role": "user", "content": [result]})
        told = texts(ask(view_of(store), "read_session", place="s", roles=["assistant"]))
        assert told.count("[tool] Ran cat log") == 2
        assert not [part for part in parts_of(key) if part in told]
