//! The statements that control transactions, and the settings within them.

use std::sync::LazyLock;

use super::Text;

/// The statements that control transactions.
pub(crate) struct Controls {
    pub(crate) begin: Text,
    pub(crate) begin_batch: Text,
    pub(crate) commit: Text,
    pub(crate) rollback: Text,
    pub(crate) only_read: Text,
    /// Around each write of a transaction.
    pub(crate) savepoint: Text,
    pub(crate) release: Text,
    pub(crate) rollback_to: Text,
    /// Around a batch.
    pub(crate) savepoint_batch: Text,
    pub(crate) release_batch: Text,
    pub(crate) rollback_batch: Text,
    /// Makes statements of many rows find them one by one, in the order of their parameters: a hash
    /// join would lock them in another order.
    pub(crate) in_order: Text,
    /// The same, until the transaction ends.
    pub(crate) in_order_here: Text,
    /// Sets how the changes of the transaction's next statements are recorded, and their actor.
    pub(crate) record: Text,
    /// Lets the server choose the plan again.
    pub(crate) in_any_order: [Text; 3],
}

pub(crate) static CONTROLS: LazyLock<Controls> = LazyLock::new(|| Controls {
    begin: Text::plain("BEGIN ISOLATION LEVEL SERIALIZABLE"),
    begin_batch: Text::plain("BEGIN"),
    commit: Text::plain("COMMIT"),
    rollback: Text::plain("ROLLBACK"),
    only_read: Text::plain("SET TRANSACTION READ ONLY"),
    savepoint: Text::plain("SAVEPOINT m"),
    release: Text::plain("RELEASE m"),
    rollback_to: Text::plain("ROLLBACK TO m"),
    savepoint_batch: Text::plain("SAVEPOINT b"),
    release_batch: Text::plain("RELEASE b"),
    rollback_batch: Text::plain("ROLLBACK TO b"),
    in_order: Text::plain(
        "SELECT 1 WHERE set_config('enable_hashjoin','off',false) \
         ||set_config('enable_mergejoin','off',false)||set_config('enable_seqscan','off',false) \
         IS NULL",
    ),
    in_order_here: Text::plain(
        "SELECT 1 WHERE set_config('enable_hashjoin','off',true) \
         ||set_config('enable_mergejoin','off',true)||set_config('enable_seqscan','off',true) \
         IS NULL",
    ),
    record: Text::new(
        "SELECT 1 WHERE set_config('marmota.feed',$1,true)||set_config('marmota.actor',$2,true) \
         IS NULL"
            .to_owned(),
        vec![25, 25],
        Box::default(),
    ),
    in_any_order: [
        Text::plain("RESET enable_hashjoin"),
        Text::plain("RESET enable_mergejoin"),
        Text::plain("RESET enable_seqscan"),
    ],
});
