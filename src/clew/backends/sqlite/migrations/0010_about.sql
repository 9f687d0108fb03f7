-- Versions 2 to 9 are left out: checkouts before the first release used some of them for other schemas.

-- Which Clew made this schema, in one row.
CREATE TABLE about (
  clew TEXT NOT NULL
) STRICT;
