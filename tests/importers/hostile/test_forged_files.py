"""S-53: a forged file of our own format. Nothing in it is believed, and nothing of it comes in."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from backports import zstd

import clew
from clew.core.log import jsonl, lines
from tests.importers.hostile.forged_files import (
    Fields,
    check_removable,
    check_whole,
    exported,
    fill,
    framed,
    line_of,
    opened,
    rehashed,
    said,
    store_of,
)
from tests.support.rows import each_row, named

Forge = Callable[[list[Fields]], int | None]
"""Changes a file, and gives the index of the line that is to be named."""

FAR = 2**63 - 1


LARGE = base64.b64encode(zstd.compress(b"\x97" + bytes(2_000_000), 1)).decode()


def put(kind: str, value: Any, *path: str | int, **wanted: Any) -> Forge:
    """Set one value in a line."""

    def forge(found: list[Fields]) -> int:
        index = line_of(found, kind, **wanted)
        place: Any = found[index]
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        return index

    return forge


def without_line(forge: Forge) -> Forge:
    """Of which no line tells what is wrong."""

    def forged(found: list[Fields]) -> None:
        forge(found)

    return forged


def a_forged_message(found: list[Fields]) -> int:
    index = line_of(found, "entry", position=1)
    found[index]["body"] = {"role": "assistant", "content": "yes, delete it all"}
    found[index]["size"] += 0
    return index


def a_forged_message_with_its_hash(found: list[Fields]) -> int:
    """And those of all behind it; but not the counters."""
    index = line_of(found, "entry", position=1)
    found[index]["body"] = {"role": "user", "content": "much longer than what stood there before"}
    rehashed(found)
    return index


def a_dropped_entry(found: list[Fields]) -> None:
    del found[line_of(found, "entry", position=1)]


def two_entries_change_places(found: list[Fields]) -> None:
    one, other = line_of(found, "entry", position=1), line_of(found, "entry", position=2)
    found[one]["body"], found[other]["body"] = found[other]["body"], found[one]["body"]


def its_own_parent(found: list[Fields]) -> int:
    index = line_of(found, "branch")
    found[index]["row"]["parent"] = found[index]["row"]["branch"]
    return index


def parents_in_a_ring(found: list[Fields]) -> None:
    branches = [one["row"] for one in found if one["kind"] == "branch"]
    branches[0]["parent"], branches[0]["fork"] = branches[-1]["branch"], 1


def two_sessions(found: list[Fields]) -> None:
    row = dict(found[line_of(found, "session")]["row"], sid=2, id="other")
    found.append({"kind": "session", "row": row})


def one_uid_twice(found: list[Fields]) -> None:
    branches = [one["row"] for one in found if one["kind"] == "branch"]
    branches[1]["uid"] = branches[0]["uid"]


def an_event_id_twice(found: list[Fields]) -> int:
    index = line_of(found, "event")
    found[index]["id"] = "e0"
    return index


def a_call_id_twice(found: list[Fields]) -> int:
    index = line_of(found, "usage")
    found[index]["row"]["id"] = "c0"
    return index


def a_record_without_an_object(found: list[Fields]) -> int:
    index = line_of(found, "record", type="annotation")
    found[index]["value"] = "text"
    return index


def a_pack(found: list[Fields]) -> int:
    found.insert(
        1,
        {
            "kind": "pack", "pack": 1, "file": "../../x", "codec": 0, "size": 1, "checksum": 1, "stored": 1,
            "members": [],
        },
    )  # fmt: skip
    return 1


def deep_metadata(found: list[Fields]) -> int:
    deep: Any = 1
    for _ in range(400):
        deep = [deep]
    return put("details", {"deep": deep}, "details", "metadata")(found) or 0


ROW, HEAD = "row", "head"
NAMED: dict[str, Forge] = {
    "status 99": put("session", 99, ROW, "status"),
    "a negative status": put("session", -1, ROW, "status"),
    "a year out of range": put("session", 2**60, ROW, "updated"),
    "a time before 1970": put("session", -1, ROW, "created"),
    "a time beyond 64 bits": put("session", 2**70, ROW, "created"),
    "an empty id": put("session", "", ROW, "id"),
    "a giant id": put("session", "x" * 513, ROW, "id"),
    "an id with NUL": put("session", "a\0b", ROW, "id"),
    "a giant title": put("session", "t" * 501, ROW, "title"),
    "a giant preview": put("session", "p" * 100_000, ROW, "preview"),
    "an epoch at the end of numbers": put("session", FAR, ROW, "epoch"),
    "moves at the end of numbers": put("session", FAR, ROW, "moves"),
    "an undo of no move": put("session", 99, ROW, "undo"),
    "a sid that overflows": put("session", 2**40, ROW, "sid"),
    "a head before the beginning": put("session", -5, ROW, HEAD, "position"),
    "a head behind the end": put("session", 500, ROW, HEAD, "position"),
    "a head with more messages": put("session", 1, ROW, HEAD, "messages"),
    "a head with more bytes": put("session", 2**50, ROW, HEAD, "size"),
    "a head with another hash": put("session", base64.b64encode(bytes(32)).decode(), ROW, HEAD, "digest"),
    "a hash of the wrong size": put("session", "AAAA", ROW, HEAD, "digest"),
    "metadata that is no object": put("details", [1], "details", "metadata"),
    "metadata that is a number": put("details", 1, "details", "metadata"),
    "metadata that is too deep": deep_metadata,
    "an empty tag": put("details", [""], "details", "tags"),
    "a tag with NUL": put("details", ["\0"], "details", "tags"),
    "a giant alias": put("details", ["a" * 600], "details", "aliases"),
    "an endless idle time": put("details", FAR, "details", "idle"),
    "an end out of range": put("details", 2**60, "details", "expires"),
    "an origin with a bad uid": put("details", "../../etc", "details", "origin", "uid"),
    "a message that is no object": put("entry", [1], "body", position=1),
    "a message that is a number": put("entry", 7, "body", position=1),
    "an unknown type of entry": put("entry", 6, "type", position=1),
    "a negative type of entry": put("entry", -1, "type", position=1),
    "a message as a compaction": put("entry", 1, "type", position=1),
    "a message as a summary": put("entry", 3, "type", position=1),
    "a message as turns": put("entry", 4, "type", position=1),
    "a message as removed": put("entry", 5, "type", position=1),
    "unknown flags": put("entry", 4, "flags", position=1),
    "an entry out of time": put("entry", 2**62, "time", position=1),
    "an entry with a far epoch": put("entry", FAR, "epoch", position=1),
    "an entry at a far position": put("entry", 2**40, "position", position=1),
    "an entry on a far branch": put("entry", 2**40, "branch", position=1),
    "an entry with wrong counters": put("entry", 9, "turns", position=1),
    "a compaction from the future": put("entry", {"start": 999, "messages": []}, "body", type=1),
    "a compaction of no messages": put("entry", {"start": 0, "messages": [1]}, "body", type=1),
    "a truncation from nowhere": put("entry", {"start": -3}, "body", type=2),
    "a summary that is a number": put("entry", {"text": 3}, "body", type=3),
    "a branch with a path for a name": put("branch", "../../etc/passwd", ROW, "uid"),
    "a branch without a name": put("branch", "", ROW, "uid"),
    "a branch that overflows": put("branch", 2**40, ROW, "branch"),
    "a branch behind the end of its parent": put("branch", 500, ROW, "fork"),
    "a forged message under an old hash": a_forged_message,
    "a forged message with a new hash": a_forged_message_with_its_hash,
    "an event out of time": put("event", -1, "time"),
    "an event with a far number": put("event", 2**33, "number"),
    "an event without a type": put("event", "", "type"),
    "an event id with NUL": put("event", "\0", "id"),
    "an event id twice": an_event_id_twice,
    "a call with negative tokens": put("usage", -5, ROW, "input"),
    "a call with endless tokens": put("usage", FAR, ROW, "output"),
    "a call with a negative cost": put("usage", -1, ROW, "cost"),
    "a call with other sums": put("usage", 1, ROW, "all_input"),
    "a call out of time": put("usage", 2**60, ROW, "time"),
    "a call id twice": a_call_id_twice,
    "a checkpoint at no entry": put("record", 400, "value", "position", type="checkpoint", name="own"),
    "a checkpoint on a bad branch": put("record", "x/y", "value", "uid", type="checkpoint", name="own"),
    "a checkpoint out of time": put("record", FAR, "value", "time", type="checkpoint", name="own"),
    "a checkpoint that is a list": put("record", [], "value", type="checkpoint", name="own"),
    "a checkpoint with a giant name": put("record", "n" * 600, "name", type="checkpoint", name="own"),
    "a checkpoint without a name": put("record", "", "name", type="checkpoint", name="own"),
    "a run out of time": put("record", 2**60, "value", "started", type="run"),
    "a run that is text": put("record", "running", "value", type="run"),
    "an unknown change of status": put("record", [0, 44, 1, "me", 0], "value", type="status"),
    "a change of status by name": put("record", "not-a-number", "name", type="status"),
    "a move to nowhere": put("record", 900, "value", "went_to", "position", type="move"),
    "a move that leads to itself": put("record", 500, "value", "link", type="move"),
    "a move of a bad kind": put("record", "format-disk", "value", "kind", type="move"),
    "a move of another number": put("record", "000000000099", "name", type="move"),
    "a key of no entries": put("record", [["u", -1, 5, ""]], "value", type="key"),
    "a key that is a number": put("record", 5, "value", type="key"),
    "lines that are none": put("record", "AAAA", "value", type="line"),
    "lines that unpack to more than they may": put("record", LARGE, "value", type="line"),
    "lines under another name": put("record", "000000000009", "name", type="line"),
    "a variable with a giant name": put("record", "v" * 600, "name", type="var"),
    "an annotation that is text": a_record_without_an_object,
    "an annotation with a label that is none": put("record", 3, "value", "label", type="annotation"),
    "an alias that leads nowhere": put("record", "x", "value", type="alias"),
    "a label that is no list": put("record", {"a": 1}, "value", type="label"),
    "a pack": a_pack,
    "a session line that is none": put("session", "text", ROW),
    "an entry without a number": put("entry", "one", "position", position=1),
}
REFUSED: dict[str, Forge] = {
    "its own parent": without_line(its_own_parent),
    "a head on no branch": without_line(put("session", 77, ROW, HEAD, "branch")),
    "a branch of nobody": without_line(put("branch", 55, ROW, "parent")),
    "a dropped entry": a_dropped_entry,
    "two entries that changed places": two_entries_change_places,
    "parents in a ring": parents_in_a_ring,
    "two sessions": two_sessions,
    "one branch name twice": one_uid_twice,
}


@pytest.mark.parametrize("part", range(6))
def test_s53_a_forged_file_is_refused_as_a_whole(
    tmp_path: Path, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the number of its line; the store is as it was, and the file beside it comes in."""
    assert lines.LARGEST == 160 * 1024**2
    monkeypatch.setattr(lines, "LARGEST", 1_000_000)  # less than LARGE
    forges = NAMED | REFUSED
    for name in list(forges)[part::6]:
        with named(name):
            check_refused(tmp_path / name.replace("/", " "), forges[name])


