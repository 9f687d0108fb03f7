"""A session that tries everything: each text that an export shows attacks whoever opens it."""

from __future__ import annotations

import base64

import clew

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
SVG = base64.b64encode(b'<svg xmlns="http://www.w3.org/2000/svg" onload="pwned()"/>').decode()
ESCAPES = "\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m\x9b31m\x08\x7f"
BIDI = "safe\u202egpj.exe\u2066\u200f\U000e0041"

ATTACKS = (
    "<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    "<svg onload=window.pwned=1>",
    '"><script>window.pwned=1</script>',
    "' onmouseover='window.pwned=1",
    "</style><script>window.pwned=1</script>",
    "</title><script>window.pwned=1</script>",
    "</pre></details></section></main><script>window.pwned=1</script>",
    "<!-- <script> -->",
    "<iframe src=https://evil.example/frame></iframe>",
    "<link rel=stylesheet href=https://evil.example/x.css>",
    '<meta http-equiv="refresh" content="0;url=https://evil.example/">',
    "<base href=https://evil.example/>",
    "<form action=https://evil.example/><button>go</button></form>",
    "<style>body{background:url(https://evil.example/bg)}</style>",
    "![tracker](https://evil.example/pixel.png)",
    "[click](javascript:window.pwned=1)",
    "[click](JaVaScRiPt&colon;window.pwned=1)",
    "[click](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[click](vbscript:x)",
    "<javascript:window.pwned=1>",
    "[click][ref]\n\n[ref]: javascript:window.pwned=1",
    "`code` <b onclick=window.pwned=1>`not code`</b>",
    '```"><script>window.pwned=1</script>\ncode\n```',
    "```html\n<script>window.pwned=1</script>\n```",
    "| a | b |\n|---|---|\n| `x | <img src=x onerror=window.pwned=1> | y` |",
    'A note[^1] https://evil.example/"onmouseover=window.pwned=1\n\n[^1]: <img src=x onerror=window.pwned=1>',
    "- [x] [click](javascript:window.pwned=1) <svg onload=window.pwned=1>\n- [ ] שלום <b onclick=x>",
    ESCAPES,
    BIDI,
)
ALL = "\n\n".join(ATTACKS)


def conversation(store: clew.Store, id: str = "hostile") -> clew.Session:
    """Attacks in every field, on two branches."""
    payload = ATTACKS[3]
    s = store.create(
        id,
        title=f"Title {ATTACKS[6]} {BIDI}",
        tags=[payload],
        model=payload,
        vendor=payload,
        endpoint=payload,
        metadata={payload: payload},
    )
    s.append({"role": "system", "content": ALL}, {"role": "user", "content": "MARK-0 " + ALL})
    s.append(
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": ALL, "signature": payload},
                {"type": "text", "text": ALL},
                {"type": "tool_use", "id": payload, "name": payload, "input": {payload: ALL}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": payload, "is_error": True, "content": ALL},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
                {"type": "image", "source": {"type": "base64", "media_type": "image/svg+xml", "data": SVG}},
                {"type": "image", "source": {"type": "base64", "media_type": payload, "data": payload}},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": payload}},
                {"type": "image", "source": {"type": "url", "url": "https://evil.example/a.png"}},
                {"type": payload, "x": payload},
            ],
        },
    )
    first = s.append({"role": "user", "content": f"{payload} MARK-1 abandoned"})[0]
    s.annotate(first, label=payload, note=ALL)
    s.rewind(3)
    s.append({"role": "user", "content": "MARK-2 current"}, {payload: payload})
    s.checkpoint(payload)
    s.compact(ALL)
    s.set_summary(ALL)
    return s
