-- A session has a status (0 pending, 1 running, 2 completed, 3 failed, 4 interrupted, 5 expired,
-- 6 closed), the number and the secret of its latest lease, and a time before which no sweep has
-- anything to do with it. An entry knows under which lease it was written.

ALTER TABLE sessions ADD COLUMN status INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN epoch  INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN fence  INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN due    INTEGER NOT NULL DEFAULT 0;
ALTER TABLE entries  ADD COLUMN epoch  INTEGER NOT NULL DEFAULT 0;

-- Appends move `updated` of pending and running sessions all the time: no index of theirs beyond
-- sessions_activity holds it. The running are few, and can be sorted; the pending are nearly all
-- where nobody uses runs, and sessions_activity finds them.
CREATE INDEX sessions_status ON sessions (status, updated DESC, id) WHERE deleted IS NULL AND status > 1;
CREATE INDEX sessions_running ON sessions (sid) WHERE status = 1 AND deleted IS NULL;
CREATE INDEX sessions_due ON sessions (due, sid) WHERE due < 4611686018427387904;

-- key = sid << 32 | number, as for entries; data is last for the same reason.
CREATE TABLE events (
  key    INTEGER PRIMARY KEY,
  time   INTEGER NOT NULL,
  stream TEXT    NOT NULL,
  type   TEXT    NOT NULL,
  id     TEXT,
  data   BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_id ON events (key >> 32, id) WHERE id IS NOT NULL;
CREATE INDEX events_stream ON events (key >> 32, stream) WHERE stream <> '';

-- One model call, with the sums over all calls of the session up to it.
-- Money is in millionths of a millionth.
CREATE TABLE usage (
  key             INTEGER PRIMARY KEY,
  time            INTEGER NOT NULL,
  id              TEXT,
  model           TEXT,
  vendor          TEXT,
  endpoint        TEXT,
  source          TEXT,
  branch          INTEGER NOT NULL,
  position        INTEGER NOT NULL,
  input           INTEGER NOT NULL,
  output          INTEGER NOT NULL,
  cache_read      INTEGER NOT NULL,
  cache_write     INTEGER NOT NULL,
  reasoning       INTEGER NOT NULL,
  cost            INTEGER,
  priced_by       TEXT,
  all_input       INTEGER NOT NULL,
  all_output      INTEGER NOT NULL,
  all_cache_read  INTEGER NOT NULL,
  all_cache_write INTEGER NOT NULL,
  all_reasoning   INTEGER NOT NULL,
  all_cost        INTEGER NOT NULL,
  all_unpriced    INTEGER NOT NULL,
  all_estimated   INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX usage_id ON usage (key >> 32, id) WHERE id IS NOT NULL;
