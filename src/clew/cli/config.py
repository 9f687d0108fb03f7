"""The file of settings: `~/.config/clew/config.toml`, and which value of a setting holds.

An option of the command line comes first, then the environment, then the file, then the default.

The file is read by the command line alone; `clew.open()` in Python reads $CLEW_STORE and nothing else. A
pager is a program that is run, so a file that another user may have written is refused. Nothing else in
the file is run.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from clew.cli.app import Refused, Settings

VARIABLE: Final = "CLEW_CONFIG"
NAME: Final = "config.toml"
LARGEST: Final = 64 * 1024
COLORS: Final = ("auto", "always", "never")

TEMPLATE: Final = """\
# Settings of the command line of Clew: clew help config
# Options and environment variables come before what is said here.

# store = "~/agents.db"            # a file, a directory or a URL
# color = "auto"                   # or always, never
# pager = "less -FRX"              # or "" for none
# columns = "active,agent,title,id"  # of clew ls
"""


class ConfigError(Refused):
    """A setting is wrong; the message says where."""


class Key(NamedTuple):
    """A setting."""

    name: str
    text: str
    variables: tuple[str, ...]
    default: str
    check: Callable[[Any], str]
    """The value as text; ValueError: why it is wrong."""


class Value(NamedTuple):
    """A setting that is in force."""

    text: str
    source: str
    """Where it comes from: `default`, `$NAME`, or the file and line."""


def config_path() -> Path:
    """Where the file is, or would be."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given).absolute()
    home = Path(os.path.expanduser("~"))
    if sys.platform == "darwin":
        base = home / "Library" / "Application Support"
    elif sys.platform == "win32":
        base = Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming")
    else:
        base = Path(os.environ.get("XDG_CONFIG_HOME") or "")
        base = base if base.is_absolute() else home / ".config"
    return base / "clew" / NAME


# -- which value holds


def resolve(settings: Settings) -> None:
    """Fill in what no option said. ConfigError: a setting that is not valid."""
    settings.color = settings.color or _color(chosen("color").text)
    settings.store = settings.store or (None if os.environ.get("CLEW_STORE") else file_setting("store"))
    settings.pager_command = chosen("pager").text
    settings.columns = settings.columns or _columns(chosen("columns").text)


def chosen(name: str) -> Value:
    """The value of the environment, else of the file, else the default."""
    key = KEYS[name]
    for variable in key.variables:
        said = os.environ.get(variable)
        if said is None or (not said and name != "pager"):
            continue
        if name == "pager":  # other programs read $PAGER too: one that cannot be read is no pager, no error
            return Value(said, f"${variable}")
        try:
            return Value("never" if variable == "NO_COLOR" else key.check(said), f"${variable}")
        except ValueError as exc:
            raise ConfigError(f"${variable}: {exc}") from exc
    entry = _entries().get(name)
    return Value(key.default, "default") if entry is None else entry


def of_options(settings: Settings) -> dict[str, Value]:
    """What the options of the command line set, before `resolve` fills in the rest."""
    found = {}
    if settings.store is not None:
        found["store"] = Value(settings.store, "--store")
    if settings.color is not None:
        found["color"] = Value(settings.color, "--color")
    if not settings.pager:
        found["pager"] = Value("", "--no-pager")
    return found


def in_file(name: str) -> Value | None:
    """What the file says of a setting, whether or not it holds."""
    return _entries().get(name)


def file_setting(name: str) -> str | None:
    entry = _entries().get(name)
    return None if entry is None else entry.text


def _color(text: str) -> Any:
    return text


def _columns(text: str) -> tuple[str, ...] | None:
    return tuple(text.split(",")) if text else None


# -- the file


def _entries() -> dict[str, Value]:
    """What the file says, each value with its place. Nothing: there is no file."""
    path = config_path()
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}") from exc
    stamp = (str(path), found.st_mtime_ns, found.st_size, found.st_ino)
    if stamp not in _KNOWN:
        entries = entries_of(read_file(path), path)
        _KNOWN.clear()
        _KNOWN[stamp] = entries
    return _KNOWN[stamp]


