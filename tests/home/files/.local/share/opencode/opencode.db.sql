BEGIN TRANSACTION;
CREATE TABLE `account` (
          `id` text PRIMARY KEY,
          `email` text NOT NULL,
          `url` text NOT NULL,
          `access_token` text NOT NULL,
          `refresh_token` text NOT NULL,
          `token_expiry` integer,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL
        );
CREATE TABLE `account_state` (
          `id` integer PRIMARY KEY,
          `active_account_id` text,
          `active_org_id` text,
          CONSTRAINT `fk_account_state_active_account_id_account_id_fk` FOREIGN KEY (`active_account_id`) REFERENCES `account`(`id`) ON DELETE SET NULL
        );
CREATE TABLE `control_account` (
          `email` text NOT NULL,
          `url` text NOT NULL,
          `access_token` text NOT NULL,
          `refresh_token` text NOT NULL,
          `token_expiry` integer,
          `active` integer NOT NULL,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          CONSTRAINT `control_account_pk` PRIMARY KEY(`email`, `url`)
        );
CREATE TABLE `credential` (
          `id` text PRIMARY KEY,
          `integration_id` text,
          `label` text NOT NULL,
          `value` text NOT NULL,
          `connector_id` text,
          `method_id` text,
          `active` integer,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL
        );
CREATE TABLE `data_migration` (
          `name` text PRIMARY KEY,
          `time_completed` integer NOT NULL
        );
CREATE TABLE `event` (
          `id` text PRIMARY KEY,
          `aggregate_id` text NOT NULL,
          `seq` integer NOT NULL,
          `type` text NOT NULL,
          `data` text NOT NULL,
          CONSTRAINT `fk_event_aggregate_id_event_sequence_aggregate_id_fk` FOREIGN KEY (`aggregate_id`) REFERENCES `event_sequence`(`aggregate_id`) ON DELETE CASCADE
        );
CREATE TABLE `event_sequence` (
          `aggregate_id` text PRIMARY KEY,
          `seq` integer NOT NULL,
          `owner_id` text
        );
CREATE TABLE `message` (
          `id` text PRIMARY KEY,
          `session_id` text NOT NULL,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `data` text NOT NULL,
          CONSTRAINT `fk_message_session_id_session_id_fk` FOREIGN KEY (`session_id`) REFERENCES `session`(`id`) ON DELETE CASCADE
        );
