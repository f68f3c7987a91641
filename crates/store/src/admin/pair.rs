//! Pairs of databases: the engine of a store is changed while the store is used.
//!
//! ```text
//!  fill                         rows are copied in pieces by key; each commit of the primary since then
//!    |                          is applied to the rows that were copied
//!  PairFollower::start          both stores are open; the secondary gets each commit of the primary
//!    |  compare                 all rows of both, piece by piece, each at one position
//!    |  compare_reads           a share of the callers' reads
//!  PairFollower::flip           callers wait; the last commits are applied; the roles change
//!    |
//!  PairFollower::start          with the roles changed, so that a second flip leads back
//! ```
//!
//! The record of the pair ([`PairRecord`]) is a row in both databases. On the secondary it has the
//! position of the last commit that was applied, written in the transaction that applied it. So each
//! commit is applied exactly once, also after a crash. A store on the secondary cannot be opened
//! like another one: two primaries would both accept writes.
//!
//! Internal tables move too. Their changes are recorded as long as the database is in a pair, and
//! [`ChangeStream`](crate::change::ChangeStream) leaves them out.
//!
//! Reasons: `docs/design/077-live-moves.md`.

pub(crate) mod apply;
pub(crate) mod compare;
pub(crate) mod fill;
pub(crate) mod flip;
pub(crate) mod follower;
pub(crate) mod piece;
pub(crate) mod reads;
pub(crate) mod writes;

pub use self::compare::{Compared, RowDifference};
pub use self::fill::{FillProgress, PairUrls, fill};
pub use self::flip::{check_alone, end, is_prepared, record_of, settle};
pub use self::follower::{PairFollower, PairProgress};
pub use self::reads::ComparedReads;
pub use crate::layers::feed::pair_record::{PairRecord, PairRole};
