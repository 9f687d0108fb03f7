-- The objects of snapshots of files, many to a pack. A pack is never changed. Its number is never used
-- twice (AUTOINCREMENT): whoever has read where an object lies must not find another pack there.
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
