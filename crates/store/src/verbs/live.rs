//! Live queries: lists that are kept up to date.
//!
//! [`Store::live`](crate::Store::live) returns the rows of a query, and then the changes that each
//! commit makes in them. Rows are read once, at a known position of the change feed; after that,
//! the changes of each commit are applied in memory.
//!
//! ```text
//!  change feed ─► hub_thread ─► query_index ─► shared_query: window ─ diff ─► LiveUpdate
//!                                                  ▲                              │
//!                                              exact_read                  queue of each
//!                                                                      subscriber (LiveRows)
//! ```
//!
//! | file | subject |
//! |---|---|
//! | `update.rs` | events: snapshots and patches |
//! | `diff.rs` | the difference of two pages |
//! | `definition.rs` | the query, with the filter of the caller's rights |
//! | `window.rs` | the rows that match a query, up to a boundary |
//! | `exact_read.rs` | reads rows at a known position |
//! | `shared_query.rs` | a query with its subscribers |
//! | `query_index.rs` | the queries that a change can concern |
//! | `hub.rs`, `hub_thread.rs` | all queries of a store, and the thread that applies commits |
//! | `resume.rs`, `resume_point.rs` | continues at an earlier position |
//! | `live_rows.rs`, `live_query.rs` | subscribers, with rows as values or as models |

mod definition;
mod diff;
mod exact_read;
mod hub;
mod hub_thread;
mod live_query;
mod live_rows;
mod query_index;
mod resume;
mod resume_point;
mod shared_query;
mod update;
mod window;

pub use live_query::{LiveQuery, LiveStream};
pub use live_rows::LiveRows;
pub use resume_point::ResumePoint;
pub use update::{LiveContent, LiveEvent, LiveRow, LiveUpdate, PageEnd, RowPatch};
