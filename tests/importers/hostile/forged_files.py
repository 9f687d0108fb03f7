"""Files of sessions as nobody but an attacker writes them: the frame is right, what is in it is not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import clew
from clew.core.log import jsonl
from clew.core.log.digest import ROOT, entry_digest
from clew.core.log.lines import LineRecord, check_of, encode_lines, lines_name

Fields = dict[str, Any]
Change = Callable[[list[Fields]], Any]


def said(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def fill(store: clew.Store, id: str = "s") -> None:
    """A session that has some of everything."""
    base = store.session(f"{id}-base")
    base.append(said("one"), {"role": "assistant", "content": "two"}, said("three"))
    base.checkpoint("inherited", state={"n": 1})
    session = base.fork(id)
    session.append(said("mine"), said("left behind"), key="k")
    session.rewind(3)
    session.append(said("at the end: ä \U0001f600"))
    session.compact("what was said", tokens=7)
    session.set_summary("short")
    session.append({"role": "assistant", "content": "yes"})
    session.truncate(1)
    session.append(said("last"))
    session.annotate(0, label="l", note="n")
    session.checkpoint("own", state=[1])
    session.add_alias(f"{id}-alias")
    session.set_var("v", [1, {"a": None}])
    session.set_document("d", b"\x00\xff")
    session.update(title="t", tags=["x"], metadata={"m": 1})
    for number in range(3):
        session.add_event("step", {"n": number}, stream="out", id=f"e{number}")
        session.add_usage(model="m", input_tokens=3, output_tokens=4, cost="0.5", id=f"c{number}")
    lines = encode_lines(LineRecord([1], ["u"], [0], [check_of(b"{}")], [[]], [2], b"{}"))
    store._engine.run(lambda tx: tx.put_record(session._access.sid, "line", lines_name(1), lines))
    session.start(request={"q": 1}, task="t")
    session.complete({"a": 1})


def exported(path: Path, id: str = "s") -> list[Fields]:
    """The lines of a session's file, as they may be changed."""
    with clew.open("memory:") as store:
        fill(store, id)
        store.export(id, "jsonl", path=path)
    return [opened(line) for line in path.read_bytes().splitlines()]


def opened(line: bytes) -> Fields:
    fields: Fields = json.loads(line)
    return {name: value for name, value in fields.items() if name not in ("x", "end")}


def framed(found: list[Fields]) -> bytes:
    """Lines with checksums that are right."""
    texts = [json.dumps(one, ensure_ascii=False, separators=(",", ":")).encode()[1:] for one in found]
    return b"".join(jsonl.finish(text, is_last=number == len(texts)) for number, text in enumerate(texts, 1))


def line_of(found: list[Fields], kind: str, **wanted: Any) -> int:
    """The index of the last line of a kind that has these fields."""
    return max(
        index
        for index, one in enumerate(found)
        if one["kind"] == kind and all(one.get(name) == value for name, value in wanted.items())
    )


def rehashed(found: list[Fields]) -> None:
    """Make the hashes of all entries, and of the head, anew: a forger can do that too."""
    import base64

    forks = {one["row"]["branch"]: one["row"] for one in found if one["kind"] == "branch"}
    digests: dict[tuple[int, int], bytes] = {}
    for one in found:
        if one["kind"] != "entry":
            continue
        branch, position = one["branch"], one["position"]
        row = forks[branch]
        before = (row["parent"], row["fork"]) if position == row["fork"] + 1 else (branch, position - 1)
        body = json.dumps(one["body"], ensure_ascii=False, separators=(",", ":")).encode()
        digest = entry_digest(
            digests.get(before, ROOT), position, one["type"], one["time"], one["flags"], body
        )
        digests[branch, position] = digest
        one["digest"] = base64.b64encode(digest).decode()
    head = found[line_of(found, "session")]["row"]["head"]
    head["digest"] = base64.b64encode(digests[head["branch"], head["position"]]).decode()


@contextmanager
def store_of(kind: str, place: Path) -> Iterator[clew.Store]:
    url = {"memory": "memory:", "sqlite": f"sqlite:///{place}/s.db", "jsonl": f"jsonl:///{place}/s"}[kind]
    with clew.open(url) as store:
        yield store


def check_whole(store: clew.Store) -> None:
    """All that a store holds can be listed, shown, exported and checked."""
    report = store.verify()
    assert report.ok, report.problems
    for info in store.list():
        session = store.get(info.id)
        assert session.info.id == info.id
        session.messages()
        list(session.entries())
        session.context()
        session.checkpoints()
        list(session.events())
        session.usage()
        for format in ("jsonl", "json", "markdown"):
            store.export(info.id, format)


def check_removable(store: clew.Store) -> None:
    for info in store.list():
        store.delete(info.id, purge=True)
    assert list(store.list()) == []
    assert store.verify().ok
