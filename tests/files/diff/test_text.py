"""The unified diff: it leads from the one text to the other, and ends in time."""

from __future__ import annotations

import difflib
import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.files.diff import text
from clew.files.diff.text import blocks, unified

texts = st.lists(st.sampled_from("abcdef"), max_size=40).map("\n".join)
texts |= st.text(st.sampled_from("ab\n\r\x0c"), max_size=30)


def applied(old: str, diff: str) -> str:
    """A diff applied as a strict reader would."""
    *whole, last = old.split("\n")
    lines = [line + "\n" for line in whole] + ([last] if last else [])
    result: list[str] = []
    at = 0
    body = [line + "\n" for line in diff.split("\n")[:-1]][2:]
    for number, line in enumerate(body):
        is_last_line = number + 1 < len(body) and body[number + 1].startswith("\\")
        content = line[1:-1] if is_last_line else line[1:]
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            first = int(start) - (count != "0")
            result += lines[at:first]
            at = first
        elif line[0] in " -":
            assert lines[at] == content
            at += 1
            result += [content] if line[0] == " " else []
        elif line[0] == "+":
            result.append(content)
    return "".join(result + lines[at:])


@given(texts, texts)
def test_the_diff_leads_from_the_one_text_to_the_other(old: str, new: str) -> None:
    diff = unified(old, new, "f", "f")
    assert applied(old, diff) == new
    assert (diff == "") == (old == new)


@given(texts, texts)
def test_what_is_in_common_is_equal_and_in_order(old: str, new: str) -> None:
    a, b = old.split("\n"), new.split("\n")
    end_a = end_b = 0
    for i, j, count in blocks(a, b):
        assert i >= end_a
        assert j >= end_b
        assert a[i : i + count] == b[j : j + count]
        end_a, end_b = i + count, j + count


@pytest.mark.needs("patch")
def test_the_patch_program_understands_it(tmp_path: Path) -> None:
    old = "".join(f"line {n}\n" for n in range(60)) + "the end, without a line feed"
    new = "new\n" + old.replace("line 20\n", "").replace("line 40\n", "line forty\nmore\n") + "!"
    (tmp_path / "f").write_text(old)
    diff = unified(old, new, "f", "f")
    subprocess.run(["patch", "-p1"], check=True, input=diff, cwd=tmp_path, text=True, capture_output=True)
    assert (tmp_path / "f").read_text() == new


def test_a_small_change_is_told_as_difflib_tells_it() -> None:
    old = [f"line {n}\n" for n in range(50)]
    new = [*old[:10], "changed\n", *old[11:30], *old[31:]]
    expected = "".join(difflib.unified_diff(old, new, "a/f", "b/f"))
    assert unified("".join(old), "".join(new), "f", "f") == expected


def test_a_file_that_came_or_went_has_no_other_side() -> None:
    assert unified("", "x\n", None, "f") == "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n"
    assert unified("x", "", "f", None) == (
        "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\\ No newline at end of file\n"
    )


def test_a_name_can_not_forge_a_line_of_the_diff() -> None:
    """I-20: names with line feeds, quotes, bytes that are no UTF-8."""
    diff = unified("", "x\n", None, 'a\n+++ b/"etc" \udcff\x1b[31m')
    assert diff.splitlines()[1] == '+++ "b/a\\012+++ b/\\"etc\\" \\377\\033[31m"'


def test_long_texts_with_nothing_in_order_are_told_as_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    class Matcher(difflib.SequenceMatcher[str]):
        def __init__(self, isjunk: None, a: list[str], b: list[str]) -> None:
            compared.append(len(a) * len(b))
            super().__init__(isjunk, a, b)

    monkeypatch.setattr(text, "SequenceMatcher", Matcher)
    chance = random.Random(1)
    old = "".join(chance.choice("abc") + "\n" for _ in range(20_000))
    new = "".join(chance.choice("bcd") + "\n" for _ in range(20_000))
    diff = unified(old, new, "f", "f")
    assert applied(old, diff) == new
    assert all(pairs <= text.MOST_PAIRS for pairs in compared)


def test_a_long_text_with_changes_at_both_ends_is_told_line_by_line() -> None:
    old = [f"unique {n}\nsame\n" for n in range(5000)]
    new = ["first\n", *old[1:-1], "last\n"]
    diff = unified("".join(old), "".join(new), "f", "f")
    assert applied("".join(old), diff) == "".join(new)
    assert len(diff.splitlines()) < 30
