"""Annotations and labels of a tree of sessions, on their way into another store."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from clew.backends.contract import STORE_WIDE, Transaction
from clew.core.conversation.annotations import decode_label
from clew.core.transfer.image import TreeImage, read_image


def put_notes(tx: Transaction, image: TreeImage, tree: int, sids: Collection[int]) -> None:
    """Let these sessions, of this tree in the target, have the notes of the image and no others."""
    there = read_image(tx, tree, sids)
    for name, value in image.notes.items():
        if there.notes.get(name) != value:
            tx.put_record(STORE_WIDE, "annotation", name, value)
    for name in there.notes.keys() - image.notes.keys():
        tx.drop_record(STORE_WIDE, "annotation", name)
    for label in {*image.labels, *there.labels}:
        _put_label(tx, image, tree, label)


def _put_label(tx: Transaction, image: TreeImage, tree: int, label: str) -> None:
    """The places that bear it in the source, and those of sessions that are only here."""
    mine = {branch.uid for branch in image.branches}
    name = f"{tree}:{label}"
    value = image.labels.get(label)
    places: list[str] = [] if value is None else decode_label(value)
    old = tx.get_record(STORE_WIDE, "label", name)
    others = [] if old is None else decode_label(old)
    places += [place for place in others if place.rpartition(".")[0] not in mine]
    if places:
        tx.put_record(STORE_WIDE, "label", name, msgspec.json.encode(places))
    else:
        tx.drop_record(STORE_WIDE, "label", name)
