//! The limits of `expand`, and the error for what it refuses.

/// The maximum depth of relations within relations.
pub(super) const DEPTH_MAX: usize = 3;
/// The maximum number of relations in a request.
pub(super) const RELATIONS_MAX: usize = 10;
/// The maximum number of related rows in an answer.
pub(super) const ROWS_MAX: u64 = 10_000;
/// The maximum number of related rows for each row, without `limit`.
pub(super) const LIMIT_DEFAULT: u64 = 20;

/// Returns the error for a part of `expand`: its place, such as `assignee.team`, and the reason.
pub(super) fn refused(place: &str, rule: &str, message: String) -> marmota_web::ApiError {
    crate::protocol::refusal::of_param("expand", place, rule, message)
}
