-- Versions 2 to 9 are left out: checkouts before the first release used some of them for other tables.

-- Which Clew made these tables.
ALTER TABLE {s}.meta ADD COLUMN clew text;
