-- sid, tree and branch are never used twice (AUTOINCREMENT): a handle on a purged session must not
-- come to stand for another one. Times are microseconds since 1970 UTC; -1 is "none".
-- The sections are those of the contract: sessions, log, records, streams, objects, texts.

-- Sessions ---------------------------------------------------------------------------------------

-- status: 0 pending, 1 running, 2 completed, 3 failed, 4 interrupted, 5 expired, 6 closed.
-- epoch and fence: the number and the secret of the latest lease. due: no sweep has anything to do
-- with the session before this time.
CREATE TABLE sessions (
  sid            INTEGER PRIMARY KEY AUTOINCREMENT,
  id             TEXT    NOT NULL,
  tree           INTEGER NOT NULL,
  created        INTEGER NOT NULL,
  updated        INTEGER NOT NULL,
  deleted        INTEGER,
  branch         INTEGER NOT NULL,  -- the head, with the counters of everything on its path
  position       INTEGER NOT NULL,
  digest         BLOB    NOT NULL,
  messages       INTEGER NOT NULL,
  turns          INTEGER NOT NULL,
  size           INTEGER NOT NULL,
  view_start     INTEGER NOT NULL,
  summary        INTEGER NOT NULL,
  last_user_turn INTEGER NOT NULL,
  grows          INTEGER NOT NULL,
  moves          INTEGER NOT NULL,
  undo           INTEGER NOT NULL,
  redo           INTEGER NOT NULL,
  forks          INTEGER NOT NULL,
  status         INTEGER NOT NULL,
  epoch          INTEGER NOT NULL,
  fence          INTEGER NOT NULL,
  due            INTEGER NOT NULL,
  has_title      INTEGER NOT NULL,
  title          TEXT,
  preview        TEXT    NOT NULL,
  workspace      TEXT
) STRICT;

CREATE UNIQUE INDEX sessions_id ON sessions (id) WHERE deleted IS NULL;
CREATE INDEX sessions_activity ON sessions (updated DESC, id) WHERE deleted IS NULL;
CREATE INDEX sessions_workspace ON sessions (workspace, updated DESC, id)
  WHERE deleted IS NULL AND workspace IS NOT NULL;
CREATE INDEX sessions_trash ON sessions (deleted DESC, id) WHERE deleted IS NOT NULL;
CREATE INDEX sessions_trashed_id ON sessions (id) WHERE deleted IS NOT NULL;
-- People type the beginning of what follows the colon: of claude-code:0b1c2d3e the 0b1c.
CREATE INDEX sessions_own ON sessions (substr(id, instr(id, ':') + 1)) WHERE instr(id, ':') > 0;
CREATE INDEX sessions_tree ON sessions (tree);
-- Appends move `updated` of pending and running sessions all the time: no index of theirs beyond
-- sessions_activity holds it. The running are few, and can be sorted; the pending are nearly all
-- where nobody uses runs, and sessions_activity finds them.
CREATE INDEX sessions_status ON sessions (status, updated DESC, id) WHERE deleted IS NULL AND status > 1;
CREATE INDEX sessions_running ON sessions (sid) WHERE status = 1 AND deleted IS NULL;
CREATE INDEX sessions_due ON sessions (due, sid) WHERE due < 4611686018427387904;

-- What seldom changes lies apart, so that an append never rewrites it.
CREATE TABLE details (
  sid   INTEGER PRIMARY KEY,
  value BLOB NOT NULL
) STRICT;

-- Tags (name '') and top-level metadata scalars (value as JSON text), to list by.
CREATE TABLE facets (
  name  TEXT    NOT NULL,
  value TEXT    NOT NULL,
  sid   INTEGER NOT NULL,
  PRIMARY KEY (name, value, sid)
) STRICT, WITHOUT ROWID;
CREATE INDEX facets_sid ON facets (sid);

-- Log --------------------------------------------------------------------------------------------

