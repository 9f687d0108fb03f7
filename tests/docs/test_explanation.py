"""What the explanations say of versions, layers and files is what is there."""

from __future__ import annotations

import re
import tomllib

from tests.docs.pages import DOCS, ROOT

NUMBERS = {1: "one", 2: "two", 3: "three"}
BUNDLE = ROOT / "src" / "clew" / "server" / "page" / "bundle"


def page(name: str) -> str:
    return (DOCS / "explanation" / f"{name}.md").read_text("utf-8")


def test_the_comparison_names_the_versions_that_the_benchmarks_install() -> None:
    installed = dict(
        re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "benchmarks/requirements.txt").read_text(), re.MULTILINE)
    )
    versions = next(line for line in page("comparison").splitlines() if line.startswith("Versions: "))
    named = dict(re.findall(r"([a-z-]+) (\d[\d.]*\d)", versions.partition(";")[0]))
    assert named == {name: installed[name] for name in named}
    assert len(named) == 3


def test_the_page_on_security_counts_the_scripts_and_styles_of_the_page() -> None:
    scripts, styles = (len(list(BUNDLE.glob(f"*.{kind}"))) for kind in ("js", "css"))
    said = re.search(r"The page has (\w+) scripts? and (\w+) styles?", page("security"))
    assert said is not None
    assert said.groups() == (NUMBERS[scripts], NUMBERS[styles])


def test_the_drawing_of_the_layers_is_in_the_order_that_the_linter_holds() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    held = next(one["layers"] for one in contracts if one["name"] == "Imports point down")
    drawing = page("architecture").partition("```text\n")[2].partition("```")[0]
    lines = re.findall(r"\b(core|files): (.+)", drawing.partition("  storage")[0])
    drawn = {f"{top}.{name}": row for row, (top, names) in enumerate(lines) for name in names.split(" · ")}
    wrong = []
    lowest = -1
    for layer in held:
        rows = [drawn[name] for name in re.findall(r"[\w.]+", layer) if name in drawn]
        wrong += [layer for row in rows if row < lowest]
        lowest = max([lowest, *rows])
    assert wrong == []
    assert len(drawn) >= 15


def test_a_decision_that_supersedes_another_is_named_by_it() -> None:
    decisions = {path.name[:4]: path.read_text("utf-8") for path in (DOCS / "adr").glob("0*.md")}
    one_sided = [
        (new, old)
        for new, text in decisions.items()
        for old in re.findall(r"^Supersedes\b.*?\[(\d{4})\]", text, re.MULTILINE)
        if f"[{new}]" not in decisions[old]
    ]
    assert one_sided == []
