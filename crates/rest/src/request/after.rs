//! `Marmota-After: POSITION`: a request that is executed once this process has a position of the
//! change feed. A client that wrote through another process sends the `Marmota-Position` of that
//! write, and reads what it has written.

use std::time::Duration;

use marmota_http::Request;
use marmota_model::Result;
use marmota_store::Store;
use marmota_store::change::Position;

/// The header of a request.
const AFTER: &str = "marmota-after";
/// The maximum wait for a position.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// What a request that has this header reads.
pub(crate) struct After {
    /// The store for the request. If the cache is notified of writes by other processes, or not at
    /// all, it uses no cache: a cached row can be older than the position.
    pub(crate) store: Store,
    /// The position, if it is not reached yet.
    awaited: Option<Position>,
}

impl After {
    /// Returns what the request reads; `None` for a request without the header.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] for a text that is not a position, or one of another
    /// database; [`marmota_model::ErrorKind::Unsupported`] for a store without a change feed.
    pub(crate) fn of(request: &Request, store: &Store) -> Result<Option<Self>> {
        let Some(text) = request.header_text(AFTER) else { return Ok(None) };
        let position: Position = text.trim().parse()?;
        let awaited = if store.has_reached(position)? { None } else { Some(position) };
        let capability = store.capability();
        // Polled commits invalidate the cache before they are reached.
        let is_notified = capability.shared_commits && !capability.polled_commits;
        let may_be_older = is_notified || capability.shared_file;
        let store = if may_be_older { store.without_cache() } else { store.clone() };
        Ok(Some(Self { store, awaited }))
    }

    /// Returns true if the request does not have to wait.
    pub(crate) const fn is_reached(&self) -> bool {
        self.awaited.is_none()
    }

    /// Waits for the position.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Timeout`] if it is not reached within 5 seconds.
    pub(crate) async fn wait(&self) -> Result<()> {
        match self.awaited {
            Some(position) => self.store.reached(position, WAIT_MAX).await,
            None => Ok(()),
        }
    }
}
