"""The labelled corpus: texts with secrets, and texts that only look like it.

In `secrets.txt` a line is a label, a tab and a text in which each secret stands in «». `|+|` inside a
secret is nothing: it keeps the scanners of code hosts from taking these inventions for real keys. In both
files `\\n` is a line end.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

CORPUS = Path(__file__).with_name("corpus")


class Sample(NamedTuple):
    label: str
    text: str
    secrets: tuple[str, ...]


def with_secrets() -> list[Sample]:
    samples = []
    for line in CORPUS.joinpath("secrets.txt").read_text("utf-8").splitlines():
        label, _, marked = line.replace("|+|", "").replace("\\n", "\n").partition("\t")
        text = marked.replace("«", "").replace("»", "")
        samples.append(Sample(label, text, tuple(re.findall("«(.*?)»", marked, re.DOTALL))))
    return samples


def harmless() -> list[str]:
    lines = CORPUS.joinpath("harmless.txt").read_text("utf-8").splitlines()
    return [line.replace("\\n", "\n") for line in lines]
