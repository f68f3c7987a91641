//! Ends statements that exceed their time: SQLite calls a progress handler after each thousand
//! steps of its virtual machine, which checks the clock.
//!
//! A short read only pays for setting a mode: only the handler reads the clock, so the time of a
//! budget starts at its first call.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{Connection, raw};

/// The number of steps of SQLite's virtual machine between two checks of the clock: some ten
/// microseconds.
const STEPS: c_int = 1_000;

/// No limit.
const OFF: u8 = 0;
/// A read with a budget, whose time has not started yet.
const BEGUN: u8 = 1;
/// A read with a budget that ends at [`Watch::until`].
const MEASURED: u8 = 2;
/// A read with a deadline and a cancellation flag.
const LIMITED: u8 = 3;

/// A read of a caller that blocks its thread: it has a deadline, whose time has not started yet.
const PATIENT: u8 = 4;

/// The state of a connection's progress handler.
#[derive(Debug)]
pub(crate) struct Watch {
    db: NonNull<raw::Db>,
    mode: AtomicU8,
    /// The end of the current operation's time, in microseconds since `epoch`.
    until: AtomicU64,
    epoch: Instant,
    budget: Duration,
    /// The time limit of a read; `None` if unlimited.
    deadline: Option<Duration>,
    /// Cancels the current operation.
    cancelled: Mutex<Option<Arc<AtomicBool>>>,
    /// True if it has ended the current operation.
    has_fired: AtomicBool,
    /// True if it began the transaction that keeps a snapshot.
    holds: AtomicBool,
}

// SAFETY: only the handler uses `db`, and SQLite calls it on the thread that steps a statement: the
// one that has the connection. All else is atomic or locked.
unsafe impl Send for Watch {}
// SAFETY: as above.
unsafe impl Sync for Watch {}

impl Watch {
    fn micros(&self, at: Instant) -> u64 {
        let micros = at.saturating_duration_since(self.epoch).as_micros();
        u64::try_from(micros).unwrap_or(u64::MAX)
    }

    /// Returns true if the current operation must end.
    fn is_over(&self) -> bool {
        match self.mode.load(Ordering::Relaxed) {
            OFF => false,
            BEGUN => {
                self.until.store(self.micros(Instant::now() + self.budget), Ordering::Relaxed);
                self.mode.store(MEASURED, Ordering::Relaxed);
                false
            }
            PATIENT => {
                let until = self.deadline.map(|deadline| self.micros(Instant::now() + deadline));
                self.until.store(until.unwrap_or(u64::MAX), Ordering::Relaxed);
                self.cancelled.lock().take();
                self.mode.store(LIMITED, Ordering::Relaxed);
                false
            }
            mode => {
                let is_late = self.micros(Instant::now()) >= self.until.load(Ordering::Relaxed);
                is_late || mode == LIMITED && self.is_cancelled()
            }
        }
    }

    /// The progress handler, called while a statement of the connection is stepped: returns true if
    /// it must end.
    pub(super) fn is_due(&self) -> bool {
        if !self.is_over() {
            return false;
        }
        // SAFETY: the connection is open, since it steps a statement, on this thread.
        if unsafe { raw::marmota_is_running(self.db.as_ptr()) } == 0 {
            // The statement has taken place.
            return false;
        }
        if self.mode.load(Ordering::Relaxed) == MEASURED {
            // SAFETY: as above.
            let begun = unsafe { raw::marmota_hold(self.db.as_ptr()) };
            // For a nested statement it is called first, then for the outer one.
            if begun != 0 {
                self.holds.store(true, Ordering::Relaxed);
            }
        }
        if !self.holds.load(Ordering::Relaxed) {
            // SAFETY: as above.
            unsafe { raw::marmota_spare(self.db.as_ptr()) };
        }
        self.has_fired.store(true, Ordering::Relaxed);
        true
    }

    fn is_cancelled(&self) -> bool {
        let cancelled = self.cancelled.lock();
        cancelled.as_ref().is_some_and(|cancelled| cancelled.load(Ordering::Relaxed))
    }
}

/// The C callback: a result other than 0 interrupts the statement.
unsafe extern "C" fn is_due(watch: *mut c_void) -> c_int {
    // SAFETY: the pointer is that of a connection's watch, which lives as long as the connection.
    c_int::from(unsafe { &*watch.cast::<Watch>() }.is_due())
}

impl Connection {
    /// Sets the limits of statements; called once.
    pub(crate) fn watch(&mut self, budget: Duration, deadline: Option<Duration>) {
        let watch = Arc::new(Watch {
            db: self.db,
            mode: AtomicU8::new(OFF),
            until: AtomicU64::new(0),
            epoch: Instant::now(),
            budget,
            deadline,
            cancelled: Mutex::default(),
            has_fired: AtomicBool::new(false),
            holds: AtomicBool::new(false),
        });
        let data = Arc::as_ptr(&watch).cast_mut().cast();
        // SAFETY: the connection is open, and keeps the watch until it is closed.
        unsafe {
            raw::marmota_sqlite3_progress_handler(self.db.as_ptr(), STEPS, Some(is_due), data);
        }
        self.watch = Some(watch);
    }

    /// Makes the next statement begin a snapshot, which stays until the transaction is rolled back.
    /// Returns false in a transaction.
    pub(crate) fn begin_snapshot(&mut self) -> bool {
        // SAFETY: the connection is open, and no statement of it is being stepped, since that would
        // borrow it.
        unsafe { raw::marmota_hold(self.db.as_ptr()) != 0 }
    }

