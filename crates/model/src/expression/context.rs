//! What an expression depends on besides the row.

use crate::{Caller, Timestamp};

/// The time and the caller of a write, for the expressions of defaults.
///
/// ```
/// use marmota_model::{ExpressionContext, Timestamp};
/// let context = ExpressionContext { now: Timestamp::now(), caller: None };
/// assert!(context.caller.is_none());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ExpressionContext<'c> {
    /// The time of the write: `@now`, and by its date in UTC `@today`.
    pub now: Timestamp,
    /// The authenticated caller: `@user.id` and `@user.name`, which are null without one.
    pub caller: Option<&'c Caller>,
}
