-- Versions 2 to 9 are left out: checkouts before the first release used some of them for other schemas.

-- Which Clew made this schema, in one row.
CREATE TABLE about (
  clew TEXT NOT NULL
) STRICT;

-- By itself FTS5 merges within whatever transaction writes words: dropping those of a few hundred entries made
-- one commit write 15 MB. Clew merges a few pages with each addition instead (MERGE_SOME in sql.py).
INSERT INTO search_words (search_words, rank) VALUES ('automerge', 0);
