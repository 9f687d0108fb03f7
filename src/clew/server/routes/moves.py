"""Moves: rewind, undo, redo, compact, truncate, replace, clear, fork; trees, and where paths part.

Nothing is removed by them: what a session leaves stays reachable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeVar

from clew.core.conversation import moves
from clew.errors import InvalidError, InvalidQueryError
from clew.exporters.programs.resume_command import resume_of
from clew.model import Branch, Comparison, Entry, Head, Moved, SessionInfo, Tree
from clew.server.access.principal import bound
from clew.server.call import Answer, Call, head_tag
from clew.server.problems import Problem
from clew.server.routes.entries import check_batch
from clew.server.routes.handoff import clew_of
from clew.server.routes.sessions import described, discreet
from clew.server.routing import Routes
from clew.server.wire.entries import SummaryView
from clew.server.wire.moves import (
    CompactBody,
    CompareQuery,
    FollowBody,
    ForkBody,
    MovedView,
    MovePage,
    MovesQuery,
    ReplaceBody,
    Replaced,
    RewindBody,
    StepBody,
    SummaryBody,
    TreeView,
    TruncateBody,
)
from clew.server.wire.views import mark_of
from clew.session import Session

routes = Routes()

T = TypeVar("T")

MOST_REPLACED: Final = 50_000
"""Messages of a history that is replaced in one request."""


# -- back and forth


@routes.post("/sessions/{id}/rewind", answer=MovedView, slow=True)
def rewind(call: Call, id: str, body: RewindBody) -> Answer:
    """Go back to a checkpoint, an entry or a position.

    What came after stays reachable; undo goes back there. With `If-Match`, only if the head is the one that
    was read (412 `head_moved`). `files` restores the files of the checkpoint on the machine of the server, if
    that is allowed. `dry_run` changes nothing, and says what would be done. The owner is told that of files
    too where the server may not change them, if the request came from the same machine.
    """
    session = call.session(id)
    if body.files is not False:
        check_files(call, is_plan=body.dry_run and body.files is True)
        refuse_expectation(call)
        point = call.point(session, body.to)
        assert point is not None
        return _moved(
            call,
            session,
            session.rewind(point, files=body.files, on_conflict=body.on_conflict, dry_run=body.dry_run),
            is_plan=body.dry_run,
        )

    def work(inside: Session) -> Moved:
        point = call.point(inside, body.to)
        assert point is not None
        return inside.rewind(point, dry_run=body.dry_run)

    return _moved(call, session, call.change(session, work), is_plan=body.dry_run)


@routes.post("/sessions/{id}/follow", answer=MovedView)
def follow(call: Call, id: str, body: FollowBody) -> Answer:
    """Go to where the agent stands that the session was imported from.

    For a session that was rewound here while its agent went on: `agent_branch` of a session says what is new
    there. From then on the head moves with what the agent writes; undo goes back. 422 `invalid` if no agent's
    file was read into the session.
    """
    session = call.session(id)
    moved = call.change(session, lambda inside: inside.follow(dry_run=body.dry_run))
    return _moved(call, session, moved, is_plan=body.dry_run)


@routes.post("/sessions/{id}/undo", answer=MovedView, slow=True)
def undo(call: Call, id: str, body: StepBody) -> Answer:
    """Take back the last operation that was not an append.

    That is a rewind, clear, replace, truncate, compact or summary. 409 `nothing_to_undo` at the end. If files
    were restored with it, they come back too, which needs the scope files.
    """
    return _step(call, id, "undo", body)


@routes.post("/sessions/{id}/redo", answer=MovedView, slow=True)
def redo(call: Call, id: str, body: StepBody) -> Answer:
    """Take back the last undo."""
    return _step(call, id, "redo", body)


def _step(call: Call, id: str, what: Literal["undo", "redo"], body: StepBody) -> Answer:
    session = call.session(id)

    def work(inside: Session) -> Moved | None:
        """None: files move too, which cannot be part of a transaction."""
        with inside._look() as (reader, row):
            if moves.files_of(reader, row, what) is not None:
                return None
        return inside.undo(dry_run=body.dry_run) if what == "undo" else inside.redo(dry_run=body.dry_run)

    moved = call.change(session, work)
    if moved is None:
        check_files(call, is_plan=body.dry_run and body.root is None)
        refuse_expectation(call)
        step = session.undo if what == "undo" else session.redo
        moved = step(root=body.root, dry_run=body.dry_run)
    return _moved(call, session, moved, is_plan=body.dry_run)


def check_files(call: Call, *, is_plan: bool = False) -> None:
    """403: this server, or this token, does not let files of its machine be kept or restored. Directories are
    named by the caller: so it has to be one who could go there anyway. `is_plan`: nothing is changed, and no
    directory is named; so the owner may look where the server may change nothing."""
    may_look = is_plan and call.principal.kind == "owner"
    if not call.server.settings.allow_files and not may_look:
        raise Problem(
            403,
            "files_not_allowed",
            "This server does not change files",
            "it was started without `--allow files`",
            next="start it with `clew serve --allow files`; or use `clew restore` or `clew rewind` there",
        )
    if not call.asked.is_local:
        raise Problem(
            403,
            "not_local",
            "Files are changed from the same machine only",
            "the request came from another machine, or through a proxy",
            next="ask the server on its own machine, at 127.0.0.1",
        )
    if not call.principal.may("files"):
        raise Problem(403, "forbidden", "The token does not allow this", "this needs the scope `files`")
    if call.principal.is_bound:
        raise bound("it may not change files of this machine", "use a token without workspace and tags")


def refuse_expectation(call: Call) -> None:
    """Files are restored over some time: what If-Match says at its beginning need not hold at its end."""
    if call.expect is not None:
        raise InvalidError("If-Match cannot be kept while files are restored: take a lease instead")


@routes.get("/sessions/{id}/moves", answer=MovePage)
def list_moves(call: Call, id: str, query: MovesQuery) -> Answer:
    """The history of moves, newest first: every operation that was not an append, each undo and redo too.

    `next` says which of them the next undo, and the next redo, take back.
    """
    found = call.session(id).moves()
    if query.cursor is not None:
        if not (query.cursor.isascii() and query.cursor.isdecimal()):
            raise InvalidQueryError("cursor is not one that a page gave: begin without it")
        found = [one for one in found if one.number < int(query.cursor[:20])]
    page = found[: query.limit]
    cursor = str(page[-1].number) if len(found) > len(page) else None
    return Answer(value=MovePage(data=page, cursor=cursor), headers=call.next_page(cursor))


# -- what a model gets


@routes.post("/sessions/{id}/compact", answer=MovedView)
def compact(call: Call, id: str, body: CompactBody) -> Answer:
    """Let the context begin with a text, or with messages, instead of everything up to a point. With no
    messages at all, the model begins anew.

    Nothing is removed: `…/messages` still gives all. Tool calls that wait for their results stay in the
    context.
    """
    if (body.text is None) == (body.messages is None):
        raise InvalidError("a compaction needs `text`, or `messages`, and not both")
    check_batch(call, len(body.messages or ()))
    given = body.text if body.text is not None else [bytes(one) for one in body.messages or ()]
    return _marked(
        call, id, lambda one: one.compact(given, upto=call.point(one, body.upto), tokens=body.tokens)
    )


@routes.post("/sessions/{id}/truncate", answer=MovedView)
def truncate(call: Call, id: str, body: TruncateBody) -> Answer:
    """Let the context begin with the last messages.

    Where that would part a tool call from its result, more is kept. Without an `entry` in the answer there
    was nothing to cut.
    """
    return _marked(call, id, lambda session: session.truncate(body.keep_last))


@routes.get("/sessions/{id}/summary", answer=SummaryView)
def get_summary(call: Call, id: str) -> SummaryView:
    """The latest summary on the path."""
    return SummaryView(summary=call.session(id).summary)


@routes.put("/sessions/{id}/summary", answer=MovedView)
def set_summary(call: Call, id: str, body: SummaryBody) -> Answer:
    """Keep a summary of the conversation so far. It rewinds with the conversation."""
    return _marked(call, id, lambda session: session.set_summary(body.summary))


@routes.post("/sessions/{id}/replace", answer=Replaced)
def replace(call: Call, id: str, body: ReplaceBody) -> Answer:
    """Let the path hold these messages and no others.

    The beginning that the old history and the new one share is kept, so to save a growing list again and
    again costs no more than to append. Undo goes back to the old one.
    """
    check_batch(call, len(body.messages), MOST_REPLACED)
    messages = [bytes(message) for message in body.messages]

    def work(session: Session) -> tuple[list[Entry], Head]:
        written = session.replace(messages, user_turns=body.user_turns, strict=body.strict)
        return written, session.head

    written, head = call.change(call.session(id), work)
    return Answer(
        value=Replaced(data=[mark_of(entry) for entry in written], head=head),
        headers={"etag": head_tag(head)},
    )


@routes.post("/sessions/{id}/clear", answer=MovedView)
def clear(call: Call, id: str) -> Answer:
    """Start over with an empty path. Undo brings the history back."""
    session = call.session(id)
    return _moved(call, session, call.change(session, Session.clear))


# -- forks


@routes.post("/sessions/{id}/fork", answer=SessionInfo, status=201)
def fork(call: Call, id: str, body: ForkBody) -> Answer:
    """Make a session that shares every entry up to a point; it costs the same however many these are.

    Checkpoints on the way there, or all of them, variables and settings are copied; aliases and the star (the
    tag `starred`) are not. `If-Match` as for an append. The fork of a bound token has the workspace and the
    tags of the token, and no others.
    """

    def work(session: Session) -> SessionInfo:
        made = session.fork(body.id, at=call.point(session, body.at), checkpoints=body.checkpoints)
        settings = call.fork_settings(made.info)
        if settings:
            made.update(**settings)
        return made.info

    return described(call, discreet(call, lambda: call.change(call.session(id), work)), status=201)


@routes.get("/sessions/{id}/tree", answer=TreeView)
def get_tree(call: Call, id: str) -> TreeView:
    """Every branch, fork, checkpoint and head of a session and its relatives."""
    session = call.session(id)
    tree = session.tree()
    if call.principal.is_bound:
        tree = _own_part(call, session, tree)
    return TreeView(
        session=tree.session,
        branches=list(tree.branches),
        heads=dict(tree.heads),
        forks=dict(tree.forks),
        checkpoints=list(tree.checkpoints),
        children=dict(tree.children),
    )


def _own_part(call: Call, session: Session, tree: Tree) -> Tree:
    """The tree without sessions that are not the caller's to see."""
    seen = {id for id in (*tree.heads, *tree.children) if _is_seen(call, id)}
    reached = _reached(tree, seen)
    return Tree(
        session.id,
        tuple(_cut(branch, seen, reached[branch.id]) for branch in tree.branches if branch.id in reached),
        {id: head for id, head in tree.heads.items() if id in seen},
        {id: fork for id, fork in tree.forks.items() if id in seen and fork.session in seen},
        tuple(one for one in tree.checkpoints if one.session in seen),
        {id: parent for id, parent in tree.children.items() if id in seen and parent in {*seen, session.id}},
    )