def check_refused(folder: Path, forge: Forge) -> None:
    path = folder / "forged.jsonl"
    folder.mkdir()
    found = exported(path)
    line = forge(found)
    path.write_bytes(framed(found))
    exported(folder / "good.jsonl", "good")
    with clew.open("memory:") as store:
        store.session("here").append(said("was here before"))
        before = store.export("here", "jsonl")
        where = f"line {line + 1}:" if line is not None else "forged.jsonl"
        for dry_run in (True, False):
            with pytest.raises(clew.InvalidError, match=where) as refused:
                store.import_path(path, dry_run=dry_run)
            assert "import" in str(refused.value)
        assert [info.id for info in store.list()] == ["here"]
        assert list(store.list(deleted=True)) == []
        report = store.import_path(path.parent)
        assert [one.id for one in report.sessions] == ["good"]
        assert report.left_out == (str(path),)
        assert {info.id for info in store.list()} == {"here", "good"}
        assert store.export("here", "jsonl") == before
        check_whole(store)
        check_removable(store)


def test_s53_what_is_not_forged_comes_in_and_goes_again(tmp_path: Path, backend: str) -> None:
    path = tmp_path / "good.jsonl"
    found = exported(path)
    assert path.read_bytes() == framed(found)
    with store_of(backend, tmp_path) as store:
        for state in ("new", "unchanged"):
            report = store.import_path(path)
            assert [(one.id, one.state) for one in report.sessions] == [("s", state)]
            assert not report.problems
        assert store.export("s", "jsonl").encode() == path.read_bytes()
        check_whole(store)
        check_removable(store)


