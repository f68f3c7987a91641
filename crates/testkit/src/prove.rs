//! Power cuts: checks the contents of a SQLite file with a store's models after each of them.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use marmota_model::{Error, ErrorKind, Model, Result, Value};
use marmota_sqlite::disk::{Disk, PowerCut, integrity};
use marmota_sqlite::{Durability, Location, Sqlite, SqliteOptions};
use marmota_store::{Store, StoreBuilder};

use crate::feed_check::feed_difference;
use crate::random_row::RandomRow;
use crate::stress::client::{AcknowledgedChange, Client};
use crate::stress::expected::{each_row, row_key};
use crate::stress::{MakeRow, tables_of, values_of};

/// A folder in memory, where syncs take no time.
const IN_MEMORY: &str = "/dev/shm";
/// The parts of unsynced sectors that a power cut keeps, in eighths.
const KEPT: [u64; 3] = [0, 3, 7];

/// The rows of all tables, by the index of the table and the key.
type State = HashMap<(usize, String), Vec<Value>>;

/// Writes rows of a store's models to a SQLite file on a simulated disk, cuts the power at many
/// places, and checks each time that the file opens with exactly the acknowledged writes.
///
/// `models` adds your models to a builder. One client inserts, updates and deletes random rows, as
/// in [`stress()`](crate::stress()). The disk records every write and sync. At a power cut, the disk
/// keeps what was synced and a random part of the rest. Then the database must open, pass SQLite's
/// integrity check, and have all acknowledged writes; of the write in progress it has all or
/// nothing. If the store records changes ([`StoreBuilder::changes`]), the change feed must lead to
/// the same rows.
///
/// ```
/// use marmota_derive::Model;
///
/// #[derive(Debug, Model)]
/// struct Note {
///     id: i64,
///     text: String,
/// }
///
/// let report = marmota_testkit::prove(|store| store.model::<Note>()).power_cuts(5).run()?;
/// report.check();
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub fn prove(models: impl Fn(StoreBuilder) -> StoreBuilder + 'static) -> Prove {
    let (models, rows) = (Box::new(models), HashMap::new());
    let durability = Durability::Full;
    Prove { models, rows, operations: 200, power_cuts: 50, seed: 1, durability }
}

/// The settings of a run with power cuts; see [`prove()`].
#[must_use]
pub struct Prove {
    models: Box<dyn Fn(StoreBuilder) -> StoreBuilder>,
    rows: HashMap<&'static str, Box<MakeRow>>,
    operations: u32,
    power_cuts: u32,
    seed: u64,
    durability: Durability,
}

/// The findings of a run with power cuts.
#[derive(Debug)]
pub struct ProveReport {
    writes: usize,
    events: usize,
    power_cuts: u32,
    faults: Vec<String>,
}

impl Prove {
    /// Sets the number of operations. Default: 200.
    pub fn operations(mut self, operations: u32) -> Self {
        self.operations = operations;
        self
    }

    /// Sets the number of power cuts. Default: 50.
    pub fn power_cuts(mut self, power_cuts: u32) -> Self {
        self.power_cuts = power_cuts;
        self
    }

    /// Sets the seed of rows, operations and power cuts. The same seed repeats the same run.
    /// Default: 1.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets how rows of a model are made, like [`Stress::rows`](crate::Stress::rows).
    pub fn rows<M: Model>(mut self, make: impl Fn(u64) -> M + Sync + 'static) -> Self {
        self.rows.insert(M::TABLE, values_of(make));
        self
    }

    /// Writes the rows, cuts the power, and compares.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Io`] if no temporary folder can be created, or the error of opening the
    /// first database. Errors after power cuts are faults in the report.
    pub fn run(self) -> Result<ProveReport> {
        let folder = folder()?;
        // The simulation compares paths in SQLite's form.
        let place = folder.path().canonicalize().map_err(|error| no_folder(&error))?;
        let disk = Disk::at(&place).map_err(|error| no_folder(&error))?;
        disk.record(true);
        let file = place.join("prove.db");
        let store = self.open(&file)?;
        let tables = tables_of(&store);
        let position = || disk.recorded();
        let mut client =
            Client::new(&store, &tables, &self.rows, self.seed).with_journal(&position);
        client.work(self.operations);
        let (changes, faults) = client.into_changes();
        store.close()?;
        disk.record(false);
        let events = disk.take_record();
        let mut report =
            ProveReport { writes: changes.len(), events: events.len(), power_cuts: 0, faults };
        let (mut cut, mut random) = (PowerCut::new(self.seed), RandomRow::new(!self.seed));
        let (mut before, mut acknowledged) = (State::new(), 0);
        for (place, event) in events.iter().enumerate() {
            while let Some(change) = changes.get(acknowledged).filter(|change| change.at <= place) {
                apply(&mut before, change);
                acknowledged += 1;
            }
            if random.below(events.len()) < self.power_cuts as usize {
                let left = folder_with(&mut cut, KEPT[report.power_cuts as usize % KEPT.len()])?;
                let next = changes.get(acknowledged);
                if let Some(fault) = self.fault_after(left.path(), &before, next) {
                    report.faults.push(format!("power cut before write {place}: {fault}"));
                }
                report.power_cuts += 1;
            }
            cut.go_on(event);
        }
        Ok(report)
    }