INSERT INTO "message" VALUES('msg_1e426d6da001v1t5p74wgsE0Gr','ses_e1bd929b5ffeYl52784S2StCVh',1793973651000,1793974087950,'{"role":"user","time":{"created":1793973651000},"agent":"build","model":{"providerID":"anthropic","modelID":"claude-sonnet-4-5"},"summary":{"diffs":[{"file":"shop/__pycache__/prices.cpython-311.pyc","patch":"","additions":0,"deletions":0,"status":"added"},{"file":"shop/prices.py","patch":"Index: shop/prices.py\n===================================================================\n--- shop/prices.py\t\n+++ shop/prices.py\t\n@@ -1,7 +1,10 @@\n \"\"\"Totals of a cart, in cents.\"\"\"\n \n \n-def total(items: list[tuple[int, int]], tax: int = 19) -> int:\n+Cents = int\n+\n+\n+def total(items: list[tuple[Cents, int]], tax: int = 19) -> int:\n     \"\"\"Sum of price times count, with tax.\"\"\"\n     net = sum(price * count for price, count in items)\n     return (net * (100 + tax) + 50) // 100  # round half up, in whole cents\n","additions":4,"deletions":1,"status":"modified"}]}}');
INSERT INTO "message" VALUES('msg_1e426da0d001U5nbcLgJBpxd2l','ses_e1bd929b5ffeYl52784S2StCVh',1793973773850,1793973958800,'{"parentID":"msg_1e426d6da001v1t5p74wgsE0Gr","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/ana/shop","root":"/home/ana/shop"},"cost":0.0267096,"tokens":{"total":7665,"input":4,"output":24,"reasoning":0,"cache":{"write":6970,"read":667}},"modelID":"claude-sonnet-4-5","providerID":"anthropic","time":{"created":1793973773850,"completed":1793973958650},"finish":"tool-calls"}');
INSERT INTO "message" VALUES('msg_1e426dee2001lPl4VuXj65FZYi','ses_e1bd929b5ffeYl52784S2StCVh',1793973959400,1793973998250,'{"parentID":"msg_1e426d6da001v1t5p74wgsE0Gr","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/ana/shop","root":"/home/ana/shop"},"cost":0.0037356,"tokens":{"total":7876,"input":4,"output":49,"reasoning":0,"cache":{"write":186,"read":7637}},"modelID":"claude-sonnet-4-5","providerID":"anthropic","time":{"created":1793973959400,"completed":1793973998100},"finish":"tool-calls"}');
INSERT INTO "message" VALUES('msg_1e426dfe8001DWQEaFflz82ExD','ses_e1bd929b5ffeYl52784S2StCVh',1793973998700,1793974067100,'{"parentID":"msg_1e426d6da001v1t5p74wgsE0Gr","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/ana/shop","root":"/home/ana/shop"},"cost":0.00318015,"tokens":{"total":7953,"input":4,"output":31,"reasoning":0,"cache":{"write":95,"read":7823}},"modelID":"claude-sonnet-4-5","providerID":"anthropic","time":{"created":1793973998700,"completed":1793974066950},"finish":"tool-calls"}');
INSERT INTO "message" VALUES('msg_1e426e1b2001Gcs6wL84nUQ7w5','ses_e1bd929b5ffeYl52784S2StCVh',1793974067400,1793974098900,'{"parentID":"msg_1e426d6da001v1t5p74wgsE0Gr","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/ana/shop","root":"/home/ana/shop"},"cost":0.00308115,"tokens":{"total":8023,"input":4,"output":28,"reasoning":0,"cache":{"write":73,"read":7918}},"modelID":"claude-sonnet-4-5","providerID":"anthropic","time":{"created":1793974067400,"completed":1793974098750},"finish":"stop"}');
INSERT INTO "message" VALUES('msg_1e426e83c001yNH7dPtHJV20KX','ses_e1bd91816ffekhNrP2Xd7f9Q5k',1792826760000,1792826928300,'{"role":"user","time":{"created":1792826760000},"agent":"build","model":{"providerID":"anthropic","modelID":"claude-sonnet-4-5"},"summary":{"diffs":[]}}');
INSERT INTO "message" VALUES('msg_1e426eb4f0017CjBqSMZ7UMdpX','ses_e1bd91816ffekhNrP2Xd7f9Q5k',1792826838700,1792826926800,'{"parentID":"msg_1e426e83c001yNH7dPtHJV20KX","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/ana/notes","root":"/"},"cost":0.0266628,"tokens":{"total":7653,"input":4,"output":22,"reasoning":0,"cache":{"write":6966,"read":661}},"modelID":"claude-sonnet-4-5","providerID":"anthropic","time":{"created":1792826838700,"completed":1792826926700},"finish":"tool-calls"}');
INSERT INTO "message" VALUES('msg_1e426eec30016DWW9FAMqp44eD','ses_e1bd91816ffekhNrP2Xd7f9Q5k',1792826927100,1792826934200,'{"parentID":"msg_1e426e83c001yNH7dPtHJV20KX","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/ana/notes","root":"/"},"cost":0.00290385,"tokens":{"total":7735,"input":4,"output":19,"reasoning":0,"cache":{"write":85,"read":7627}},"modelID":"claude-sonnet-4-5","providerID":"anthropic","time":{"created":1792826927100,"completed":1792826934100},"finish":"stop"}');
CREATE TABLE "migration" (id TEXT PRIMARY KEY, time_completed INTEGER NOT NULL);
INSERT INTO "migration" VALUES('20260127222353_familiar_lady_ursula',1790000000000);
INSERT INTO "migration" VALUES('20260211171708_add_project_commands',1790000000000);
INSERT INTO "migration" VALUES('20260213144116_wakeful_the_professor',1790000000000);
INSERT INTO "migration" VALUES('20260225215848_workspace',1790000000000);
INSERT INTO "migration" VALUES('20260227213759_add_session_workspace_id',1790000000000);
INSERT INTO "migration" VALUES('20260228203230_blue_harpoon',1790000000000);
INSERT INTO "migration" VALUES('20260303231226_add_workspace_fields',1790000000000);
INSERT INTO "migration" VALUES('20260309230000_move_org_to_state',1790000000000);
INSERT INTO "migration" VALUES('20260312043431_session_message_cursor',1790000000000);
INSERT INTO "migration" VALUES('20260323234822_events',1790000000000);
INSERT INTO "migration" VALUES('20260410174513_workspace-name',1790000000000);
INSERT INTO "migration" VALUES('20260413175956_chief_energizer',1790000000000);
INSERT INTO "migration" VALUES('20260423070820_add_icon_url_override',1790000000000);
INSERT INTO "migration" VALUES('20260427172553_slow_nightmare',1790000000000);
INSERT INTO "migration" VALUES('20260428004200_add_session_path',1790000000000);
INSERT INTO "migration" VALUES('20260501142318_next_venus',1790000000000);
INSERT INTO "migration" VALUES('20260504145000_add_sync_owner',1790000000000);
INSERT INTO "migration" VALUES('20260507164347_add_workspace_time',1790000000000);
INSERT INTO "migration" VALUES('20260510033149_session_usage',1790000000000);
INSERT INTO "migration" VALUES('20260511000411_data_migration_state',1790000000000);
INSERT INTO "migration" VALUES('20260511173437_session-metadata',1790000000000);
INSERT INTO "migration" VALUES('20260601010001_normalize_storage_paths',1790000000000);
INSERT INTO "migration" VALUES('20260601202201_amazing_prowler',1790000000000);
INSERT INTO "migration" VALUES('20260602002951_lowly_union_jack',1790000000000);
INSERT INTO "migration" VALUES('20260602182828_add_project_directories',1790000000000);
INSERT INTO "migration" VALUES('20260603001617_session_message_projection_indexes',1790000000000);
INSERT INTO "migration" VALUES('20260603040000_session_message_projection_order',1790000000000);
INSERT INTO "migration" VALUES('20260603141458_session_input_inbox',1790000000000);
INSERT INTO "migration" VALUES('20260603160727_jittery_ezekiel_stane',1790000000000);
INSERT INTO "migration" VALUES('20260604172448_event_sourced_session_input',1790000000000);
INSERT INTO "migration" VALUES('20260605003541_add_session_context_snapshot',1790000000000);
INSERT INTO "migration" VALUES('20260605042240_add_context_epoch_agent',1790000000000);
INSERT INTO "migration" VALUES('20260611035744_credential',1790000000000);
INSERT INTO "migration" VALUES('20260611192811_lush_chimera',1790000000000);
INSERT INTO "migration" VALUES('20260612174303_project_dir_strategy',1790000000000);
INSERT INTO "migration" VALUES('20260622142730_simplify_session_context_epoch',1790000000000);
INSERT INTO "migration" VALUES('20260622170816_reset_v2_session_state',1790000000000);
INSERT INTO "migration" VALUES('20260622202450_simplify_session_input',1790000000000);
CREATE TABLE `part` (
          `id` text PRIMARY KEY,
          `message_id` text NOT NULL,
          `session_id` text NOT NULL,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `data` text NOT NULL,
          CONSTRAINT `fk_part_message_id_message_id_fk` FOREIGN KEY (`message_id`) REFERENCES `message`(`id`) ON DELETE CASCADE
        );
