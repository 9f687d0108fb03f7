"""Handing a session on: to an agent by a command, to people by a link. The server starts nothing."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import quote, urlsplit

from clew.backends.registry import default_path, masked_addresses
from clew.errors import InvalidError
from clew.exporters.programs.resume_command import (
    clew_in,
    directory_of,
    has_directory,
    own_command,
    own_file,
    resume_of,
    resumes_in,
)
from clew.exporters.programs.resuming import is_changed
from clew.model import utc
from clew.server.access.shares import Share, add_share, link, list_shares, place_of, remove_share
from clew.server.call import Answer, Call
from clew.server.process.sockets import is_loopback
from clew.server.routing import API, Routes
from clew.server.wire.handoff import (
    AgentCommand,
    MadeShare,
    NewShare,
    ResumeCommandQuery,
    ResumeView,
    ShareList,
    SharesQuery,
    ShareView,
)

routes = Routes()


# -- to an agent


@routes.get("/sessions/{id}/resume-command", answer=ResumeView)
def resume_command(call: Call, id: str, query: ResumeCommandQuery) -> ResumeView:
    """The command with which an agent goes on with a session, in the directory where it worked.

    A session that its agent still has, and that was not changed here, goes on in the agent's own file. For
    all else `clew resume` writes a copy for the agent. If the directory is gone, the command works in the
    one where it is run.
    """
    session = call.session(id)
    place_of(session, call.point_of(session, query.at))  # 404: there is no such point
    info, clew = session.info, clew_of(call)
    # Only the owner is told whether a file or a directory is there: a path of a session may be anything.
    is_owner = call.principal.kind == "owner"
    is_gone = is_owner and own_command(info) is not None and own_file(info) is None
    is_lost = is_owner and not has_directory(info)
    found = resume_of(
        info, is_changed=bool(is_changed(session)), is_gone=is_gone, is_lost=is_lost, at=query.at, clew=clew
    )
    return ResumeView(
        command=found.command,
        directory=directory_of(info),
        note=found.note,
        agents=[
            AgentCommand(agent=agent, command=command)
            for agent, command in resumes_in(info, is_lost=is_lost, at=query.at, clew=clew).items()
        ],
    )


def clew_of(call: Call) -> str:
    """What Clew is called by: with the store, unless it is the user's own, or the caller may not know it."""
    location = call.store.location
    is_told = call.principal.kind == "owner" and masked_addresses(location) == location
    return clew_in(location if is_told and location != str(default_path()) else None)


# -- to people: made, listed and removed by whoever has the scope admin


@routes.post("/shares", answer=MadeShare, scope="admin", status=201)
def new_share(call: Call, body: NewShare) -> Answer:
    """Make a link to one session, which everyone who has it can read.

    It shows the messages of one path, and nothing else: no other branch, fork, file, cost or session. The
    link is told here and never again.
    """
    if body.live and body.at is not None:
        raise InvalidError("a live share follows the session: leave out `at`")
    session = call.session(body.session)
    at = None if body.live else place_of(session, call.point_of(session, body.at))
    lasts = None if body.expires_in is None else timedelta(seconds=body.expires_in)
    share, token = add_share(call.store, session, at=at, redact=body.redact, lasts=lasts)
    return Answer(
        value=MadeShare(share=_shown(share), url=link(_address(call), token)),
        headers={"location": call.url(f"{API}/shares/{quote(share.id, safe='')}")},
    )


@routes.get("/shares", answer=ShareList, scope="admin")
def get_shares(call: Call, query: SharesQuery) -> ShareList:
    """List shares, oldest first, those that have ended too. Their links are not told again."""
    session = query.session
    if session is not None and (found := call.store.find(session)) is not None:
        session = found.id
    return ShareList(data=[_shown(share) for share in list_shares(call.store, session)])


@routes.delete("/shares/{id}", scope="admin", status=204)
def delete_share(call: Call, id: str) -> Answer:
    """Remove a share: its link shows nothing any more, in other processes of the server within seconds."""
    remove_share(call.store, id)
    call.server.sign_in.forget_one(id)
    return Answer(status=204)


def _address(call: Call) -> str:
    """Return the address at which people reach this server. The guard has checked the name in the request."""
    settings = call.server.settings
    if settings.public_url is not None:
        return settings.public_url
    if settings.outside is not None and is_loopback(urlsplit(f"//{call.asked.host}").hostname or ""):
        return settings.outside  # whoever gets the link is elsewhere
    return f"{'https' if call.asked.is_https else 'http'}://{call.asked.host}{call.root}"


def _shown(share: Share) -> ShareView:
    return ShareView(
        id=share.id,
        session=share.session,
        head=share.head,
        live=share.head is None,
        redact=share.redact,
        created_at=utc(share.created),
        expires_at=None if share.expires is None else utc(share.expires),
        expired=share.is_expired,
    )
