-- Finding messages by their words. Nothing here is written by an append: whoever searches first puts in
-- what is missing. All of it can be made again from the entries.

-- Words are made by Clew (core/words.py), s before those that were said and t before those of tools; letters
-- beyond ASCII are _ and six hexadecimal digits, so that the encoding of the database does not matter.
-- A text with more words than a tsvector holds has several rows.
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

-- How far a branch is searched, and what a session looked like when all of it was.
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
