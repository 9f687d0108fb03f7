"""A store in which every text attacks the page that shows it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import clew
from tests.exporters.hostile import BIDI, ESCAPES, conversation
from tests.exporters.payloads import RUN, payloads, session_of

ORIGIN: Final = "https://evil.example/"
"""A place that must never be asked for anything."""
SHORT: Final = f'"><img src={ORIGIN}x onerror={RUN}></title><script>{RUN}</script>'
ATTACKS: Final = payloads(ORIGIN)
SOME: Final = ATTACKS[::6]
"""For texts that every kind of message repeats: all of them make a session too long to look at in full."""
WORD: Final = "needle"
"""Every session says it once, beside an attack: a search for it finds all of them."""

IDS: Final = (
    f"javascript:{RUN}",
    "a/b/../c",
    "..",
    "%2e%2e%2f?#x",
    f'" onfocus="{RUN}" autofocus="',
    f"<script>{RUN}</script>",
    f"{BIDI} ü 🜲",
    "__proto__",
    "constructor",
    "start",
    "~not-base64",
    "//evil.example/s",
    "x" * 400,
)
"""Of sessions: a link, an attribute, a path or an object of a script could take each for something else."""

PLACE: Final = "hostile"
"""The id of the session with branches, files, usage and subagents."""
ALL: Final = f'"><img src=x: onerror={RUN}></title><script>{RUN}</script>'
"""The id of the session with attacks in each kind of message, most of them on a branch that was left."""


def fill(store: clew.Store, folder: Path) -> None:
    """Write it. `folder`: an empty one for files, whose names are attacks as well."""
    assert session_of(store, SOME) == ALL
    main = conversation(store, PLACE)
    metadata: dict[str, Any] = {"agent": SHORT, "__proto__": SHORT, SHORT: {SHORT: [SHORT]}}
    main.update(workspace=f"/work/{SHORT}", metadata=metadata)
    for number, attack in enumerate(ATTACKS):
        main.add_usage(model=f"{attack} {number}", vendor=attack, source=attack, input_tokens=10, cost="0.5")
    main.append({"role": "user", "content": f"{WORD} {SHORT} {ESCAPES}"})
    _files(main, folder)
    _names_of_scripts(store)
    main.fork(f"fork {SHORT}").append({"role": "user", "content": f"{WORD} {SHORT}"})
    for number, id in enumerate(IDS):
        one = store.create(
            id, title=f"{SHORT} {id[:40]}", tags=[SHORT, f"{BIDI} tag"], model=SHORT,
            workspace=f"/{SHORT}/{BIDI}",
            metadata={"agent": SHORT, "parent": PLACE} if id.startswith("<") else {"agent": f"{BIDI} agent"},
        )  # fmt: skip
        one.append({"role": "user", "content": f"{WORD} {number} {SHORT} {id}"})
        one.append({"role": "assistant", "content": SHORT})
        one.add_usage(model=SHORT, input_tokens=1, output_tokens=1, cost="1")
    broken = store.create("failed", title=SHORT)
    broken.start({"prompt": SHORT}, task=SHORT)
    broken.append({"role": "user", "content": f"{WORD} {SHORT}"})
    broken.fail(SHORT)
    store.create("in the trash", title=SHORT).append({"role": "user", "content": SHORT})
    store.delete("in the trash")


def _names_of_scripts(store: clew.Store) -> None:
    """Words that every object of a script knows: a page that looks something up by them finds nonsense."""
    names = ("constructor", "__proto__", "toString", "hasOwnProperty")
    words = store.create(
        "words", model=names[0], tags=list(names), metadata={"agent": names[0], names[1]: names[1]}
    )
    for name in names:
        call = {"type": "tool_use", "id": name, "name": name, "input": {name: name}}
        words.append({"role": name, "content": [{"type": name, name: name}], "type": name})
        words.append({"role": "assistant", "content": [{"type": "text", "text": f"{WORD} {name}"}, call]})
        words.append(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": name, "content": name}]}
        )
        words.add_usage(model=name, vendor=name, source=name, input_tokens=1, cost="1")
        words.checkpoint(name)


def _files(session: clew.Session, folder: Path) -> None:
    """Three checkpoints; between them files with names and contents that attack come, change and go."""
    names: list[Any] = [
        f"<img src=x onerror={RUN}>.html",
        f'" onclick="{RUN}" x=".py',
        f"javascript:{RUN}",
        "name\nwith\tcontrols\x1b[31m",
        f"{BIDI}.txt",
        "__proto__",
        "%2e%2e%2f?#.md",
        os.fsdecode(b"no text \xff"),
    ]
    content = "\n".join(ATTACKS)
    (folder / SHORT.replace("/", "∕")).mkdir()
    for name in names:
        (folder / name).write_text(content)
    (folder / "picture.svg").write_text(f'<svg xmlns="http://www.w3.org/2000/svg" onload="{RUN}"/>')
    (folder / "bytes").write_bytes(bytes(range(256)) * 40)
    session.checkpoint(f"first {SHORT}", files=folder)
    for name in names[::2]:
        (folder / name).write_text(content.replace("x", "y"))
    (folder / names[1]).unlink()
    (folder / SHORT.replace("/", "∕") / names[0]).write_text(content)
    session.append({"role": "assistant", "content": SHORT})
    session.checkpoint(f"second {BIDI}", files=folder)
    session.append({"role": "user", "content": SHORT})
    session.checkpoint(f"javascript:{RUN}")
