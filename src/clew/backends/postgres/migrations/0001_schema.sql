-- {s} is the schema; {by …} is nothing, or PARTITION BY HASH (…) when the store was made with partitions.
--
-- Every table of sessions is keyed by `home` first, the part of a number that all sessions and branches of
-- one tree have in common (ids.py): the rows of a tree are on one shard. There are no sequences, no triggers and
-- no foreign keys. Text that users choose is UTF-8 in bytea: it may hold U+0000, the encoding of the database
-- does not matter, and bytes compare as bytes.
-- Times are microseconds since 1970 UTC; -1 is "none".

CREATE TABLE {s}.meta (
  version    bigint NOT NULL,  -- how many migrations were applied
  partitions bigint NOT NULL,  -- of each large table; 0: none
  -- Stores that share a bucket must not remove each other's objects: each has a folder of this name.
  store      text   NOT NULL DEFAULT gen_random_uuid()::text
);

-- sessions

-- The sessions that are not in the trash, by id. The only table of sessions that is not spread by `home`.
CREATE TABLE {s}.names (
  id  bytea  NOT NULL PRIMARY KEY,
  sid bigint NOT NULL
) {by id};

CREATE TABLE {s}.sessions (
  home           bigint   NOT NULL,
  sid            bigint   NOT NULL,
  version        bigint   NOT NULL,  -- another number with every write to the row
  made           bigint   NOT NULL,  -- the order in which the sessions of a tree were stored
  tree           bigint   NOT NULL,
  created        bigint   NOT NULL,
  updated        bigint   NOT NULL,
  deleted        bigint,
  branch         bigint   NOT NULL,  -- the head, with the counters of everything on its path
  position       bigint   NOT NULL,
  messages       bigint   NOT NULL,
  turns          bigint   NOT NULL,
  size           bigint   NOT NULL,
  view_start     bigint   NOT NULL,
  summary        bigint   NOT NULL,
  last_user_turn bigint   NOT NULL,
  moves          bigint   NOT NULL,
  undo           bigint   NOT NULL,
  redo           bigint   NOT NULL,
  forks          bigint   NOT NULL,
  epoch          bigint   NOT NULL,
  fence          bigint   NOT NULL,
  due            bigint   NOT NULL,
  status         smallint NOT NULL,
  grows          boolean  NOT NULL,
  has_title      boolean  NOT NULL,
  digest         bytea    NOT NULL,
  id             bytea    NOT NULL,
  title          bytea,
  preview        bytea    NOT NULL,
  workspace      bytea,
  bucket         bigint   GENERATED ALWAYS AS (updated >> 26) STORED,  -- the minute, more or less
  PRIMARY KEY (home, sid)
) {by home};

-- By the minute, not by the time: most appends then change no column that an index holds, and PostgreSQL
-- need not write to any index (a heap-only tuple). Within a minute a listing sorts.
CREATE INDEX sessions_activity ON {s}.sessions (bucket) WHERE deleted IS NULL;
CREATE INDEX sessions_trash ON {s}.sessions (deleted DESC, id) WHERE deleted IS NOT NULL;
CREATE INDEX sessions_trashed_id ON {s}.sessions (id) WHERE deleted IS NOT NULL;
-- People type the beginning of what follows the colon (3a): of claude-code:0b1c2d3e the 0b1c.
CREATE INDEX sessions_own ON {s}.sessions (substr(id, "position"(id, '\x3a'::bytea) + 1))
  WHERE "position"(id, '\x3a'::bytea) > 0;
-- By its hash: a path may be longer than what an index row holds.
CREATE INDEX sessions_workspace ON {s}.sessions (md5(workspace), bucket)
  WHERE deleted IS NULL AND workspace IS NOT NULL;
CREATE INDEX sessions_status ON {s}.sessions (status, bucket) WHERE deleted IS NULL AND status > 1;
CREATE INDEX sessions_running ON {s}.sessions (sid) WHERE status = 1 AND deleted IS NULL;
CREATE INDEX sessions_due ON {s}.sessions (due, sid) WHERE due < 4611686018427387904;

-- Settings change seldom. They have a table of their own, so that an append never rewrites them.
CREATE TABLE {s}.details (
  home  bigint NOT NULL,
  sid   bigint NOT NULL,
  value bytea  NOT NULL,
  PRIMARY KEY (home, sid)
) {by home};

-- Tags (name empty) and top-level metadata scalars (value as JSON text), to list by; found by a hash of both.
CREATE TABLE {s}.facets (
  home  bigint NOT NULL,
  sid   bigint NOT NULL,
  hash  bigint NOT NULL,
  name  bytea  NOT NULL,
  value bytea  NOT NULL
) {by home};
CREATE INDEX facets_hash ON {s}.facets (hash, sid);
CREATE INDEX facets_session ON {s}.facets (home, sid);

-- log

CREATE TABLE {s}.branches (
  home   bigint NOT NULL,
  branch bigint NOT NULL,
  made   bigint NOT NULL,
  tree   bigint NOT NULL,
  owner  bigint NOT NULL,
  parent bigint NOT NULL,
  fork   bigint NOT NULL,
  uid    text   NOT NULL,
  PRIMARY KEY (home, branch)
) {by home};
CREATE INDEX branches_uid ON {s}.branches (uid);

