//! What every engine of Marmota promises, as tests that anybody can run on an
//! engine of theirs.
//!
//! A promise is a function that takes a [`Subject`] and panics if it is
//! broken. [`conformance!`] makes a `#[test]` of each:
//!
//! ```ignore
//! marmota_conformance::conformance!(my_engine, || {
//!     Subject::new("my engine", || Store::builder(MyEngine::open()))
//! });
//! ```
//!
//! Promises use only what users have: a store and its verbs. The memory
//! engine is the oracle of [`differential`], where random operations must have
//! the same results and the same errors on both.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a promise that is broken panics")]

mod models;
mod refusal;
mod subject;
mod waiting;

pub mod background;
pub mod batches;
pub mod budgets;
pub mod concurrency;
pub mod conflicts;
pub mod differential;
pub mod durability;
pub mod event_loop;
pub mod fields;
pub mod filters;
pub mod groups;
pub mod history;
pub mod idempotency;
pub mod immutable;
pub mod json_paths;
pub mod keys;
pub mod migrations;
pub mod pages;
pub mod references;
pub mod rights;
pub mod schema_change;
pub mod schema_plan;
pub mod search;
pub mod transactions;
pub mod unique;
pub mod versions;
pub mod writes;

pub use subject::{Declared, Models, Served, Subject};

/// What a promise that is kept by transactions comes to on an engine that has
/// none; for [`conformance!`].
#[doc(hidden)]
pub fn without_transactions(subject: &Subject) {
    transactions::refused_without(subject);
}

