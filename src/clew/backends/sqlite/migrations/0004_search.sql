-- Finding messages by their words. Nothing here is written by an append: whoever searches first puts in
-- what is missing. All of it can be made again from the entries.

-- The order of the places is that of time: time / 64 microseconds << 17 | number within these.
-- So the newest hits are the first that the index of words gives, and the others need not be looked at.
CREATE TABLE search_entries (
  place INTEGER PRIMARY KEY,
  key   INTEGER NOT NULL    -- of the entry
) STRICT;
CREATE UNIQUE INDEX search_entries_key ON search_entries (key);

-- The rowid is the place. The words are made by Clew (core/words.py): this tokenizer only parts them.
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
