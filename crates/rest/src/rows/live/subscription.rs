//! The updates of one live query for one client, with the current rights of its caller.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use marmota_store::Store;
use marmota_store::live::{LiveRows, LiveUpdate, ResumePoint};
use marmota_web::ApiResult;

use super::caller_check::CallerCheck;
use super::document::LiveDocument;
use super::page_url::PageUrl;
use crate::protocol::refusal::of_url;

/// The page for a caller, and its rows.
type Subscribed = ApiResult<(LiveDocument, LiveRows)>;

/// A live query of one client.
///
/// If the rights of the caller change, the URL is read and subscribed to again with the new ones, and
/// the client gets a snapshot.
pub(crate) struct LiveSubscription {
    url: Arc<PageUrl>,
    pub(crate) document: LiveDocument,
    rows: LiveRows,
    rights_tag: Option<u32>,
    /// `None` if the rights of the caller do not change.
    caller: Option<CallerCheck>,
    /// An update that waits for the authentication of the caller.
    waiting: Option<Arc<LiveUpdate>>,
    /// The page with other rights, if it is being subscribed to.
    again: Option<Pin<Box<dyn Future<Output = Subscribed>>>>,
}

impl LiveSubscription {
    /// Subscribes with the rights of the store's handle. With `from`, the first update is a patch
    /// if the page at that place is known.
    ///
    /// # Errors
    /// Those of [`PageUrl::document`] and [`Store::live_rows`].
    pub(crate) async fn new(
        store: &Store,
        url: PageUrl,
        from: Option<ResumePoint>,
        caller: Option<CallerCheck>,
    ) -> ApiResult<Self> {
        let (document, rows) = subscribe(store, &url, from).await?;
        let (url, rights_tag) = (Arc::new(url), rows.rights_tag());
        Ok(Self { url, document, rows, rights_tag, caller, waiting: None, again: None })
    }

    /// Returns the next update; `None` after the store was closed.
    ///
    /// # Errors
    /// 401 if the login has ended, 403 if the caller may not read the table any more, 400 if the
    /// URL names fields that the caller may not read any more; those of [`LiveRows::poll_next`].
    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<ApiResult<Option<Arc<LiveUpdate>>>> {
        loop {
            if let Some(again) = &mut self.again {
                (self.document, self.rows) = ready!(again.as_mut().poll(context))?;
                self.rights_tag = self.rows.rights_tag();
                (self.again, self.waiting) = (None, None);
            }
            let is_due = self.caller.as_mut().is_some_and(|caller| caller.is_due(context));
            if self.waiting.is_none() {
                match self.rows.poll_next(context)? {
                    Poll::Ready(Some(update)) => self.waiting = Some(update),
                    Poll::Ready(None) => return Poll::Ready(Ok(None)),
                    Poll::Pending if is_due => {}
                    Poll::Pending => return Poll::Pending,
                }
            }
            if let Some(caller) = &mut self.caller {
                let store = ready!(caller.poll_store(context))?;
                if !self.rows.is_readable_by(&store) {
                    let url = Arc::clone(&self.url);
                    self.again = Some(Box::pin(async move { subscribe(&store, &url, None).await }));
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

async fn subscribe(store: &Store, url: &PageUrl, from: Option<ResumePoint>) -> Subscribed {
    let (document, query, counts) = url.document(store)?;
    let rows = store.live_rows(document.table(), query, counts, from).await.map_err(of_url)?;
    Ok((document, rows))
}
