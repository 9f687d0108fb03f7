"""Which tests run in which tier, what is missing on this machine, and settings for every test.

`--tier check`, `--tier test` and `--tier full` are `make check`, `make test` and `make test-full`;
`pytest` alone runs everything. `pytest --hypothesis-profile=thorough` looks ten times as hard. In the
smaller tiers, and with `CI` in the environment, Hypothesis tries the same examples on every run, so that a
red run is red for its own change; `make test-full` on your machine tries new ones.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support import needs, tiers
from tests.support.effort import keep_compiled_code, use_memory_for_temporary_files
from tests.support.environment import forget_variables_of_the_user

pytest_plugins = [  # for all folders
    "tests.backends.postgres.servers.cluster",  # one server, and one schema
    "tests.support.browsers",  # one browser
]

TABLE = {
    "tests": "test",
    # -- core, aio, security, support: pure code needs no process, socket or browser
    "tests/core": "check",
    "tests/core/check/test_machine.py::test_j11_a_store_that_was_only_used_has_no_problem[sqlite]": "test",
    "tests/core/check/test_tampering.py::test_s22_tampering_with_rows_is_found": "test",
    "tests/core/conversation/test_moves.py": "test",
    "tests/core/conversation/test_rings.py": "test",
    "tests/core/conversation/test_watch.py::test_what_another_process_does_is_told": "test",
    "tests/core/engine/test_group_commit.py::test_a_crowd_of_appends_shares_few_syncs": "full",
    "tests/core/retention/test_clock_jumps.py": "full",
    "tests/core/retention/test_clock_jumps.py::test_a_killed_sweep_leaves_every_session_whole[1]": "test",
    "tests/core/retention/test_clock_jumps.py::test_a_sweep_that_believed_the_clock_removes_all": "test",
    "tests/core/retention/test_clock_jumps.py::test_f25_a_wrong_clock_removes_nothing_early[+1d-1]": "test",
    "tests/core/streams/test_price_list.py::test_every_model_costs_what_the_package_says": "test",
    "tests/core/streams/test_price_list.py::test_the_list_that_is_shipped_is_what_the_tool_writes": "test",
    "tests/core/test_work_folder.py": "test",
    "tests/core/transfer/test_backup.py": "test",
    "tests/core/transfer/test_copy.py::test_a_copy_is_the_same_and_a_second_one_writes_nothing": "test",
    "tests/core/transfer/test_copy.py::test_a_source_that_grows_meanwhile_is_copied_as_of_a_moment": "test",
    "tests/core/transfer/test_copy.py::test_any_two_kinds_of_stores_can_be_copied": "full",
    "tests/core/transfer/test_copy_files.py": "test",
    "tests/core/transfer/test_copy_files.py::test_copies_are_whole_while_others_write": "full",
    "tests/core/transfer/test_copy_files.py::test_copies_are_whole_while_others_write[sqlite]": "test",
    "tests/core/transfer/test_copy_killed.py": "full",
    "tests/core/transfer/test_copy_killed.py::test_a_killed_copy_goes_on_where_it_was[0]": "test",
    "tests/core/transfer/test_families.py::test_a_family_comes_back_whole_in_any_order[postgresql]": "full",
    "tests/core/transfer/test_families.py::test_a_folder_of_a_family_comes_back_whole_and_twice_changes_nothing[postgresql]": "full",
    "tests/core/transfer/test_full_disk.py": "full",
    "tests/core/transfer/test_full_disk.py::test_f06_a_full_disk_can_be_left[open-jsonl]": "test",
    "tests/core/transfer/test_full_disk.py::test_f06_a_full_disk_can_be_left[reopened-sqlite]": "test",
    "tests/core/transfer/test_repair.py::test_of_a_whole_store_nothing_is_lost": "test",
    "tests/core/transfer/test_repair.py::test_a_store_is_repaired_into_one_of_any_kind": "full",
    "tests/core/transfer/test_repair_killed.py": "full",
    "tests/core/transfer/test_repair_killed.py::test_a_repair_does_not_replace_what_is_there": "test",
    "tests/core/transfer/test_repair_killed.py::test_what_was_killed_leaves_nothing_that_opens[repair-sqlite]": "test",
    "tests/security/test_private_files.py": "full",
    "tests/security/test_private_files.py::test_p20_every_file_is_0600_and_every_directory_0700[0]": "test",
    "tests/support": "check",
    "tests/test_errors.py": "check",
    "tests/test_public_api.py": "check",
    # -- files
    "tests/files/restore/test_many_kills.py": "full",
    "tests/files/diff": "check",
    "tests/files/diff/test_text.py::test_the_patch_program_understands_it": "test",
    "tests/files/objects": "check",
    # -- backends and behaviour: the contract on the two backends that need no server
    "tests/backends/memory": "check",
    "tests/backends/sqlite/test_conformance.py": "check",
    "tests/backends/jsonl/test_limits.py::test_a_line_of_300_megabytes_is_passed_over_with_little_memory": "full",
    "tests/backends/jsonl/test_limits.py::test_opening_a_session_of_hundreds_of_megabytes_reads_its_end": "full",
    "tests/backends/test_contract_suite.py": "check",
    "tests/backends/test_sql.py": "check",
    "tests/aio": "check",
    "tests/behaviour/conversation/test_fork_depth.py::TestForkDepth::test_s52_no_call_needs_a_deeper_stack_for_a_deeper_tree[postgres]": "full",
    "tests/backends/postgres/objects/test_blobs.py::test_whoever_is_killed_after_a_drop_leaves_what_the_next_to_open_removes": "full",
    "tests/backends/test_pause.py::TestOtherProcesses::test_a_commit_of_another_process_ends_it[jsonl without notices]": "full",
    "tests/backends/sqlite/schema/test_migration.py::test_p21_a_killed_migration_leaves_the_old_or_the_new_schema_and_can_be_finished": "full",
    "tests/backends/sqlite/schema/test_migration.py::test_p21_a_killed_migration_leaves_the_old_or_the_new_schema_and_can_be_finished[pwrite64-4-step]": "test",
    "tests/backends/sqlite/test_io_errors.py": "full",
    "tests/backends/sqlite/test_io_errors.py::test_f08_a_failed_system_call_is_told_and_costs_no_acknowledged_entry[fdatasync-1-for good]": "test",
    "tests/backends/sqlite/test_io_errors.py::test_f08_a_failed_system_call_is_told_and_costs_no_acknowledged_entry[pwrite64-3-once, then killed]": "test",
    "tests/backends/sqlite/test_purge.py::test_p18_s29_a_purge_that_is_killed_at_any_point_is_finished_by_the_next_one": "full",
    "tests/backends/sqlite/test_purge.py::test_p18_s29_a_purge_that_is_killed_at_any_point_is_finished_by_the_next_one[pwrite64-9]": "test",
    "tests/backends/sqlite/test_purge.py::test_p18_s29_no_byte_of_a_purged_session_is_left[2-12]": "full",
    "tests/backends/sqlite/test_read_only.py::test_f15_a_store_on_a_read_only_bind_mount_can_be_read[closed]": "full",
    "tests/backends/sqlite/test_read_only.py::test_f15_a_store_on_a_read_only_file_system_can_be_read[closed]": "full",
    # -- adapters: that two processes share a store is shown once; the rest of it is below every adapter
    "tests/adapters/adk/test_service.py::TestAdk::test_two_processes_lose_nothing": "full",
    "tests/adapters/agent_framework/test_history.py::TestHistory::test_two_processes_lose_nothing": "full",
    "tests/adapters/agent_framework/test_history.py::TestSessions::test_two_processes_lose_nothing": "full",
    "tests/adapters/claude/test_conformance.py::TestClaude::test_two_processes_lose_nothing": "full",
    "tests/adapters/claude/test_killed.py::test_after_kill_9_all_batches_are_whole[jsonl]": "full",
    "tests/adapters/langgraph/test_conformance.py::TestConformance::test_two_processes_lose_nothing": "full",
    "tests/adapters/llama_index/test_chat.py::TestConformance::test_two_processes_lose_nothing": "full",
    "tests/adapters/openai_agents/test_session.py::TestConformance::test_two_processes_lose_nothing": "full",
    "tests/adapters/pydantic_ai/test_store.py::TestConformance::test_two_processes_lose_nothing": "full",
    "tests/adapters/strands/test_repository.py::TestRepository::test_two_processes_lose_nothing": "full",
    "tests/adapters/strands/test_storage.py::TestStorage::test_two_processes_lose_nothing": "full",
    # -- importers: what other people's programs say of the same files
    "tests/importers/test_ccusage.py": "full",
    "tests/importers/hooks/test_scripts.py": "full",
    "tests/importers/hooks/test_scripts.py::test_s59_a_hook_says_which_session_and_nothing_else": "test",
    "tests/importers/follow/test_service.py::test_systemd_reads_odd_words_as_they_are": "full",
    "tests/importers/test_killed.py::test_killed_at_any_write_and_then_again_is_as_once[store]": "full",
    "tests/importers/test_sync_killed.py::test_killed_at_any_write_while_files_grow[store]": "full",
    "tests/importers/test_sync_killed.py::test_two_processes_that_sync_at_once_bring_each_line_once": "full",
    # -- exporters: the agents themselves read what is written for them
    "tests/exporters/page/test_rich.py": "full",
    "tests/exporters/page/test_rich.py::test_a_head_lines_of_calls_and_marks_say_what_happened": "test",
    "tests/exporters/page/test_browser.py::test_s11_s12_no_payload_in_any_field_runs_asks_or_leads_away": "full",
    "tests/exporters/page/test_browser.py::test_s11_s12_no_payload_in_any_field_runs_asks_or_leads_away[html]": "test",
    "tests/exporters/page/test_browser.py::test_what_was_said_can_be_read_branch_by_branch": "full",
    "tests/exporters/page/test_browser.py::test_a_wide_table_scrolls_sideways_on_a_phone_and_its_words_stay_whole": "full",
    "tests/exporters/agents/test_codex.py": "full",
    "tests/exporters/agents/test_gemini_cli.py": "full",
    "tests/exporters/agents/test_opencode.py": "full",
    "tests/exporters/agents/test_pi.py": "full",
    "tests/exporters/test_markdown.py": "check",
    "tests/exporters/test_tools.py": "check",
    # -- command line and docs
    "tests/cli/test_graph.py": "check",
    "tests/cli/test_lines.py": "check",
    "tests/cli/test_names.py": "check",
    "tests/cli/test_short_ids.py": "check",
    "tests/cli/commands/test_watch.py::test_a_path_of_ones_own_comes_later_and_the_store_is_in_it": "full",
    "tests/cli/ui/test_any_keys.py::test_no_order_of_keys_ends_the_browser[2]": "full",
    "tests/cli/ui/test_any_keys.py::test_no_order_of_keys_ends_the_browser[3]": "full",
    "tests/docs/test_architecture.py": "check",
    "tests/docs/test_links.py": "check",
    "tests/docs/test_reference.py": "check",
    "tests/docs/test_server_pages.py": "full",
    "tests/docs/test_server_pages.py::test_a_page_does_what_it_says[use-a-remote-store]": "test",
    # -- server: access, process, live, remote, conversations
    "tests/server/access/test_browser.py": "full",
    "tests/server/access/test_browser.py::test_a_code_in_the_fragment_signs_in_and_is_gone_from_the_address": "test",
    "tests/server/access/test_browser.py::test_s15_a_page_of_another_origin_reads_and_changes_nothing[127.0.0.1]": "test",
    "tests/server/access/test_browser.py::test_s14_a_name_that_was_rebound_to_this_machine_is_refused": "test",
    "tests/server/access/test_browser.py::test_the_policy_of_the_page_lets_nothing_else_run": "test",
    "tests/server/process/test_how_to.py::test_behind_a_proxy_under_a_path[caddy-caddyfile]": "full",
    "tests/server/process/test_serve.py::test_the_token_is_the_same_after_a_restart_until_a_new_one_is_wanted": "full",
    "tests/server/process/test_serve.py::test_two_servers_of_one_store_have_two_ports": "full",
    "tests/server/process/test_serve.py::test_a_read_only_server_changes_nothing": "full",
    "tests/server/process/test_serve.py::test_the_browser_is_opened_at_an_address_that_signs_in_once": "full",
    "tests/server/process/test_serve.py::test_s16_the_address_of_the_browser_is_worth_nothing_to_other_users_of_the_machine": "full",
    "tests/server/process/test_serve.py::test_without_a_browser_the_server_says_so_and_serves": "full",
    "tests/server/process/test_serve.py::test_ctrl_c_ends_it": "full",
    "tests/server/process/test_serve.py::test_a_request_that_does_not_end_is_cut_off": "full",
    "tests/server/process/test_serve.py::test_what_was_acknowledged_and_leased_outlives_the_server[15]": "full",
    "tests/server/process/test_serve.py::test_a_server_waits_while_another_process_follows": "full",
    "tests/server/process/test_workers.py::test_a_stop_reaches_all_and_streams_are_told": "full",
    "tests/server/process/test_workers.py::test_workers_whose_parent_was_killed_end_by_themselves": "full",
    "tests/server/process/test_workers.py::test_a_hangup_reaches_all": "full",
    "tests/server/process/test_workers.py::test_a_follower_of_a_store_that_is_opened_over_http_does_not_hold_up_the_end": "full",
    "tests/server/live/test_reconnecting.py::test_nothing_is_missed_and_nothing_repeated": "full",
    "tests/server/remote/test_lost_answers.py::TestServerThatIsKilled": "full",
    "tests/server/test_schemathesis.py::test_made_up_requests_find_nothing": "full",
    "tests/backends/http/test_conformance.py::TestOverMemory": "full",
    "tests/backends/http/test_machine.py::test_many_stories_over_memory": "full",
    "tests/backends/http/test_machine.py::test_many_stories_over_sqlite": "full",
    # -- server: routes, mcp
    "tests/server/mcp/safety/test_stdio.py::test_with_all_it_searches_every_directory": "full",
    "tests/server/mcp/clients/test_conformance.py": "full",
    "tests/server/mcp/clients/test_inspector.py": "full",
    "tests/server/mcp/clients/test_python_client.py::test_everything_answers_over_pipes[legacy]": "full",
    "tests/server/mcp/http/test_serving.py::test_clients_go_on_when_the_server_was_killed_and_started_again": "full",
    "tests/server/mcp/http/test_serving.py::test_a_server_that_is_told_to_stop_does_not_wait_for_who_listens": "full",
    "tests/server/mcp/install/test_commands.py::test_the_entry_starts_a_server_that_finds_the_sessions_of_the_directory[codex]": "full",
    "tests/server/mcp/safety/test_budget.py::test_a_walk_reads_every_entry_once_in_both_directions[others]": "full",
    "tests/server/mcp/safety/test_budget.py::test_a_walk_over_hits_and_sessions_shows_each_once[others]": "full",
    "tests/server/mcp/safety/test_fuzz.py::test_s45_hostile_arguments_get_an_answer_or_a_typed_error[others]": "full",
    "tests/server/mcp/safety/test_pages.py::test_s24_no_page_tells_a_secret[others]": "full",
    "tests/server/mcp/safety/test_secrets.py::test_s24_no_rule_lets_a_secret_out[others]": "full",
    "tests/server/mcp/safety/test_stdio.py::test_a_signal_ends_it_at_once_and_the_store_is_sound[SIGTERM]": "full",
    # -- server: page: one path in a browser for each thing that the page can do
    "tests/server/page": "full",
    "tests/server/page/test_bundle.py": "test",
    "tests/server/page/test_pictures.py::test_the_demo_store_is_whole_and_has_something_of_everything": "test",
    "tests/server/page/test_hostile.py::test_markup_has_one_door": "test",
    "tests/server/page/test_sessions.py::test_two_tabs_show_what_happens_without_being_loaded_again": "test",
    "tests/server/page/test_sessions.py::test_search_as_you_type_marks_the_words_and_enter_opens_the_place": "test",
    "tests/server/page/test_sessions.py::test_chips_narrow_the_list_and_are_the_address": "test",
    "tests/server/page/test_sessions.py::test_every_chip_finds_what_it_names_and_is_taken_off": "test",
    "tests/server/page/test_sessions.py::test_days_are_chosen_from_a_menu_or_typed": "test",
    "tests/server/page/test_sessions.py::test_a_star_a_title_and_tags_are_changed_in_their_place": "test",
    "tests/server/page/test_sessions.py::test_the_trash_takes_subagents_along_and_gives_all_back": "test",
    "tests/server/page/test_sessions.py::test_a_phone_shows_the_list_alone_and_then_the_session_alone": "test",
    "tests/server/page/test_transcript.py::test_a_call_is_one_line_that_gets_its_result_when_it_comes_and_unfolds_to_both": "test",
    "tests/server/page/test_transcript.py::test_what_other_programs_wrote_is_drawn_and_a_subagent_is_a_link": "test",
    "tests/server/page/test_transcript.py::test_a_long_session_opens_at_its_end_never_jumps_and_keys_reach_both_ends": "test",
    "tests/server/page/test_transcript.py::test_new_entries_are_followed_at_the_end_only": "test",
    "tests/server/page/test_branches.py::test_rewind_shows_what_happens_to_files_before_it_happens": "test",
    "tests/server/page/test_branches.py::test_fork_here_opens_a_fork_that_ends_at_the_entry": "test",
    "tests/server/page/test_cursor.py::test_keys_act_on_the_entry_that_has_the_ring": "test",
    "tests/server/page/test_compare.py::test_two_sessions_stand_side_by_side_behind_what_they_share": "test",
    "tests/server/page/test_files.py::test_one_file_has_its_diff_its_text_its_history_and_a_download": "test",
    "tests/server/page/test_usage.py::test_every_sum_leads_further_and_the_address_tells_what_is_shown": "test",
    "tests/server/page/test_handoff.py::test_a_link_shows_one_session_to_whoever_has_it_until_it_is_removed": "test",
    "tests/server/page/test_handoff.py::test_exports_are_downloaded_and_have_what_was_chosen": "test",
    "tests/server/page/test_sign_in.py::test_s36_a_page_whose_token_ended_says_so_and_goes_on_after_a_new_sign_in": "test",
    "tests/server/page/test_sign_in.py::test_a_token_that_reads_is_offered_nothing_that_changes": "test",
    "tests/server/page/test_reconnect.py::test_what_was_said_and_rewound_while_the_server_was_away_is_followed": "test",
    "tests/server/page/test_keyboard.py::test_the_palette_leads_to_sessions_and_to_words_of_messages": "test",
    "tests/server/page/test_key_reference.py": "test",
    "tests/server/page/test_today.py": "test",
    "tests/server/page/test_accessibility.py::test_axe_finds_nothing_in_any_view[wide-some]": "test",
    "tests/server/page/test_accessibility.py::test_axe_finds_nothing_in_any_view[phone-some]": "test",
    "tests/server/page/test_accessibility.py::test_the_way_through_the_page_needs_no_mouse": "test",
    "tests/server/page/test_hostile.py::test_a_list_of_sessions_and_a_session_with_any_id_are_text[some]": "test",
    "tests/server/page/test_hostile.py::test_every_kind_of_message_is_text_unfolded_as_well": "test",
    "tests/server/page/test_hostile.py::test_a_session_of_every_kind_and_words_of_scripts_are_text_unfolded_as_well": "test",
    # -- faults
    "tests/faults/long": "full",
    "tests/faults/leases/test_clocks.py": "full",
    "tests/faults/leases/test_clocks.py::test_f25_finds_leases_that_are_measured_by_the_wall_clock": "test",
}
"""The smallest tier of each test: of a folder, a file, or one test in it. The longest row counts."""

SHARES = {
    "tests/behaviour": {"memory": 8, "jsonl": 8, "postgres": 8, "http": 4},
    "tests/importers": {"memory": 8, "jsonl": 8},
    "tests/adapters": {"memory": 8, "jsonl": 8, "postgresql": 8},
    "tests/behaviour/conversation/test_fork_depth.py": {"memory": 2, "jsonl": 2, "postgres": 1},
    # -- locks, and several that write: each backend has its own way
    "tests/behaviour/conversation/test_append_threads.py": {"memory": 4, "jsonl": 2, "postgres": 2},
    "tests/behaviour/runs/test_fencing.py": {"memory": 4, "jsonl": 4, "postgres": 2, "http": 4},
    "tests/behaviour/runs/test_leases.py": {"memory": 4, "jsonl": 4, "postgres": 2, "http": 2},
    "tests/behaviour/store/test_transaction_scope.py": {"memory": 8, "jsonl": 4, "postgres": 2},
    # -- what is removed must be gone from files of every kind
    "tests/behaviour/retention/test_erasure.py": {"memory": 8, "jsonl": 2, "postgres": 4},
    "tests/behaviour/sessions/test_damage.py": {"memory": 2, "jsonl": 1, "postgres": 1},
    "tests/behaviour/sessions/test_deletion.py": {"memory": 8, "jsonl": 4, "postgres": 4},
    "tests/behaviour/store/test_redaction.py": {"memory": 8, "jsonl": 4, "postgres": 4},
    # -- what a server or a file sorts, filters and pages by itself
    "tests/behaviour/sessions/test_listing.py": {"memory": 8, "jsonl": 4, "postgres": 4},
}
"""Of the tests of each file that run once per backend, `make test` runs one of so many, and one at least; the
rest is full. The longest row counts; a backend that it does not name runs them all."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tier", choices=tiers.TIERS, default="full", help="how much to run (default: everything)"
    )


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts background jobs with SIGINT ignored, and children would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["CLEW_TIER"] = config.getoption("tier")  # see tests/support/effort.py
    if config.getoption("tier") != "full" and not config.getoption("--hypothesis-profile"):
        settings.load_profile("the same every time")