/// A `#[test]` of every promise, in a module called like the engine, on what
/// the expression behind it makes: a function without arguments that gives a
/// [`Subject`] of its own, with an empty database, each time.
#[macro_export]
macro_rules! conformance {
    ($engine:ident, $subject:expr) => {
        mod $engine {
            use super::*;

            fn subject() -> $crate::Subject {
                static DECLARED: $crate::Declared = $crate::Declared::new();
                DECLARED.subject($subject)
            }

            mod differential {
                #[test]
                fn random_operations_agree() {
                    $crate::differential::random_operations_agree(super::subject);
                }
            }

            $crate::promises!(background:
                what_is_accepted_is_written,
                a_close_writes_what_is_left,
                a_close_of_the_store_flushes,
                an_error_nobody_waits_for_is_told,
                a_bad_row_is_refused_at_once,
            ; by transactions:
                each_hears_of_its_own_failure,
                what_waits_is_bounded,
            );
            $crate::promises!(batches:
                each_write_stands_for_itself,
            ; by transactions:
                a_batch_writes_all,
                a_batch_takes_values,
                later_writes_refer_to_earlier_ones,
                a_bad_reference_of_a_batch_is_named,
                a_batch_patches,
                a_failed_write_undoes_the_batch,
                a_bad_row_stops_the_batch,
                an_empty_batch_is_fine,
                writes_see_those_before,
                a_large_batch_is_one,
                a_batch_in_a_transaction_is_its_own,
            );
            $crate::promises!(event_loop:
                no_call_blocks_the_thread,
            );
            $crate::promises!(budgets:
                a_long_delete_leaves_its_thread,
                a_long_read_leaves_its_thread,
                a_long_read_can_be_dropped,
            ; by transactions:
                a_long_read_is_of_one_moment,
            );
            $crate::promises!(concurrency:
                no_increment_is_lost,
                one_writer_of_a_version_wins,
                unique_holds_among_threads,
                keys_are_given_once,
                a_row_callback_cannot_call_the_store,
            ; by transactions:
                readers_see_whole_writes,
                lists_are_whole_while_rows_change,
                a_sink_may_end_a_read,
                a_write_that_waits_leaves_its_thread,
                waiting_actions_get_their_own_answers,
                waiting_threads_keep_nobody_waiting,
                no_read_is_older_than_what_was_acknowledged,
            );
            $crate::promises!(conflicts:
                a_new_row_is_inserted,
                what_is_there_is_left_alone,
                a_row_takes_the_place_of_others,
                a_replaced_row_is_new,
                a_row_referred_to_is_replaced_by_its_like,
                an_upsert_writes_over,
                the_key_decides_before_an_index,
                rules_hold_whatever_is_there,
                many_rows_are_placed,
                a_row_that_cannot_be_placed_is_named,
                an_upsert_of_a_record_leaves_the_rest,
                threads_upsert_one_row,
            ; by transactions:
                a_batch_places_rows,
                a_transaction_undoes_what_was_placed,
            );
            $crate::promises!(durability:
                a_close_among_writes_keeps_what_was_done,
            ; by transactions:
                a_drop_is_a_close,
                a_close_keeps_all,
                a_close_waits_for_what_is_open,
                a_close_can_be_tried_again,
                a_transaction_may_outlive_its_store,
                a_closed_store_refuses,
            );
            $crate::promises!(fields:
                inserted_values_come_back,
                values_inserted_together_come_back,
                updated_values_come_back,
                a_patch_writes_its_field_alone,
                a_patch_writes_several_fields_at_once,
                optional_fields_hold_null,
                records_are_the_same_rows,
                a_record_updates_what_it_has,
                awaited_is_the_same_as_run,
                a_column_is_read_alone,
                fields_not_asked_for_are_absent,
                values_that_do_not_fit_are_refused,
            ; by transactions:
                blobs_are_read_only_when_asked_for,
            );
            $crate::promises!(filters:
                every_kind_compares,
                every_kind_is_in_or_null,
                null_is_neither_true_nor_false,
                texts_are_searched,
                collation_decides_how_texts_compare,
                values_beyond_the_field_find_nothing,
                not_a_number_is_refused,
                a_filter_of_another_kind_is_refused,
                large_filters_are_answered,
                rows_come_in_order,
                every_kind_sorts,
            );
            $crate::promises!(groups:
                each_writer_hears_its_own_result,
                futures_of_one_thread_hear_their_own_results,
                a_reader_sees_what_was_acknowledged,
                writes_that_are_given_up_are_whole,
            );
            $crate::promises!(history: ; by transactions:
                every_write_leaves_an_entry,
                an_entry_has_what_changed,
                many_rows_leave_an_entry_each,
                a_failed_write_leaves_none,
                a_transaction_enters_what_it_commits,
                a_batch_enters_what_it_did,
                history_outlives_the_fields,
                nobody_rewrites_history,
                entries_grow_too_old,
                an_audited_write_that_waits_is_entered,
            );
            $crate::promises!(json_paths:
                paths_select_by_what_is_inside,
                random_json_is_looked_into,
                a_path_that_makes_no_sense_is_refused,
                strange_json_is_no_obstacle,
            );
            $crate::promises!(idempotency: ; by transactions:
                a_repeat_gets_the_first_answer,
                a_key_is_of_one_batch,
                what_failed_can_be_tried_again,
                several_at_once_write_once,
                a_transaction_undoes_what_was_kept,
                answers_are_bounded,
                a_store_without_answers_says_so,
            );
            $crate::promises!(immutable: ; by transactions:
                an_immutable_field_stays,
                an_immutable_field_stays_on_every_path,
            );
            $crate::promises!(keys:
                automatic_keys_ascend,
                a_given_automatic_key_is_kept,
                a_deleted_key_is_not_given_again,
                keys_do_not_wrap,
                a_taken_key_conflicts,
                a_taken_key_among_many_is_named,
                a_negative_key_is_refused,
                uuids_are_given_in_order,
                a_given_uuid_is_kept,
                text_keys_are_exact,
                what_is_missing_is_not_found,
                a_key_of_another_kind_is_refused,
                records_are_given_keys,
            );
            $crate::promises!(migrations: ; by transactions:
                migrations_are_done_once_in_order,
                a_failed_migration_leaves_nothing,
                an_empty_database_skips_what_is_for_rows,
                a_database_goes_back,
                what_cannot_be_undone_is_refused,
                numbers_and_names_are_settled,
                a_database_of_a_newer_program_is_refused,
                a_plan_that_is_refused_does_no_migration,
            );
            $crate::promises!(pages:
                pages_walk_every_row_once,
                a_page_begins_behind_a_row,
                pages_stand_while_rows_change,
                any_key_ends_an_order,
                a_start_of_another_order_is_refused,
            );
            $crate::promises!(references:
                a_reference_needs_its_row,
                a_reference_holds_any_key,
                a_row_referred_to_stays,
                a_delete_by_filter_spares_all,
                rows_may_refer_to_their_own_kind,
                a_moved_reference_lets_go,
            );
            $crate::promises!(rights: ; by transactions:
                what_is_not_granted_is_denied,
                a_hidden_row_is_not_there,
                a_new_row_has_to_suit,
                a_hidden_row_in_the_way_is_a_conflict,
                a_hidden_row_cannot_be_referred_to,
                history_is_for_those_who_may_read,
                an_answer_is_kept_for_its_caller,
                one_caller_takes_no_others_answers,
                all_ways_deny_the_same,
            );
            $crate::promises!(schema_change:
                the_same_models_open_again,
                tables_are_listed_without_models,
                a_new_column_gets_its_default,
                a_new_table_is_made,
                a_new_index_is_made,
                a_unique_index_over_doubles_is_refused,
                a_new_column_without_default_is_refused,
                another_kind_is_refused,
                nulls_in_the_way_are_refused,
                another_key_loses_nothing,
                a_column_left_out_loses_nothing,
                a_required_column_left_out_is_met_at_the_start,
                a_table_left_out_loses_nothing,
                the_order_of_fields_does_not_matter,
                a_newer_version_is_refused,
                models_that_make_no_sense_are_refused,
            );
            $crate::promises!(schema_plan:
                a_plan_changes_nothing,
                a_rename_keeps_values,
                a_column_is_dropped_when_told,
            );
            $crate::promises!(search:
                words_are_searched_for,
                keys_of_any_kind_are_found,
                random_texts_are_searched_alike,
                a_search_comes_and_goes,
                a_bad_search_is_refused,
                writers_at_once_keep_the_words,
            ; by transactions:
                every_write_keeps_the_words,
                what_is_undone_is_not_found,
            );
            $crate::promises!(transactions: ; by transactions:
                a_commit_keeps_all,
                what_is_not_committed_never_was,
                a_closure_that_succeeds_commits,
                a_transaction_sees_its_writes,
                others_do_not_see_an_open_transaction,
                reads_do_not_wait_for_a_transaction,
                writes_wait_for_a_transaction,
                what_a_transaction_has_read_stays,
                an_error_leaves_a_transaction_usable,
                savepoints_nest,
                a_transaction_can_be_awaited,
                a_transaction_ends_once,
                transactions_follow_each_other,
            );
            $crate::promises!(unique:
                a_unique_field_holds,
                a_unique_text_without_case_holds,
                a_unique_pair_holds,
                many_rows_are_all_or_none,
                many_updates_are_all_or_none,
            ; by transactions:
                a_freed_value_can_be_taken,
            );
            $crate::promises!(versions:
                stamps_and_version_are_the_stores,
                each_write_counts,
                a_model_without_version_gives_zero,
                a_stale_write_is_refused,
                a_version_of_nothing_is_not_found,
                a_write_without_version_goes_through,
                a_version_needs_its_field,
            ; by transactions:
                a_transaction_has_one_time,
            );
            $crate::promises!(writes:
                an_increment_gives_the_sum,
                an_increment_stays_in_range,
                an_increment_keeps_the_rules,
                only_numbers_are_added_to,
                null_is_not_added_to,
                a_delete_takes_one_row,
                a_delete_by_filter_takes_what_it_selects,
                counts_agree_with_lists,
                many_rows_get_their_keys,
                a_bad_row_among_many_is_named,
                keys_are_all_given_or_none,
                an_update_of_many_needs_every_row,
                a_failed_write_changes_nothing,
                defaults_fill_what_is_not_set,
            );
        }
    };
}

