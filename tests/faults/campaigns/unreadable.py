"""F-08 for reads: one file of a store cannot be read, for good. It costs what it holds, by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import clew
from tests.faults.campaign import Result, told_by
from tests.faults.campaigns.calls import Case
from tests.faults.disk.strace import traced, unreadable
from tests.faults.plants import plant
from tests.faults.subjects import Subject
from tests.faults.workload.steps import view_of_session
from tests.support.children import Child

Tell = Callable[[Any], None]


def unreadable_files(subject: Subject, *, planted: str = "") -> Result:
    """Let each file of a store in turn be unreadable, and read all the rest."""
    result = Result()
    case = Case(subject, "read", result, planted)
    case.put_back()
    whole = dict(told_by(Child(_read_each, case.subject, "")))
    for path in case.subject.files():
        case.put_back()
        with traced(_read_each, case.subject, planted, strace=unreadable(path)) as child:
            found = dict(child.hear_all())
        where = f"{path.relative_to(case.subject.place)} cannot be read"
        if child.status != 0:
            result.found(where, [f"the program ended with {child.status}"])
        result.found(where, list(_wrong(case.subject, path, whole, found, result)))
        case.judge(where, [], "")
        if planted and result.wrong:
            break
    return result


def _wrong(
    subject: Subject, path: Path, whole: dict[str, Any], found: dict[str, Any], result: Result
) -> list[str]:
    lines = [text for text in found.values() if isinstance(text, str) and not text.startswith("ClewError")]
    if "opening" in found:
        result.saw("refused")
        return lines if subject.costs(path, "") else [*lines, f"it is not opened: {found['opening']}"]
    if subject.holds(path) and found.pop("(verify)", None) is False:
        lines.append("a full look finds nothing")
    for name, right in whole.items():
        seen = found.get(name)
        if name == "(verify)":
            continue
        if seen == right:
            result.saw("read")
        elif name == "(search)" and not isinstance(seen, str):
            missing = set(right) - set(seen or ())
            lines += [f"{each!r} is not found" for each in missing if not subject.costs(path, each)]
        elif not subject.costs(path, name):
            lines.append(f"{name!r} is {seen}, not {right}"[:900])
        else:
            result.saw("lost with its file")
    return lines


def _read_each(tell: Tell, subject: Subject, planted: str) -> None:
    """Tell what is seen of each session, or the error."""
    plant(planted)

    def look(name: str, read: Callable[[], Any]) -> None:
        try:
            tell([name, read()])
        except clew.ClewError as error:
            tell([name, f"ClewError: {error!r}"])
        except Exception as error:  # noqa: BLE001 (whatever it is, it is told)
            tell([name, f"the wrong error: {error!r}"])

    try:
        store = subject.open()
    except clew.ClewError as error:
        tell(["opening", f"ClewError: {error!r}"])
        return
    for name in ("a", "b", "b-fork"):
        look(name, lambda name=name: view_of_session(store.get(name)))  # type: ignore[misc]
    words = ("later", "beside", "b1")
    look("(search)", lambda: sorted({hit.session for word in words for hit in store.search(word).hits}))
    look("(list)", lambda: sorted(info.id for info in store.list()))
    look("(verify)", lambda: bool(store.verify(full=True).problems))
    store.close()
