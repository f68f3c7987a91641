//! Notifies connections that stay open, such as live queries, that the rights of their callers may
//! have changed.
//!
//! Changes by this process are known at once. Those of other processes are detected by a counter in
//! the store, which one of the connections reads for all after each
//! [`Settings::cache_ttl`](crate::Settings::cache_ttl).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use event_listener::EventListener;
use marmota_model::Result;

use crate::auth::{Auth, Inner};
use crate::ids;

/// A subscription to changes of users, groups, keys and passwords ([`Auth::account_changes`]).
pub struct AccountChanges {
    inner: Arc<Inner>,
    listener: EventListener,
    /// The time of the next look for changes of other processes.
    due: Option<Instant>,
    reading: Option<Pin<Box<dyn Future<Output = Result<i64>> + Send>>>,
}

impl Auth {
    /// Subscribes to changes of accounts. A connection that stays open authenticates its caller
    /// again after each.
    ///
    /// ```
    /// # use marmota_auth::{Auth, Settings};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # let store = marmota_auth::models(Store::builder(Memory::new())).open()?;
    /// # let auth = Auth::new(&store, Settings::default().password_cost(64, 1))?;
    /// let mut changes = auth.account_changes();
    /// auth.set_group("writers", &[])?;
    /// marmota_store::action::block_on(std::future::poll_fn(|context| changes.poll(context)));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn account_changes(&self) -> AccountChanges {
        let (inner, listener) = (Arc::clone(&self.0), self.0.knowledge.changed.listen());
        AccountChanges { inner, listener, due: None, reading: None }
    }
}

impl AccountChanges {
    /// Returns `Ready` if accounts have changed since the last time; otherwise the waker is woken
    /// when they do. Changes of other processes are reported after at most
    /// [`Settings::cache_ttl`](crate::Settings::cache_ttl).
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.poll_other_processes(context);
        if Pin::new(&mut self.listener).poll(context).is_pending() {
            return Poll::Pending;
        }
        self.listener = self.inner.knowledge.changed.listen();
        Poll::Ready(())
    }

    /// Reads the count of changes if it is time, and notifies all subscriptions if it has changed.
    fn poll_other_processes(&mut self, context: &mut Context<'_>) {
        let ttl = self.inner.settings.cache_ttl;
        let now = Instant::now();
        if self.due.is_none_or(|due| due <= now) {
            let due = now + ttl;
            self.due = Some(due);
            // Without a timer, changes of other processes are noticed at the next use of a token.
            #[cfg(target_os = "linux")]
            let _ = marmota_store::engine::wake_at(due, context.waker().clone());
            if self.reading.is_none() && self.inner.count.is_due(ttl) {
                let store = self.inner.store.clone();
                self.reading = Some(Box::pin(async move { ids::changes(&store).await }));
            }
        }
        let Some(reading) = &mut self.reading else { return };
        let Poll::Ready(read) = reading.as_mut().poll(context) else { return };
        self.reading = None;
        match read {
            Ok(count) if self.inner.count.replace(count) => self.inner.knowledge.doubt(),
            Ok(_) => {}
            Err(error) => log::warn!("changes of accounts cannot be read: {error}"),
        }
    }
}

impl fmt::Debug for AccountChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccountChanges")
    }
}