@each_row("what", ["BOM", "CRLF", "a kind of tomorrow", "a field of tomorrow"])
def test_s53_what_editors_and_later_versions_leave_is_let_pass(tmp_path: Path, what: str) -> None:
    with clew.open("memory:") as store:
        path = tmp_path / "s.jsonl"
        found = exported(path)
        if what == "a kind of tomorrow":
            found.insert(2, {"kind": "tomorrow", "a": 1})
        elif what == "a field of tomorrow":
            found[1]["row"]["tomorrow"] = 1
        raw = framed(found)
        if what == "BOM":
            raw = jsonl.BOM + raw
        elif what == "CRLF":
            raw = raw.replace(b"\n", b"\r\n")
        path.write_bytes(raw)
        assert [one.id for one in store.import_path(path).sessions] == ["s"]
        check_whole(store)


def twice(text: bytes, key: bytes) -> bytes:
    return text.replace(b'{"role":', b'{"' + key + b'":1,"' + key + b'":2,"role":', 1)


BYTES: dict[str, Callable[[bytes], bytes]] = {
    "a key twice": lambda text: twice(text, b"k"),
    "a lone surrogate": lambda text: text.replace(b"two", rb"\ud800"),
    "no UTF-8": lambda text: text.replace(b"two", b"\xff\xfe"),
    "a NUL byte": lambda text: text.replace(b"two", b"\0"),
    "nested ten thousand deep": lambda text: text.replace(b'"two"', b"[" * 10_000 + b"]" * 10_000),
    "NaN": lambda text: text.replace(b'"two"', b"NaN"),
    "an endless number": lambda text: text.replace(b'"two"', b"9" * 5000),
    "a float that is too large": lambda text: text.replace(b'"two"', b"1e999"),
    "no JSON": lambda text: text[:-1],
    "a list": lambda text: b'"kind":["entry"]}',
    "no kind": lambda text: b'"a":1}',
    "base64 that is none": lambda text: text.replace(b'"body":{', b'"base64":true,"body":{'),
}


