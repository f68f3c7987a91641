//! Subscriptions: the change feed and live queries, by callbacks on threads of their own.

use std::ffi::{CString, c_char};
use std::future::poll_fn;
use std::mem::MaybeUninit;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::thread::{self, JoinHandle};

use marmota::model::Value;
use marmota::store::Store;
use marmota::store::action::block_on;
use marmota::store::change::{ChangeKind, ChangeStream, FeedEvent};
use marmota::store::live::{LiveContent, LiveRows, RowPatch};
use marmota::{Error, ErrorKind};
use parking_lot::Mutex;

use crate::data::cursor::{c_name, query_of};
use crate::foreign::{MarmotaContext, MarmotaText, entry, required};
use crate::handles::{self, MarmotaHandle, Object};
use crate::status::Failure;
use crate::store::{MarmotaTable, table_of};
use crate::value::{LentRows, MarmotaValue};

/// An event of the change feed: a row was inserted.
pub const MARMOTA_INSERTED: u32 = 1;
/// An event of the change feed: a row was updated.
pub const MARMOTA_UPDATED: u32 = 2;
/// An event of the change feed: a row was deleted. The row is as it was before.
pub const MARMOTA_DELETED: u32 = 3;
/// An event of the change feed: commits were removed before they were read. Read the tables again.
pub const MARMOTA_GAP: u32 = 4;
/// An event of a live query: the page is empty now; its rows follow.
pub const MARMOTA_CLEAR: u32 = 5;
/// An event of a live query: a row is added at the index.
pub const MARMOTA_ADD: u32 = 6;
/// An event of a live query: the row at the index has new values.
pub const MARMOTA_CHANGE: u32 = 7;
/// An event of a live query: the row at the index is removed.
pub const MARMOTA_REMOVE: u32 = 8;
/// An event of a live query: all changes of a commit were reported.
pub const MARMOTA_READY: u32 = 9;
/// The subscription ended: the store was closed, or reading failed. No event follows.
pub const MARMOTA_ENDED: u32 = 10;

/// An event. It is lent until the callback returns.
#[repr(C)]
pub struct MarmotaEvent {
    /// One of the constants above.
    pub kind: u32,
    /// The name of the table; "" if the event has no row.
    pub table: *const c_char,
    /// The row; null if the event has none.
    pub row: *const MarmotaValue,
    /// The number of values of the row.
    pub count: usize,
    /// The place of the row in the page of a live query.
    pub index: usize,
    /// The number of the commit.
    pub commit: u64,
}

/// Receives events on the subscription's thread, one after the other.
pub type MarmotaEventCallback =
    Option<unsafe extern "C" fn(event: *const MarmotaEvent, context: MarmotaContext)>;

/// A thread that calls a callback until it is stopped.
struct Subscription {
    stop: Arc<Stop>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Stop {
    is_set: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Object for Subscription {
    const KIND: u8 = 5;
    const NAME: &'static str = "subscription";
}

/// Subscribes to the changes of a store's tables that are committed from now on. The store must have
/// been opened with MARMOTA_RECORD_CHANGES.
///
/// Ownership: end it with `marmota_subscription_free`.
/// Threads: any thread. The callback runs on a thread of the subscription.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_changes_subscribe(
    store: MarmotaHandle,
    callback: MarmotaEventCallback,
    context: MarmotaContext,
    subscription: Option<&mut MaybeUninit<MarmotaHandle>>,
) -> i32 {
    entry(|| {
        let subscription = required(subscription, "subscription")?;
        let out = Output::new(callback, context)?;
        let changes = handles::find::<Store>(store)?.changes()?;
        subscription.write(start(move |stop| report_changes(changes, out, &stop))?);
        Ok(())
    })
}

/// Opens a live query: the callback receives the rows of a list, then each change of that page. The
/// arguments are those of `marmota_cursor_open`; a `limit` of 0 is the largest page. Blobs are absent.
/// The store must have been opened with MARMOTA_RECORD_CHANGES.
///
/// Ownership: end it with `marmota_subscription_free`.
/// Threads: any thread. The callback runs on a thread of the subscription.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_live_open(
    store: MarmotaHandle,
    table: MarmotaTable,
    filter: MarmotaText,
    order: MarmotaText,
    limit: u64,
    callback: MarmotaEventCallback,
    context: MarmotaContext,
    subscription: Option<&mut MaybeUninit<MarmotaHandle>>,
) -> i32 {
    entry(|| {
        let subscription = required(subscription, "subscription")?;
        let out = Output::new(callback, context)?;
        let store = handles::find::<Store>(store)?;
        let (table, mut query) = query_of(table_of(&store, table)?, &filter, &order)?;
        query.limit = (limit > 0).then_some(limit);
        query.fields = Some(table.read_by_default());
        let rows = store.live_rows_run(&table, query, false, None)?;
        subscription.write(start(move |stop| report_page(rows, out, &stop))?);
        Ok(())
    })
}

/// Ends a subscription. When it returns, the callback is not running and is not called again, except
/// if the callback itself makes this call.
///
/// Threads: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_subscription_free(subscription: MarmotaHandle) -> i32 {
    entry(|| {
        let subscription = handles::remove::<Subscription>(subscription)?;
        subscription.stop.set();
        if let Some(running) = subscription.thread.lock().take()
            && running.thread().id() != thread::current().id()
        {
            let _ = running.join();
        }
        Ok(())
    })
}