CREATE TABLE branches (
  branch INTEGER PRIMARY KEY AUTOINCREMENT,
  uid    TEXT    NOT NULL UNIQUE,
  tree   INTEGER NOT NULL,
  owner  INTEGER NOT NULL,
  parent INTEGER NOT NULL,
  fork   INTEGER NOT NULL
) STRICT;
CREATE INDEX branches_tree ON branches (tree);

-- key = branch << 32 | position: a history is a handful of sequential reads, and an id leads
-- straight to its row. The body is last, so that the small columns never cross overflow pages.
CREATE TABLE entries (
  key            INTEGER PRIMARY KEY,
  kind           INTEGER NOT NULL,
  time           INTEGER NOT NULL,
  flags          INTEGER NOT NULL,
  codec          INTEGER NOT NULL,
  checksum       INTEGER NOT NULL,
  digest         BLOB    NOT NULL,
  messages       INTEGER NOT NULL,
  turns          INTEGER NOT NULL,
  size           INTEGER NOT NULL,
  view_start     INTEGER NOT NULL,
  summary        INTEGER NOT NULL,
  last_user_turn INTEGER NOT NULL,
  epoch          INTEGER NOT NULL,  -- of the lease under which it was written
  body           BLOB    NOT NULL
) STRICT;

-- Records ----------------------------------------------------------------------------------------

-- Small named values beside a session (sid 0: beside the store).
CREATE TABLE records (
  sid   INTEGER NOT NULL,
  kind  TEXT    NOT NULL,
  name  TEXT    NOT NULL,
  value BLOB    NOT NULL,
  PRIMARY KEY (sid, kind, name)
) STRICT, WITHOUT ROWID;

-- Streams ----------------------------------------------------------------------------------------

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

-- Objects ----------------------------------------------------------------------------------------

-- The objects of snapshots of files, many to a pack. A pack is never changed. Its number is never used
-- twice (AUTOINCREMENT): a reader that knows where an object lies must not find another pack there.
CREATE TABLE packs (
  pack     INTEGER PRIMARY KEY AUTOINCREMENT,
  size     INTEGER NOT NULL,  -- of the raw content
  codec    INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  content  BLOB    NOT NULL
) STRICT;

-- key = pack << 32 | number in the pack: what lies in a pack is one stretch of the table.
CREATE TABLE objects (
  key    INTEGER PRIMARY KEY,
  offset INTEGER NOT NULL,
  size   INTEGER NOT NULL,
  name   BLOB    NOT NULL
) STRICT;

-- A name is a hash: its first bytes tell it from nearly all others, and make the index half as large.
CREATE INDEX objects_name ON objects (substr(name, 1, 8));

-- Texts ------------------------------------------------------------------------------------------

-- Finding messages by their words. No append writes here: a search first puts in what is missing.
-- All of it can be made again from the entries.

-- The order of the places is that of time: time / 64 microseconds << 17 | number within these.
-- So the newest hits are the first that the index of words gives, and the others need not be looked at.
CREATE TABLE search_entries (
  place INTEGER PRIMARY KEY,
  key   INTEGER NOT NULL    -- of the entry
) STRICT;
CREATE UNIQUE INDEX search_entries_key ON search_entries (key);

-- The rowid is the place. The words are made by Clew; this tokenizer only separates them.
-- `home` holds two: b and the number of the branch; r and that of the role (0 user, 1 assistant, 2 tool,
-- 3 system, 4 other).
CREATE VIRTUAL TABLE search_words USING fts5 (
  said, tool, home, content = '', contentless_delete = 1, tokenize = 'ascii'
);

-- How far a branch is searched, and what a session looked like when all of it was.
CREATE TABLE search_branches (
  branch   INTEGER PRIMARY KEY,
  position INTEGER NOT NULL
) STRICT;
CREATE TABLE search_sessions (
  sid      INTEGER PRIMARY KEY,
  updated  INTEGER NOT NULL,
  branch   INTEGER NOT NULL,
  position INTEGER NOT NULL,
  moves    INTEGER NOT NULL
) STRICT;
