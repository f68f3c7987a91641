//! What every engine promises of transactions, and of writes that take several
//! steps, by the ways that the engine goes on a replica set. What [`Replica`]
//! does not show, how transactions side by side are kept apart, is not tested
//! by it; all other promises are tested where FerretDB is (`crates/testkit`).

use marmota_mongo::Mongo;
use marmota_store::Store;
use marmota_testkit::conformance::{Declared, Subject};
use marmota_testkit::promises;

use crate::replica::Replica;
use crate::server;

fn subject() -> Subject {
    static DECLARED: Declared = Declared::new();
    DECLARED.subject(fresh)
}

fn fresh() -> Subject {
    let replica = Replica::of("7.0", &server().url());
    // It looks through all rows for each key, and the machine may be busy.
    Subject::new("a replica set of MongoDB's protocol", move || {
        let url = format!("{}&operation_timeout_ms=120000", replica.url());
        Store::builder(Mongo::from_url(&url).unwrap())
    })
}

promises!(transactions: ; by transactions:
    a_commit_keeps_all,
    uncommitted_writes_are_undone,
    a_closure_that_succeeds_commits,
    a_transaction_sees_its_writes,
    others_do_not_see_an_open_transaction,
    writes_wait_for_a_transaction,
    what_a_transaction_has_read_stays,
    an_error_leaves_a_transaction_usable,
    savepoints_nest,
    a_transaction_can_be_awaited,
    a_transaction_ends_once,
    transactions_follow_each_other,
);
promises!(batches:
    each_write_stands_for_itself,
    each_write_stands_for_itself_after_a_refusal,
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
    a_batch_in_a_transaction_is_its_own,
);
promises!(before_hooks: ; by transactions:
    a_hook_gets_the_rows_of_every_write,
    a_changed_row_is_written_and_checked,
    a_refused_write_leaves_nothing,
    a_counter_of_rows_is_always_right,
    many_rows_are_deleted_with_their_hooks,
    batches_call_hooks,
    a_transaction_contains_its_hooks,
    a_panic_is_an_error_of_the_write,
    a_hook_is_over_at_its_deadline,
    a_cycle_of_hooks_is_an_error,
    background_batches_call_hooks,
    rules_on_rows_apply_to_the_changed_row,
    the_history_and_the_feed_have_the_changed_row,
);
promises!(any_references: ; by transactions:
    a_text_leads_to_a_row_of_any_table,
    writes_of_the_text_change_the_row,
    links_write_the_text,
    queries_follow_the_references,
    a_row_named_by_a_text_stays,
);
promises!(composite_references:
    a_reference_that_does_not_fit_is_refused,
; by transactions:
    a_reference_is_computed_of_its_fields,
    a_row_referred_to_by_its_fields_stays,
    filters_follow_the_reference,
    a_reference_has_values_of_any_kind,
    all_verbs_compute_references,
);
promises!(conflicts:
    a_row_takes_the_place_of_others,
    a_row_referred_to_is_replaced_by_its_like,
    an_upsert_writes_over,
    the_key_decides_before_an_index,
    many_rows_are_placed,
    a_row_that_cannot_be_placed_is_named,
; by transactions:
    a_batch_places_rows,
    a_transaction_undoes_what_was_placed,
);
promises!(durability: ; by transactions:
    a_close_waits_for_what_is_open,
    a_close_can_be_tried_again,
    a_transaction_may_outlive_its_store,
);
promises!(history: ; by transactions:
    every_write_leaves_an_entry,
    many_rows_leave_an_entry_each,
    a_failed_write_leaves_none,
    a_transaction_enters_what_it_commits,
    a_batch_enters_what_it_did,
);
promises!(idempotency: ; by transactions:
    a_repeat_gets_the_first_answer,
    a_key_belongs_to_one_batch,
    a_failed_batch_can_be_retried,
    several_at_once_write_once,
    a_transaction_undoes_what_was_kept,
);
promises!(migrations: ; by transactions:
    migrations_are_done_once_in_order,
    a_failed_migration_leaves_nothing,
    a_database_goes_back,
);
promises!(references:
    a_reference_needs_its_row,
    a_row_referred_to_stays,
    a_delete_by_filter_spares_all,
    rows_may_refer_to_their_own_kind,
    a_moved_reference_releases_its_row,
);
promises!(related_rights: ; by transactions:
    a_rule_through_relations_decides_every_verb,
    a_rule_on_the_new_row_reads_its_relations,
    references_need_rows_that_a_rule_selects,
    a_lost_membership_hides_rows_at_once,
    filters_do_not_see_hidden_rows,
);
promises!(relations:
    random_filters_agree_with_rust,
    a_condition_is_never_unknown,
    deletes_and_counts_take_relations,
; by transactions:
    a_transaction_sees_its_own_related_rows,
);
promises!(rights: ; by transactions:
    a_written_row_must_match_the_rule,
    an_insert_can_conflict_with_a_hidden_row,
    a_hidden_row_cannot_be_referred_to,
);
promises!(unique:
    a_unique_pair_holds,
    many_rows_are_all_or_none,
    many_updates_are_all_or_none,
; by transactions:
    a_freed_value_can_be_taken,
);
