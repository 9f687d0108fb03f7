"""The part of docs/reference/mcp.md that follows from the tools.

`python -m tests.server.mcp.reference` writes it anew, between the two marks of the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from clew.server.mcp.schema import Tool
from clew.server.mcp.tools import TOOLS
from tests.docs.pages import DOCS

PAGE = DOCS / "reference" / "mcp.md"
BEGIN, END = "<!-- tools: begin -->", "<!-- tools: end -->"
NEEDS = {
    "read": "",
    "write": "Offered with `--allow write`; over HTTP to tokens with the scope `write`.",
    "files": "Over HTTP it needs the scope `files`.",
}


def reference() -> str:
    return "\n".join(line for tool in TOOLS for line in _tool(tool)) + "\n"


def _tool(tool: Tool) -> Iterator[str]:
    yield f"\n### `{tool.name}`\n"
    yield tool.description.replace(". ", ".\n")
    if NEEDS[tool.needs]:
        yield NEEDS[tool.needs]
    yield "\n| argument | type | default | |\n|---|---|---|---|"
    schema = tool.input_schema()
    for name, one in schema["properties"].items():
        is_required = name in schema.get("required", ())
        default = (
            "" if is_required or "default" not in one else f"`{msgspec.json.encode(one['default']).decode()}`"
        )
        about = "required" if is_required else ""
        about = "; ".join(filter(None, (about, one.get("description", ""), _bounds(one))))
        yield f"| `{name}` | {_type(one)} | {default} | {about} |"
    yield "\n| answer | type |\n|---|---|"
    yield from _fields("", tool.output_schema())


def _fields(before: str, schema: dict[str, Any]) -> Iterator[str]:
    for name, one in schema["properties"].items():
        yield f"| `{before}{name}` | {_type(one)} |"
        if "properties" in one.get("items", {}):
            yield from _fields(f"{before}{name}[].", one["items"])


def _type(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    found = schema.get("type", "any")
    kinds = found if isinstance(found, list) else [found]
    if kinds == ["array"]:
        items = schema["items"]
        return f"list of {'objects' if 'properties' in items else _type(items)}"
    return " or ".join(kinds)


def _bounds(schema: dict[str, Any]) -> str:
    if "minimum" in schema:
        return f"{schema['minimum']} to {schema['maximum']:,}"
    return ""


def main() -> None:
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{reference()}\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