INSERT INTO "part" VALUES('prt_1e426d6e3001IFJBbW5ZsC6wAJ','msg_1e426d6da001v1t5p74wgsE0Gr','ses_e1bd929b5ffeYl52784S2StCVh',1793973771300,1793973771600,'{"type":"text","text":"\"Add type hints to shop/prices.py and check them with mypy.\""}');
INSERT INTO "part" VALUES('prt_1e426de30001d0dydiFyXnKc7w','msg_1e426da0d001U5nbcLgJBpxd2l','ses_e1bd929b5ffeYl52784S2StCVh',1793973932700,1793973933150,'{"snapshot":"5f85a512075073916fb2e5850f174e0f8f76d037","type":"step-start"}');
INSERT INTO "part" VALUES('prt_1e426de35001nCpe5R97vsyw6q','msg_1e426da0d001U5nbcLgJBpxd2l','ses_e1bd929b5ffeYl52784S2StCVh',1793973933450,1793973934350,'{"type":"text","text":"The module first.","time":{"start":1793973933450,"end":1793973934200}}');
INSERT INTO "part" VALUES('prt_1e426de3e0015VUyULUlCN3BKl','msg_1e426da0d001U5nbcLgJBpxd2l','ses_e1bd929b5ffeYl52784S2StCVh',1793973934800,1793973943200,'{"type":"tool","tool":"read","callID":"toolu_00610","state":{"status":"completed","input":{"filePath":"/home/ana/shop/shop/prices.py"},"output":"<path>/home/ana/shop/shop/prices.py</path>\n<type>file</type>\n<content>\n1: \"\"\"Totals of a cart, in cents.\"\"\"\n2: \n3: \n4: def total(items: list[tuple[int, int]], tax: int = 19) -> int:\n5:     \"\"\"Sum of price times count, with tax.\"\"\"\n6:     net = sum(price * count for price, count in items)\n7:     return (net * (100 + tax) + 50) // 100  # round half up, in whole cents\n\n(End of file - total 7 lines)\n</content>","metadata":{"preview":"\"\"\"Totals of a cart, in cents.\"\"\"\n\n\ndef total(items: list[tuple[int, int]], tax: int = 19) -> int:\n    \"\"\"Sum of price times count, with tax.\"\"\"\n    net = sum(price * count for price, count in items)\n    return (net * (100 + tax) + 50) // 100  # round half up, in whole cents","truncated":false,"loaded":[],"display":{"type":"file","path":"/home/ana/shop/shop/prices.py","text":"\"\"\"Totals of a cart, in cents.\"\"\"\n\n\ndef total(items: list[tuple[int, int]], tax: int = 19) -> int:\n    \"\"\"Sum of price times count, with tax.\"\"\"\n    net = sum(price * count for price, count in items)\n    return (net * (100 + tax) + 50) // 100  # round half up, in whole cents","lineStart":1,"lineEnd":7,"totalLines":7,"truncated":false}},"title":"shop/prices.py","time":{"start":1793973936900,"end":1793973943050}}}');
INSERT INTO "part" VALUES('prt_1e426dea3001jgX9bK1jYo1MMc','msg_1e426da0d001U5nbcLgJBpxd2l','ses_e1bd929b5ffeYl52784S2StCVh',1793973950100,1793973950400,'{"reason":"tool-calls","snapshot":"5f85a512075073916fb2e5850f174e0f8f76d037","type":"step-finish","tokens":{"total":7665,"input":4,"output":24,"reasoning":0,"cache":{"write":6970,"read":667}},"cost":0.0267096}');
INSERT INTO "part" VALUES('prt_1e426df53001fSrm4ZMu6VF7nQ','msg_1e426dee2001lPl4VuXj65FZYi','ses_e1bd929b5ffeYl52784S2StCVh',1793973976350,1793973976650,'{"snapshot":"5f85a512075073916fb2e5850f174e0f8f76d037","type":"step-start"}');
INSERT INTO "part" VALUES('prt_1e426df57001oO5OSAF7cQpqGv','msg_1e426dee2001lPl4VuXj65FZYi','ses_e1bd929b5ffeYl52784S2StCVh',1793973976950,1793973981750,'{"type":"tool","tool":"edit","callID":"toolu_00620","state":{"status":"completed","input":{"filePath":"/home/ana/shop/shop/prices.py","oldString":"def total(items: list[tuple[int, int]]","newString":"Cents = int\n\n\ndef total(items: list[tuple[Cents, int]]"},"output":"Edit applied successfully.","metadata":{"diagnostics":{},"diff":"Index: /home/ana/shop/shop/prices.py\n===================================================================\n--- /home/ana/shop/shop/prices.py\n+++ /home/ana/shop/shop/prices.py\n@@ -1,7 +1,10 @@\n \"\"\"Totals of a cart, in cents.\"\"\"\n \n \n-def total(items: list[tuple[int, int]], tax: int = 19) -> int:\n+Cents = int\n+\n+\n+def total(items: list[tuple[Cents, int]], tax: int = 19) -> int:\n     \"\"\"Sum of price times count, with tax.\"\"\"\n     net = sum(price * count for price, count in items)\n     return (net * (100 + tax) + 50) // 100  # round half up, in whole cents\n","filediff":{"file":"/home/ana/shop/shop/prices.py","patch":"Index: /home/ana/shop/shop/prices.py\n===================================================================\n--- /home/ana/shop/shop/prices.py\n+++ /home/ana/shop/shop/prices.py\n@@ -1,7 +1,10 @@\n \"\"\"Totals of a cart, in cents.\"\"\"\n \n \n-def total(items: list[tuple[int, int]], tax: int = 19) -> int:\n+Cents = int\n+\n+\n+def total(items: list[tuple[Cents, int]], tax: int = 19) -> int:\n     \"\"\"Sum of price times count, with tax.\"\"\"\n     net = sum(price * count for price, count in items)\n     return (net * (100 + tax) + 50) // 100  # round half up, in whole cents\n","additions":4,"deletions":1},"truncated":false},"title":"shop/prices.py","time":{"start":1793973978000,"end":1793973981600}}}');
INSERT INTO "part" VALUES('prt_1e426dfb9001dY1C73Tp5baBWW','msg_1e426dee2001lPl4VuXj65FZYi','ses_e1bd929b5ffeYl52784S2StCVh',1793973991800,1793973991950,'{"reason":"tool-calls","snapshot":"aa790780399ee8ddf6b6f124fb86c12c83a95f4e","type":"step-finish","tokens":{"total":7876,"input":4,"output":49,"reasoning":0,"cache":{"write":186,"read":7637}},"cost":0.0037356}');
INSERT INTO "part" VALUES('prt_1e426dfe1001enTVpweFS5MVRF','msg_1e426dee2001lPl4VuXj65FZYi','ses_e1bd929b5ffeYl52784S2StCVh',1793973997650,1793973997950,'{"type":"patch","hash":"5f85a512075073916fb2e5850f174e0f8f76d037","files":["/home/ana/shop/shop/prices.py"]}');
INSERT INTO "part" VALUES('prt_1e426e048001LSMQ4mCjNShwAk','msg_1e426dfe8001DWQEaFflz82ExD','ses_e1bd929b5ffeYl52784S2StCVh',1793974013250,1793974013400,'{"snapshot":"aa790780399ee8ddf6b6f124fb86c12c83a95f4e","type":"step-start"}');
INSERT INTO "part" VALUES('prt_1e426e04b001Ip6SGBKxVmIweV','msg_1e426dfe8001DWQEaFflz82ExD','ses_e1bd929b5ffeYl52784S2StCVh',1793974013700,1793974049850,'{"type":"tool","tool":"bash","callID":"toolu_00630","state":{"status":"completed","input":{"command":"python3 -m py_compile shop/prices.py && echo fine","description":"Compile the module"},"output":"fine\n","metadata":{"output":"fine\n","exit":0,"truncated":false},"title":"python3 -m py_compile shop/prices.py && echo fine","time":{"start":1793974014600,"end":1793974049700}}}');
INSERT INTO "part" VALUES('prt_1e426e176001L2XEnAsGZOr37K','msg_1e426dfe8001DWQEaFflz82ExD','ses_e1bd929b5ffeYl52784S2StCVh',1793974058400,1793974058700,'{"reason":"tool-calls","snapshot":"da411e51e4a16772f2baff325113ea28db86ca07","type":"step-finish","tokens":{"total":7953,"input":4,"output":31,"reasoning":0,"cache":{"write":95,"read":7823}},"cost":0.00318015}');
INSERT INTO "part" VALUES('prt_1e426e1ab001ewgzShC2gaSeEs','msg_1e426dfe8001DWQEaFflz82ExD','ses_e1bd929b5ffeYl52784S2StCVh',1793974066350,1793974066650,'{"type":"patch","hash":"aa790780399ee8ddf6b6f124fb86c12c83a95f4e","files":["/home/ana/shop/shop/__pycache__/prices.cpython-311.pyc"]}');
INSERT INTO "part" VALUES('prt_1e426e207001901UKKpA0wtREp','msg_1e426e1b2001Gcs6wL84nUQ7w5','ses_e1bd929b5ffeYl52784S2StCVh',1793974080150,1793974080450,'{"snapshot":"da411e51e4a16772f2baff325113ea28db86ca07","type":"step-start"}');
INSERT INTO "part" VALUES('prt_1e426e20b001XKArvvKC4piHCN','msg_1e426e1b2001Gcs6wL84nUQ7w5','ses_e1bd929b5ffeYl52784S2StCVh',1793974080750,1793974081350,'{"type":"text","text":"`Cents` names the unit of money. mypy is not installed here, so I only compiled the module; it is fine.","time":{"start":1793974080750,"end":1793974081200}}');
INSERT INTO "part" VALUES('prt_1e426e260001cPaylN0d5GDUtt','msg_1e426e1b2001Gcs6wL84nUQ7w5','ses_e1bd929b5ffeYl52784S2StCVh',1793974093500,1793974093800,'{"reason":"stop","snapshot":"da411e51e4a16772f2baff325113ea28db86ca07","type":"step-finish","tokens":{"total":8023,"input":4,"output":28,"reasoning":0,"cache":{"write":73,"read":7918}},"cost":0.00308115}');
INSERT INTO "part" VALUES('prt_1e426e846001WWcaPttCbop61r','msg_1e426e83c001yNH7dPtHJV20KX','ses_e1bd91816ffekhNrP2Xd7f9Q5k',1792826837000,1792826837300,'{"type":"text","text":"\"Which of my notes mention tulips?\""}');
INSERT INTO "part" VALUES('prt_1e426ee0f001dGxJG8wmlg745M','msg_1e426eb4f0017CjBqSMZ7UMdpX','ses_e1bd91816ffekhNrP2Xd7f9Q5k',1792826909200,1792826909400,'{"type":"step-start"}');
INSERT INTO "part" VALUES('prt_1e426ee15001NsmFlJoUmq2f9O','msg_1e426eb4f0017CjBqSMZ7UMdpX','ses_e1bd91816ffekhNrP2Xd7f9Q5k',1792826909700,1792826925600,'{"type":"tool","tool":"bash","callID":"toolu_00660","state":{"status":"completed","input":{"command":"grep -in tulip *.md","description":"Look for tulips"},"output":"garden.md:3:Tulips in October, garlic in November.\n","metadata":{"output":"garden.md:3:Tulips in October, garlic in November.\n","exit":0,"truncated":false},"title":"grep -in tulip *.md","time":{"start":1792826911400,"end":1792826925400}}}');
INSERT INTO "part" VALUES('prt_1e426eeb8001355eaxvMNac4p3','msg_1e426eb4f0017CjBqSMZ7UMdpX','ses_e1bd91816ffekhNrP2Xd7f9Q5k',1792826926000,1792826926200,'{"reason":"tool-calls","type":"step-finish","tokens":{"total":7653,"input":4,"output":22,"reasoning":0,"cache":{"write":6966,"read":661}},"cost":0.0266628}');
INSERT INTO "part" VALUES('prt_1e426eefe001DymQF7nyScCm1l','msg_1e426eec30016DWW9FAMqp44eD','ses_e1bd91816ffekhNrP2Xd7f9Q5k',1792826933000,1792826933100,'{"type":"step-start"}');
INSERT INTO "part" VALUES('prt_1e426ef00001FArLvigT30WBEZ','msg_1e426eec30016DWW9FAMqp44eD','ses_e1bd91816ffekhNrP2Xd7f9Q5k',1792826933200,1792826933600,'{"type":"text","text":"One: `garden.md`, line 3: *Tulips in October, garlic in November.*","time":{"start":1792826933200,"end":1792826933500}}');
INSERT INTO "part" VALUES('prt_1e426ef05001EUvWxDhderWPLO','msg_1e426eec30016DWW9FAMqp44eD','ses_e1bd91816ffekhNrP2Xd7f9Q5k',1792826933700,1792826933800,'{"reason":"stop","type":"step-finish","tokens":{"total":7735,"input":4,"output":19,"reasoning":0,"cache":{"write":85,"read":7627}},"cost":0.00290385}');
CREATE TABLE `permission` (
          `id` text PRIMARY KEY,
          `project_id` text NOT NULL,
          `action` text NOT NULL,
          `resource` text NOT NULL,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          CONSTRAINT `fk_permission_project_id_project_id_fk` FOREIGN KEY (`project_id`) REFERENCES `project`(`id`) ON DELETE CASCADE
        );
