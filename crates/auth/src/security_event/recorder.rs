//! The table of security events: what is kept of each, and the deletion of old ones.
//!
//! Events are written in the background, so that they neither delay a request nor are part of its
//! transaction. Of events that anonymous clients cause, a limited number is kept for each client and kind,
//! so that a flood does not replace the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use marmota_model::{Json, Result, Timestamp};
use marmota_store::Store;
use marmota_store::background::BackgroundBatch;
use marmota_store::thread_pool::ThreadPool;
use serde_json::Value;

use crate::credentials::attempts::Attempts;
use crate::models::RecordedEvent;
use crate::security_event::SecurityEvent;

/// The number of events of a kind that are kept of one client in a minute.
const OF_CLIENT_MAX: u32 = 60;
/// The number of events between two deletions of old ones.
const BETWEEN_SWEEPS: u64 = 256;
/// The time after which an event is deleted.
const AGE_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Writes events to the table.
pub(crate) struct Recorder {
    store: Store,
    events_max: u64,
    limits: Attempts,
    written: AtomicU64,
}

impl Recorder {
    pub(crate) fn new(store: &Store, events_max: u64) -> Self {
        let limits = Attempts::new(OF_CLIENT_MAX, Duration::from_secs(60));
        Self { store: store.clone(), events_max, limits, written: AtomicU64::new(0) }
    }

    /// Queues an event for the table; does not block. If the queue is full, the event is only in the log.
    pub(crate) fn record(
        &self,
        event: &SecurityEvent,
        now: Timestamp,
        background: &BackgroundBatch,
        threads: &Arc<ThreadPool>,
    ) {
        if self.events_max == 0 {
            return;
        }
        let Some(row) = row_of(event, now) else { return };
        let address = row.address.as_deref().and_then(|address| address.parse().ok());
        if event.is_warning() && self.limits.begin(&row.kind, address, now).is_err() {
            return;
        }
        if let Err(error) = background.try_add(|batch| {
            batch.insert(&row);
        }) {
            log::warn!("a security event was not stored: {error}");
        }
        if self.written.fetch_add(1, Ordering::Relaxed).is_multiple_of(BETWEEN_SWEEPS) {
            let (store, events_max) = (self.store.clone(), self.events_max);
            // Without a thread, a later event does it.
            let _ = threads.result_of(move || {
                if let Err(error) = sweep(&store, events_max, now) {
                    log::warn!("old security events were not deleted: {error}");
                }
            });
        }
    }
}

/// Deletes the events that are too old or too many.
fn sweep(store: &Store, events_max: u64, now: Timestamp) -> Result<()> {
    let newest = store.list::<RecordedEvent>().order(RecordedEvent::ID.descending()).limit(1);
    let newest = newest.column(RecordedEvent::ID).run()?.pop().unwrap_or_default();
    let last = newest.saturating_sub(i64::try_from(events_max).unwrap_or(i64::MAX));
    let age_us = i64::try_from(AGE_MAX.as_micros()).unwrap_or(i64::MAX);
    let begin = Timestamp::from_micros(now.micros().saturating_sub(age_us)).unwrap_or_default();
    let old = RecordedEvent::ID.le(last).or(RecordedEvent::AT.lt(begin));
    store.delete_where::<RecordedEvent>(old).run().map(drop)
}

/// Returns the row of an event.
fn row_of(event: &SecurityEvent, at: Timestamp) -> Option<RecordedEvent> {
    let Ok(Value::Object(mut members)) = serde_json::to_value(event) else { return None };
    let mut text = |name: &str| members.remove(name)?.as_str().map(str::to_owned);
    let (kind, address) = (text("kind")?, text("address"));
    let user = members.remove("user").and_then(|user| user.as_i64());
    Some(RecordedEvent { id: 0, at, kind, user, address, detail: Json(Value::Object(members)) })
}
