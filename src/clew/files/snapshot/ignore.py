"""Ignore.

What a snapshot leaves out: the rules of `.gitignore` and `.clewignore`, the defaults, the user's word.

    exclude=      never taken
    include=      taken, though a rule below ignores it
    rule files    the one nearest to the file first; in a directory `.clewignore` before `.gitignore`
    defaults      caches and installed packages, which can be made again; names of secrets

In a rule file the last line that matches decides, as in git, and nothing below an ignored directory is
looked at, so that no negation reaches into it. An `include` with a slash in it does (`build/keep.db`,
`**/.env`); for one without, such as `.env`, no ignored directory is entered.

A path is relative to the root; that of a directory ends with a slash.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cached_property, lru_cache
from typing import Final

import msgspec
from blake3 import blake3

from clew.errors import InvalidError

# -- names of files that hold nothing but secrets
#
# Only names that say so by themselves. What may be anything, such as `credentials.json` or `.npmrc`, is for
# the rules of the project.

_FILES: Final = frozenset({
    ".env", "id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", ".netrc", "_netrc",
    ".pgpass", ".my.cnf", ".pypirc", ".git-credentials", ".htpasswd", ".vault-token", ".dockercfg", ".s3cfg",
    "application_default_credentials.json",
})  # fmt: skip
_ENDINGS: Final = frozenset({".pem", ".key", ".ppk", ".p12", ".pfx", ".jks", ".keystore", ".kdbx"})
_DIRECTORIES: Final = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store"})
_SHARED: Final = frozenset({".example", ".sample", ".template", ".dist", ".default", ".defaults"})
"""How a `.env` ends that shows others what to write there."""


def is_secret_file(name: str) -> bool:
    """Whether a file of this name is one of secrets; the case of letters does not matter."""
    name = name.lower()
    ending = name[name.rfind(".") :]
    return ending in _ENDINGS or name in _FILES or (name.startswith(".env.") and ending not in _SHARED)


def is_secret_directory(name: str) -> bool:
    """Whether a directory of this name is one of secrets, with all in it."""
    return name.lower() in _DIRECTORIES


# -- patterns and rule files

RULE_FILES: Final = (".gitignore", ".clewignore")
"""The later one has the last word."""

GIT: Final = ".git"
"""Never looked into, whatever the rules say."""

_DEFAULT_DIRECTORIES: Final = frozenset({
    "node_modules", ".venv", "venv", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox",
    ".nox", ".hg", ".svn",
})  # fmt: skip
_DEFAULT_FILES: Final = frozenset({".DS_Store"})
_VERSION: Final = b"clew rules 2"

# How the entries of a directory are looked at, because of what is above them.
NORMAL: Final = 0
IGNORED: Final = 1
"""Only what is included by name, or needed by a restore, is taken."""
EXCLUDED: Final = 2
"""Only what is needed by a restore is taken."""
PROTECTED: Final = 3
"""Everything is taken that is not excluded."""

_CLASSES: Final = {
    "[:alpha:]": "a-zA-Z", "[:digit:]": "0-9", "[:alnum:]": "a-zA-Z0-9", "[:upper:]": "A-Z",
    "[:lower:]": "a-z", "[:space:]": " \t", "[:xdigit:]": "0-9A-Fa-f", "[:punct:]": "!-/:-@\\[-`{-~",
}  # fmt: skip

_STAR: Final = "[^/]*"
_EARLY: Final = {"(?:.+/)?": "(?:.+?/)??", "(?:/.+)?/": "(?:/.+?)??/"}
"""What `**` is for pathspec, and the same looking from the front."""
_DEEP: Final = re.compile(f"({'|'.join(map(re.escape, _EARLY))})")


class Patterns:
    """Lines of a rule file, or patterns of a caller; compiled when the first path is asked for."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = [line for line in lines if line.strip() and not line.startswith("#")]

    def verdict(self, path: str) -> bool | None:
        """True: the last line that matches ignores it; False: it is negated; None: no line matches."""
        anything, rules = self._compiled
        if not rules or not anything.fullmatch(path):
            return None
        for regex, is_ignored in reversed(rules):
            if regex.fullmatch(path):
                return is_ignored
        return None

    @cached_property
    def _compiled(self) -> tuple[re.Pattern[str], list[tuple[re.Pattern[str], bool]]]:
        rules = [rule for line in self._lines if (rule := compiled(line))]
        together = "|".join(f"(?:{regex.pattern})" for regex, _ in rules)
        return _regex(together), rules


