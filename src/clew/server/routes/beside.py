"""Beside the conversation: variables and documents. They do not rewind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from clew.server.access.guard import attachment
from clew.server.call import Answer, Call
from clew.server.problems import Problem
from clew.server.routing import Routes
from clew.server.wire.beside import (
    DocumentPage,
    DocumentsQuery,
    DocumentView,
    Variable,
    VariableBody,
    Variables,
)
from clew.session import Session

routes = Routes()

PAGE_BYTES: Final = 8 * 1024 * 1024
"""About so many bytes of contents are on a page,"""
READ_BYTES: Final = 1024 * 1024
"""and about so many are read at once, unless a document is larger."""
MOST_READ: Final = 64


# -- variables


@routes.get("/sessions/{id}/vars", answer=Variables)
def list_variables(call: Call, id: str) -> Variables:
    """All variables of a session, by name."""
    return Variables(call.session(id).vars())


@routes.get("/sessions/{id}/vars/{name}", answer=Variable)
def get_variable(call: Call, id: str, name: str) -> Variable:
    """One variable of a session."""
    value = call.session(id).get_var(name, msgspec.UNSET)
    if value is msgspec.UNSET:
        raise _no_variable(id, name)
    return Variable(name, value)


@routes.put("/sessions/{id}/vars/{name}", answer=Variable)
def set_variable(call: Call, id: str, name: str, body: VariableBody) -> Variable:
    """Keep a JSON value with a session, instead of the one before."""

    def work(session: Session) -> Variable:
        session.set_var(name, body.value)
        return Variable(name, session.get_var(name))

    return call.change(call.session(id), work)


@routes.delete("/sessions/{id}/vars/{name}", status=204)
def delete_variable(call: Call, id: str, name: str) -> Answer:
    """Take a variable away."""
    if not call.session(id).delete_var(name):
        raise _no_variable(id, name)
    return Answer(status=204)


def _no_variable(id: str, name: str) -> Problem:
    return Problem(
        404, "variable_not_found", "There is no such variable", f"session {id!r} has no variable {name!r}"
    )


# -- documents


@routes.get("/sessions/{id}/documents", answer=DocumentPage)
def list_documents(call: Call, id: str, query: DocumentsQuery) -> Answer:
    """The names and sizes of documents, in the order of their names; with `contents`, these too.

    A page has at most 200 documents and about 8 MB of contents.
    """
    session = call.session(id)
    found: list[DocumentView] = []
    cursor, room = None, PAGE_BYTES
    for name, content in _documents(session, query):
        if len(found) == query.limit or room <= 0:
            cursor = found[-1].name
            break
        given = content if query.contents else msgspec.UNSET
        found.append(DocumentView(name=name, bytes=len(content), content=given))
        room -= len(content) if query.contents else 0
    return Answer(value=DocumentPage(data=found, cursor=cursor), headers=call.next_page(cursor))


def _documents(session: Session, query: DocumentsQuery) -> Iterator[tuple[str, bytes]]:
    """A few at a time: any of them may be large."""
    after, count = query.cursor, 4
    while found := session.documents(query.prefix, after=after, limit=count, newest_first=query.newest_first):
        yield from found
        after = found[-1][0]
        is_much = sum(len(content) for _, content in found) > READ_BYTES
        count = max(1, count // 4) if is_much else min(MOST_READ, count * 2)


@routes.get("/sessions/{id}/documents/{name}", answer=bytes, media_type="application/octet-stream")
def get_document(call: Call, id: str, name: str) -> Answer:
    """The bytes of a document, to be saved."""
    content = call.session(id).get_document(name)
    if content is None:
        raise _no_document(id, name)
    return Answer(value=content, headers=attachment(name))


@routes.put("/sessions/{id}/documents/{name}", answer=DocumentView)
def set_document(call: Call, id: str, name: str, body: bytes) -> DocumentView:
    """Keep bytes under a name, instead of those before. Forks do not have them."""
    call.session(id).set_document(name, body)
    return DocumentView(name=name, bytes=len(body))


@routes.delete("/sessions/{id}/documents/{name}", status=204)
def delete_document(call: Call, id: str, name: str) -> Answer:
    """Take a document away."""
    if not call.session(id).delete_document(name):
        raise _no_document(id, name)
    return Answer(status=204)


def _no_document(id: str, name: str) -> Problem:
    return Problem(
        404, "document_not_found", "There is no such document", f"session {id!r} has no document {name!r}"
    )
