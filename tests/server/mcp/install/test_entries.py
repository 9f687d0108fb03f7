"""Whatever a person wrote into settings, our entry comes in and goes out, and every other value stays."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.errors import InvalidError
from clew.server.mcp.install import entries, toml_text
from clew.server.mcp.install.clients import CLIENTS, Client

PATH = Path("/settings")
WORDS = ["/usr/bin/clew", "mcp", "--sync"]
OTHER = ["clew", "mcp", "--all"]
CODEX = CLIENTS["codex"]
JSON = [client for client in CLIENTS.values() if not client.is_toml]

values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None)
@given(
    client=st.sampled_from(JSON),
    rest=st.dictionaries(st.text(max_size=3), values, max_size=3),
    servers=st.none() | st.dictionaries(st.sampled_from(["a", "docs", "clew2", ""]), values, max_size=3),
    indent=st.sampled_from([None, 0, 1, 2, 4, "\t"]),
    newline=st.sampled_from(["\n", "\r\n"]),
)
def test_json_of_any_kind(
    client: Client, rest: dict[str, Any], servers: dict[str, Any] | None, indent: Any, newline: str
) -> None:
    was = rest | ({} if servers is None else {client.keys[0]: servers})
    text = json.dumps(was, indent=indent, ensure_ascii=False).replace("\n", newline)
    entry = client.entry(WORDS)
    after = entries.with_entry(text, client, PATH, entry)
    assert json.loads(after) == was | {client.keys[0]: (servers or {}) | {"clew": entry}}
    assert entries.with_entry(after, client, PATH, entry) == after
    other = entries.with_entry(after, client, PATH, client.entry(OTHER))
    assert entries.entry_in(other, client, PATH) == client.entry(OTHER)
    back = json.loads(entries.without_entry(other, client, PATH))
    assert back == {key: value for key, value in was.items() if value or key != client.keys[0]}


PIECES = [
    "# a comment\n",
    'model = "gpt-5" # fast\n',
    'notice = """\n[mcp_servers.clew]\ncommand = "no"\n"""\n',
    'mcp_servers.dotted.command = "x"\n',
]
TABLES = [
    '\n[mcp_servers.docs]\ncommand = "npx"\nargs = [\n  "-y", # yes\n  "[mcp_servers.clew]",\n]\n',
    '[mcp_servers.docs2]\nurl = "https://x"\n[mcp_servers.docs2.env]\nA = "1"\n\n\n',
    '[projects."/srv/x"]\ntrust_level = "trusted"\n',
    "\n[tui]\n# nothing\nnotifications = true\n",
    "[[skills.config]]\nenabled = false\n",
    "[mcp_servers]\n",
]


@settings(max_examples=40, deadline=None)
@given(
    pieces=st.lists(st.sampled_from(PIECES), unique=True),
    tables=st.lists(st.sampled_from(TABLES), unique=True),
    newline=st.sampled_from(["\n", "\r\n"]),
    ends=st.booleans(),
)
def test_toml_of_any_kind(pieces: list[str], tables: list[str], newline: str, ends: bool) -> None:
    text = "".join(pieces + tables)
    text = (text if ends else text.removesuffix("\n")).replace("\n", newline)
    try:
        was = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(InvalidError, match="it is not valid TOML"):
            toml_text.entry_in(text, CODEX, PATH)
        return
    entry = CODEX.entry(WORDS)
    after = toml_text.with_entry(text, CODEX, PATH, entry)
    assert after.startswith(text)
    servers = was.get("mcp_servers", {})
    assert tomllib.loads(after) == was | {"mcp_servers": servers | {"clew": entry}}
    assert toml_text.with_entry(after, CODEX, PATH, entry) == after
    assert after.count("\r\n") == (after.count("\n") if newline == "\r\n" else 0) or "\r\n" not in text
    other = toml_text.with_entry(after, CODEX, PATH, CODEX.entry(OTHER))
    back = toml_text.without_entry(other, CODEX, PATH)
    assert tomllib.loads(other) == was | {"mcp_servers": servers | {"clew": CODEX.entry(OTHER)}}
    assert tomllib.loads(back) == {key: value for key, value in was.items() if value or key != "mcp_servers"}


def test_the_usual_settings_of_codex_come_back_as_they_were() -> None:
    text = "".join([PIECES[1], *TABLES[:4]])
    after = toml_text.with_entry(text, CODEX, PATH, CODEX.entry(WORDS))
    assert toml_text.without_entry(after, CODEX, PATH) == text
    changed = toml_text.with_entry(after, CODEX, PATH, CODEX.entry(OTHER))
    assert changed == after.replace("/usr/bin/clew", "clew").replace("--sync", "--all")