CREATE TABLE `project` (
          `id` text PRIMARY KEY,
          `worktree` text NOT NULL,
          `vcs` text,
          `name` text,
          `icon_url` text,
          `icon_url_override` text,
          `icon_color` text,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `time_initialized` integer,
          `sandboxes` text NOT NULL,
          `commands` text
        );
INSERT INTO "project" VALUES('4d6d10f45387e43c0d3c1bc20f8b791035f78e73','/home/ana/shop','git',NULL,NULL,NULL,NULL,1793973651000,1793973651000,NULL,'[]',NULL);
INSERT INTO "project" VALUES('global','/',NULL,NULL,NULL,NULL,NULL,1792826760000,1792826760000,NULL,'[]',NULL);
CREATE TABLE `project_directory` (
          `project_id` text NOT NULL,
          `directory` text NOT NULL,
          `type` text,
          `strategy` text,
          `time_created` integer NOT NULL,
          CONSTRAINT `project_directory_pk` PRIMARY KEY(`project_id`, `directory`),
          CONSTRAINT `fk_project_directory_project_id_project_id_fk` FOREIGN KEY (`project_id`) REFERENCES `project`(`id`) ON DELETE CASCADE
        );
INSERT INTO "project_directory" VALUES('4d6d10f45387e43c0d3c1bc20f8b791035f78e73','/home/ana/shop',NULL,NULL,1793973651000);
CREATE TABLE `session` (
          `id` text PRIMARY KEY,
          `project_id` text NOT NULL,
          `workspace_id` text,
          `parent_id` text,
          `slug` text NOT NULL,
          `directory` text NOT NULL,
          `path` text,
          `title` text NOT NULL,
          `version` text NOT NULL,
          `share_url` text,
          `summary_additions` integer,
          `summary_deletions` integer,
          `summary_files` integer,
          `summary_diffs` text,
          `metadata` text,
          `cost` real DEFAULT 0 NOT NULL,
          `tokens_input` integer DEFAULT 0 NOT NULL,
          `tokens_output` integer DEFAULT 0 NOT NULL,
          `tokens_reasoning` integer DEFAULT 0 NOT NULL,
          `tokens_cache_read` integer DEFAULT 0 NOT NULL,
          `tokens_cache_write` integer DEFAULT 0 NOT NULL,
          `revert` text,
          `permission` text,
          `agent` text,
          `model` text,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `time_compacting` integer,
          `time_archived` integer,
          CONSTRAINT `fk_session_project_id_project_id_fk` FOREIGN KEY (`project_id`) REFERENCES `project`(`id`) ON DELETE CASCADE
        );
