"""Items of the Agents SDK, for its tests."""

from __future__ import annotations

from typing import Any, cast

from agents import TResponseInputItem


def item(text: str, role: str = "user") -> TResponseInputItem:
    return cast("TResponseInputItem", {"role": role, "content": text})


def items(*texts: str) -> list[TResponseInputItem]:
    return [item(text) for text in texts]


def texts(found: list[Any]) -> list[str]:
    return [each["content"] for each in found]