def _reached(tree: Tree, seen: set[str]) -> dict[str, int]:
    """How far the sessions that are seen go along each branch: their own, and those that they come from."""
    found = {branch.id: branch.last for branch in tree.branches if branch.session in seen}
    for place in (tree.heads[id] for id in tree.heads if id in seen):
        found[place.branch] = max(place.position, found.get(place.branch, -1))
    for branch in reversed(tree.branches):  # each comes behind the one that it continues
        if branch.id in found and branch.parent is not None:
            parent = branch.parent
            found[parent.branch] = max(parent.position, found.get(parent.branch, -1))
    return found


def _cut(branch: Branch, seen: set[str], last: int) -> Branch:
    """A branch without the name of a session that is not to be seen, and without what only that one has."""
    if branch.session in seen:
        return branch
    return Branch(branch.id, None, branch.parent, branch.first, last)


def _is_seen(call: Call, id: str) -> bool:
    found = call.store.find(id)
    return found is not None and call.principal.sees(found.info)


@routes.get("/compare", answer=Comparison)
def compare(call: Call, query: CompareQuery) -> Comparison:
    """Where the paths of two sessions part, or two branches of one session.

    `common` is the last entry that both share, by its hash: copies and imports are recognised too. What each
    has behind it: `/sessions/ID/entries?at=ENTRY&after=POSITION`, with the entry of its `head` and the
    position of `common`. The files of both: `/diff?a=&b=` with the two `snapshot`.
    """
    a, b = call.session(query.a), call.session(query.b)
    return call.store.compare(
        a.id, b.id, a_at=call.point_of(a, query.a_at), b_at=call.point_of(b, query.b_at)
    )


# -- answers


def _marked(call: Call, id: str, work: Callable[[Session], Entry | None]) -> Answer:
    def both(session: Session) -> tuple[Entry | None, Head]:
        entry = work(session)
        return entry, session.head

    entry, head = call.change(call.session(id), both)
    shown = MovedView(head=head, entry=None if entry is None else mark_of(entry))
    return Answer(value=shown, etag=head_tag(head))


def _moved(call: Call, session: Session, moved: Head, *, is_plan: bool = False) -> Answer:
    head = Head(moved.branch, moved.position)
    info = session.info
    branch = info.agent_branch
    is_apart = branch is not None and branch.head != head
    place = "start" if head.position < 0 else str(head)
    shown = MovedView(
        head=head,
        files=moved.files if isinstance(moved, Moved) else None,
        agent_branch=branch if is_apart else None,
        resume=resume_of(info, is_changed=True, at=place, clew=clew_of(call)).command if is_apart else None,
    )
    # The tag of a plan would be taken for that of the head by whoever sends it back.
    return Answer(value=shown, etag=None if is_plan else head_tag(head))
