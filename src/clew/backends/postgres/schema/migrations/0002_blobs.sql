-- Packs may lie in an object store (?blobs=…): then the row has the name of the object instead of the content.

ALTER TABLE {s}.packs ALTER COLUMN content DROP NOT NULL;
ALTER TABLE {s}.packs ADD COLUMN stored bigint;  -- the size of the object
ALTER TABLE {s}.packs ADD COLUMN blob bytea;     -- BLAKE3 of the object, which is its name
CREATE INDEX packs_blob ON {s}.packs (blob) WHERE blob IS NOT NULL;

-- Objects that may be there without a row that names them: noted before one is put, and before a row is
-- dropped. Whoever finds one here that nothing names, and that nobody has in hand, removes it.
CREATE TABLE {s}.strays (
  blob bytea NOT NULL PRIMARY KEY
);

-- Stores that share a bucket must not remove each other's objects: each has a folder of its own.
ALTER TABLE {s}.meta ADD COLUMN store text NOT NULL DEFAULT gen_random_uuid()::text;
