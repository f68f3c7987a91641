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
//! | the related rows are read, one operation for each step of a relation | `read.rs` |
//! | the rows are written with their related rows | `write.rs` |

mod parse;
mod plan;
mod read;
mod write;

pub(crate) use read::Expansion;

/// The maximum depth of relations within relations.
const DEPTH_MAX: usize = 3;
/// The maximum number of relations in a request.
const RELATIONS_MAX: usize = 10;
/// The maximum number of related rows in an answer.
const ROWS_MAX: u64 = 10_000;
/// The maximum number of related rows for each row, without `limit`.
const LIMIT_DEFAULT: u64 = 20;

/// Returns the error for a part of `expand`: its place, such as `assignee.team`, and the reason.
fn refused(place: &str, rule: &str, message: String) -> marmota_web::ApiError {
    crate::protocol::refusal::of_param("expand", place, rule, message)
}
