"""The parts of a page by themselves: terminals, diffs, files, plans."""

from __future__ import annotations

import base64
import re

from clew.exporters.blocks import Block, Media
from clew.exporters.changes import compared, hunk_lines
from clew.exporters.page.calls import draw_call, picture
from clew.exporters.page.diff import MOST_LINES, diff
from clew.exporters.page.terminal import MOST_SPANS, terminal
from clew.exporters.page.text import MOST_CODE, code_block, numbered
from clew.model import Json
from tests.exporters.page.reader import PageReader
from tests.support.rows import each_row


@each_row(
    ("text", "shown"),
    [
        ("plain <b>", "plain &lt;b&gt;"),
        ("\x1b[31mred\x1b[0m", '<span class="f1">red</span>'),
        ("\x1b[1;92mok\x1b[22m!\x1b[39m.", '<span class="bo f10">ok</span><span class="f10">!</span>.'),
        ("\x1b[38;5;196mx\x1b[m", '<span class="f9">x</span>'),
        ("\x1b[48;2;0;0;240mx", '<span class="g4">x</span>'),
        ("\x1b[38:2:0:200:0mx", '<span class="f2">x</span>'),
        ("\x1b[7mx\x1b[27my", '<span class="rv">x</span>y'),
        ("\x1b[31;7mx", '<span class="g1">x</span>'),
        ("a\x1b[Kb\x1b[?25lc\x1b[2Kd", "abcd"),
        ("\x1b[2J\x1b]0;t\x07", "␛[2J␛]0;t␇"),
        ("a\r\n\x1b[31mb\r\n", 'a\n<span class="f1">b\n</span>'),
        ("\x1b[", "␛["),
        ("\x1b[38;5mx\x1b[999mx", "xx"),
        ("\x1b[38:2::0:200:0mx", '<span class="f2">x</span>'),
        ("\x1b[38:5:196mx", '<span class="f9">x</span>'),
        ("\x1b[4:3;31mx\x1b[4:0my", '<span class="un f1">x</span><span class="f1">y</span>'),
        ("\x1b[58:2::0:200:0mx\x1b[58;2;3;4;1my\x1b[58;5;1mz", "xyz"),
        ("\x1b[3;9mx\x1b[23;29my", '<span class="it st">x</span>y'),
        ("\x1b[38:9:1:::mx\x1b[:mx\x1b[1:2:3mx", "xxx"),
    ],
)
def test_a_terminal_has_its_colours_and_nothing_else(text: str, shown: str) -> None:
    assert terminal(text) == shown


def test_very_many_colours_are_left_out() -> None:
    assert "<span" not in terminal("\x1b[31mx\x1b[32my" * MOST_SPANS)


def test_what_is_unchanged_far_from_a_change_is_left_out() -> None:
    old = "\n".join(f"line {number}" for number in range(40))
    drawn = diff(compared(old, old.replace("line 20\n", "line twenty\n"), 1), folds=True)
    assert "line 17" in drawn
    assert "line 16<" not in drawn
    assert "⋯ 17 unchanged lines" in drawn
    assert (
        '<span class="l gd" data-n="21">-line 20</span><span class="l gi" data-n="21">+line twenty</span>'
        in drawn
    )


def test_each_line_of_a_diff_bears_its_number_in_the_file_that_has_it_now() -> None:
    drawn = diff(compared("gone\nkept\n", "kept\nfresh\n", 1))
    assert [(number, text) for number, text in re.findall(r'data-n="(\d+)">[-+ ](\w+)<', drawn)] == [
        ("1", "gone"),
        ("1", "kept"),
        ("2", "fresh"),
    ]


def test_s11_code_that_is_too_long_for_colours_is_escaped_too() -> None:
    for length in (1, MOST_CODE + 1):
        shown = code_block("<script>" + "x" * length, "python")
        assert "<script" not in shown
        assert "&lt;" in shown


def test_a_long_diff_has_no_element_for_each_line() -> None:
    old = "\n".join(f"{number}" for number in range(MOST_LINES + 1))
    assert '<span class="l' not in diff(compared(old, ""))


ODD = {"lines": ["a"], "oldStart": -1, "oldLines": 1, "newStart": 1, "newLines": 1}


@each_row("hunks", [None, "x", [None], [{}], [{"lines": [1]}], [ODD]])
def test_hunks_of_another_shape_are_none(hunks: Json) -> None:
    assert hunk_lines(hunks) == []


def test_numbers_of_lines_are_not_part_of_the_code() -> None:
    drawn = numbered(["def f():", '    """a', 'b"""'], 7, "python")
    assert '<span class="ln" aria-hidden="true">7\n8\n9</span>' in drawn
    assert drawn.count("</span>\n<span") == 1


def _drawn(name: str, value: Json, result: str | None, **more: bool) -> str:
    answers = () if result is None else (Block(kind="result", text=result, **more),)  # type: ignore[arg-type]
    return "".join(draw_call(Block(kind="call", name=name, value=value, answers=answers), workspace="/w"))


def test_arguments_that_have_no_look_of_their_own_are_named() -> None:
    drawn = _drawn("Bash", {"command": "ls", "timeout": 5000, "description": "List <it>"}, "a")
    assert "timeout: 5000 · description: List &lt;it&gt;" in drawn


@each_row(
    ("type", "content", "name", "saved"),
    [
        ("application/pdf", b"%PDF-1.7 x", "report.pdf", "report.pdf"),
        ("application/pdf", b"%PDF-1.7 x", '"><script>../../x', "script-..-..-x.pdf"),
        ("application/pdf", b"%PDF-1.7 x", "", "document.pdf"),
        ("application/pdf", b"<html>", "report.pdf", ""),
        ("text/html", b"%PDF-1.7 x", "report.pdf", ""),
    ],
)
def test_a_pdf_can_be_saved_and_nothing_else(type: str, content: bytes, name: str, saved: str) -> None:
    data = base64.b64encode(content).decode()
    page = PageReader(picture(Media(type, name, data), name))
    links = [attributes for tag, attributes in page.tags if tag == "a"]
    href = f"data:application/pdf;base64,{data}"
    assert links == ([{"download": saved, "href": href}] if saved else [])
    assert page.text.startswith(f"Save {saved} (PDF, " if saved else "Not shown: ")


def test_a_call_without_a_result_says_so() -> None:
    assert '<span class="out">no result</span>' in _drawn("Bash", {"command": "ls"}, None)


@each_row(
    "result",
    [
        "     7→x = 1\n     8→y = 2",
        "7\tx = 1\n8\ty = 2",
        "<path>/w/a.py</path>\n<content>\n7: x = 1\n8:\n\n(End of file - total 8 lines)\n</content>",
        "<file>\n00007| x = 1\n00008| y = 2\n</file>",
    ],
)
def test_the_numbers_that_tools_put_before_lines_stand_beside_them(result: str) -> None:
    drawn = _drawn("Read", {"file_path": "/w/a.py"}, result)
    assert "<b>Read</b> " in drawn
    assert "(2 lines)" in drawn
    assert ">7\n8</span>" in drawn
    assert "End of file" not in drawn