CREATE TABLE {s}.entries (
  home           bigint   NOT NULL,
  branch         bigint   NOT NULL,
  position       bigint   NOT NULL,
  time           bigint   NOT NULL,
  flags          bigint   NOT NULL,
  checksum       bigint   NOT NULL,
  messages       bigint   NOT NULL,
  turns          bigint   NOT NULL,
  size           bigint   NOT NULL,
  view_start     bigint   NOT NULL,
  summary        bigint   NOT NULL,
  last_user_turn bigint   NOT NULL,
  epoch          bigint   NOT NULL,
  kind           smallint NOT NULL,
  codec          smallint NOT NULL,
  digest         bytea    NOT NULL,
  body           bytea    NOT NULL,
  PRIMARY KEY (home, branch, position)
) {by home};

-- records

-- Small named values beside a session (sid 0: of the whole store).
CREATE TABLE {s}.records (
  home  bigint NOT NULL,
  sid   bigint NOT NULL,
  kind  text   NOT NULL,
  name  bytea  NOT NULL,
  value bytea  NOT NULL,
  PRIMARY KEY (home, sid, kind, name)
) {by home};

-- streams

CREATE TABLE {s}.events (
  home   bigint NOT NULL,
  sid    bigint NOT NULL,
  number bigint NOT NULL,
  time   bigint NOT NULL,
  stream bytea  NOT NULL,
  type   bytea  NOT NULL,
  id     bytea,
  data   bytea  NOT NULL,
  PRIMARY KEY (home, sid, number)
) {by home};
CREATE UNIQUE INDEX events_id ON {s}.events (home, sid, id) WHERE id IS NOT NULL;
CREATE INDEX events_stream ON {s}.events (home, sid, stream, number) WHERE stream <> '';

-- One model call, with the sums over all calls of the session up to it.
-- Money is in millionths of a millionth.
CREATE TABLE {s}.usage (
  home            bigint NOT NULL,
  sid             bigint NOT NULL,
  number          bigint NOT NULL,
  time            bigint NOT NULL,
  id              bytea,
  model           bytea,
  vendor          bytea,
  endpoint        bytea,
  source          bytea,
  branch          bigint NOT NULL,
  position        bigint NOT NULL,
  input           bigint NOT NULL,
  output          bigint NOT NULL,
  cache_read      bigint NOT NULL,
  cache_write     bigint NOT NULL,
  reasoning       bigint NOT NULL,
  cost            bigint,
  priced_by       bytea,
  all_input       bigint NOT NULL,
  all_output      bigint NOT NULL,
  all_cache_read  bigint NOT NULL,
  all_cache_write bigint NOT NULL,
  all_reasoning   bigint NOT NULL,
  all_cost        bigint NOT NULL,
  all_unpriced    bigint NOT NULL,
  all_estimated   bigint NOT NULL,
  PRIMARY KEY (home, sid, number)
) {by home};
CREATE UNIQUE INDEX usage_id ON {s}.usage (home, sid, id) WHERE id IS NOT NULL;

-- objects

-- The objects of snapshots of files, many to a pack. A pack never changes; its number is never used twice.
-- A large pack may be in an object store (?blobs=…): then the row has the name of the object, not the content.
CREATE TABLE {s}.packs (
  pack     bigint   NOT NULL PRIMARY KEY,
  size     bigint   NOT NULL,  -- of the raw content
  checksum bigint   NOT NULL,
  codec    smallint NOT NULL,
  content  bytea,
  stored   bigint,             -- the size of the object
  blob     bytea               -- BLAKE3 of the object, which is its name
) {by pack};
ALTER TABLE {s}.packs ALTER COLUMN content SET STORAGE EXTERNAL;  -- it is compressed already
CREATE INDEX packs_blob ON {s}.packs (blob) WHERE blob IS NOT NULL;

CREATE TABLE {s}.objects (
  name  bytea  NOT NULL PRIMARY KEY,
  pack  bigint NOT NULL,
  start bigint NOT NULL,
  size  bigint NOT NULL
) {by name};
CREATE INDEX objects_pack ON {s}.objects (pack);

-- Objects that perhaps no row names: noted before an object is put, and before a row that names one is dropped.
-- A sweep removes noted objects that no row names and no transaction holds.
CREATE TABLE {s}.strays (
  blob bytea NOT NULL PRIMARY KEY
);

-- texts

-- Words to search by. Appends write nothing here: a search first adds what is missing. All of it can be made
-- again from the entries.
-- Clew makes the words (core/messages/words.py): s before words that were said, t before words of tools; letters
-- beyond ASCII are _ and six hexadecimal digits, so that the encoding of the database does not matter. A text
-- with more words than a tsvector holds has several rows.
CREATE TABLE {s}.texts (
  home     bigint   NOT NULL,
  branch   bigint   NOT NULL,
  position bigint   NOT NULL,
  slice    bigint   NOT NULL,
  slices   bigint   NOT NULL,
  time     bigint   NOT NULL,
  role     smallint NOT NULL,  -- 0 user, 1 assistant, 2 tool, 3 system, 4 other
  words    tsvector NOT NULL,
  PRIMARY KEY (home, branch, position, slice)
);
CREATE INDEX texts_words ON {s}.texts USING gin (words) WHERE slices = 1;
CREATE INDEX texts_sliced ON {s}.texts USING gin (words) WHERE slices > 1;

-- Up to where a branch can be searched, and the state of a session when all of it could be.
CREATE TABLE {s}.texts_branches (
  home     bigint NOT NULL,
  branch   bigint NOT NULL,
  position bigint NOT NULL,
  PRIMARY KEY (home, branch)
);
CREATE TABLE {s}.texts_sessions (
  home     bigint NOT NULL,
  sid      bigint NOT NULL,
  updated  bigint NOT NULL,
  branch   bigint NOT NULL,
  position bigint NOT NULL,
  moves    bigint NOT NULL,
  PRIMARY KEY (home, sid)
);
