"""`clew token` and `clew share`, as a user types them."""

from __future__ import annotations

import re
from pathlib import Path

import clew
from clew.server.access.secret import is_hash_of
from clew.server.access.state import set_running
from tests.cli.processes import Clew
from tests.support.rows import each_row

TOKEN = re.compile(r"clew_([ts][a-z0-9]{9})_[A-Za-z0-9]{43}")


def given(cli: Clew) -> None:
    with clew.open(cli.store) as store:
        s = store.session("login")
        s.append({"role": "user", "content": "Fix the login"}, {"role": "assistant", "content": "Done"})
        s.checkpoint("plan")
        s.append({"role": "user", "content": "Thanks"})


def test_a_token_is_made_listed_and_removed(cli: Clew) -> None:
    options = ("--scope", "read,write", "--workspace", ".", "--tag", "web", "--expires", "90d")
    made = cli("token", "add", "ci", *options)
    found = TOKEN.fullmatch(made.out.strip())
    assert found, "piped, it is the token and nothing else"
    assert made.err == ""
    ((name, scopes, workspace, tags, created, ends, id),) = cli("token", "ls").rows
    assert (name, scopes, workspace, tags, id) == ("ci", "read,write", str(cli.home), "web", found[1])
    assert created < ends
    (record,) = cli("token", "ls", "--json").records
    assert (record["name"], record["expired"], "token" in record) == ("ci", False, False)
    assert cli("token", "rm", "ci").out == "token ci is removed\n"
    assert cli("token", "ls").out == ""
    assert "there are no tokens" in cli.on_terminal("token", "ls").out


def test_what_cannot_be_made_says_why(cli: Clew) -> None:
    cli("token", "add", "ci")
    assert "there is a token 'ci' already" in cli("token", "add", "ci", code=1).err
    told = cli("token", "add", "x", "--scope", "root", code=1).err
    assert "a scope is one of read, write, admin, files, store, not 'root'" in told
    for bound in (("--workspace", "."), ("--tag", "web")):
        told = cli("token", "add", "x", "--scope", "store", *bound, code=1).err
        assert "the scope `store` opens the whole store" in told
    assert cli("token", "add", "x", "--scope", "store").out
    assert "not a span of time" in cli("token", "add", "x", "--expires", "soon", code=2).err
    assert "cannot name a token" in cli("token", "add", "\x1b[31mred", code=1).err
    assert "there is no token 'nope'; clew token ls lists them" in cli("token", "rm", "nope", code=1).err


def test_on_a_terminal_it_is_said_that_a_token_is_shown_once(cli: Clew) -> None:
    shown = cli.on_terminal("token", "add", "ci", "--scope", "write", "--tag", "web").out
    assert TOKEN.search(shown)
    assert "token ci: may write; only in #web; does not end" in shown
    assert "This is the only time that it is shown." in shown
    listed = cli.on_terminal("token", "ls").out
    assert not TOKEN.search(listed)
    assert all(word in listed for word in ("NAME", "MAY", "ONLY IN", "MADE", "ENDS", "#web", "never"))


def test_a_share_is_of_the_session_as_it_is_unless_it_is_live(cli: Clew) -> None:
    given(cli)
    with clew.open(cli.store) as store:
        session = store.get("login")
        places = {"now": str(session.head), "plan": str(session.get_checkpoint("plan").head)}
    calls = {
        ("login",): places["now"],
        ("new", "login"): places["now"],
        ("login@plan",): places["plan"],
        ("--at", "plan", "login"): places["plan"],
        ("login", "--at", "0"): places["plan"].rpartition(".")[0] + ".0",
        ("login", "--live"): None,
    }
    for words, head in calls.items():
        (record,) = cli("share", *words, "--json").records
        assert (record["session"], record["head"], record["redact"]) == ("login", head, True)
        assert TOKEN.fullmatch(record["token"])
    assert len(cli("share", "ls").rows) == len(calls)
    assert len(cli("share", "ls", "login").rows) == len(calls)
    first = cli("share", "ls").rows[0][0]
    assert cli("share", "rm", first).out == f"share {first} of login is removed\n"
    assert len(cli("share", "ls").rows) == len(calls) - 1
    assert f"there is no share '{first}'" in cli("share", "rm", first, code=1).err


def test_a_share_that_makes_no_sense_is_refused(cli: Clew) -> None:
    given(cli)
    assert "--live follows the session" in cli("share", "login", "--live", "--at", "0", code=2).err
    assert "no session 'nope'" in cli("share", "nope", code=1).err
    assert "no checkpoint" in cli("share", "login", "--at", "nope", code=1).err
    assert cli("share", "ls").out == ""


def test_a_link_has_the_token_in_its_fragment(cli: Clew) -> None:
    given(cli)
    token = cli("share", "login").out.strip()
    assert TOKEN.fullmatch(token), "without a server there is no address"
    with clew.open(cli.store) as store:
        set_running(store.location, "https://clew.example/team/")
    shown = cli("share", "login").out.strip()
    address, _, fragment = shown.partition("#share=")
    assert address == "https://clew.example/team/"
    assert TOKEN.fullmatch(fragment)
    assert "?" not in address


@each_row(
    ("address", "is_here"),
    [("http://127.0.0.1:8731", True), ("http://[::1]:8731/clew", True), ("http://10.0.0.5:8731", False)],
)
def test_a_link_that_works_on_this_machine_only_says_so(cli: Clew, address: str, is_here: bool) -> None:
    with clew.open(cli.store) as store:
        store.session("login")
        set_running(store.location, address)
    shown = " ".join(cli.on_terminal("share", "login").out.split())
    assert ("This link works on this machine only" in shown) == is_here


def test_the_store_keeps_the_hash(cli: Clew, tmp_path: Path) -> None:
    given(cli)
    token = cli("token", "add", "ci").out.strip()
    content = cli.store.read_bytes()
    for path in cli.home.glob("agents.db-*"):
        content += path.read_bytes()
    assert token.rpartition("_")[2].encode() not in content
    found = re.search(rb'"name":"ci","hash":"([0-9a-f]{64})"', content)
    assert found
    assert is_hash_of(token, found[1].decode())
