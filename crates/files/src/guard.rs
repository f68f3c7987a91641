//! The files whose bytes are stored but not yet in a row, and the files that rows no longer have.
//!
//! [`StagedFiles`] is the store's guard of file fields: it decides in the transaction of each write.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use marmota_model::rule::violation;
use marmota_model::{Error, ErrorKind, File, Result, Uuid, Value, ValueRef};
use marmota_store::hook::{FileChange, FileGuard};
use parking_lot::{Condvar, Mutex};

/// The removals that may wait; a sweep finds others.
const REMOVALS_MAX: usize = 100_000;

/// A file that a row had. Its bytes are removed when the row no longer has it.
#[derive(Clone, Debug)]
pub(crate) struct Removal {
    pub(crate) table: String,
    pub(crate) field: usize,
    pub(crate) key: Value,
    pub(crate) id: Uuid,
    /// The time at which the row is read.
    pub(crate) due: Instant,
    pub(crate) attempts: u32,
}

/// The row that a staged file was written to.
#[derive(Debug, PartialEq)]
enum Claim {
    None,
    /// A row whose key the engine has generated since.
    NewRow,
    Row(Value),
}

#[derive(Debug)]
struct Staged {
    file: File,
    table: String,
    field: usize,
    at: Instant,
    claim: Claim,
    /// The file that the row must have before, if the writer depends on it.
    expected: Option<Uuid>,
}

#[derive(Debug, Default)]
struct State {
    staged: HashMap<Uuid, Staged>,
    removals: VecDeque<Removal>,
    is_stopped: bool,
}

/// The guard of file fields.
#[derive(Debug)]
pub(crate) struct StagedFiles {
    state: Mutex<State>,
    changed: Condvar,
    /// The time within which a staged file must be written to its row.
    age_max: Duration,
}

impl StagedFiles {
    pub(crate) fn new(age_max: Duration) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), age_max }
    }

    /// Adds a file whose bytes are stored, for this field of a row.
    pub(crate) fn stage(&self, table: &str, field: usize, file: &File) {
        let staged = Staged {
            file: file.clone(),
            table: table.to_owned(),
            field,
            at: Instant::now(),
            claim: Claim::None,
            expected: None,
        };
        self.state.lock().staged.insert(file.id, staged);
    }

    /// Refuses a write of the staged file to a row that has another file than this one.
    pub(crate) fn expect_before(&self, id: Uuid, before: Uuid) {
        if let Some(staged) = self.state.lock().staged.get_mut(&id) {
            staged.expected = Some(before);
        }
    }

    /// Forgets a staged file whose row is committed.
    pub(crate) fn settle(&self, id: Uuid) {
        self.state.lock().staged.remove(&id);
    }

    /// Returns true if the bytes may still get a row.
    pub(crate) fn is_staged(&self, id: Uuid) -> bool {
        self.state.lock().staged.contains_key(&id)
    }

    /// Forgets a staged file that is not to be written any more. If a write of it has begun, its
    /// bytes are removed only after the row was read.
    ///
    /// Returns true if the caller has to remove the bytes.
    pub(crate) fn discard(&self, id: Uuid) -> bool {
        let mut state = self.state.lock();
        let Some(staged) = state.staged.remove(&id) else { return false };
        match staged.claim {
            Claim::None => true,
            // A sweep finds it, if its row was not committed.
            Claim::NewRow => false,
            Claim::Row(key) => {
                let Staged { table, field, .. } = staged;
                let due = Instant::now();
                state.remove(Removal { table, field, key, id, due, attempts: 0 });
                self.changed.notify_all();
                false
            }
        }
    }

    /// Returns the staged files that have become too old to be written.
    pub(crate) fn expired(&self) -> Vec<Uuid> {
        let state = self.state.lock();
        // A write that was checked before may not be committed yet.
        let is_expired = |staged: &Staged| staged.at.elapsed() > self.age_max * 3 / 2;
        let expired = state.staged.iter().filter(|(_, staged)| is_expired(staged));
        expired.map(|(id, _)| *id).collect()
    }

    /// Returns the removals that are due, or waits for some, at most until `until`. `None` after
    /// [`StagedFiles::stop`].
    pub(crate) fn due(&self, until: Instant) -> Option<Vec<Removal>> {
        let mut state = self.state.lock();
        loop {
            if state.is_stopped {
                return None;
            }
            let now = Instant::now();
            let waiting = std::mem::take(&mut state.removals);
            let (due, later): (Vec<Removal>, Vec<Removal>) =
                waiting.into_iter().partition(|removal| removal.due <= now);
            state.removals = later.into();
            if !due.is_empty() || now >= until {
                return Some(due);
            }
            let next = state.removals.iter().map(|removal| removal.due).min();
            let _ = self.changed.wait_until(&mut state, next.map_or(until, |next| next.min(until)));
        }
    }

    /// Adds a removal again, to be tried later.
    pub(crate) fn again(&self, removal: Removal) {
        self.state.lock().remove(removal);
    }

    /// Ends the waiting for removals.
    pub(crate) fn stop(&self) {
        self.state.lock().is_stopped = true;
        self.changed.notify_all();
    }

    /// Allows waiting for removals, after [`StagedFiles::stop`].
    pub(crate) fn restart(&self) {
        self.state.lock().is_stopped = false;
    }
}

impl State {
    fn remove(&mut self, removal: Removal) {
        if self.removals.len() < REMOVALS_MAX {
            self.removals.push_back(removal);
        }
    }

    /// Decides on a file that is about to be written to a row.
    fn claim(&mut self, change: &FileChange<'_>, file: &File, age_max: Duration) -> Result<()> {
        let table = change.table.name();
        let refused = |message: &str| {
            let field = &change.table.fields()[change.field];
            let json = file.to_json();
            Error::invalid(vec![violation(field, ValueRef::Json(&json), "file", message)])
        };
        let staged = self.staged.get_mut(&file.id).filter(|staged| {
            staged.file == *file && staged.table == table && staged.field == change.field
        });
        let Some(staged) = staged else {
            return Err(refused(
                "must be a file that was uploaded for this field; send its bytes to the field \
                 (PUT), or leave the field out",
            ));
        };
        if staged.at.elapsed() > age_max {
            return Err(refused("was uploaded too long ago; upload it again"));
        }
        if let Some(expected) = staged.expected
            && change.before.map(|before| before.id) != Some(expected)
        {
            let message = "the file was changed meanwhile; read it again";
            return Err(Error::new(ErrorKind::Stale, message));
        }
        let claim = change.key.map_or(Claim::NewRow, |key| Claim::Row(key.clone()));
        // A write of the same row may be repeated after a conflict. Of two new rows, only one may
        // have the file: its bytes are removed with its row.
        if staged.claim != Claim::None && (staged.claim != claim || claim == Claim::NewRow) {
            return Err(refused("belongs to another row; upload it again for this row"));
        }
        staged.claim = claim;
        Ok(())
    }
}

impl FileGuard for StagedFiles {
    fn before_write(&self, change: &FileChange<'_>) -> Result<()> {
        let mut state = self.state.lock();
        if let Some(file) = change.after {
            state.claim(change, file, self.age_max)?;
        }
        if let (Some(before), Some(key)) = (change.before, change.key) {
            state.remove(Removal {
                table: change.table.name().to_owned(),
                field: change.field,
                key: key.clone(),
                id: before.id,
                // Most writes are committed within this time; others are looked at again.
                due: Instant::now() + Duration::from_millis(100),
                attempts: 0,
            });
            self.changed.notify_all();
        }
        Ok(())
    }
}