    /// Starts a budget for the next statement. If it is used up, the snapshot is kept (see
    /// [`Self::take_interrupted`]).
    #[inline]
    pub(crate) fn begin_budget(&self) {
        if let Some(watch) = &self.watch {
            watch.mode.store(BEGUN, Ordering::Relaxed);
        }
    }

    /// Limits the next statement to the deadline of reads.
    #[inline]
    pub(crate) fn begin_to_deadline(&self) {
        if let Some(watch) = &self.watch {
            watch.mode.store(PATIENT, Ordering::Relaxed);
        }
    }

    /// Limits the next statement to a time and a cancellation flag.
    pub(crate) fn limit(&self, until: Option<Instant>, cancelled: Option<Arc<AtomicBool>>) {
        let Some(watch) = &self.watch else { return };
        let until = until.map_or(u64::MAX, |until| watch.micros(until));
        watch.until.store(until, Ordering::Relaxed);
        *watch.cancelled.lock() = cancelled;
        watch.mode.store(LIMITED, Ordering::Relaxed);
    }

    /// Returns true if the current statement has a budget.
    #[inline]
    pub(crate) fn has_budget(&self) -> bool {
        let mode = self.watch.as_ref().map(|watch| watch.mode.load(Ordering::Relaxed));
        matches!(mode, Some(BEGUN | MEASURED))
    }

    /// Removes the limit.
    #[inline]
    pub(crate) fn end_budget(&self) {
        if let Some(watch) = &self.watch {
            watch.mode.store(OFF, Ordering::Relaxed);
        }
    }

    /// Marks the budget as used up, for rows that were read without a statement of SQLite.
    #[cold]
    pub(crate) fn interrupt(&self) {
        if let Some(watch) = &self.watch {
            watch.has_fired.store(true, Ordering::Relaxed);
        }
    }

    /// Returns true if the watch ended the last statement.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.has_fired.load(Ordering::Relaxed))
    }

    /// Returns true once if the watch ended the last statement. The transaction that it was part of
    /// is still open; changes of an interrupted write are undone by the savepoint around it.
    pub(crate) fn take_interrupted(&self) -> bool {
        let Some(watch) = &self.watch else { return false };
        let has_fired = watch.has_fired.swap(false, Ordering::Relaxed);
        if has_fired {
            // SAFETY: the connection is open, and none of its statements is being stepped: its
            // methods that step have returned.
            unsafe { raw::marmota_restore(self.db.as_ptr()) };
        }
        has_fired
    }

    /// Returns true once if the end of a budget began a transaction, which must be rolled back.
    pub(crate) fn take_hold(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.holds.swap(false, Ordering::Relaxed))
    }

    /// Frees cached pages that are not in use.
    pub(crate) fn release_memory(&self) {
        // SAFETY: the connection is open.
        unsafe { raw::marmota_sqlite3_db_release_memory(self.db.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::Bound;
    use super::*;

    /// A search runs statements nested in the one that is read, and the handler is called for each.
    #[test]
    fn a_budget_that_ends_two_statements_keeps_one_snapshot() {
        let mut connection = Connection::open_memory().unwrap();
        connection.execute("CREATE TABLE note(id INTEGER PRIMARY KEY)").unwrap();
        connection.execute("INSERT INTO note VALUES(1)").unwrap();
        connection.watch(Duration::ZERO, None);
        let statement = connection.prepare("SELECT id FROM note").unwrap();
        connection.begin_budget();
        let watch = Arc::clone(connection.watch.as_ref().unwrap());
        let mut run = connection.start(statement);
        run.step().unwrap();
        assert!(!watch.is_due(), "the first call begins the measure");
        assert!(watch.is_due() && watch.is_due());
        drop(run);
        connection.end_budget();
        assert!(connection.take_interrupted() && connection.in_transaction());
        assert!(connection.take_hold(), "nobody would roll the transaction back");
    }
    /// SQLite calls the handler once more when a statement has committed.
    #[test]
    fn a_write_that_has_taken_place_is_not_interrupted() {
        let mut connection = Connection::open_memory().unwrap();
        connection.execute("CREATE TABLE note(id INTEGER PRIMARY KEY)").unwrap();
        connection.watch(Duration::ZERO, None);
        let fill = connection.prepare(
            "WITH RECURSIVE id(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM id WHERE n<?) \
             INSERT INTO note SELECT n FROM id",
        );
        let (fill, delete) = (fill.unwrap(), connection.prepare("DELETE FROM note WHERE id>0"));
        let (delete, mut interrupted) = (delete.unwrap(), 0);
        for (steps, rows) in (1..40).flat_map(|steps| (1..20).map(move |rows| (steps, rows))) {
            let mut run = connection.start(fill);
            run.bind(Bound::int(rows));
            assert_eq!(run.finish().unwrap(), rows as u64);
            let watch = Arc::as_ptr(connection.watch.as_ref().unwrap()).cast_mut().cast();
            // SAFETY: as in `Connection::watch`.
            unsafe {
                raw::marmota_sqlite3_progress_handler(
                    connection.db.as_ptr(),
                    steps,
                    Some(is_due),
                    watch,
                );
            }
            connection.begin_budget();
            let deleted = connection.start(delete).finish();
            connection.end_budget();
            let was_interrupted = connection.take_interrupted();
            if connection.take_hold() && connection.in_transaction() {
                connection.execute("ROLLBACK").unwrap();
            }
            match deleted {
                Ok(deleted) => assert_eq!((deleted, was_interrupted), (rows as u64, false)),
                Err(_) => {
                    interrupted += 1;
                    let again = connection.start(delete).finish();
                    assert_eq!(again.unwrap(), rows as u64, "every {steps} steps");
                }
            }
        }
        assert!(interrupted > 0, "no budget was used up");
    }
}
