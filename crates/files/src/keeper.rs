//! Removes the bytes that no row has: of replaced and deleted files at once, others by a sweep.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use marmota_model::text::counted;
use marmota_model::{
    Error, ErrorKind, FieldSet, File, Kind, Result, RowQuery, Table, Uuid, Value, ValueRef,
};
use marmota_store::Store;
use marmota_store::operation::Operation;

use crate::guard::{Removal, StagedFiles};
use crate::options::FileOptions;
use crate::resumable::Uploads;
use crate::space::Space;

/// The rows that a sweep reads at once.
const PAGE_ROWS: u64 = 1_000;
/// The times to look at a row whose write may not be committed yet.
const RETRY: [Duration; 4] = [
    Duration::from_millis(400),
    Duration::from_secs(2),
    Duration::from_secs(15),
    Duration::from_secs(120),
];

/// The result of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// The files in the storage that are older than the grace period.
    pub stored: u64,
    /// The files without a row, whose bytes were removed.
    pub files: u64,
    /// The resumable uploads that had expired, and were removed.
    pub uploads: u64,
}

/// What the thread needs. It does not keep the storage open.
pub(crate) struct Keeper {
    pub(crate) space: Weak<Space>,
    pub(crate) staged: Arc<StagedFiles>,
    pub(crate) uploads: Arc<Uploads>,
    pub(crate) store: Store,
    pub(crate) options: FileOptions,
}

impl Keeper {
    /// Removes bytes until the storage or the store is closed.
    pub(crate) fn run(&self) {
        let mut next_sweep = Instant::now() + self.options.sweep_interval;
        while let Some(due) = self.staged.due(next_sweep) {
            let Some(space) = self.space.upgrade() else { return };
            if !self.store.is_open() {
                return;
            }
            for removal in due {
                self.remove(&space, removal);
            }
            if Instant::now() >= next_sweep {
                for id in self.staged.expired() {
                    self.staged.settle(id);
                }
                match self.sweep(&space) {
                    Ok(report) if report.files > 0 => {
                        log::info!(target: "marmota", "files: removed the bytes of {} without a row", counted(report.files, "file"));
                    }
                    Ok(_) => {}
                    Err(error) => log::warn!(target: "marmota", "files: a sweep failed: {error}"),
                }
                next_sweep = Instant::now() + self.options.sweep_interval;
            }
        }
    }

    fn sweep(&self, space: &Arc<Space>) -> Result<SweepReport> {
        let report = sweep(space, &self.staged, &self.store, self.options.grace)?;
        let uploads = self.uploads.remove_expired(space, self.options.upload_age_max)?;
        Ok(SweepReport { uploads, ..report })
    }

    /// Removes the bytes of a file, if the row no longer has it.
    fn remove(&self, space: &Arc<Space>, removal: Removal) {
        match self.has_row(&removal) {
            Ok(false) => {
                let (of_task, id) = (Arc::clone(space), removal.id);
                if let Err(error) = space.wait(async move { of_task.delete_file(id).await }) {
                    log::warn!(target: "marmota", "files: {error}; a sweep will try again");
                }
            }
            // The write is not committed yet, or was rolled back.
            Ok(true) => {
                if let Some(delay) = RETRY.get(removal.attempts as usize) {
                    let (due, attempts) = (Instant::now() + *delay, removal.attempts + 1);
                    self.staged.again(Removal { due, attempts, ..removal });
                }
            }
            Err(error) if error.kind() == ErrorKind::Closed => {}
            Err(error) => {
                log::warn!(target: "marmota", "files: a row cannot be read ({error}); a sweep will remove its file");
            }
        }
    }

    /// Returns true if the committed row has the file.
    fn has_row(&self, removal: &Removal) -> Result<bool> {
        let table = self.store.table(&removal.table)?;
        let mut has = false;
        let mut sink = |row: &[ValueRef<'_>]| {
            has = id_of(row[removal.field]) == Some(removal.id);
            ControlFlow::Break(())
        };
        let (key, fields) = (removal.key.as_ref(), FieldSet::EMPTY.with(removal.field));
        match self.store.run(&mut Operation::Get { table: &table, key, fields }, &mut sink) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(has),
        }
    }
}

