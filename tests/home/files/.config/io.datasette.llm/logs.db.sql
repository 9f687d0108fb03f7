BEGIN TRANSACTION;
CREATE TABLE "_llm_migrations" (
   "name" TEXT PRIMARY KEY,
   "applied_at" TEXT
);
INSERT INTO "_llm_migrations" VALUES('m001_initial','2026-10-17 11:38:45.437887+00:00');
INSERT INTO "_llm_migrations" VALUES('m002_id_primary_key','2026-10-17 11:38:45.441450+00:00');
INSERT INTO "_llm_migrations" VALUES('m003_chat_id_foreign_key','2026-10-17 11:38:45.448709+00:00');
INSERT INTO "_llm_migrations" VALUES('m004_column_order','2026-10-17 11:38:45.452199+00:00');
INSERT INTO "_llm_migrations" VALUES('m004_drop_provider','2026-10-17 11:38:45.455682+00:00');
INSERT INTO "_llm_migrations" VALUES('m005_debug','2026-10-17 11:38:45.458184+00:00');
INSERT INTO "_llm_migrations" VALUES('m006_new_logs_table','2026-10-17 11:38:45.465388+00:00');
INSERT INTO "_llm_migrations" VALUES('m007_finish_logs_table','2026-10-17 11:38:45.470162+00:00');
INSERT INTO "_llm_migrations" VALUES('m008_reply_to_id_foreign_key','2026-10-17 11:38:45.475328+00:00');
INSERT INTO "_llm_migrations" VALUES('m008_fix_column_order_in_logs','2026-10-17 11:38:45.479299+00:00');
INSERT INTO "_llm_migrations" VALUES('m009_delete_logs_table_if_empty','2026-10-17 11:38:45.480967+00:00');
INSERT INTO "_llm_migrations" VALUES('m010_create_new_log_tables','2026-10-17 11:38:45.483742+00:00');
INSERT INTO "_llm_migrations" VALUES('m011_fts_for_responses','2026-10-17 11:38:45.488204+00:00');
INSERT INTO "_llm_migrations" VALUES('m012_attachments_tables','2026-10-17 11:38:45.491264+00:00');
INSERT INTO "_llm_migrations" VALUES('m013_usage','2026-10-17 11:38:45.494731+00:00');
INSERT INTO "_llm_migrations" VALUES('m014_schemas','2026-10-17 11:38:45.512714+00:00');
INSERT INTO "_llm_migrations" VALUES('m015_fragments_tables','2026-10-17 11:38:45.519381+00:00');
INSERT INTO "_llm_migrations" VALUES('m016_fragments_table_pks','2026-10-17 11:38:45.526677+00:00');
INSERT INTO "_llm_migrations" VALUES('m017_tools_tables','2026-10-17 11:38:45.532672+00:00');
INSERT INTO "_llm_migrations" VALUES('m017_tools_plugin','2026-10-17 11:38:45.534487+00:00');
INSERT INTO "_llm_migrations" VALUES('m018_tool_instances','2026-10-17 11:38:45.543965+00:00');
INSERT INTO "_llm_migrations" VALUES('m019_resolved_model','2026-10-17 11:38:45.546003+00:00');
INSERT INTO "_llm_migrations" VALUES('m020_tool_results_attachments','2026-10-17 11:38:45.548132+00:00');
INSERT INTO "_llm_migrations" VALUES('m021_tool_results_exception','2026-10-17 11:38:45.550068+00:00');
INSERT INTO "_llm_migrations" VALUES('m022_response_reasoning','2026-10-17 11:38:45.551917+00:00');
INSERT INTO "_llm_migrations" VALUES('m023_message_store','2026-10-17 11:38:45.575154+00:00');
INSERT INTO "_llm_migrations" VALUES('m024_tool_instance_references','2026-10-17 11:38:45.604748+00:00');
INSERT INTO "_llm_migrations" VALUES('m025_turn_tools_instance_backfill','2026-10-17 11:38:45.605899+00:00');
INSERT INTO "_llm_migrations" VALUES('m026_message_tree_view','2026-10-17 11:38:45.607970+00:00');
INSERT INTO "_llm_migrations" VALUES('m027_turns_response_json','2026-10-17 11:38:45.610431+00:00');
CREATE TABLE "attachments" (
   "id" TEXT PRIMARY KEY,
   "type" TEXT,
   "path" TEXT,
   "url" TEXT,
   "content" BLOB
);
CREATE TABLE "conversations" (
   "id" TEXT PRIMARY KEY,
   "name" TEXT,
   "model" TEXT
);
CREATE TABLE "fragment_aliases" (
   "alias" TEXT PRIMARY KEY,
   "fragment_id" INTEGER REFERENCES "fragments"("id")
);
CREATE TABLE "fragments" (
   "id" INTEGER PRIMARY KEY,
   "hash" TEXT,
   "content" TEXT,
   "datetime_utc" TEXT,
   "source" TEXT
);
CREATE TABLE "messages" (
   "hash" TEXT PRIMARY KEY,
   "parent_hash" TEXT REFERENCES "messages"("hash"),
   "role" TEXT,
   "provider_metadata" TEXT
);
INSERT INTO "messages" VALUES('b2:9d852a5f32f94949766f8d66368146c7',NULL,'user',NULL);
INSERT INTO "messages" VALUES('b2:8c327a06e01608d244f5ce24aa49cdf8','b2:9d852a5f32f94949766f8d66368146c7','assistant',NULL);
INSERT INTO "messages" VALUES('b2:4ebf15567a72f6d1eeaedccfee6bce1d','b2:8c327a06e01608d244f5ce24aa49cdf8','user',NULL);
INSERT INTO "messages" VALUES('b2:198b82a01990bd76d41eeb1bb8ea515f','b2:4ebf15567a72f6d1eeaedccfee6bce1d','assistant',NULL);
CREATE TABLE "part_attachments" (
   "part_id" INTEGER REFERENCES "parts"("id"),
   "attachment_id" TEXT REFERENCES "attachments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("part_id", "attachment_id", "order")
);
CREATE TABLE "part_fragments" (
   "part_id" INTEGER REFERENCES "parts"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("part_id", "fragment_id", "order")
);
CREATE TABLE "parts" (
   "id" INTEGER PRIMARY KEY,
   "message_hash" TEXT REFERENCES "messages"("hash"),
   "position" INTEGER,
   "type" TEXT,
   "tool_name" TEXT,
   "text" TEXT,
   "payload" TEXT
);
INSERT INTO "parts" VALUES(1,'b2:9d852a5f32f94949766f8d66368146c7',0,'text',NULL,'Suggest a name for a function that says whether an account is locked',NULL);
INSERT INTO "parts" VALUES(2,'b2:8c327a06e01608d244f5ce24aa49cdf8',0,'text',NULL,'`is_locked`: short, and it reads well in an `if`.',NULL);
INSERT INTO "parts" VALUES(3,'b2:4ebf15567a72f6d1eeaedccfee6bce1d',0,'text',NULL,'And for the one that counts a wrong password?',NULL);
INSERT INTO "parts" VALUES(4,'b2:198b82a01990bd76d41eeb1bb8ea515f',0,'text',NULL,'`failed`, next to `succeeded`: `attempts.failed(user)` reads like a sentence.',NULL);
CREATE TABLE "prompt_attachments" (
   "response_id" TEXT REFERENCES "responses"("id"),
   "attachment_id" TEXT REFERENCES "attachments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("response_id", "attachment_id")
);
CREATE TABLE "prompt_fragments" (
   "response_id" TEXT REFERENCES "responses"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("response_id", "fragment_id", "order")
);
CREATE TABLE "responses" (
   "id" TEXT PRIMARY KEY,
   "model" TEXT,
   "prompt" TEXT,
   "system" TEXT,
   "prompt_json" TEXT,
   "options_json" TEXT,
   "response" TEXT,
   "response_json" TEXT,
   "conversation_id" TEXT REFERENCES "conversations"("id"),
   "duration_ms" INTEGER,
   "datetime_utc" TEXT,
   "input_tokens" INTEGER,
   "output_tokens" INTEGER,
   "token_details" TEXT,
   "schema_id" TEXT REFERENCES "schemas"("id")
, "resolved_model" TEXT, "reasoning" TEXT);
CREATE TABLE "schemas" (
   "id" TEXT PRIMARY KEY,
   "content" TEXT
);
CREATE TABLE "system_fragments" (
   "response_id" TEXT REFERENCES "responses"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("response_id", "fragment_id", "order")
);
CREATE TABLE "threads" (
   "id" TEXT PRIMARY KEY,
   "name" TEXT,
   "tip_message_hash" TEXT REFERENCES "messages"("hash"),
   "forked_from" TEXT REFERENCES "threads"("id"),
   "datetime_utc" TEXT
);
INSERT INTO "threads" VALUES('01m7j2e1zpyw09s3k234gd1w2p','Suggest a name for a function t…','b2:198b82a01990bd76d41eeb1bb8ea515f',NULL,'2026-10-17 11:38:45.714319+00:00');
CREATE TABLE "tool_calls" (
   "id" INTEGER PRIMARY KEY,
   "response_id" TEXT REFERENCES "responses"("id"),
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "name" TEXT,
   "arguments" TEXT,
   "tool_call_id" TEXT
);
CREATE TABLE "tool_instances" (
   "id" INTEGER PRIMARY KEY,
   "plugin" TEXT,
   "name" TEXT,
   "arguments" TEXT
);
CREATE TABLE "tool_instantiations" (
   "turn_id" TEXT REFERENCES "turns"("id"),
   "tool_call_id" TEXT,
   "instance_id" INTEGER REFERENCES "tool_instances"("id"),
   PRIMARY KEY ("turn_id", "tool_call_id")
);
CREATE TABLE "tool_responses" (
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "response_id" TEXT REFERENCES "responses"("id"),
   PRIMARY KEY ("tool_id", "response_id")
);
CREATE TABLE "tool_results" (
   "id" INTEGER PRIMARY KEY,
   "response_id" TEXT REFERENCES "responses"("id"),
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "name" TEXT,
   "output" TEXT,
   "tool_call_id" TEXT,
   "instance_id" INTEGER REFERENCES "tool_instances"("id")
, "exception" TEXT);
CREATE TABLE "tool_results_attachments" (
   "tool_result_id" INTEGER REFERENCES "tool_results"("id"),
   "attachment_id" TEXT REFERENCES "attachments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("tool_result_id", "attachment_id")
);
CREATE TABLE "tools" (
   "id" INTEGER PRIMARY KEY,
   "hash" TEXT,
   "name" TEXT,
   "description" TEXT,
   "input_schema" TEXT
, "plugin" TEXT);
CREATE TABLE "turn_fragments" (
   "turn_id" TEXT REFERENCES "turns"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   "kind" TEXT,
   PRIMARY KEY ("turn_id", "fragment_id", "kind", "order")
);
CREATE TABLE "turn_search" (
   "id" INTEGER PRIMARY KEY,
   "turn_id" TEXT REFERENCES "turns"("id"),
   "prompt" TEXT,
   "response" TEXT
);
INSERT INTO "turn_search" VALUES(1,'01m7j2e1zqq0csrgnaphcv68g7','Suggest a name for a function that says whether an account is locked','`is_locked`: short, and it reads well in an `if`.');
INSERT INTO "turn_search" VALUES(2,'01m7j2e3qnmq73ma8dpn5m2bwe','And for the one that counts a wrong password?','`failed`, next to `succeeded`: `attempts.failed(user)` reads like a sentence.');
CREATE TABLE "turn_tools" (
   "turn_id" TEXT REFERENCES "turns"("id"),
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "instance_id" INTEGER REFERENCES "tool_instances"("id"),
   PRIMARY KEY ("turn_id", "tool_id")
);
CREATE TABLE "turns" (
   "id" TEXT PRIMARY KEY,
   "thread_id" TEXT REFERENCES "threads"("id"),
   "parent_message_hash" TEXT REFERENCES "messages"("hash"),
   "tip_message_hash" TEXT REFERENCES "messages"("hash"),
   "model" TEXT,
   "resolved_model" TEXT,
   "options_json" TEXT,
   "schema_id" TEXT REFERENCES "schemas"("id"),
   "input_tokens" INTEGER,
   "output_tokens" INTEGER,
   "token_details" TEXT,
   "duration_ms" INTEGER,
   "datetime_utc" TEXT
, "response_json" TEXT);
INSERT INTO "turns" VALUES('01m7j2e1zqq0csrgnaphcv68g7','01m7j2e1zpyw09s3k234gd1w2p','b2:9d852a5f32f94949766f8d66368146c7','b2:8c327a06e01608d244f5ce24aa49cdf8','gpt-5-mini',NULL,NULL,NULL,36,15,'{"prompt_tokens_details": {"cached_tokens": 25}}',89,'2026-10-17T21:40:10.000000+00:00','{"id": "chatcmpl-000073", "choices": [{"finish_reason": "stop", "index": 0, "message": {"content": "`is_locked`: short, and it reads well in an `if`.", "role": "assistant"}}], "created": 1762000000, "model": "gpt-5-mini", "object": "chat.completion", "usage": {"completion_tokens": 15, "prompt_tokens": 36, "total_tokens": 51, "prompt_tokens_details": {"cached_tokens": 25}}}');
INSERT INTO "turns" VALUES('01m7j2e3qnmq73ma8dpn5m2bwe','01m7j2e1zpyw09s3k234gd1w2p','b2:4ebf15567a72f6d1eeaedccfee6bce1d','b2:198b82a01990bd76d41eeb1bb8ea515f','gpt-5-mini',NULL,NULL,NULL,76,22,'{"prompt_tokens_details": {"cached_tokens": 53}}',76,'2026-10-17T21:41:57.396708+00:00','{"id": "chatcmpl-000074", "choices": [{"finish_reason": "stop", "index": 0, "message": {"content": {"$": "0.0.text"}, "role": "assistant"}}], "created": 1762000000, "model": "gpt-5-mini", "object": "chat.completion", "usage": {"completion_tokens": 22, "prompt_tokens": 76, "total_tokens": 98, "prompt_tokens_details": {"cached_tokens": 53}}}');
CREATE UNIQUE INDEX "idx_fragments_hash"
    ON "fragments" ("hash");