INSERT INTO "session" VALUES('ses_e1bd929b5ffeYl52784S2StCVh','4d6d10f45387e43c0d3c1bc20f8b791035f78e73',NULL,NULL,'stellar-harbor','/home/ana/shop','','Type hints for prices.py','1.18.33',NULL,0,0,0,NULL,NULL,3.67064999999999960755e-02,16,132,0,24045,7324,NULL,'[{"permission":"question","pattern":"*","action":"deny"},{"permission":"plan_enter","pattern":"*","action":"deny"},{"permission":"plan_exit","pattern":"*","action":"deny"}]','build','{"id":"claude-sonnet-4-5","providerID":"anthropic","variant":"default"}',1793973651000,1793974100100,NULL,NULL);
INSERT INTO "session" VALUES('ses_e1bd91816ffekhNrP2Xd7f9Q5k','global',NULL,NULL,'calm-moon','/home/ana/notes','home/ana/notes','Notes that mention tulips','1.18.33',NULL,0,0,0,NULL,NULL,0.02956665,8,41,0,8288,7051,NULL,'[{"permission":"question","pattern":"*","action":"deny"},{"permission":"plan_enter","pattern":"*","action":"deny"},{"permission":"plan_exit","pattern":"*","action":"deny"}]','build','{"id":"claude-sonnet-4-5","providerID":"anthropic","variant":"default"}',1792826760000,1792826936200,NULL,NULL);
CREATE TABLE `session_context_epoch` (
          `session_id` text PRIMARY KEY,
          `baseline` text NOT NULL,
          `snapshot` text NOT NULL,
          `baseline_seq` integer NOT NULL,
          CONSTRAINT `fk_session_context_epoch_session_id_session_id_fk` FOREIGN KEY (`session_id`) REFERENCES `session`(`id`) ON DELETE CASCADE
        );
