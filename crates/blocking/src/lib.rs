//! SQL engines on blocking drivers: what they share.
//!
//! Each operation is executed on a thread of a pool, with a connection of a driver that waits for
//! the server (`docs/design/064`). A caller's thread only passes the operation and receives rows.
//!
//! An engine implements [`BlockingOptions`], [`BlockingDriver`] and [`SqlConnection`], and chooses a [`Dialect`]: the
//! words by which databases differ, as data (`docs/design/070`). [`BlockingEngine`] does the rest.
#![forbid(unsafe_code)]

mod changes;
mod connection;
pub mod dialect;
mod engine;
mod executor;
mod failure;
mod loop_pool;
mod pool;
mod prepare;
mod session;
mod shared;
mod statement;

pub use connection::{
    BlockingDriver, ColumnName, LendRow, ReadAs, ReadStep, SqlConnection, SteppedConnection,
    Transacting, WriteCount,
};
pub use dialect::Dialect;
pub use engine::{BlockingEngine, BlockingOptions};
pub use failure::{FailureCause, SqlFailure};
pub use statement::text::{timestamp_text, value_of_text};
