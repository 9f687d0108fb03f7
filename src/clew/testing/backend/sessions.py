"""The storage contract: the rows of sessions, and which of them a sweep looks at."""

from __future__ import annotations

import msgspec
import pytest

from clew.backends.contract import Backend
from clew.core.log.rows import FAILED, NOT_DUE, PENDING, RUNNING, Details, ForkOrigin, Listed
from clew.testing.backend.base import START, Conformance, a_session, a_tip, add, an_entry, query

DETAILS = Details(
    workspace_given="./ö",
    vendor="v",
    endpoint="https://e",
    model="m",
    tags=("b", "a", " "),
    metadata=msgspec.Raw(b'{"z": 1.0,  "a":[null,123456789012345678901234567890]}'),
    aliases=("x", "y"),
    origin=ForkOrigin(1, "base", 2, "uid", 3),
    expires=START + 5,
    idle=6,
)


class SessionConformance(Conformance):
    """Rows come back equal, in the trash or not; numbers are never used twice."""

    def test_a_session_comes_back_equal(self, backend: Backend) -> None:
        """Every field of a row and of its details is given back as it was put."""
        row = a_session("ö\n ", deleted=None, grows=True, head=a_tip(7, 8, 9, 10))
        with backend.write() as tx:
            sid = tx.add_session(row, DETAILS)
        expected = msgspec.structs.replace(row, sid=sid, tree=sid)

        with backend.read() as reader:
            assert reader.find_session("ö\n ") == expected
            assert reader.get_session(sid) == expected
            assert reader.get_details(sid) == DETAILS
            assert reader.list_sessions(query()) == [Listed(expected, DETAILS, None)]

    def test_a_session_may_have_none_of_the_optional_values(self, backend: Backend) -> None:
        """None and empty values come back as they are, not as one another."""
        row = a_session("a", title=None, has_title=False, preview="", workspace=None)
        with backend.write() as tx:
            sid = tx.add_session(row, Details())

        with backend.read() as reader:
            assert reader.get_session(sid) == msgspec.structs.replace(row, sid=sid, tree=sid)
            assert reader.get_details(sid) == Details()

    def test_text_of_any_kind_comes_back_equal(self, backend: Backend) -> None:
        """I-03, I-12: NUL, controls and characters beyond the basic plane survive in titles and previews."""
        hostile = "a\0b\x1b[31m\u2028\u202e\U0010ffff'\";--"
        with backend.write() as tx:
            row = add(tx, "a", title=hostile, preview=hostile, workspace=hostile)
            assert (row.title, row.preview, row.workspace) == (hostile, hostile, hostile)
            tx.set_head(row.sid, a_tip(1, 1), 5, hostile * 2, hostile * 3)

        with backend.read() as reader:
            found = reader.get_session(row.sid)
            assert found is not None
            assert (found.title, found.preview, found.workspace) == (hostile * 2, hostile * 3, hostile)

    def test_tree_0_stands_for_a_new_tree(self, backend: Backend) -> None:
        """A session without a tree gets one of its own; a fork is put into its base's."""
        with backend.write() as tx:
            base = add(tx, "base")
            fork = add(tx, "fork", tree=base.tree)
            other = add(tx, "other")

        assert base.tree != 0
        assert fork.tree == base.tree
        assert other.tree not in (0, base.tree)

    def test_set_session_replaces_the_row(self, backend: Backend) -> None:
        """Every field but the sid may change, the id too; the details stay."""
        with backend.write() as tx:
            row = add(tx, "a", DETAILS)
            changed = a_session(
                "b", sid=row.sid, tree=row.tree, created=5, updated=6, moves=7, undo=0, redo=0,
                status=1, epoch=8, fence=9, due=10,
            )  # fmt: skip
            tx.set_session(changed)

        with backend.read() as reader:
            assert reader.get_session(row.sid) == changed
            assert reader.get_details(row.sid) == DETAILS

    def test_set_head_replaces_what_an_append_changes_and_nothing_else(self, backend: Backend) -> None:
        """Head, updated, title and preview become the given ones, `grows` True, the rest stays."""
        with backend.write() as tx:
            row = add(tx, "a", DETAILS)
            tx.set_head(row.sid, a_tip(4, 5, 6, 7), 77, None, "")

        with backend.read() as reader:
            assert reader.get_session(row.sid) == msgspec.structs.replace(
                row, head=a_tip(4, 5, 6, 7), grows=True, updated=77, title=None, preview=""
            )
            assert reader.get_details(row.sid) == DETAILS

    def test_set_details_replaces_them_all(self, backend: Backend) -> None:
        """What the new details do not have is gone, and no longer found by listing."""
        with backend.write() as tx:
            row = add(tx, "a", Details(tags=("old",), model="m"))
            tx.set_details(row.sid, Details(tags=("new",)))

        with backend.read() as reader:
            assert reader.get_details(row.sid) == Details(tags=("new",))
            assert reader.list_sessions(query(tags=("old",))) == []
            assert len(reader.list_sessions(query(tags=("new",)))) == 1

    def test_what_was_never_stored_is_not_found(self, backend: Backend) -> None:
        """Unknown ids and numbers give None or nothing, not an error."""
        with backend.read() as reader:
            assert reader.find_session("a") is None
            assert reader.find_session("a", deleted=True) is None
            assert reader.get_session(1) is None
            assert reader.get_details(1) == Details()
            assert reader.tree_sessions(1) == []
            assert reader.list_sessions(query()) == []

    def test_a_session_in_the_trash_is_found_there_only(self, backend: Backend) -> None:
        """`find_session` and `find_deleted` never give the same session; `get_session` gives both."""
        with backend.write() as tx:
            row = add(tx, "a")
            trashed = msgspec.structs.replace(row, deleted=START)
            tx.set_session(trashed)

            assert tx.find_session("a") is None
            assert tx.find_session("a", deleted=True) == trashed
            assert tx.get_session(row.sid) == trashed

            tx.set_session(row)

            assert tx.find_session("a") == row
            assert tx.find_session("a", deleted=True) is None

    @pytest.mark.parametrize("certain", [True, False])
    def test_a_name_that_was_given_up_leads_nowhere_at_once(self, backend: Backend, certain: bool) -> None:
        """In the same transaction too, although the name was looked up there before."""
        with backend.write() as tx:
            add(tx, "a")
        with backend.write(certain=certain) as tx:
            row = tx.find_session("a")
            assert row is not None
            tx.set_session(msgspec.structs.replace(row, deleted=START))

            assert tx.find_session("a") is None
            assert tx.find_session("a", deleted=True) is not None

    def test_find_deleted_gives_the_one_deleted_last(self, backend: Backend) -> None:
        """By the time of deletion, not of creation; of two deleted at once the younger one."""
        with backend.write() as tx:
            first = add(tx, "a", deleted=START + 9)
            add(tx, "a", deleted=START + 8)
            add(tx, "a")

            assert tx.find_session("a", deleted=True) == first

            third = add(tx, "a", deleted=START + 9)

            assert tx.find_session("a", deleted=True) == third

    def test_tree_sessions_gives_all_of_a_tree_oldest_first(self, backend: Backend) -> None:
        """Those in the trash too: they may come back."""
        with backend.write() as tx:
            base = add(tx, "z")
            add(tx, "elsewhere")
            fork = add(tx, "a", tree=base.tree, created=1, updated=1)
            trashed = add(tx, "m", tree=base.tree, deleted=START)

        with backend.read() as reader:
            assert reader.tree_sessions(base.tree) == [base, fork, trashed]

    def test_set_due_changes_that_and_nothing_else(self, backend: Backend) -> None:
        """A sweep notes when to come back without touching what others write."""
        with backend.write() as tx:
            row, other = add(tx, "a"), add(tx, "b")
            tx.set_due(row.sid, 2**62)

        with backend.read() as reader:
            assert reader.get_session(row.sid) == msgspec.structs.replace(row, due=2**62)
            assert reader.get_session(other.sid) == other

    def test_drop_session_removes_row_details_and_records(self, backend: Backend) -> None:
        """Branches and entries stay, and so does everything of other sessions."""
        with backend.write() as tx:
            row, other = add(tx, "a", DETAILS), add(tx, "b", DETAILS)
            branch = tx.add_branch("u", row.tree, row.sid, 0, -1)
            tx.add_entries(branch, [an_entry(0)])
            for sid in (row.sid, other.sid):
                tx.put_record(sid, "var", "n", b"1")
            tx.drop_session(row.sid)

        with backend.read() as reader:
            assert reader.find_session("a") is None
            assert reader.get_session(row.sid) is None
            assert reader.get_details(row.sid) == Details()
            assert reader.get_record(row.sid, "var", "n") is None
            assert reader.get_entry(branch, 0) == an_entry(0)
            assert reader.list_sessions(query(tags=("a",))) == [Listed(other, DETAILS, None)]
            assert reader.get_record(other.sid, "var", "n") == b"1"

    def test_numbers_are_never_used_twice(self, backend: Backend) -> None:
        """Not those of sessions nor of branches, not even of the newest after it was dropped."""
        with backend.write() as tx:
            row = add(tx, "a")
            branch = tx.add_branch("u", row.tree, row.sid, 0, -1)
        with backend.write() as tx:
            tx.drop_session(row.sid)
            tx.drop_branch(branch)
        with backend.write() as tx:
            again = add(tx, "a")
            branch_again = tx.add_branch("u", again.tree, again.sid, 0, -1)

        assert again.sid != row.sid
        assert again.tree != row.tree
        assert branch_again != branch

    # -- sweeping

    def test_due_sessions_come_in_the_order_of_their_times(self, backend: Backend) -> None:
        """At or before a time, in the trash or not, ties by number; never those that are not due."""
        with backend.write() as tx:
            dues = {"a": 5, "b": 0, "c": 5, "d": 6, "e": NOT_DUE, "gone": 4}
            rows = {id: add(tx, id, due=due, deleted=9 if id == "gone" else None) for id, due in dues.items()}

            def due(before: int, limit: int = 99, **after: tuple[int, int]) -> list[str]:
                return [row.id for row in tx.due_sessions(before, limit, **after)]

            assert due(5) == ["b", "gone", "a", "c"]
            assert due(6) == due(NOT_DUE) == ["b", "gone", "a", "c", "d"]
            assert due(-1) == []
            assert due(5, 2) == ["b", "gone"]
            assert due(9, after=(5, rows["a"].sid)) == ["c", "d"]
            assert due(9, 1, after=(0, rows["b"].sid)) == ["gone"]
            assert tx.due_sessions(0, 1) == [rows["b"]]
            tx.set_due(rows["b"].sid, NOT_DUE)
            assert due(4) == ["gone"]

    def test_every_session_can_be_made_due(self, backend: Backend) -> None:
        """Also those in the trash, and those that were not due at all; nothing else of them changes."""
        with backend.write() as tx:
            rows = [add(tx, "a", due=NOT_DUE), add(tx, "b", due=0), add(tx, "c", due=5, deleted=START)]
            tx.set_due(None, 0)

            assert tx.due_sessions(0, 99) == [msgspec.structs.replace(row, due=0) for row in rows]

    def test_idle_sessions_are_the_list_from_its_end(self, backend: Backend) -> None:
        """Longest without activity first, ties by id descending; those in the trash are not among them."""
        with backend.write() as tx:
            times = {"d": 1, "b": 3, "ä": 2, "Z": 2, "a": 2, "\U0001f600": 2}
            rows = {id: add(tx, id, updated=updated) for id, updated in times.items()}
            add(tx, "gone", updated=1, deleted=1)

            def idle(limit: int = 99, after: tuple[int, str] | None = None) -> list[str]:
                listed = tx.list_sessions(query(limit=limit, after=after, oldest=True))
                return [one.row.id for one in listed]

            assert idle() == ["d", "\U0001f600", "ä", "a", "Z", "b"]
            assert idle(2) == ["d", "\U0001f600"]
            assert idle(after=(2, "ä")) == ["a", "Z", "b"]
            assert idle(1, after=(1, "d")) == ["\U0001f600"]
            assert idle(after=(3, "b")) == []
            listed = tx.list_sessions(query(limit=1, oldest=True))
            assert [one.row for one in listed] == [rows["d"]]

    def test_the_kept_size_counts_what_is_not_in_the_trash(self, backend: Backend) -> None:
        """How many sessions, and the size of their paths; what two share counts for each."""
        with backend.write() as tx:
            assert tx.totals(0, log=False).kept_size == 0
            add(tx, "a", head=a_tip(size=7))
            add(tx, "b", head=a_tip(size=7))
            add(tx, "c", head=a_tip(size=100), deleted=START)
        with backend.read() as reader:
            totals = reader.totals(0, log=False)
            assert (totals.sessions, totals.deleted, totals.kept_size) == (2, 1, 14)
            assert (totals.messages, totals.entries, totals.size) == (0, 0, 0)

    def test_totals_count_sessions_by_status(self, backend: Backend) -> None:
        """Those in the trash apart; active is what was touched since, created what was made since."""
        with backend.write() as tx:
            for id, status, created, updated in (
                ("a", PENDING, 1, 5),
                ("b", PENDING, 5, 6),
                ("c", RUNNING, 4, 4),
                ("d", FAILED, 6, 6),
            ):
                add(tx, id, status=status, created=created, updated=updated)
            add(tx, "gone", status=FAILED, created=9, updated=9, deleted=9)

            totals = tx.totals(5)

        assert (totals.sessions, totals.deleted) == (4, 1)
        assert totals.by_status == {PENDING: 2, RUNNING: 1, FAILED: 1}
        assert totals.active == {PENDING: 2, FAILED: 1}
        assert totals.created == 3