CREATE TABLE `session_input` (
          `id` text PRIMARY KEY,
          `session_id` text NOT NULL,
          `prompt` text NOT NULL,
          `delivery` text NOT NULL,
          `admitted_seq` integer NOT NULL,
          `promoted_seq` integer,
          `time_created` integer NOT NULL,
          CONSTRAINT `fk_session_input_session_id_session_id_fk` FOREIGN KEY (`session_id`) REFERENCES `session`(`id`) ON DELETE CASCADE
        );
CREATE TABLE `session_message` (
          `id` text PRIMARY KEY,
          `session_id` text NOT NULL,
          `type` text NOT NULL,
          `seq` integer NOT NULL,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `data` text NOT NULL,
          CONSTRAINT `fk_session_message_session_id_session_id_fk` FOREIGN KEY (`session_id`) REFERENCES `session`(`id`) ON DELETE CASCADE
        );
CREATE TABLE `session_share` (
          `session_id` text PRIMARY KEY,
          `id` text NOT NULL,
          `secret` text NOT NULL,
          `url` text NOT NULL,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          CONSTRAINT `fk_session_share_session_id_session_id_fk` FOREIGN KEY (`session_id`) REFERENCES `session`(`id`) ON DELETE CASCADE
        );
CREATE TABLE `todo` (
          `session_id` text NOT NULL,
          `content` text NOT NULL,
          `status` text NOT NULL,
          `priority` text NOT NULL,
          `position` integer NOT NULL,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          CONSTRAINT `todo_pk` PRIMARY KEY(`session_id`, `position`),
          CONSTRAINT `fk_todo_session_id_session_id_fk` FOREIGN KEY (`session_id`) REFERENCES `session`(`id`) ON DELETE CASCADE
        );
