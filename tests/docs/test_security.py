"""The page on security names the attacks that tests show, and no others."""

from __future__ import annotations

import re

from tests.docs.pages import DOCS, ROOT

PAGE = DOCS / "explanation" / "security.md"


def attacks_in_the_table() -> set[int]:
    return {int(number) for number in re.findall(r"^\| S-(\d+) \|", PAGE.read_text("utf-8"), re.MULTILINE)}


def attacks_in_names_of_tests() -> set[int]:
    found: set[int] = set()
    for folder in ("tests", "src/clew/testing"):
        for file in (ROOT / folder).rglob("*.py"):
            for test in re.findall(r"def (test_\w+)", file.read_text("utf-8")):
                found.update(int(number) for number in re.findall(r"(?<=_)s_?(\d\d)(?=_)", test))
    return found


def test_every_attack_of_the_table_has_a_test_and_every_test_of_an_attack_is_in_it() -> None:
    assert attacks_in_the_table() == attacks_in_names_of_tests()


def test_every_attack_that_the_text_names_is_in_the_table_or_said_to_have_no_test() -> None:
    text = PAGE.read_text("utf-8")
    without = {26, 27, *range(43, 48)}
    assert {int(number) for number in re.findall(r"S-(\d+)", text)} - attacks_in_the_table() <= without