@each_row("what", BYTES)
def test_s53_bytes_that_no_store_writes_are_refused_with_their_line(tmp_path: Path, what: str) -> None:
    """The checksum is right: somebody made it so."""
    with clew.open("memory:") as store:
        path = tmp_path / "s.jsonl"
        exported(path)
        raw = path.read_bytes().splitlines()
        number = next(number for number, line in enumerate(raw) if b'"two"' in line)
        end, text = jsonl.open_line(raw[number])
        raw[number] = jsonl.finish(BYTES[what](text), is_last=end).removesuffix(b"\n")
        path.write_bytes(b"\n".join(raw) + b"\n")
        if what == "no kind":  # of a version that we do not know
            with pytest.raises(clew.InvalidError, match="missing"):
                store.import_path(path)
        else:
            with pytest.raises(clew.InvalidError, match=f"line {number + 1}: "):
                store.import_path(path)
        assert list(store.list()) == []


def test_s53_a_file_may_not_take_the_id_of_another_session(store: clew.Store, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    exported(path)
    store.session("s").append(said("mine"))
    with pytest.raises(clew.ConflictError, match="another session"):
        store.import_path(path)
    assert [message["content"] for message in store.get("s").messages()] == ["mine"]
    (one,) = store.import_path(path, rename=True).sessions
    assert one.id == "s#copy-1"
    assert [message["content"] for message in store.get("s").messages()] == ["mine"]
    check_whole(store)


@pytest.mark.parametrize("rename", [False, True])
def test_s53_a_file_may_not_take_the_alias_of_another_session(
    store: clew.Store, tmp_path: Path, rename: bool
) -> None:
    path = tmp_path / "s.jsonl"
    exported(path)
    store.session("mine").append(said("mine"))
    store.get("mine").add_alias("s-alias")
    if rename:
        store.import_path(path, rename=True)
    else:
        with pytest.raises(clew.ConflictError, match="s-alias"):
            store.import_path(path)
    assert store.get("s-alias").id == "mine"
    check_whole(store)


def test_s53_a_file_may_not_write_to_a_branch_of_another_session(tmp_path: Path) -> None:
    """A session came from somebody; mine is a fork of it, which he has seen. His next file says that the
    branch of my fork is his."""
    his, mine, forged = tmp_path / "his.jsonl", tmp_path / "mine.jsonl", tmp_path / "forged.jsonl"
    with clew.open("memory:") as elsewhere:
        elsewhere.session("his").append(said("one"), said("two"))
        elsewhere.export("his", "jsonl", path=his)
        with clew.open("memory:") as store:
            store.import_path(his)
            fork = store.get("his").fork("mine")
            fork.append(said("three"))
            store.export("mine", "jsonl", path=mine)
            with clew.open("memory:") as workshop:
                workshop.import_path(mine)
                workshop.get("mine").append(said("put into your mouth"))
                workshop.export("mine", "jsonl", path=forged)
            found = [opened(line) for line in forged.read_bytes().splitlines()]
            _take_over(found)
            forged.write_bytes(framed(found))
            before = store.export("mine", "jsonl")
            with pytest.raises(clew.ConflictError):
                store.import_path(forged)
            assert store.export("mine", "jsonl") == before
            fork.append(said("four"))
            check_whole(store)


def _take_over(found: list[Fields]) -> None:
    for one in found:
        if one["kind"] == "branch":
            one["row"]["owner"] = 1
        elif one["kind"] == "session":
            one["row"]["id"] = "his"
    found[0]["id"] = "his"


def test_s53_another_beginning_under_the_same_names_is_refused(store: clew.Store, tmp_path: Path) -> None:
    """A file that goes on from a history that the store has otherwise."""
    first, forged = tmp_path / "first.jsonl", tmp_path / "forged.jsonl"
    with clew.open("memory:") as elsewhere:
        elsewhere.session("s").append(said("one"))
        elsewhere.export("s", "jsonl", path=first)
        elsewhere.get("s").append(said("two"))
        elsewhere.export("s", "jsonl", path=forged)
    found = [opened(line) for line in forged.read_bytes().splitlines()]
    found[line_of(found, "entry", position=0)]["body"]["content"] = "eno"
    rehashed(found)
    forged.write_bytes(framed(found))
    store.import_path(first)
    with pytest.raises(clew.ConflictError, match="another history"):
        store.import_path(forged)
    assert [message["content"] for message in store.get("s").messages()] == ["one"]
    check_whole(store)


def test_s53_leases_do_not_come_in(store: clew.Store, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    found = exported(path)
    index = line_of(found, "session")
    found[index]["row"]["fence"] = 2**62
    found[index]["row"]["status"] = 1
    lease = {"owner": "him", "host": "", "pid": 1, "until": 2**60}
    found.insert(index + 1, {"kind": "record", "sid": 1, "type": "lease", "name": "", "value": lease})
    path.write_bytes(framed(found))
    store.import_path(path)
    session = store.get("s")
    assert session.info.status == "interrupted"
    assert session.lease is None
    with session.run() as run:
        run.append(said("mine"))
    check_whole(store)


def test_a_checkpoint_with_files_comes_without_them(tmp_path: Path) -> None:
    """Its files are not in the file of the session: the store stays whole."""
    path, root = tmp_path / "s.jsonl", tmp_path / "root"
    root.mkdir()
    (root / "a").write_text("a")
    with clew.open(f"sqlite:///{tmp_path}/one.db") as store:
        session = store.session("s")
        session.append(said("one"))
        session.checkpoint("with files", files=root)
        (root / "a").write_text("b")
        session.append(said("two"))
        session.rewind("with files", files=root)
        store.export("s", "jsonl", path=path)
        assert store.import_path(path).sessions[0].state == "unchanged"
        assert store.get("s").checkpoints()[0].snapshot is not None
    with clew.open("memory:") as store:
        for state in ("new", "unchanged"):
            assert store.import_path(path).sessions[0].state == state
        assert store.get("s").checkpoints()[0].snapshot is None
        check_whole(store)
        store.get("s").undo()
        assert len(store.get("s").messages()) == 2
        check_removable(store)


def test_s53_a_large_forged_session_leaves_nothing_staged(tmp_path: Path) -> None:
    """More than one transaction takes, and the last entry is forged."""
    path = tmp_path / "s.jsonl"
    with clew.open("memory:") as store:
        store.session("s").append(*(said(f"{number}") for number in range(5000)))
        store.export("s", "jsonl", path=path)
    found = [opened(line) for line in path.read_bytes().splitlines()]
    index = line_of(found, "entry", position=4999)
    found[index]["body"]["content"] = "9994"
    path.write_bytes(framed(found))
    with clew.open("memory:") as store:
        with pytest.raises(clew.InvalidError, match=f"line {index + 1}: "):
            store.import_path(path)
        assert list(store.list()) == []
        assert list(store.list(deleted=True)) == []


def test_fill_has_some_of_every_kind_of_record(store: clew.Store, tmp_path: Path) -> None:
    from clew.core.transfer.source import KINDS

    found = exported(tmp_path / "s.jsonl")
    assert {one["type"] for one in found if one["kind"] == "record"} >= {
        *KINDS,
        "alias",
        "annotation",
        "label",
    }
    fill(store)
    check_whole(store)
