//! `?expand=`: rows with the rows that they are related to.
//!
//! ```text
//! GET /api/issue?fields=id,assignee&expand=assignee(fields=name),comment(order=-id,limit=2)
//!
//! {"rows":[{"id":1,"assignee":7,"expand":{
//!   "assignee":{"name":"Ann"},
//!   "comment":[{"id":9,"issue":1,"text":"Done"},{"id":4,"issue":1,"text":"Why?"}]}}],"next":null}
//! ```
//!
//! | step | file |
//! |---|---|
//! | the text becomes a tree of items | `parse.rs` |
//! | the items become relations of the tables | `plan.rs` |
//! | the related rows are read, one operation for each step of a relation | `read.rs`, `rows.rs` |
//! | the rows are written with their related rows | `write.rs` |

mod limits;
mod parse;
mod plan;
pub(crate) mod read;
mod rows;
mod write;
