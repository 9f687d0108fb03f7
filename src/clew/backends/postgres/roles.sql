-- A role for applications, which may use the tables of a store and change nothing else.
-- Run it as the owner of the schema, after the store was opened once; write your own names for
-- clew (the schema) and clew_app (the role, which exists already).

GRANT USAGE ON SCHEMA clew TO clew_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA clew TO clew_app;
ALTER DEFAULT PRIVILEGES IN SCHEMA clew GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO clew_app;
