"""What tests of routes say to a server, and how they read its answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import msgspec

API = "/api/v1"
S = f"{API}/sessions"
A = f"{S}/a"
JSON = {"content-type": "application/json"}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def plain(value: Any) -> Any:
    """What the library returns, as JSON."""
    return msgspec.json.decode(msgspec.json.encode(value))


def refusal(answer: httpx.Response) -> tuple[int, str]:
    """The status of a problem, and its code."""
    return answer.status_code, answer.json()["code"]


def pages(client: httpx.Client, url: str, **query: Any) -> Iterator[Any]:
    """The bodies of a page and of all that it leads to. One that leads nowhere has no cursor."""
    following: str | None = f"{url}?{httpx.QueryParams(query)}"
    while following:
        answer = client.get(following)
        assert answer.status_code == 200, answer.text
        yield answer.json()
        following = answer.links.get("next", {}).get("url")
        assert (answer.json()["cursor"] is None) == (following is None)


def rows(client: httpx.Client, url: str, **query: Any) -> list[Any]:
    """What all pages have, one after the other."""
    return [one for page in pages(client, url, **query) for one in page["data"]]


def pieces(client: httpx.Client, url: str, view: str, **query: Any) -> Iterator[str]:
    """The HTML of all entries on a path, as this view has it."""
    for entry in rows(client, url, view=view, limit=200, large="true", **query):
        if view == "html":
            yield entry["html"]
        else:
            yield from (one.get("html", "") for one in entry["blocks"])


def raw(client: httpx.Client, path: str) -> httpx.URL:
    """An address that is sent as it stands, with whatever was encoded in it."""
    return httpx.URL(f"{client.base_url}/").copy_with(raw_path=path.encode())