_KNOWN: Final[dict[tuple[str, int, int, int], dict[str, Value]]] = {}
"""The file as it was read last: one command asks for several settings."""


def read_file(path: Path) -> str:
    """Its text. ConfigError: it cannot be read, or another user may have written it."""
    from clew.core.disk import open_file

    try:
        with open_file(path) as file:
            _check_owner(path, os.fstat(file.fileno()))
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        return ""
    except OSError as exc:
        raise ConfigError(f"{path} cannot be read: {exc.strerror or exc}") from exc
    if len(content) > LARGEST:
        raise ConfigError(f"{path} is larger than {LARGEST // 1024} KiB, so it is no file of settings")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = content[: exc.start].count(b"\n") + 1
        raise ConfigError(f"{path}:{line}: this is not UTF-8; clew config --edit opens the file") from exc


def _check_owner(path: Path, found: os.stat_result) -> None:
    """It names a program that is run, so only its user, or root, may have written it."""
    if not hasattr(os, "geteuid"):
        return
    if found.st_uid not in (os.geteuid(), 0):
        raise ConfigError(
            f"{path} belongs to another user, so it is not read; ${VARIABLE} names another file"
        )
    is_ours = found.st_gid == os.getegid()
    if found.st_mode & 0o002 or (found.st_mode & 0o020 and not is_ours):
        raise ConfigError(f"other users may change {path}, so it is not read; chmod 600 makes it yours alone")


