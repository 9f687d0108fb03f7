"""What a hook runs: a small script for the shell, or an extension that the agent loads.

The script adds a millisecond or two to a turn. It looks for places of living watchers, and leaves if there
is none; else it hands its input to a process in the background and is done: no disk is waited for. Its input
is always read to the end, because an agent may take a closed pipe for a failure. Signals that an agent sends
when it ends are ignored: the last word would be lost.

Of the input, the first bytes are searched for five keys. A key is a name in quotes before a colon, behind a
brace, a comma or the beginning of a line. In a text of JSON a quotation mark has a backslash before it, and
no line begins; so nothing that a text holds looks like a key.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Final

MARK: Final = "Written by `clew hooks install`"
"""In every file that is ours."""
READ: Final = 16 * 1024
"""Bytes of the input that are searched. Agents write their own fields first."""
KEYS: Final = ("hook_event_name", "session_id", "transcript_path", "agent_transcript_path", "cwd")
ASKED: Final = '"files":true'

_SHELL: Final = r"""#!/bin/sh
# Wakes `clew watch` when @AGENT@ has done something: which session, not what.
# @MARK@. To remove it: clew hooks rm @AGENT@
umask 077
PATH=$PATH:/usr/bin:/bin
exec 3<&0 </dev/null >/dev/null 2>&1

each_watcher() {
  seen=:
  for base in "${XDG_RUNTIME_DIR:-}" "${XDG_STATE_HOME:-$HOME/.local/state}" @PLACES@; do
    case $base in /*) ;; *) continue ;; esac
    case $seen in *":$base:"*) continue ;; esac
    seen=$seen$base:
    for place in "$base"/clew/wake/[0-9]*.*; do
      watcher=${place##*/}
      kill -0 "${watcher%%.*}" && "$1"
    done
  done
}
is_there() { listens=yes; }
leave_word() {
  new=$place/.@AGENT@.$$
  printf '%s\n' "$said"@FILES@ >"$new" && mv -f "$new" "$place/@AGENT@.$$" || rm -f "$new"
}

listens=no
each_watcher is_there
if [ $listens = no ]; then
  command -v cat && exec cat <&3
  exit 0
fi
trap '' HUP INT TERM
{
  said=$(head -c @READ@ | LC_ALL=C grep -oE '@KEYS@')
  [ -n "$said" ] && each_watcher leave_word
  exec cat
} <&3 3<&- &
exit 0
"""

_KEYS: Final = r'(^|[{,])[[:space:]]*"(@NAMES@)"[[:space:]]*:[[:space:]]*"([^"\\]|\\.)*"'


def shell_script(agent: str, places: Sequence[str], *, files: bool) -> str:
    """For agents that run a command. `places`: where a wake directory may be, beside those that the
    environment of the hook names."""
    said = {
        "@AGENT@": agent,
        "@MARK@": MARK,
        "@PLACES@": " ".join(shlex.quote(place) for place in places),
        "@FILES@": f" {shlex.quote(ASKED)}" if files else "",
        "@READ@": str(READ),
        "@KEYS@": _KEYS.replace("@NAMES@", "|".join(KEYS)),
    }
    return _filled(_SHELL, said)


_SCRIPT: Final = r"""// Wakes `clew watch` when @AGENT@ has done something: which session, not what.
// @MARK@. To remove it: clew hooks rm @AGENT@
import { readdir, rename, unlink, writeFile } from "node:fs/promises"
import { homedir } from "node:os"
import { join } from "node:path"

const state = process.env.XDG_STATE_HOME || join(homedir(), ".local", "state")
const bases = new Set([process.env.XDG_RUNTIME_DIR || "", state, ...@PLACES@])
let count = 0

async function watchers() {
  const places = []
  for (const base of bases) {
    if (!base.startsWith("/")) continue
    const directory = join(base, "clew", "wake")
    for (const name of await readdir(directory).catch(() => [])) {
      const pid = /^(\d{1,10})\.[0-9a-f]+$/.exec(name)?.[1]
      try {
        if (pid && process.kill(Number(pid), 0)) places.push(join(directory, name))
      } catch {}
    }
  }
  return places
}

async function wake(event, session, transcript, cwd) {
  try {
    const said = { hook_event_name: event, session_id: session, transcript_path: transcript, cwd@FILES@ }
    const lines = Object.entries(said).filter(([, value]) => value)
    const text = lines.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}\n`).join("")
    const name = `@AGENT@.${process.pid}${String(++count % 1000000).padStart(6, "0")}`
    for (const place of await watchers()) {
      const file = join(place, `.${name}`)
      await writeFile(file, text, { mode: 0o600 })
        .then(() => rename(file, join(place, name)))
        .catch(() => unlink(file).catch(() => {}))
    }
  } catch {}
}
"""

_OPENCODE: Final = r"""
const data = process.env.XDG_DATA_HOME || join(homedir(), ".local", "share")
const database = join(data, "opencode", "opencode.db")

export const Clew = async ({ directory }) => ({
  event: async ({ event }) => {
    if (!@EVENTS@.includes(event.type)) return
    const about = event.properties ?? {}
    await wake(event.type, about.sessionID ?? about.info?.id, database, directory)
  },
})
"""

_PI: Final = r"""
export default function (pi) {
  for (const name of @EVENTS@) {
    pi.on(name, async (event, ctx) => {
      const session = ctx.sessionManager
      await wake(name, session.getSessionId(), session.getSessionFile(), ctx.cwd)
    })
  }
}
"""


def extension(agent: str, events: Sequence[str], places: Sequence[str], *, files: bool) -> str:
    """For agents that load a module of JavaScript: OpenCode and pi."""
    said = {
        "@AGENT@": agent,
        "@MARK@": MARK,
        "@PLACES@": json.dumps(list(places)),
        "@FILES@": ", files: true" if files else "",
        "@EVENTS@": json.dumps(list(events)),
    }
    return _filled(_SCRIPT + {"opencode": _OPENCODE, "pi": _PI}[agent], said)


def _filled(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def asks_for_files(text: str) -> bool:
    """Whether a script or an extension of ours, of this version or an older one, asks for snapshots."""
    return MARK in text and (ASKED in text or ", files: true }" in text)
