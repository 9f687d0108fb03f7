"""Write src/clew/core/streams/price_list.json from the genai-prices that is installed here.

python tools/price_list.py            writes the list
python tools/price_list.py --check    says whether the list is that of the package: exit code 1 if not
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from clew.core.streams import price_list, price_source

PLACE = Path(price_list.__file__).with_suffix(".json")


def written() -> bytes:
    """One seller, and then each of its models, in a line: what changed can be seen."""
    told = msgspec.to_builtins(price_source.converted())
    sellers = []
    for seller in told["sellers"]:
        models = seller.pop("models")
        head = msgspec.json.encode(seller)[:-1]
        lines = b",\n".join(msgspec.json.encode(model) for model in models)
        sellers.append(head + b',"models":[\n' + lines + b"\n]}")
    head = msgspec.json.encode({"name": told["name"], "version": told["version"]})[:-1]
    return head + b',"sellers":[\n' + b",\n".join(sellers) + b"\n]}\n"


def main() -> int:
    content = written()
    if "--check" in sys.argv[1:]:
        return 0 if PLACE.read_bytes() == content else 1
    PLACE.write_bytes(content)
    print(f"{PLACE}: {len(content):,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
