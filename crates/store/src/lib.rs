//! Operations on models, over any engine.
//!
//! A verb ([`Store::get`], [`Store::insert`], …) makes an [`Action`](action::Action). When it is
//! executed, it becomes an [`Operation`](operation::Operation), which a session of an
//! [`Engine`](engine::Engine) answers with rows lent to a sink and an outcome. This crate makes
//! rows ready ([`prepare`]), so that engines only store and find them.
//!
//! This crate passes SQL on ([`sql`]) but does not interpret it, and has no sockets.
#![forbid(unsafe_code)]

mod admin;
pub mod background;
mod batch_machine;
mod builder;
mod contract;
mod databases;
mod files;
mod layers;
pub mod migration;
pub mod rights;
mod rows;
mod runtime;
mod store;
mod verbs;

/// One API for blocking and asynchronous callers: a verb returns an [`Action`](action::Action),
/// which a server awaits and a script, a test or a thread runs.
///
/// Both submit the same operation to the same session. With an engine that answers at once the
/// future is ready at its first poll: no box, no channel, no task.
pub mod action {
    pub use crate::runtime::block_on::block_on;
    pub use crate::verbs::action::{Action, Verb};
    pub use crate::verbs::all::{All, all};
}

/// Operations: each operation on rows is data, not a method for each verb and engine; and the
/// execution of batches, which engines share.
///
/// Before an engine gets an operation, the store has checked its rows against the schema, filled in
/// keys, timestamps and defaults, and checked its query. The engine executes it atomically.
pub mod operation {
    pub use crate::batch_machine::{BatchDriver, BatchMachine, BatchParts, BatchStep};
    pub use crate::contract::operation::{
        ANSWERS, Answered, BatchMode, Cascade, Fingerprint, Idempotency, KEY_BYTES_MAX, Keys, Link,
        LinkAt, OnConflict, Once, OnceKey, Operation, Outcome, UpsertEffect, UpsertResult, Write,
        complete_linked, conflict_filters, conflicting_indexes, key_made, owned_rows,
        report_linked_key, resolve_links,
    };
}

/// Raw SQL: statements with bound values, their rows, and the verbs that run them
/// ([`query`](sql::query)). An engine that supports SQL declares so in its
/// [`Capability`](engine::Capability).
///
/// The rows of a statement do not belong to a table. Each column has a name. If it was read from a
/// field, it also has the field's kind; a computed value (`sum(amount)`) has one of SQL's types: an
/// integer, a float, a text or bytes.
pub mod sql {
    pub use crate::contract::sql::{
        Lender, SqlCall, SqlColumn, SqlColumns, SqlRefusal, SqlRow, SqlRows, Wanted, no_sql, text,
    };
    pub use crate::verbs::sql as query;
}

/// The change feed: the commits of a store in order, with the rows that they have changed
/// ([`Store::changes`]).
pub mod change {
    pub use crate::builder::renew_feed;
    pub use crate::contract::change::{
        Change, ChangeBuffer, ChangeKind, ChangeMark, ChangeRecorder, ChangedRows, Commit,
        EncodedRow, Position, RecordedRows, RecordedTable, ReplicaRead, RowEncoder,
    };
    pub use crate::layers::feed::options::ChangeRetention;
    pub use crate::verbs::changes::{ChangeStream, FeedEvent};
}

/// The seam for copying an engine's log elsewhere: continuous replication and replicas.
pub mod log_copy {
    pub use crate::contract::commit_sink::{
        CommitSink, FillPages, LogEnd, LogKind, LogPiece, LoggedCommit, LoggedDatabase,
        ReplacedPages, log_path,
    };
}

/// Hooks: functions that are called before a row of a model is written ([`StoreBuilder::before`]),
/// and for each committed change of a model ([`Store::after_commit`]).
pub mod hook {
    pub use crate::background::hooks::{DeadLetter, Hook, HookOptions, ModelChange};
    pub use crate::builder::{AsyncHook, BeforeChange, HookFuture};
    pub use crate::contract::file_guard::{FileChange, FileGuard};
}

pub use admin::tenants::{TenantStatistics, Tenants};
pub use admin::{backup, pair, transfer};
pub use builder::{DatabaseModels, StoreBuilder};
pub use contract::durability::Durability;
pub use contract::invalidation_feed::{FeedPause, InvalidationFeed};
pub use contract::operation::Idempotency;
pub use contract::statistics::EngineStatistics;
pub use contract::{borrowed_table, engine, existing, plan};
pub use files::{key, private_file, temporary_file};
pub use layers::cache::row_cache::CacheStats;
pub use layers::metrics::meter;
pub use rows::history::{History, HistoryAction};
pub use rows::{
    history, predicate, prepare, refusal, registry, related_values, row_buffer, tables,
};
pub use runtime::{backoff, in_flight, thread_pool, wait};
pub use store::{Pending, Progress, Statistics, Store};
pub use verbs::transaction::{Savepoint, Transaction};
pub use verbs::{access, aggregate, batch, group, live, read, related, stream, write};