CREATE TABLE `workspace` (
          `id` text PRIMARY KEY,
          `type` text NOT NULL,
          `name` text DEFAULT '' NOT NULL,
          `branch` text,
          `directory` text,
          `extra` text,
          `project_id` text NOT NULL,
          `time_used` integer NOT NULL,
          CONSTRAINT `fk_workspace_project_id_project_id_fk` FOREIGN KEY (`project_id`) REFERENCES `project`(`id`) ON DELETE CASCADE
        );
CREATE UNIQUE INDEX `event_aggregate_seq_idx` ON `event` (`aggregate_id`,`seq`);
CREATE INDEX `event_aggregate_type_seq_idx` ON `event` (`aggregate_id`,`type`,`seq`);
CREATE UNIQUE INDEX `permission_project_action_resource_idx` ON `permission` (`project_id`,`action`,`resource`);
CREATE INDEX `message_session_time_created_id_idx` ON `message` (`session_id`,`time_created`,`id`);
CREATE INDEX `part_message_id_id_idx` ON `part` (`message_id`,`id`);
CREATE INDEX `part_session_idx` ON `part` (`session_id`);
CREATE INDEX `session_input_session_pending_delivery_seq_idx` ON `session_input` (`session_id`,`promoted_seq`,`delivery`,`admitted_seq`);
CREATE UNIQUE INDEX `session_input_session_admitted_seq_idx` ON `session_input` (`session_id`,`admitted_seq`);
CREATE UNIQUE INDEX `session_input_session_promoted_seq_idx` ON `session_input` (`session_id`,`promoted_seq`);
CREATE UNIQUE INDEX `session_message_session_seq_idx` ON `session_message` (`session_id`,`seq`);
CREATE INDEX `session_message_session_type_seq_idx` ON `session_message` (`session_id`,`type`,`seq`);
CREATE INDEX `session_message_session_time_created_id_idx` ON `session_message` (`session_id`,`time_created`,`id`);
CREATE INDEX `session_message_time_created_idx` ON `session_message` (`time_created`);
CREATE INDEX `session_project_idx` ON `session` (`project_id`);
CREATE INDEX `session_workspace_idx` ON `session` (`workspace_id`);
CREATE INDEX `session_parent_idx` ON `session` (`parent_id`);
CREATE INDEX `todo_session_idx` ON `todo` (`session_id`);
COMMIT;