fn start(run: impl FnOnce(Arc<Stop>) + Send + 'static) -> Result<MarmotaHandle, Failure> {
    let stop = Arc::<Stop>::default();
    let stop_of_thread = Arc::clone(&stop);
    let name = thread::Builder::new().name("marmota-events".to_owned());
    let started = name.spawn(move || {
        // A panic ends the subscription; it is reported by the panic hook.
        run(stop_of_thread);
    });
    let thread = started.map_err(|error| {
        let message = format!("the system starts no thread for the subscription: {error}");
        Failure::from(Error::new(ErrorKind::Busy, message))
    })?;
    handles::add(Subscription { stop, thread: Mutex::new(Some(thread)) })
}

impl Stop {
    fn set(&self) {
        self.is_set.store(true, Ordering::SeqCst);
        if let Some(waker) = self.waker.lock().take() {
            waker.wake();
        }
    }

    /// Waits for a future; `None` once the subscription is stopped.
    fn wait<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        block_on(poll_fn(|context| {
            *self.waker.lock() = Some(context.waker().clone());
            if self.is_set.load(Ordering::SeqCst) {
                return Poll::Ready(None);
            }
            future.as_mut().poll(context).map(Some)
        }))
    }
}

/// The callback, and the memory of the rows that it gets.
struct Output {
    callback: unsafe extern "C" fn(*const MarmotaEvent, MarmotaContext),
    context: MarmotaContext,
    rows: LentRows,
}

impl Output {
    fn new(callback: MarmotaEventCallback, context: MarmotaContext) -> Result<Self, Failure> {
        let callback = callback.ok_or_else(|| Failure::argument("`callback` is null"))?;
        Ok(Self { callback, context, rows: LentRows::default() })
    }

    fn call(&mut self, kind: u32, table: &CString, row: Option<&[Value]>, at: (usize, u64)) {
        let values: Vec<_> = row.unwrap_or_default().iter().map(Value::as_ref).collect();
        self.rows.clear(values.len());
        self.rows.push(&values);
        self.rows.seal();
        let row = self.rows.row(0);
        let event = MarmotaEvent {
            kind,
            table: table.as_ptr(),
            row: row.map_or(std::ptr::null(), <[MarmotaValue]>::as_ptr),
            count: row.map_or(0, <[MarmotaValue]>::len),
            index: at.0,
            commit: at.1,
        };
        // SAFETY: the callback has this signature; the event lives until it returns.
        unsafe { (self.callback)(&raw const event, self.context) };
    }
}

fn report_changes(mut changes: ChangeStream, mut out: Output, stop: &Stop) {
    let none = CString::default();
    loop {
        match stop.wait(changes.next()) {
            Some(Ok(Some(FeedEvent::Commit(commit)))) => {
                for change in &commit.changes {
                    let kind = match change.kind {
                        ChangeKind::Insert => MARMOTA_INSERTED,
                        ChangeKind::Update => MARMOTA_UPDATED,
                        ChangeKind::Delete => MARMOTA_DELETED,
                    };
                    let row = change.after.as_ref().or(change.before.as_ref());
                    let name = c_name(change.table.name());
                    out.call(
                        kind,
                        &name,
                        row.map(Vec::as_slice),
                        (0, commit.position.commit_number()),
                    );
                }
            }
            Some(Ok(Some(FeedEvent::Gap(position)))) => {
                out.call(MARMOTA_GAP, &none, None, (0, position.commit_number()));
            }
            None => return,
            Some(Ok(None)) => return out.call(MARMOTA_ENDED, &none, None, (0, 0)),
            Some(Err(error)) => {
                log::error!("the changes of a subscription cannot be read: {error}");
                return out.call(MARMOTA_ENDED, &none, None, (0, 0));
            }
        }
    }
}

fn report_page(mut rows: LiveRows, mut out: Output, stop: &Stop) {
    let (name, none) = (c_name(rows.table().name()), CString::default());
    loop {
        let update = match stop.wait(rows.next()) {
            Some(Ok(Some(update))) => update,
            None => return,
            Some(Ok(None)) => return out.call(MARMOTA_ENDED, &none, None, (0, 0)),
            Some(Err(error)) => {
                log::error!("the rows of a live query cannot be read: {error}");
                return out.call(MARMOTA_ENDED, &none, None, (0, 0));
            }
        };
        let commit = update.position.commit_number();
        match &update.content {
            LiveContent::Snapshot(page) => {
                out.call(MARMOTA_CLEAR, &none, None, (0, commit));
                for (index, row) in page.iter().enumerate() {
                    out.call(MARMOTA_ADD, &name, Some(row), (index, commit));
                }
            }
            LiveContent::Patch { patches, .. } => {
                for patch in patches {
                    match patch {
                        RowPatch::Remove { index } => {
                            out.call(MARMOTA_REMOVE, &none, None, (*index, commit));
                        }
                        RowPatch::Add { index, row } => {
                            out.call(MARMOTA_ADD, &name, Some(row), (*index, commit));
                        }
                        RowPatch::Update { index, row, .. } => {
                            out.call(MARMOTA_CHANGE, &name, Some(row), (*index, commit));
                        }
                    }
                }
            }
        }
        out.call(MARMOTA_READY, &none, None, (0, commit));
    }
}
