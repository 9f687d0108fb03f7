"""The tool that plants bugs: its table is in step with the code, and it finds what can be found."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.faults.plants import PLANTS as FAULTS
from tests.planted.copy import probe_place
from tests.planted.hunt import first_failed, nearest
from tests.planted.own import own_tests
from tests.planted.plants import PLANTS, Plant

CHECKOUT = Path(__file__).parents[2]
SOURCE = CHECKOUT / "src" / "clew"


def test_every_plant_fits_the_source_once_and_can_be_run() -> None:
    wrong = []
    for plant in PLANTS:
        try:
            ast.parse(plant.applied_to(SOURCE))
            file, _, function = (plant.reach or f"{plant.file}:").partition(":")
            text = (SOURCE / file).read_text()
            probe_place(text, function, text[: text.find(plant.old)].count("\n") + 1)
        except (OSError, SyntaxError, ValueError) as error:
            wrong.append(f"{plant.name}: {error}")

    assert wrong == []
    assert len({plant.name for plant in PLANTS}) == len(PLANTS) == 40


@pytest.mark.parametrize("text", ["a = 1\n", "b = 2\nb = 2\n"])
def test_a_plant_whose_text_is_not_there_once_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.py").write_text(text)

    with pytest.raises(ValueError, match="and not once"):
        Plant("toy", "a.py", "b = 2", "b = 3").applied_to(tmp_path)


def test_a_probe_stands_behind_the_docstring_of_the_innermost_function() -> None:
    text = 'def a():\n    """A."""\n    def b():\n        """B."""\n        return 1\n    return b\n'

    assert probe_place(text, "", 5) == (5, 8)
    assert probe_place(text, "a", 1) == (3, 4)
    with pytest.raises(ValueError, match="no function"):
        probe_place("a = 1\n", "", 1)


def test_tests_near_the_planted_module_come_first() -> None:
    far, near, nearest_one = (
        "tests/cli/test_a.py::t",
        "tests/core/test_b.py::t",
        "tests/core/log/test_tree.py::t",
    )

    assert nearest(Plant("", "core/log/tree.py", "", ""), [far, near, nearest_one]) == [
        nearest_one,
        near,
        far,
    ]


def test_every_bug_of_the_fault_campaigns_is_planted_by_a_test() -> None:
    files = {test.partition("::")[0] for test in own_tests(CHECKOUT)}
    texts = "\n".join((CHECKOUT / file).read_text() for file in files)

    assert [name for name in FAULTS if name not in texts and name.partition(": ")[2] not in texts] == []


def test_the_failed_test_is_known_by_its_whole_name() -> None:
    output = "FAILED a.py::t[x - y] - assert 1 == 2\nFAILED a.py::t[x]\n"

    assert first_failed(output, ["a.py::t[x]", "a.py::t[x - y]"]) == "a.py::t[x - y]"
    assert first_failed("no tests ran", ["a.py::t"]) is None