_TOML_ERROR: Final = re.compile(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", re.DOTALL)


def entries_of(text: str, path: Path) -> dict[str, Value]:
    """The settings in a text. ConfigError names the line of what is wrong."""
    import tomllib

    try:
        found = tomllib.loads(text)
    except (ValueError, RecursionError) as exc:  # a number, or a nesting, that is beyond all measure
        said = _TOML_ERROR.fullmatch(str(exc))
        what, line = (said[1], said[2] or text.count("\n") + 1) if said else (str(exc), 1)
        raise ConfigError(
            f"{path}:{line}: this is not valid TOML ({what[:1].lower()}{what[1:]}); "
            "clew config --edit opens the file"
        ) from exc
    entries = {}
    for name, value in found.items():
        where = f"{path}:{line_of(text, name)}"
        if name not in KEYS:
            raise ConfigError(f"{where}: {unknown(name)}")
        try:
            entries[name] = Value(KEYS[name].check(value), where)
        except ValueError as exc:
            raise ConfigError(f"{where}: {exc}; clew config --edit opens the file") from exc
    return entries


def unknown(name: str) -> str:
    """That there is no such setting, and which one may be meant."""
    from difflib import get_close_matches

    near = get_close_matches(name, KEYS, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(KEYS)}"
    return f"no setting {name!r}; {hint}"


def line_of(text: str, name: str) -> int:
    """The number of the line that sets a key; the first line if it is written in an unusual way."""
    begins = re.compile(rf"\[?\[?\s*[\"']?{re.escape(name)}[\"']?\s*[=.\]]")
    lines = (number for number, line in enumerate(text.splitlines(), 1) if begins.match(line.lstrip()))
    return next(lines, 1)


# -- change the file


def changed(text: str, name: str, value: str | None, path: Path) -> str:
    """The text with a setting changed, added, or removed (`value` None). All other lines stay as they are,
    and so does the comment behind the value. ConfigError: that cannot be done without harm."""
    import tomllib

    before = entries_of(text, path)
    lines = text.splitlines(keepends=True)
    place = line_of(text, name) - 1
    if name in before:
        end = _end_of(lines, place)
        comment = _comment_of(lines[place]) if end == place + 1 else ""
        new = [] if value is None else [f"{name} = {quoted(value)}{comment}\n"]
        lines[place:end] = new
    elif value is not None:
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        lines.append(f"{name} = {quoted(value)}\n")
    after = "".join(lines)
    try:
        expected = {key: one.text for key, one in before.items() if key != name}
        expected |= {} if value is None else {name: KEYS[name].check(value)}
        if {key: one.text for key, one in entries_of(after, path).items()} == expected:
            return after
    except (ConfigError, tomllib.TOMLDecodeError):
        pass
    raise ConfigError(f"{path} is written in a way that this cannot change; clew config --edit opens it")


def _end_of(lines: list[str], first: int) -> int:
    """The line behind a value: a list, or a text in three quotes, may have several lines."""
    import tomllib

    for end in range(first + 1, len(lines) + 1):
        try:
            tomllib.loads("".join(lines[first:end]))
        except tomllib.TOMLDecodeError:
            continue
        return end
    return first + 1


def _comment_of(line: str) -> str:
    """The comment behind a value, with the space before it; a # inside a text is none."""
    import tomllib

    for at in (at for at, letter in enumerate(line) if letter == "#"):
        try:
            tomllib.loads(line[:at])
        except tomllib.TOMLDecodeError:
            continue
        begin = len(line[:at].rstrip())
        return line[begin:].rstrip()
    return ""


def quoted(text: str) -> str:
    """A text as TOML writes it."""
    escapes = {"\\": "\\\\", '"': '\\"', "\t": "\\t", "\n": "\\n", "\r": "\\r"}
    return (
        '"'
        + "".join(escapes.get(one, one if one.isprintable() else f"\\U{ord(one):08X}") for one in text)
        + '"'
    )


def write_file(path: Path, text: str) -> None:
    """All of it or nothing, for its owner only. A link to the file stays a link."""
    from clew.core.disk import create_file, make_directories, sync_directory

    target = Path(os.path.realpath(path))
    make_directories(target.parent)
    new = target.with_name(f".{target.name}.{os.getpid()}.new")
    new.unlink(missing_ok=True)
    try:
        with open(create_file(new), "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, target)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    if sys.platform != "win32":
        sync_directory(target.parent)


# -- what each setting may be


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{what} is a text, not {value!r}")
    if any(not one.isprintable() for one in value):
        raise ValueError(f"{what} holds a character that cannot be printed: {value!r}")
    return value


def _store(value: Any) -> str:
    from clew.backends.registry import masked, parse
    from clew.errors import InvalidUrlError

    text = _text(value, "store")
    if text.startswith("~"):
        text = os.path.expanduser(text)
    try:
        scheme, place, _ = parse(text)
    except InvalidUrlError as exc:
        raise ValueError(f"store: {exc}") from exc
    if scheme in ("sqlite", "jsonl") and not os.path.isabs(place):
        raise ValueError(
            f"store is the path {masked(text)!r}, which is another place in every directory; "
            "write the whole path"
        )
    return text


def _when(value: Any) -> str:
    if value not in COLORS:
        raise ValueError(f"color is one of {', '.join(COLORS)}; not {value!r}")
    return str(value)


def _pager(value: Any) -> str:
    import shlex

    text = _text(value, "pager")
    try:
        shlex.split(text)
    except ValueError as exc:
        raise ValueError(f"pager is {text!r}, in which a quotation mark is not closed") from exc
    return text


def _names(value: Any) -> str:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        raise ValueError(f'columns is a list of names, as "active,title,id"; not {value!r}')
    return ",".join(one.strip().lower() for one in names if one.strip())


KEYS: Final[dict[str, Key]] = {
    key.name: key
    for key in (
        Key("store", "The store to use: a file, a directory or a URL", ("CLEW_STORE",), "", _store),
        Key("color", "When to use colours: auto, always or never", ("CLEW_COLOR", "NO_COLOR"), "auto", _when),
        Key("pager", "The program that shows long output", ("CLEW_PAGER", "PAGER"), "less", _pager),
        Key("columns", "The columns of clew ls, separated by commas", ("CLEW_COLUMNS",), "", _names),
    )
}
