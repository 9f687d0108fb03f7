"""Going on with a session in an agent: the command for it. The server starts nothing."""

from __future__ import annotations

from clew.backends.registry import default_path, masked_addresses
from clew.exporters.programs.resume_command import (
    clew_in,
    directory_of,
    own_command,
    own_file,
    resume_of,
    resumes_in,
)
from clew.exporters.programs.resuming import is_changed
from clew.server.access.shares import place_of
from clew.server.call import Call
from clew.server.routing import Routes
from clew.server.wire.resuming import AgentCommand, ResumeCommandQuery, ResumeView

routes = Routes()


@routes.get("/sessions/{id}/resume-command", answer=ResumeView)
def resume_command(call: Call, id: str, query: ResumeCommandQuery) -> ResumeView:
    """The command with which an agent goes on with a session, in the directory where it worked.

    A session that its agent still has, and that was not changed here, goes on in the agent's own file. For
    all else `clew resume` writes a copy for the agent.
    """
    session = call.session(id)
    place_of(session, call.point_of(session, query.at))  # 404: there is no such point
    info, clew = session.info, _clew(call)
    # Only the owner is told whether a file is there: a path in the metadata may be anything.
    is_gone = call.principal.kind == "owner" and own_command(info) is not None and own_file(info) is None
    found = resume_of(info, is_changed=bool(is_changed(session)), is_gone=is_gone, at=query.at, clew=clew)
    return ResumeView(
        command=found.command,
        directory=directory_of(info),
        note=found.note,
        agents=[
            AgentCommand(agent=agent, command=command)
            for agent, command in resumes_in(info, at=query.at, clew=clew).items()
        ],
    )


def _clew(call: Call) -> str:
    """What Clew is called by: with the store, unless it is the user's own, or the caller may not know it."""
    location = call.store.location
    is_told = call.principal.kind == "owner" and masked_addresses(location) == location
    return clew_in(location if is_told and location != str(default_path()) else None)
