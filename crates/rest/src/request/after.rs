//! What a request reads: `Marmota-After: POSITION`, and `Prefer: replica`.
//!
//! A request with a position of the change feed is executed once this process has it. A client that
//! wrote through another process sends the `Marmota-Position` of that write, and reads what it has
//! written.
//!
//! A GET or HEAD that prefers a replica is executed by one, if the database has one, otherwise by the
//! primary. With both headers, a replica that does not have the position within the time for it is
//! not used.

use std::time::Duration;

use marmota_http::{Method, Request};
use marmota_model::Result;
use marmota_store::Store;
use marmota_store::change::Position;

use crate::protocol::body;

/// The header of a request.
const AFTER: &str = "marmota-after";
/// The maximum wait for a position.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// What a request that has one of these headers reads.
pub(crate) struct After {
    /// The store for the request. With a position it uses no cache if other processes may write to
    /// the database, and their commits do not invalidate the cache before they are reached.
    pub(crate) store: Store,
    /// The position, if it is not reached yet.
    awaited: Option<Position>,
}

impl After {
    /// Returns what the request reads; `None` for a request without the headers.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] for a text that is not a position, or one of another
    /// database; [`marmota_model::ErrorKind::Unsupported`] for a store without a change feed.
    pub(crate) fn of(request: &Request, store: &Store) -> Result<Option<Self>> {
        let is_read = matches!(request.method(), Method::Get | Method::Head);
        let prefers_replica = is_read && body::prefers(request, "replica");
        let Some(text) = request.header_text(AFTER) else {
            let replica = || Self { store: store.prefer_replica(), awaited: None };
            return Ok(prefers_replica.then(replica));
        };
        let position: Position = text.trim().parse()?;
        let awaited = if store.has_reached(position)? { None } else { Some(position) };
        let capability = store.capability();
        // Polled commits invalidate the cache before they are reached.
        let is_notified = capability.shared_commits && !capability.polled_commits;
        let may_be_older = is_notified || capability.shared_file;
        let store = match may_be_older {
            _ if prefers_replica => store.prefer_replica_after(position, WAIT_MAX)?,
            true => store.without_cache(),
            false => store.clone(),
        };
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
