//! The conformance suite: the promises that every engine keeps, as tests to run on an engine.
//!
//! A promise is a function that takes a [`Subject`] and panics if the engine breaks it.
//! [`conformance!`](crate::conformance!) makes a `#[test]` of each:
//!
//! ```ignore
//! use marmota_testkit::conformance;
//! use marmota_testkit::conformance::Subject;
//!
//! conformance!(my_engine, || Subject::new("my engine", || Store::builder(MyEngine::new())));
//! ```
//!
//! Promises use only the public API: a store and its verbs. The memory engine is the reference of
//! [`differential`]: random operations must have the same results and the same errors on both.

/// Registers the promises of a module: makes a macro that [`conformance!`](crate::conformance!)
/// calls. Promises after `by transactions` need an engine with transactions; on others, the engine
/// must refuse transactions.
macro_rules! register {
    ($d:tt $name:ident $($list:tt)*) => {
        #[doc(hidden)]
        #[macro_export]
        macro_rules! $name {
            () => { $d crate::promises!($($list)*); };
        }
    };
}

mod access;
mod acid;
pub mod differential;
mod event_loops;
mod harness;
mod queries;
mod rows;
mod schemas;

pub use access::{field_rights, history, related_rights, rights};
pub use acid::{
    background, batches, before_hooks, changes, composite_links, concurrency, durability,
    file_fields, groups, hooks, idempotency, jobs, live, transactions,
};
pub use event_loops::{budgets, event_loop};

pub use harness::subject::{AddModels, Declared, Served, Subject};
pub use queries::{
    any_references, filters, grouping, json_paths, pages, places, ranking, related, related_groups,
    related_orders, relations, search, streams, vectors,
};
pub use rows::{
    composite_keys, composite_references, computed_fields, conflicts, default_expressions, fields,
    immutable, keys, on_delete, partial_indexes, references, sanitizers, unique, versions, writes,
};
pub use schemas::{generated_columns, migrations, schema_change, schema_plan};

/// Checks that an engine without transactions refuses them. [`crate::conformance!`] calls it.
#[doc(hidden)]
pub fn without_transactions(subject: &Subject) {
    transactions::refused_without(subject);
}

/// Makes a `#[test]` of each promise, in a module with the given name. The expression is a function
/// without arguments that returns a new [`Subject`], with an empty database, for each test.
#[macro_export]
macro_rules! conformance {
    ($engine:ident, $subject:expr) => {
        mod $engine {
            use super::*;

            fn subject() -> $crate::conformance::Subject {
                static DECLARED: $crate::conformance::Declared =
                    $crate::conformance::Declared::new();
                DECLARED.subject($subject)
            }

            mod differential {
                #[test]
                fn random_operations_agree() {
                    $crate::conformance::differential::random_operations_agree(super::subject);
                }
            }

            $crate::any_references_promises!();
            $crate::background_promises!();
            $crate::batches_promises!();
            $crate::before_hooks_promises!();
            $crate::budgets_promises!();
            $crate::changes_promises!();
            $crate::composite_keys_promises!();
            $crate::composite_links_promises!();
            $crate::composite_references_promises!();
            $crate::computed_fields_promises!();
            $crate::concurrency_promises!();
            $crate::conflicts_promises!();
            $crate::default_expressions_promises!();
            $crate::durability_promises!();
            $crate::event_loop_promises!();
            $crate::fields_promises!();
            $crate::file_fields_promises!();
            $crate::filters_promises!();
            $crate::generated_columns_promises!();
            $crate::grouping_promises!();
            $crate::field_rights_promises!();
            $crate::related_rights_promises!();
            $crate::relations_promises!();
            $crate::groups_promises!();
            $crate::history_promises!();
            $crate::hooks_promises!();
            $crate::idempotency_promises!();
            $crate::immutable_promises!();
            $crate::jobs_promises!();
            $crate::json_paths_promises!();
            $crate::keys_promises!();
            $crate::live_promises!();
            $crate::migrations_promises!();
            $crate::on_delete_promises!();
            $crate::pages_promises!();
            $crate::streams_promises!();
            $crate::ranking_promises!();
            $crate::references_promises!();
            $crate::related_groups_promises!();
            $crate::related_orders_promises!();
            $crate::related_promises!();
            $crate::rights_promises!();
            $crate::sanitizers_promises!();
            $crate::schema_change_promises!();
            $crate::schema_plan_promises!();
            $crate::search_promises!();
            $crate::transactions_promises!();
            $crate::unique_promises!();
            $crate::partial_index_promises!();
            $crate::places_promises!();
            $crate::vectors_promises!();
            $crate::versions_promises!();
            $crate::writes_promises!();
        }
    };
}

/// Makes the tests of one module's promises.
#[doc(hidden)]
#[macro_export]
macro_rules! promises {
    ($module:ident: $($promise:ident),* $(,)? $(; by transactions: $($kept:ident),* $(,)?)?) => {
        mod $module {
            $(
                #[test]
                fn $promise() {
                    $crate::conformance::$module::$promise(&super::subject());
                }
            )*
            $($(
                #[test]
                fn $kept() {
                    let subject = super::subject();
                    match subject.capability().transactions {
                        true => $crate::conformance::$module::$kept(&subject),
                        false => $crate::conformance::without_transactions(&subject),
                    }
                }
            )*)?
        }
    };
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// A promise that is written but not registered would never be tested.
    #[test]
    fn every_promise_is_registered() {
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance")];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        let mut promises = 0;
        for path in files {
            let text = fs::read_to_string(&path).unwrap();
            let is_promise = |rest: &&str| rest.contains("(subject: &Subject)");
            for promise in text.lines().filter_map(|line| line.strip_prefix("pub fn ")) {
                if !is_promise(&promise) {
                    continue;
                }
                let name = promise.split('(').next().unwrap();
                let entry = format!("    {name},");
                let is_registered = text.lines().any(|line| line == entry);
                assert!(is_registered, "{name} is not registered in {}", path.display());
                promises += 1;
            }
        }
        assert!(promises > 200, "{promises} promises were found");
    }
}