@lru_cache(maxsize=4096)
def compiled(line: str) -> tuple[re.Pattern[str], bool] | None:
    """A line as (expression, whether it ignores). None: it is blank, a comment, or one that git would
    not understand either.

    pathspec's expressions match everything below a directory as well. Here they are made to match the
    entry alone: whatever is asked for has been reached through directories that are not ignored.
    """
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    for name, characters in _CLASSES.items():
        line = line.replace(name, characters)
    if line.rstrip().endswith("/**/"):  # the directories below, for git; pathspec takes it for the one above
        line = f"{line.rstrip()}*/"
    try:
        text, is_ignored = GitIgnoreSpecPattern.pattern_to_regex(line)
        if text is None or is_ignored is None:
            return None
        text = text.replace("(?P<ps_d>/)", "(?:/)")
        return _regex(_bounded(_of_entry(text))), is_ignored
    except (ValueError, re.error):
        return None


def _regex(text: str) -> re.Pattern[str]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # "[[" will mean something else one day
        return re.compile(text, re.DOTALL)


def _of_entry(text: str) -> str:
    if text == ".":  # `*`
        return ".+"
    if text == "(?:/)":  # `*/`
        return ".*/"
    if text == "/":  # `*/**`
        return ".*/.+"
    if text.endswith("/"):  # `a/**`: what is below, not itself
        return f"{text}.+"
    return text


def _bounded(text: str) -> str:
    """The same expression, in a time by the length of a path, however many stars it has.

    Where a star may end at several places the first one will do: whatever follows finds more there than at
    a later one. Only the last star of a name, and the last `**`, must be tried at all of them.
    """
    first, *rest = _DEEP.split(text)
    parts = [("", first), *zip(rest[::2], rest[1::2], strict=True)]
    *before, (last_way, last) = parts
    bounded = [
        f"(?>{_EARLY.get(way, '')}{_early_stars(names)}(?=/))" for way, names in before if names != "^"
    ]
    if before and before[0] == ("", "^"):
        bounded.insert(0, "^")
    return f"{''.join(bounded)}{_EARLY.get(last_way, '')}{_early_stars(last)}"


def _early_stars(names: str) -> str:
    first, *rest = names.split(_STAR)
    if not rest:
        return names
    *middle, last = rest
    return f"{first}{''.join(f'(?>[^/]*?{name})' for name in middle)}{_STAR}{last}"


class Rules:
    """The rule files that hold in a directory: its own, and those above it."""

    def __init__(self, parent: Rules | None, prefix: str, contents: Sequence[bytes], key: bytes) -> None:
        self.key = key
        """Equal keys, equal verdicts."""
        self._parent = parent
        self._prefix_length = len(prefix)
        self._contents = contents

    def verdict(self, path: str) -> bool | None:
        rules: Rules | None = self
        while rules is not None:
            verdict = rules._patterns.verdict(path[rules._prefix_length :])
            if verdict is not None:
                return verdict
            rules = rules._parent
        return None

    def below(self, prefix: str, files: Sequence[tuple[str, bytes]]) -> Rules:
        """The rules of a directory with rule files of its own; `files` in the order of RULE_FILES."""
        if not files:
            return self
        hasher = blake3(self.key)
        for name, content in files:
            hasher.update(f"{name} {len(content)} ".encode() + content)
        return Rules(self, prefix, [content for _, content in files], hasher.digest(16))

    @cached_property
    def _patterns(self) -> Patterns:
        lines: list[str] = []
        for content in self._contents:
            text = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
            lines += text.replace("\r\n", "\n").split("\n")
        return Patterns(lines)


