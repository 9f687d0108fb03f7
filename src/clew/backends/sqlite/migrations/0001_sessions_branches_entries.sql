-- sid, tree and branch are never used twice (AUTOINCREMENT): a handle on a purged session must not
-- come to stand for another one. Times are microseconds since 1970 UTC; -1 is "none".

CREATE TABLE sessions (
  sid       INTEGER PRIMARY KEY AUTOINCREMENT,
  id        TEXT    NOT NULL,
  tree      INTEGER NOT NULL,
  created   INTEGER NOT NULL,
  updated   INTEGER NOT NULL,
  deleted   INTEGER,
  branch    INTEGER NOT NULL,  -- the head, with the counters of everything on its path
  position  INTEGER NOT NULL,
  digest    BLOB    NOT NULL,
  messages  INTEGER NOT NULL,
  turns     INTEGER NOT NULL,
  size      INTEGER NOT NULL,
  cut       INTEGER NOT NULL,
  summary   INTEGER NOT NULL,
  asked     INTEGER NOT NULL,
  grows     INTEGER NOT NULL,
  moves     INTEGER NOT NULL,
  undo      INTEGER NOT NULL,
  redo      INTEGER NOT NULL,
  forks     INTEGER NOT NULL,
  titled    INTEGER NOT NULL,
  title     TEXT,
  preview   TEXT    NOT NULL,
  workspace TEXT
) STRICT;

CREATE UNIQUE INDEX sessions_id ON sessions (id) WHERE deleted IS NULL;
CREATE INDEX sessions_activity ON sessions (updated DESC, id) WHERE deleted IS NULL;
CREATE INDEX sessions_workspace ON sessions (workspace, updated DESC, id)
  WHERE deleted IS NULL AND workspace IS NOT NULL;
CREATE INDEX sessions_trash ON sessions (deleted DESC, id) WHERE deleted IS NOT NULL;
CREATE INDEX sessions_tree ON sessions (tree);

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
  key      INTEGER PRIMARY KEY,
  kind     INTEGER NOT NULL,
  time     INTEGER NOT NULL,
  flags    INTEGER NOT NULL,
  codec    INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  digest   BLOB    NOT NULL,
  messages INTEGER NOT NULL,
  turns    INTEGER NOT NULL,
  size     INTEGER NOT NULL,
  cut      INTEGER NOT NULL,
  summary  INTEGER NOT NULL,
  asked    INTEGER NOT NULL,
  body     BLOB    NOT NULL
) STRICT;

-- Small named values beside a session (sid 0: beside the store).
CREATE TABLE records (
  sid   INTEGER NOT NULL,
  kind  TEXT    NOT NULL,
  name  TEXT    NOT NULL,
  value BLOB    NOT NULL,
  PRIMARY KEY (sid, kind, name)
) STRICT, WITHOUT ROWID;