/// Removes the bytes older than `grace` that no row has.
///
/// The objects are listed before the rows are read. A file that was written to its row in between
/// was staged, or had its row before, because bytes older than the grace period cannot get a row.
pub(crate) fn sweep(
    space: &Arc<Space>,
    staged: &StagedFiles,
    store: &Store,
    grace: Duration,
) -> Result<SweepReport> {
    let limit = SystemTime::now().checked_sub(grace).unwrap_or(SystemTime::UNIX_EPOCH);
    let of_task = Arc::clone(space);
    let mut orphans: HashSet<Uuid> = space.wait(async move {
        let mut found = HashSet::new();
        of_task
            .list("files", |name, object| {
                let id = name.split('/').next_back().and_then(|id| Uuid::try_parse(id).ok());
                if SystemTime::from(object.last_modified) <= limit {
                    found.extend(id);
                }
            })
            .await?;
        of_task
            .list("thumbnails", |name, object| {
                let id = name.split('/').nth(1).and_then(|id| Uuid::try_parse(id).ok());
                if SystemTime::from(object.last_modified) <= limit {
                    found.extend(id);
                }
            })
            .await?;
        Ok(found)
    })?;
    let stored = orphans.len() as u64;
    orphans.retain(|id| !staged.is_staged(*id));
    if !orphans.is_empty() {
        for table in store.registry().tables() {
            for_each_file(store, table, |id| {
                orphans.remove(&id);
            })?;
        }
    }
    let (files, of_task) = (orphans.len() as u64, Arc::clone(space));
    space.wait(async move {
        for id in orphans {
            of_task.delete_file(id).await?;
        }
        Ok(())
    })?;
    if let Some(root) = space.place.folder() {
        remove_unfinished(root, limit);
    }
    Ok(SweepReport { stored, files, uploads: 0 })
}

/// Passes the id of each file of a table to a function.
fn for_each_file(store: &Store, table: &Table, mut each: impl FnMut(Uuid)) -> Result<()> {
    let is_file = |field: &usize| matches!(table.fields()[*field].kind, Kind::File { .. });
    let fields: Vec<usize> = (0..table.fields().len()).filter(is_file).collect();
    if fields.is_empty() {
        return Ok(());
    }
    let read = fields.iter().fold(FieldSet::EMPTY.with(table.key()), |set, field| set.with(*field));
    let mut after: Option<Value> = None;
    loop {
        let query = RowQuery {
            limit: Some(PAGE_ROWS),
            after: after.take().map(|key| table.place_of_key(key)),
            fields: Some(read),
            ..RowQuery::new()
        };
        let mut rows = 0;
        let mut failed = None;
        let mut sink = |row: &[ValueRef<'_>]| {
            rows += 1;
            after = Some(row[table.key()].to_value());
            for &field in &fields {
                match (row[field], id_of(row[field])) {
                    (_, Some(id)) => each(id),
                    (ValueRef::Null | ValueRef::Absent, None) => {}
                    // Nothing is removed on the basis of a description that cannot be read.
                    (value, None) => failed = Some(marmota_model::text::excerpt_of(value)),
                }
            }
            ControlFlow::Continue(())
        };
        store.run(&mut Operation::List { table, query: &query }, &mut sink)?;
        if let Some(value) = failed {
            let message =
                format!("`{}` has a description that is not a file: {value}", table.name());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if rows < PAGE_ROWS {
            return Ok(());
        }
    }
}

fn id_of(value: ValueRef<'_>) -> Option<Uuid> {
    match value {
        ValueRef::Json(json) => File::parse(json).map(|file| file.id),
        _ => None,
    }
}

/// Removes what processes that ended in the middle of an upload have left in a folder. The names of
/// such files have a `#`, and the object store does not list them.
fn remove_unfinished(root: &Path, limit: SystemTime) {
    let entries = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
    let folders = ["files", "thumbnails", "uploads"].map(|folder| root.join(folder));
    for folder in folders.iter().flat_map(|folder| entries(folder)) {
        for entry in entries(&folder.path()) {
            let is_old = || entry.metadata().ok()?.modified().ok().map(|at| at <= limit);
            if entry.file_name().to_string_lossy().contains('#') && is_old() == Some(true) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}
