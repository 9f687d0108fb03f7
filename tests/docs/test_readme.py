"""The first screen of README. Its commands are typed in tests/cli/test_strangers_path.py."""

from __future__ import annotations

import re

from tests.docs.pages import DOCS, ROOT, blocks

README = ROOT / "README.md"


def typed() -> list[str]:
    """The lines of the first block, without their comments."""
    [first, *_] = blocks(README, "console")
    return [line.partition("#")[0].strip() for line in first.code.splitlines()]


def test_the_first_block_gets_the_code_installs_it_and_has_four_commands() -> None:
    install, *commands = typed()
    assert re.fullmatch(r"git clone \S+ clew && cd clew && pip install \.", install)
    assert 4 == len(commands)
    assert all(line.startswith("clew ") for line in commands)
    assert "clew ui" == commands[-1]


def test_the_first_screen_is_a_sentence_a_picture_commands_and_code() -> None:
    text = README.read_text("utf-8").split("\n## ")[0]
    shape = re.findall(r"^(# |<picture|```console|```python)", text, re.MULTILINE)
    assert ["# ", "<picture", "```console", "```python"] == shape
    assert len(text.splitlines()) < 40


def test_there_are_as_many_promises_as_readme_says() -> None:
    table = (DOCS / "explanation" / "promises.md").read_text("utf-8")
    numbers = [int(number) for number in re.findall(r"^\| P(\d+) \|", table, re.MULTILINE)]
    assert list(range(1, len(numbers) + 1)) == numbers
    assert f"[All {len(numbers)} promises]" in README.read_text("utf-8")
    assert 3 == README.read_text("utf-8").split("## Three promises")[1].split("##")[0].count("\n- **")
