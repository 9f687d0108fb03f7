"""S-55: a small text never costs much work: every function that reads what others wrote, with slow texts.

A function that reads a text by the square of its length takes minutes for each of these, and runs into the
timeout; one that reads it once takes a moment.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.cli.names import beginnings
from clew.cli.text import clean, flat, one_line
from clew.core.messages import words
from clew.core.messages.dialects import prompt_of, text_of
from clew.core.messages.dialects.anthropic import is_human as is_human_in_claude
from clew.core.messages.text import marked_words, own_words, snippet
from clew.core.messages.words import Term
from clew.core.search.excerpt import excerpt
from clew.exporters.changes import compared, diff_lines
from clew.exporters.markdown import fence, inline, quote
from clew.exporters.page.colours import LANGUAGES, coloured
from clew.exporters.page.diff import diff as drawn_diff
from clew.exporters.page.terminal import terminal
from clew.exporters.page.text import MOST_CELLS, MOST_CODE, MOST_MARKDOWN, code, escape, prose
from clew.exporters.redact import Redactor
from clew.exporters.tools import summary
from clew.files.diff.text import unified
from clew.files.snapshot.ignore import Patterns
from clew.importers.programs.cline import is_human, model_told, task_of, working_directory
from clew.importers.reading.jsonlines import _last_whole
from tests.support.effort import spread, usually
from tests.support.rows import each_row

SIZE = usually(100_000, thorough=400_000)

RUNS = [
    "a", " ", "\t", "\n", "\\", "`", "*", "_", "<", ">", "[", "]", "(", "|", "#", "&", "=", "-", "+", "~",
    "\"", "'", "{", "1", "\x00", "\x1b", "\u202e", "\u0301", "漢", "😀", "](", "[](", "[a](", "![](", "[a][",
    "[a]:", "[a]: b\n", "[a](<", "` ``", "`a``b", "``|<`", "*a_", "**a ", "~~a", "<a", "<!--", "<a@",
    "<http://", "&a;", "&#x", "> ", "- ", "1. ", "# a\n", "> a\n", "a\n", " \n", "a|b\n-|-\n", "|a",
    "```\n", "~~~ a\n", "\\a](", "\\0_&](", "](http://&", "aA", "a.", "a_", "a@", "a b ", "/*", "*/", "//",
    "[^a]", "[^a]: b\n", "[^a]: [^b]: ", "- [ ] a\n", "http://a.b ", "https://a.b)",
    "\"\"\"", "\"\\", "'\\", "{\"a\":", "-----BEGIN", "-----BEGIN PRIVATE KEY-----", "AAAA", "eyJ-",
    "eyJa.", "http://a:", "password", "password=", "_pass", "passwords_valid_", "token ", "aws ", "cookie=",
    " --password", "sk--", "<task>", "<task> ", "<system-reminder>", "<environment_details>",
    "# Current Working Directory (a", "\x1b[1;", "@@ -1 +1 @@\n", "-a\n+b\n",
]  # fmt: skip
BLANKS = " \n" * 15_000
LADDER = "".join("`" * length + "a" for length in range(1, 800))
KILLERS = ["](", "\\0_&](", "[a]: b\n", "<task>", "<system-reminder>", "passwords_valid_", "eyJ-", LADDER]
"""Each of them kept a function busy for minutes once."""
TEXTS = list(dict.fromkeys([*KILLERS, *spread(RUNS, 20)]))


def _in_code(text: str) -> None:
    for language in LANGUAGES:
        coloured(text[: MOST_CODE // 16], language)


def _said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


FUNCTIONS: dict[str, Callable[[str], object]] = {
    "markdown.quote": lambda text: list(quote(text)),
    "markdown.inline": inline,
    "markdown.fence": lambda text: list(fence(text)),
    "html.prose": lambda text: prose(text[: MOST_MARKDOWN // 10]),
    "html.prose, long": lambda text: prose(text * 3),
    "html.escape": escape,
    "html.code": lambda text: code(text, "python"),
    "html.terminal": terminal,
    "html.diff": lambda text: drawn_diff(compared(text, text[::-1])),
    "html.diff, printed": lambda text: drawn_diff(diff_lines(f"@@ -1,9 +1,9 @@\n{text}")),
    "tools.summary": lambda text: [
        summary(name, {"command": text, "old_string": text, "new_string": text[1:], "input": text}, text)
        for name in ("Bash", "Read", "Edit", "apply_patch", "Grep", "x")
    ],
    "colours": _in_code,
    "redact.text": lambda text: Redactor().text(text, "x"),
    "redact.name": lambda text: Redactor().value({text: {"password": "hunter2x"}}, "x"),
    "redact.secret": lambda text: Redactor().value({"password": text}, "x"),
    "words.flat": words.flat,
    "words.words_in": lambda text: sum(1 for _ in words.words_in(text)),
    "excerpt": lambda text: excerpt(text, [Term(("nowhere",)), Term(("a",), prefix=True)]),
    "snippet": lambda text: snippet(text, 60),
    "prompt_of": lambda text: prompt_of(_said(text)),
    "text_of": lambda text: text_of(_said(text)),
    "own_words": own_words,
    "marked_words": marked_words,
    "claude: is_human": lambda text: is_human_in_claude({}, _said(text)),
    "cline: is_human": lambda text: is_human(_said(text)),
    "cline: directory": lambda text: working_directory(_said(text)),
    "cline: model": lambda text: model_told(_said(f"<environment_details>{text}")),
    "cline: task": lambda text: task_of(_said(text)),
    "damaged document": _last_whole,
    "terminal.clean": clean,
    "terminal.one_line": one_line,
    "terminal.flat": flat,
    "ids": lambda text: beginnings([text, text[:-1]]),
    "diff": lambda text: unified(text, text[::-1], "a", "b"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_s55_a_text_is_read_once(name: str) -> None:
    for unit in TEXTS:
        run = unit * (SIZE // len(unit))
        FUNCTIONS[name](run)


STARS = ["*a" * 30, "**/a/" * 20, "**/*a*/" * 12, "?*" * 40, "[a-z]*" * 30, "*" * 200, "a**" * 40]


@each_row("line", [f"{stars}b" for stars in STARS])
def test_s55_stars_in_a_rule_file_cost_no_more_than_other_letters(line: str) -> None:
    rules = Patterns([line, f"!{line}c", f"/{line}/"])
    for path in ("a" * 255, "a/" * 2000, ("a" * 200 + "/") * 20, "ab" * 127, "a/" * 2000 + "c"):
        rules.verdict(path)


def test_s55_a_table_cannot_have_more_cells_than_its_text_is_worth() -> None:
    wide = "|" + "a|" * 1000 + "\n|" + "-|" * 1000 + "\n" + "|\n" * 2000
    assert prose(wide).count("<td") == 0
    assert "its tables are large" in prose(wide)
    fair = "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * (MOST_CELLS // 10)
    assert prose(fair).count("<td") == 2 * (MOST_CELLS // 10)


def test_s55_a_long_name_of_a_field_is_told_in_short() -> None:
    redactor = Redactor()
    redactor.value({"n" * 300_000: [{"password": f"hunter2x{n}"} for n in range(3000)]}, "x")
    report = redactor.report()
    assert report.total == 3000
    assert max(len(place.place) for place in report.places) < 200


@pytest.mark.parametrize("format", ["markdown", "html", "json", "jsonl"])
def test_s55_one_message_does_not_keep_an_export_busy(format: Any) -> None:
    with clew.open("memory:") as store, tempfile.TemporaryDirectory() as place:
        s = store.create("a")
        s.append(*(_said(unit * (10_000 // len(unit))) for unit in TEXTS))
        s.append(*(_said(f"```{language}\n{BLANKS}\n```") for language in ("python", "tsx", "php")))
        path = store.export("a", format, path=Path(place) / "x", redact=True)
        assert Path(path).stat().st_size > 5_000 * len(TEXTS)
