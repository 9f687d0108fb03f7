"""`clew config`: show and change the settings of the command line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from clew.backends.registry import default_path, masked, whole
from clew.cli.app import Plain, Refused, Settings, command
from clew.cli.config import (
    COLORS,
    KEYS,
    TEMPLATE,
    Value,
    changed,
    chosen,
    config_path,
    entries_of,
    in_file,
    of_options,
    read_file,
    unknown,
    write_file,
)
from clew.cli.output import Output
from clew.cli.table import Column
from clew.cli.text import from_home, one_line
from clew.errors import InvalidUrlError

UNSAID: Final = {"columns": "(the usual ones)"}


def _complete_key(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(k.name, help=k.text) for k in KEYS.values() if k.name.startswith(incomplete)]


def _complete_value(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    match ctx.params.get("key"):
        case "color":
            return [CompletionItem(one) for one in COLORS if one.startswith(incomplete)]
        case "columns":
            given, comma, last = incomplete.rpartition(",")
            left = [one for one in known_columns() if one.startswith(last) and one not in given.split(",")]
            return [CompletionItem(f"{given}{comma}{one}") for one in left]
        case "store":
            return [CompletionItem(incomplete, type="file")]
    return []


@command(
    "config",
    "clew config                       list the settings",
    "clew config color never           set one",
    "clew config color                 print its value",
    "clew config --unset color         go back to the default",
    "clew config store ~/agents.db     use another store from now on",
    "clew config columns active,title,id",
    "clew config --edit                open the file in an editor",
    kind=Plain,
)
@click.argument("key", required=False, shell_complete=_complete_key)
@click.argument("value", required=False, shell_complete=_complete_value)
@click.option("--unset", is_flag=True, help="Remove the setting KEY from the file")
@click.option("--path", "show_path", is_flag=True, help="Print where the file is")
@click.option("--edit", is_flag=True, help="Open the file in $VISUAL, $EDITOR or vi")
@click.pass_obj
def config_command(
    settings: Settings, key: str | None, value: str | None, unset: bool, show_path: bool, edit: bool
) -> int:
    """Settings: store, color (auto, always or never), pager, and columns (of clew ls).

    An option comes first, then an environment variable ($CLEW_STORE, $CLEW_COLOR or $NO_COLOR, $CLEW_PAGER
    or $PAGER, $CLEW_COLUMNS), then the file, then the default. The list says which one holds, and what the
    file says instead. Comments in the file are kept. The file is for the command line only: clew.open() in
    Python does not read it.

    Piped: setting, value and source, separated by tabs.
    """
    if sum(map(bool, (value is not None, unset, show_path, edit))) > 1 or (key and (show_path or edit)):
        raise click.UsageError("give KEY, KEY VALUE, --unset KEY, --path or --edit; only one of them")
    if key is not None and key not in KEYS:
        raise click.UsageError(unknown(key))
    if unset and key is None:
        raise click.UsageError("--unset needs the name of a setting")
    path, out = config_path(), Output(settings)
    if show_path:
        out.record({"path": str(path)}) if out.json else out.line(str(path))
    elif edit:
        return _edit(path)
    elif key is not None and (unset or value is not None):
        _change(path, key, value, of_options(settings))
    else:
        _show(out, key, of_options(settings))
    return 0


def _show(out: Output, key: str | None, options: Mapping[str, Value]) -> None:
    found = {name: options.get(name) or chosen(name) for name in KEYS if key in (None, name)}
    beaten = {
        name: said
        for name, one in found.items()
        if (said := in_file(name)) is not None and said.source != one.source
    }
    if out.json:
        for name, one in found.items():
            record: dict[str, Any] = {"key": name, "value": _shown(name, one), "source": one.source}
            if name in beaten:
                said = beaten[name]
                record["file"] = {"value": _shown(name, said), "source": said.source}
            out.record(record)
        return
    if key is not None:
        out.line(_shown(key, found[key]))
    elif out.is_terminal:
        columns = (Column("SETTING"), Column("VALUE", "cyan"), Column("FROM", "bright_black", flexible=True))
        out.rows(
            columns,
            [
                (name, from_home(_shown(name, one)) or UNSAID.get(name, "(none)"), from_home(one.source))
                for name, one in found.items()
            ],
        )
    else:
        for name, one in found.items():
            out.row(name, _shown(name, one), one.source)
    for name, said in beaten.items():
        where, shown = from_home(said.source), from_home(_shown(name, said)) or "nothing"
        click.echo(
            one_line(f"{name}: {found[name].source} comes before {where}, which says {shown}"), err=True
        )


def _shown(name: str, value: Value) -> str:
    """As it is used; of an address without its password."""
    return masked(value.text) or default_path() if name == "store" else value.text


def _change(path: Path, key: str, value: str | None, options: Mapping[str, Value]) -> None:
    if value is not None:
        value = _checked(key, value)
    text = read_file(path)
    after = changed(text, key, value, path)
    if after != text:
        write_file(path, after)
    now = options.get(key) or chosen(key)
    written = _shown(key, Value(value or "", str(path))) or "empty"
    said = f"{key} is {written}" if value is not None else f"{key} is not set any more"
    click.echo(one_line(f"{said}; see {path}" if value is None else f"{said}, in {path}"), err=True)
    if now.source.startswith(("$", "--")):
        click.echo(one_line(f"but {now.source} comes first, and says {_shown(key, now)!r}"), err=True)


def _checked(key: str, value: str) -> str:
    """A path is made whole here: in the file it would be another one in every directory."""
    try:
        if key == "store" and value and not value.startswith("~"):
            value = whole(value)
        checked = KEYS[key].check(value)
    except (ValueError, InvalidUrlError) as exc:
        raise click.UsageError(str(exc)) from exc
    known = known_columns() if key == "columns" else ()
    for one in filter(None, checked.split(",") if known else ()):
        if one not in known:
            raise click.UsageError(f"no column {one!r}; there are {', '.join(known)}")
    return checked


def known_columns() -> tuple[str, ...]:
    """Of `clew ls`."""
    from clew.cli.commands import list as listing

    return tuple(getattr(listing, "COLUMNS", ()))


def _edit(path: Path) -> int:
    import shlex

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    if not path.exists():
        write_file(path, TEMPLATE)
    try:
        code = subprocess.call([*shlex.split(editor), str(path)])
    except (OSError, ValueError) as exc:
        raise Refused(f"the editor {editor!r} does not start ({exc}); set $EDITOR to another one") from exc
    if code:
        raise Refused(f"the editor {editor!r} ended with exit code {code}; the file is {path}")
    entries_of(read_file(path), path)
    return 0