CREATE UNIQUE INDEX "idx_tools_hash"
    ON "tools" ("hash");
CREATE INDEX "idx_messages_parent_hash"
    ON "messages" ("parent_hash");
CREATE UNIQUE INDEX "idx_parts_message_hash_position"
    ON "parts" ("message_hash", "position");
CREATE INDEX "idx_part_fragments_fragment_id"
    ON "part_fragments" ("fragment_id");
CREATE INDEX "idx_turns_thread_id"
    ON "turns" ("thread_id");
CREATE INDEX "idx_turn_fragments_fragment_id"
    ON "turn_fragments" ("fragment_id");
CREATE UNIQUE INDEX "idx_turn_search_turn_id"
    ON "turn_search" ("turn_id");
CREATE VIEW "message_tree" AS with recursive msg as (
  select m.hash, m.parent_hash, m.role, m.rowid as rid,
    replace(coalesce(
      nullif(p.text, ''),
      (select f.content from part_fragments pf
       join fragments f on f.id = pf.fragment_id
       where pf.part_id = p.id
       order by pf."order" limit 1),
      '[' || coalesce(p.type, 'empty') || ']'
    ), char(10), ' ') as text,
    (select group_concat(p2.tool_name, ', ') from parts p2
     where p2.message_hash = m.hash and p2.type = 'tool_result'
       and p2.tool_name is not null) as tools
  from messages m
  left join parts p on p.message_hash = m.hash and p.position = 0
),
tree as (
  select hash, text, tools, 0 as depth,
    printf('%012d', rid) as path, hash as root_hash
  from msg where parent_hash is null
  union all
  select msg.hash, msg.text, msg.tools, t.depth + 1,
    t.path || '/' || printf('%012d', msg.rid),
    t.root_hash
  from msg join tree t on msg.parent_hash = t.hash
),
turn_chain as (
  select t.id as turn_id, t.datetime_utc, m.hash, m.parent_hash
  from turns t join messages m on m.hash = t.tip_message_hash
  union all
  select tc.turn_id, tc.datetime_utc, m.hash, m.parent_hash
  from turn_chain tc join messages m on m.hash = tc.parent_hash
)
select
  t.root_hash,
  strftime('%Y-%m-%d %H:%M:%S',
    (select min(tc.datetime_utc) from turn_chain tc where tc.hash = t.hash)
  ) as datetime,
  replace(hex(zeroblob(t.depth)), '00', '    ') || substr(t.text, 1, 60)
    as message,
  coalesce(t.tools, '') as tools,
  t.hash as message_hash,
  t.path
from tree t
order by t.path;
COMMIT;