class Ignore:
    """The decision for every entry of a tree."""

    def __init__(
        self,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        also: Collection[bytes] = (),
        salt: bytes = b"",
    ) -> None:
        """`also`: paths that are taken whatever the rules say; `salt`: what else verdicts depend on."""
        for what, patterns in (("include", include), ("exclude", exclude)):
            _check_patterns(what, patterns)
        self.also = also if isinstance(also, (set, frozenset)) else frozenset(also)
        key = msgspec.msgpack.encode([_VERSION, list(include), list(exclude), salt])
        self.root = Rules(None, "", (), blake3(key).digest(16))
        self._include = Patterns(include)
        self._exclude = Patterns(exclude)
        self._ways = [way for pattern in include if (way := _way(pattern))]

    def takes_file(self, rules: Rules, mode: int, path: str, name: str) -> bool:
        """Whether anything but a directory is taken."""
        is_default = name in _DEFAULT_FILES or is_secret_file(name)
        return self._mode(rules, mode, path, is_default) in (NORMAL, PROTECTED)

    def mode_below(self, rules: Rules, mode: int, path: str, name: str) -> int | None:
        """How a directory (its path ends with a slash) is looked at; None: not at all."""
        is_default = name in _DEFAULT_DIRECTORIES or is_secret_directory(name)
        below = self._mode(rules, mode, path, is_default)
        if below == EXCLUDED:
            return None
        if below == IGNORED and not any(_leads_through(way, path) for way in self._ways):
            return None
        return below

    def is_secret(self, rules: Rules, mode: int, path: str, name: str) -> bool:
        """Whether a path is left out for its name alone, and no rule ignores it."""
        has_secret_name = is_secret_directory if path.endswith("/") else is_secret_file
        return (
            has_secret_name(name)
            and mode == NORMAL
            and not self._exclude.verdict(path)
            and rules.verdict(path) is None
        )

    def is_needed(self, path: bytes) -> bool:
        return path in self.also

    def is_on_the_way(self, path: str) -> bool:
        """Whether a directory has to be entered for the sake of `also`."""
        return bool(self.also) and path[:-1].encode("utf-8", "surrogateescape") in self._above

    def _mode(self, rules: Rules, mode: int, path: str, is_default: bool) -> int:
        if mode == EXCLUDED or self._exclude.verdict(path):
            return EXCLUDED
        if mode == PROTECTED or self._include.verdict(path):
            return PROTECTED
        if mode == IGNORED:
            return IGNORED
        verdict = rules.verdict(path)
        return IGNORED if (is_default if verdict is None else verdict) else NORMAL

    @cached_property
    def _above(self) -> set[bytes]:
        """What `also` names, and all directories that lead there."""
        above = set(self.also)
        for path in self.also:
            while (slash := path.rfind(b"/")) > 0:
                path = path[:slash]
                if path in above and path not in self.also:
                    break
                above.add(path)
        return above


def _check_patterns(what: str, patterns: Sequence[str]) -> None:
    if isinstance(patterns, (str, bytes)):
        raise InvalidError(f"{what} is a list of patterns, not the single {patterns!r}")
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise InvalidError(f"{what}: a pattern is text, not {pattern!r}")
        if compiled(pattern) is None:
            raise InvalidError(f"{what}: {pattern!r} is no pattern as in .gitignore")


def _way(pattern: str) -> list[str]:
    """The directories that a pattern names on the way to what it matches; empty: it names none."""
    *way, last = pattern.removeprefix("!").rstrip("/").removeprefix("/").split("/")
    return [*way, last] if way else []


def _leads_through(way: Sequence[str], directory: str) -> bool:
    """Whether what the pattern matches may lie below this directory."""
    from fnmatch import fnmatchcase

    names = directory.rstrip("/").split("/")
    for part, name in zip(way, names, strict=False):
        if part == "**":
            return True
        if "\\" not in part and not fnmatchcase(name, part):
            return False
    return len(names) < len(way)
