"""The colours of code: comments, texts, numbers and words of the language, each in a `span` with a class.

Code in a transcript is untrusted, and so is the language that it says it is. Lexers that know a language
well go back and forth over what they do not understand, so that a few kilobytes keep them busy for minutes.
Here a language is a few expressions that read every character once, whatever it is. What they take for
something else than it is gets another colour, and no more.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

COMMENT: Final = "c"
TEXT: Final = "s"
NUMBER: Final = "n"
WORD: Final = "k"
NAME: Final = "t"
ADDED: Final = "gi"
REMOVED: Final = "gd"
PLACE: Final = "gu"

CLASSES: Final = frozenset({COMMENT, TEXT, NUMBER, WORD, NAME, ADDED, REMOVED, PLACE})

# Every part takes what it has read, also when its end is missing: nothing is read twice.
_HASH: Final = r"(?P<c>#[^\n]*+)"
_DASHES: Final = r"(?P<c>--[^\n]*+|/\*(?>(?:[^*]|\*(?!/))*)(?:\*/)?)"
_SLASHES: Final = r"(?P<c>//[^\n]*+|/\*(?>(?:[^*]|\*(?!/))*)(?:\*/)?)"
_STARS: Final = r"(?P<c>/\*(?>(?:[^*]|\*(?!/))*)(?:\*/)?)"
_DOUBLE: Final = r'"(?:[^"\\\n]|\\.)*+"?'
_SINGLE: Final = r"'(?:[^'\\\n]|\\.)*+'?"
_BACK: Final = r"`(?:[^`\\]|\\.)*+`?"
_TRIPLE: Final = r'"""(?>(?:[^"\\]|\\.|"(?!""))*)(?:""")?' + r"|'''(?>(?:[^'\\]|\\.|'(?!''))*)(?:''')?"
_NUMBER: Final = r"(?P<n>(?<![\w.])\d[\w.]*+)"
_WORD: Final = r"(?P<k>[^\W\d]\w*+)"


def _parts(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), re.DOTALL)


def _texts(*quotes: str) -> str:
    return f"(?P<s>{'|'.join(quotes)})"


class _Language(NamedTuple):
    parts: re.Pattern[str]
    """Groups have the names of classes; one of words counts if it is among `words`."""
    words: frozenset[str] = frozenset()


WORD_LISTS: Final = {
    "c": (
        "break case char class const continue default do double else enum extern false float for goto if int"
        " long namespace new null nullptr private protected public return short signed sizeof static struct"
        " switch this throw true try catch typedef union unsigned using virtual void volatile while auto bool"
        " operator template"
    ),
    "python": (
        "and as assert async await break case class continue def del elif else except False finally for from"
        " global if import in is lambda match None nonlocal not or pass raise return self True try while with"
        " yield"
    ),
    "script": (
        "as async await break case catch class const continue debugger default delete do else enum export"
        " extends false finally for from function if implements import in instanceof interface let new null"
        " of private public readonly return static super switch this throw true try type typeof undefined var"
        " void while yield"
    ),
    "shell": (
        "case do done elif else esac exit export fi for function if in local return select set shift then"
        " unset until while echo cd source"
    ),
    "go": (
        "break case chan const continue default defer else fallthrough false for func go goto if import"
        " interface map nil package range return select struct switch true type var"
    ),
    "rust": (
        "as async await break const continue crate dyn else enum extern false fn for if impl in let loop"
        " match mod move mut pub ref return self Self static struct super trait true type unsafe use where"
        " while"
    ),
    "java": (
        "abstract boolean byte extends final finally fun implements import in instanceof interface"
        " internal is let native object open override package record sealed string super synchronized throws"
        " val var when yield func guard nil self init extension protocol"
    ),
    "ruby": (
        "alias and begin break case class def do else elsif end ensure false for if in module next nil not or"
        " redo rescue retry return self super then true undef unless until when while yield require"
    ),
    "sql": (
        "add all alter and as asc begin between by case check column commit constraint create cross default"
        " delete desc distinct drop else end exists foreign from full group having in index inner insert into"
        " is join key left like limit not null offset on or order outer primary references returning right"
        " rollback select set table then union unique update using values view when where with"
    ),
    "constants": "true false null yes no on off True False None",
}
"""Words of the languages, separated by spaces. `java` has what its relatives say besides those of `c`."""

_WORDS: Final = {name: frozenset(words.split()) for name, words in WORD_LISTS.items()}

_FAMILIES: Final = {
    "python py python3": _Language(
        _parts(_HASH, _texts(_TRIPLE, _DOUBLE, _SINGLE), _NUMBER, _WORD), _WORDS["python"]
    ),
    "bash sh shell zsh": _Language(_parts(_HASH, _texts(_DOUBLE, _SINGLE), _NUMBER, _WORD), _WORDS["shell"]),
    "ruby rb perl pl r": _Language(_parts(_HASH, _texts(_DOUBLE, _SINGLE), _NUMBER, _WORD), _WORDS["ruby"]),
    "yaml yml toml ini cfg conf dockerfile docker make makefile": _Language(
        _parts(_HASH, _texts(_DOUBLE, _SINGLE), _NUMBER, _WORD), _WORDS["constants"]
    ),
    "javascript js jsx typescript ts tsx": _Language(
        _parts(_SLASHES, _texts(_DOUBLE, _SINGLE, _BACK), _NUMBER, _WORD), _WORDS["script"]
    ),
    "c h cpp c++ cc hpp": _Language(_parts(_SLASHES, _texts(_DOUBLE, _SINGLE), _NUMBER, _WORD), _WORDS["c"]),
    "java kotlin kt scala csharp cs c# swift php dart": _Language(
        _parts(_SLASHES, _texts(_DOUBLE, _SINGLE), _NUMBER, _WORD), _WORDS["c"] | _WORDS["java"]
    ),
    "go golang": _Language(_parts(_SLASHES, _texts(_DOUBLE, _BACK), _NUMBER, _WORD), _WORDS["go"]),
    "rust rs": _Language(_parts(_SLASHES, _texts(_DOUBLE), _NUMBER, _WORD), _WORDS["rust"]),
    "css scss less": _Language(_parts(_STARS, _texts(_DOUBLE, _SINGLE), _NUMBER)),
    "sql": _Language(
        _parts(_DASHES, _texts(_DOUBLE, _SINGLE), _NUMBER, _WORD),
        _WORDS["sql"] | {word.upper() for word in _WORDS["sql"]},
    ),
    "json jsonc json5": _Language(
        _parts(rf"(?P<t>{_DOUBLE}(?=\s{{0,8}}:))|(?P<s>{_DOUBLE})", _NUMBER, _WORD), _WORDS["constants"]
    ),
    "html xml svg": _Language(
        _parts(r"(?P<c><!--(?>(?:[^-]|-(?!->))*)(?:-->)?)", r"(?P<t></?[A-Za-z][\w:-]*+)", _texts(_DOUBLE))
    ),
    "diff patch": _Language(
        re.compile(r"(?m:^)(?:(?P<gu>@@[^\n]*+|[+-]{3} [^\n]*+)|(?P<gi>\+[^\n]*+)|(?P<gd>-[^\n]*+))")
    ),
}
LANGUAGES: Final = {name: language for names, language in _FAMILIES.items() for name in names.split()}


def coloured(code: str, language: str) -> str:
    """The code as the inside of an element; of a language that is not known: without colours."""
    known = LANGUAGES.get(language.lower())
    return html.escape(code) if known is None else "".join(_pieces(code, known))


def _pieces(code: str, language: _Language) -> Iterable[str]:
    done = 0
    words = language.words
    for found in language.parts.finditer(code):
        kind, text = found.lastgroup, found[0]
        if kind is None or (kind == WORD and text not in words):
            continue
        start, end = found.span()
        if start > done:
            yield html.escape(code[done:start])
        if kind == WORD:
            yield f'<span class="{kind}">{text}</span>'
        elif "\n" not in text:
            yield f'<span class="{kind}">{html.escape(text)}</span>'
        else:
            # A span ends with its line, so that the lines can be told apart afterwards.
            lines = text.split("\n")
            yield "\n".join(
                f'<span class="{kind}">{html.escape(line)}</span>' if line else "" for line in lines
            )
        done = end
    yield html.escape(code[done:])


def language_of(path: str) -> str:
    """The language of a file, by its name; empty: not known."""
    name = path.rpartition("/")[2].lower()
    ending = name.rpartition(".")[2]
    return ending if ending in LANGUAGES else ""
