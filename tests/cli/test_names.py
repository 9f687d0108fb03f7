"""Short names of entries."""

from __future__ import annotations

import clew
from clew.cli.names import branch_names, find_entry


def test_a_branch_goes_by_its_last_letters_as_many_as_it_takes() -> None:
    named = branch_names(["aa11110000", "bb11110000", "cc2222"])
    assert named == {"aa11110000": "a11110000", "bb11110000": "b11110000", "cc2222": "2222"}


def test_an_id_that_ends_another_one_is_named_whole() -> None:
    assert branch_names(["12345", "x12345"]) == {"12345": "12345", "x12345": "x12345"}


def test_a_name_leads_to_one_entry_of_the_tree() -> None:
    branches = [
        clew.Branch("aa1111", "s", None, 0, 5),
        clew.Branch("bb2222", "s", clew.Head("aa1111", 2), 3, 4),
    ]
    assert find_entry(branches, "2222.4") == [clew.Head("bb2222", 4)]
    assert (
        find_entry(branches, "2222.5") == find_entry(branches, "2222.2") == find_entry(branches, "nine") == []
    )
    assert find_entry([*branches, clew.Branch("cc2222", None, None, 0, 9)], "2222.4") == [
        clew.Head("bb2222", 4),
        clew.Head("cc2222", 4),
    ]