def pytest_sessionstart() -> None:
    forget_variables_of_the_user()  # not earlier: pytest itself looks whether the terminal has colours


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    path = collection_path.relative_to(config.rootpath).as_posix()
    if path == "tests" or not path.startswith("tests/"):
        return None
    return None if tiers.may_hold(path, TABLE, config.getoption("tier")) else True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.getoption("tier")
    if wanted == "full":
        return
    left = _left_for_full(items)
    chosen = [
        item
        for item in items
        if item.nodeid not in left and tiers.runs_in(tiers.tier_of(item.nodeid, TABLE), wanted)
    ]
    if len(chosen) < len(items):
        kept = set(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = chosen


def _left_for_full(items: Iterable[pytest.Item]) -> set[str]:
    """Of each file and backend that SHARES names, the tests that are not in its share."""
    groups: dict[tuple[str, str], list[str]] = {}
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is not None and "backend" in callspec.params:
            path = item.nodeid.partition("::")[0]
            groups.setdefault((path, str(callspec.params["backend"])), []).append(item.nodeid)
    left: set[str] = set()
    for (path, backend), tests in groups.items():
        rows = [row for row in SHARES if path == row or path.startswith(row + "/")]
        if rows:
            one_of = SHARES[max(rows, key=len)].get(backend, 1)
            left |= {*tests} - {*tiers.share_of(tests, one_of)}
    return left


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with tiers.stays_inside(item.config.getoption("tier")):
        return (yield)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            needs.need(name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    missing = needs.summary(terminalreporter.stats.get("skipped", []))
    if missing:
        terminalreporter.write_line(f"not run: {missing}")


keep_compiled_code()
use_memory_for_temporary_files()

# The key and the settings of the user who runs the tests are none of theirs.
os.environ["CLEW_STATE_DIR"] = tempfile.mkdtemp(prefix="clew-state-")
atexit.register(shutil.rmtree, os.environ["CLEW_STATE_DIR"], ignore_errors=True)
os.environ["CLEW_CONFIG"] = os.path.join(os.environ["CLEW_STATE_DIR"], "config.toml")

# No deadline per example: a shared machine pauses when it likes, and pytest-timeout stops a hang.
settings.register_profile("clew", deadline=None, print_blob=True, derandomize="CI" in os.environ)
settings.register_profile("the same every time", settings.get_profile("clew"), derandomize=True)
settings.register_profile("thorough", settings.get_profile("clew"), max_examples=1000, derandomize=False)
settings.load_profile("clew")