    fn open(&self, file: &Path) -> Result<Store> {
        let options = SqliteOptions { durability: self.durability, ..SqliteOptions::default() };
        let engine = Sqlite::open(Location::File(file.to_owned()), options)?;
        // Frequent checkpoints, so that power is cut during checkpoints too.
        engine.execute("PRAGMA wal_autocheckpoint=12")?;
        // No other thread writes, so that the order of writes is the same each time.
        let _sync = engine.leave_groups_to_callers();
        (self.models)(Store::builder(engine)).open()
    }

    /// Compares the database after a power cut with the acknowledged rows. The next change is
    /// present completely or not at all.
    fn fault_after(
        &self,
        folder: &Path,
        before: &State,
        next: Option<&AcknowledgedChange>,
    ) -> Option<String> {
        let file = folder.join("prove.db");
        let found = self.state(&file);
        let found = match found {
            Ok((_, Some(difference))) => return Some(difference),
            Ok((found, None)) => found,
            Err(error) => return Some(format!("the database does not open: {error}")),
        };
        match integrity(&file) {
            Ok(found) if found == "ok" => {}
            Ok(found) => return Some(format!("SQLite's integrity check: {found}")),
            Err(error) => return Some(format!("SQLite's integrity check fails: {error}")),
        }
        if found == *before {
            return None;
        }
        let mut after = before.clone();
        next.into_iter().for_each(|change| apply(&mut after, change));
        if found == after {
            return None;
        }
        let lost = before.iter().find(|(key, row)| found.get(*key) != Some(*row));
        Some(match lost {
            Some(((_, key), row)) => format!(
                "the row with the key {key} is {:?} instead of {row:?}",
                found.iter().find(|((_, other), _)| other == key).map(|(_, row)| row)
            ),
            None => "there are rows that were not written".to_owned(),
        })
    }

    /// Returns the rows, and the difference to those of the change feed, if the store has one.
    fn state(&self, file: &Path) -> Result<(State, Option<String>)> {
        let store = self.open(file)?;
        let mut state = State::new();
        for (at, table) in tables_of(&store).iter().enumerate() {
            each_row(&store, table, |row| {
                state.insert((at, row_key(&row[table.key()])), row);
            })?;
        }
        let difference = match store.position() {
            Ok(_) => feed_difference(&store)?,
            Err(_) => None,
        };
        store.close()?;
        Ok((state, difference))
    }
}

impl ProveReport {
    /// Returns descriptions of what was lost or wrong.
    #[must_use]
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    /// Returns the number of power cuts.
    #[must_use]
    pub const fn power_cuts(&self) -> u32 {
        self.power_cuts
    }

    /// Checks the result of the run.
    ///
    /// # Panics
    /// If there are faults, with their descriptions.
    pub fn check(&self) {
        assert!(self.faults.is_empty(), "{self}");
    }
}

impl fmt::Display for ProveReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writes, events, power_cuts, faults } = self;
        write!(
            f,
            "{writes} acknowledged writes, {events} events on the disk, {power_cuts} power cuts; {} \
             faults",
            faults.len()
        )?;
        faults.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

fn apply(state: &mut State, change: &AcknowledgedChange) {
    let key = (change.table, change.key.clone());
    match &change.row {
        Some(row) => drop(state.insert(key, row.clone())),
        None => drop(state.remove(&key)),
    }
}

fn folder() -> Result<tempfile::TempDir> {
    let made = match Path::new(IN_MEMORY).is_dir() {
        true => tempfile::tempdir_in(IN_MEMORY),
        false => tempfile::tempdir(),
    };
    made.map_err(|error| no_folder(&error))
}

fn folder_with(cut: &mut PowerCut, eighths: u64) -> Result<tempfile::TempDir> {
    let left = folder()?;
    cut.leave(left.path(), eighths).map_err(|error| no_folder(&error))?;
    Ok(left)
}

#[cold]
fn no_folder(error: &dyn fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("no temporary folder can be made: {error}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests panic")]
mod tests {
    use marmota_model::{Field, Kind, Role, Schema};
    use marmota_store::change::ChangeRetention;

    use super::*;

    fn notes() -> Prove {
        prove(|store| {
            let fields =
                vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("a", Kind::TEXT)];
            store.schema(Schema::new("note", fields))
        })
    }

    #[test]
    fn acknowledged_writes_survive() {
        let report = notes().run().unwrap();
        report.check();
        assert!(report.writes > 50 && report.power_cuts > 20, "{report}");
    }

    #[test]
    fn the_change_feed_has_the_acknowledged_writes() {
        let models = |store: StoreBuilder| {
            let fields =
                vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("a", Kind::TEXT)];
            store.schema(Schema::new("note", fields)).changes(ChangeRetention::default())
        };
        let report = prove(models).run().unwrap();
        report.check();
        assert!(report.writes > 50 && report.power_cuts > 20, "{report}");
    }

    #[test]
    fn writes_that_did_not_wait_for_the_disk_are_found() {
        let report = Prove { durability: Durability::Relaxed, ..notes() }.run().unwrap();
        assert!(!report.faults.is_empty(), "{report}");
    }
}
