//! The updates of one live query for one client, with the current rights of its caller.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use marmota_model::{Result, RowQuery};
use marmota_store::Store;
use marmota_store::live::{LiveRows, LiveUpdate, ResumePoint};

use super::caller_check::CallerCheck;
use super::document::LiveDocument;
use crate::request::params::ListParams;

/// A live query of one client.
///
/// If the rights of the caller change, the query is subscribed to again with the new ones, and the
/// client gets a snapshot.
pub(crate) struct LiveSubscription {
    pub(crate) document: LiveDocument,
    rows: LiveRows,
    rights_tag: Option<u32>,
    /// `None` if the rights of the caller do not change.
    caller: Option<CallerCheck>,
    /// An update that waits for the authentication of the caller.
    waiting: Option<Arc<LiveUpdate>>,
    /// The subscription with other rights, if it is being made.
    again: Option<Pin<Box<dyn Future<Output = Result<LiveRows>>>>>,
}

impl LiveSubscription {
    /// Subscribes with the rights of the store's handle. With `from`, the first update is a patch
    /// if the page at that place is known.
    ///
    /// # Errors
    /// Those of [`Store::live_rows`].
    pub(crate) async fn new(
        store: &Store,
        document: LiveDocument,
        params: ListParams,
        from: Option<ResumePoint>,
        caller: Option<CallerCheck>,
    ) -> Result<Self> {
        // Without chosen fields, they are those that may be read in all rows.
        let is_chosen = params.shown != document.table().read_by_default();
        let (limit, fields) = (Some(params.rows_max), is_chosen.then_some(params.shown));
        let query = RowQuery { limit, fields, ..params.query };
        let rows = store.live_rows(document.table(), query, params.count, from).await?;
        let rights_tag = rows.rights_tag();
        Ok(Self { document, rows, rights_tag, caller, waiting: None, again: None })
    }

    /// Returns the next update; `None` after the store was closed.
    ///
    /// # Errors
    /// 401 if the login has ended, 403 if the caller may not read the table any more; those of
    /// [`LiveRows::poll_next`].
    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Arc<LiveUpdate>>>> {
        loop {
            if let Some(again) = &mut self.again {
                self.rows = ready!(again.as_mut().poll(context))?;
                self.rights_tag = self.rows.rights_tag();
                (self.again, self.waiting) = (None, None);
            }
            let is_due = self.caller.as_mut().is_some_and(|caller| caller.is_due(context));
            if self.waiting.is_none() {
                match self.rows.poll_next(context) {
                    Poll::Ready(Ok(Some(update))) => self.waiting = Some(update),
                    Poll::Ready(end) => return Poll::Ready(end),
                    Poll::Pending if is_due => {}
                    Poll::Pending => return Poll::Pending,
                }
            }
            if let Some(caller) = &mut self.caller {
                let store = ready!(caller.poll_store(context))?;
                if !self.rows.is_readable_by(&store) {
                    self.again = Some(Box::pin(self.rows.subscribe_as(&store)));
                    continue;
                }
            }
            if let Some(update) = self.waiting.take() {
                return Poll::Ready(Ok(Some(update)));
            }
        }
    }

    /// Returns the place at which a client continues after an update.
    pub(crate) const fn resume_point(&self, update: &LiveUpdate) -> ResumePoint {
        ResumePoint { position: update.position, rights_tag: self.rights_tag }
    }
}

impl fmt::Debug for LiveSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveSubscription").field("rows", &self.rows).finish_non_exhaustive()
    }
}