/// The promises of one module; for [`conformance!`]. Those that are kept by
/// transactions are, on an engine that has none, promises to say so.
#[doc(hidden)]
#[macro_export]
macro_rules! promises {
    ($module:ident: $($promise:ident),* $(,)? $(; by transactions: $($kept:ident),* $(,)?)?) => {
        mod $module {
            $(
                #[test]
                fn $promise() {
                    $crate::$module::$promise(&super::subject());
                }
            )*
            $($(
                #[test]
                fn $kept() {
                    let subject = super::subject();
                    match subject.capability().transactions {
                        true => $crate::$module::$kept(&subject),
                        false => $crate::without_transactions(&subject),
                    }
                }
            )*)?
        }
    };
}

#[cfg(test)]
mod tests {
    /// A promise that is written but not listed would never be tested.
    #[test]
    fn every_promise_is_listed() {
        let listed = include_str!("lib.rs");
        let sources = [
            include_str!("background.rs"),
            include_str!("batches.rs"),
            include_str!("budgets.rs"),
            include_str!("concurrency.rs"),
            include_str!("conflicts.rs"),
            include_str!("durability.rs"),
            include_str!("event_loop.rs"),
            include_str!("fields.rs"),
            include_str!("filters.rs"),
            include_str!("history.rs"),
            include_str!("json_paths.rs"),
            include_str!("idempotency.rs"),
            include_str!("keys.rs"),
            include_str!("pages.rs"),
            include_str!("references.rs"),
            include_str!("rights.rs"),
            include_str!("schema_change.rs"),
            include_str!("schema_plan.rs"),
            include_str!("search.rs"),
            include_str!("transactions.rs"),
            include_str!("unique.rs"),
            include_str!("versions.rs"),
            include_str!("writes.rs"),
        ];
        for line in sources.iter().flat_map(|source| source.lines()) {
            let Some(rest) = line.strip_prefix("pub fn ") else { continue };
            let name = rest.split('(').next().unwrap_or_default();
            let entry = format!("                {name},");
            assert!(listed.lines().any(|line| line == entry), "{name} is in no list");
        }
    }
}
