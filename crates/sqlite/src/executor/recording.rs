//! Records the changes of a connection for the change feed: SQLite calls a hook before it changes a
//! row, the changes of a transaction are collected, and written as one row before the COMMIT.

use std::ffi::c_int;
use std::num::NonZeroU64;
use std::sync::Arc;

use hashbrown::HashMap;
use marmota_model::Value;
use marmota_model::{Error, ErrorKind, Result, Table, Timestamp, ValueForm, ValueRef};
use marmota_store::change::{ChangeBuffer, ChangeMark, ChangeRecorder, RecordedTable};
use marmota_store::operation::{Keys, Outcome};
use smallvec::{SmallVec, smallvec};

use crate::executor::Executor;
use crate::fault;
use crate::ffi::changes::{ChangeHook, ChangeListener, ChangedCells, ChangingRow, RowChange};
use crate::ffi::{Connection, StoredCell};
use crate::sql_words::sql_literal;
use crate::statement::column;
use crate::statement::key::stored;

/// The recorder of the writing connection.
#[derive(Debug)]
pub(crate) struct Recording {
    recorder: Arc<ChangeRecorder>,
    hook: Arc<ChangeHook<Listener>>,
    /// The open savepoints, with the changes at that time.
    savepoints: Vec<(u32, ChangeMark)>,
    /// A commit whose row is written, until the COMMIT.
    written: Option<WrittenCommit>,
}

/// A commit whose row is written.
#[derive(Debug)]
struct WrittenCommit {
    number: NonZeroU64,
    at: Timestamp,
    /// A copy of the changes, if the feed has readers.
    changes: Option<Vec<u8>>,
}

/// Collects the changes of a transaction.
struct Listener {
    buffer: ChangeBuffer,
    tables: Vec<ListenedTable>,
    /// The place of a table by its name.
    places: HashMap<Vec<u8>, usize>,
    /// The place of the table of the last change.
    last: usize,
    before: RowMemory,
    after: RowMemory,
    /// The first value that is not one of its field.
    misfit: Option<Error>,
}

/// Memory for the values of a row.
struct RowMemory {
    cells: ChangedCells,
    /// The text of a composite key.
    key: String,
    /// The texts of references to composite keys.
    references: Vec<(usize, Option<String>)>,
}

impl RowMemory {
    const fn new() -> Self {
        Self { cells: ChangedCells::new(), key: String::new(), references: Vec::new() }
    }
}

/// The values of a row; those of most tables fit on the stack.
type RowValues<'c> = SmallVec<[ValueRef<'c>; 16]>;

/// A recorded table, with the columns of its fields in the file.
struct ListenedTable {
    /// The name as the file has it, which is how SQLite reports it.
    name: Vec<u8>,
    table: RecordedTable,
    columns: Vec<c_int>,
    /// The positions of the fields of `columns`.
    stored: Vec<usize>,
    /// True if the columns are the first ones of the file, in the same order.
    is_in_order: bool,
    forms: Vec<ValueForm>,
}

impl ListenedTable {
    /// Finds the columns of a table. `None` if the file does not have all of them.
    fn of(connection: &mut Connection, table: &RecordedTable) -> Result<Option<Self>> {
        let literal = sql_literal(ValueRef::Text(table.table().name()));
        let sql = format!("SELECT cid, name FROM pragma_table_xinfo({literal})");
        let mut places = HashMap::new();
        connection
            .query(&sql, |row| {
                let name = String::from_utf8_lossy(row.at(1).bytes()).to_ascii_lowercase();
                places.insert(name, row.at(0).int() as c_int);
            })
            .map_err(|failure| fault::of(&failure))?;
        let fields = table.table().fields();
        let stored: Vec<usize> = stored(table.table()).collect();
        let columns = stored.iter().map(|&at| places.get(&*fields[at].name.to_ascii_lowercase()));
        let Some(columns) = columns.map(|place| place.copied()).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let is_in_order = table.table().made_fields().is_empty()
            && columns.iter().zip(0..).all(|(column, place)| *column == place);
        let forms = fields.iter().map(|field| field.kind.form()).collect();
        let name = stored_name(connection, table.table())?;
        Ok(Some(Self { name, table: table.clone(), columns, stored, is_in_order, forms }))
    }

    /// Encodes a row from its record: without a list of its values, which takes twice the
    /// instructions. Returns false if that is not possible.
    fn encode(&self, row: &ChangingRow<'_>, is_insert: bool, buffer: &mut ChangeBuffer) -> bool {
        let record = if self.is_in_order { row.record(is_insert) } else { None };
        let Some(mut record) = record else { return false };
        buffer.encoded(&self.table, is_insert, |encoder| {
            self.forms.iter().all(|&form| {
                let put = |cell: StoredCell<'_>| {
                    let mut value = ValueRef::Absent;
                    let is_valid = column::read(form, cell, &mut value);
                    encoder.put(value);
                    is_valid
                };
                record.next(put) == Some(true)
            })
        })
    }

    /// Reads a row.
    fn row<'c>(
        &self,
        row: &'c ChangingRow<'_>,
        after: bool,
        memory: &'c mut RowMemory,
    ) -> Result<RowValues<'c>> {
        let table = self.table.table();
        let RowMemory { cells, key, references } = memory;
        let cells = row.read(after, &self.columns, cells).ok_or_else(no_memory)?;
        let mut values: RowValues<'_> = smallvec![ValueRef::Absent; self.forms.len()];
        for (&place, cell) in self.stored.iter().zip(cells) {
            if !column::read(self.forms[place], cell, &mut values[place]) {
                return Err(column::misfit(table, place, cell.stored()));
            }
        }
        if table.has_composite_key() {
            *key = table.key_text_of(&values).unwrap_or_default();
            values[table.key()] = ValueRef::Text(key);
        }
        references.clear();
        table.each_made_reference(&values, |at, text| references.push((at, text)));
        for (at, text) in &*references {
            values[*at] = text.as_deref().map_or(ValueRef::Null, ValueRef::Text);
        }
        Ok(values)
    }
}

impl Listener {
    fn record(&mut self, table: &[u8], change: RowChange, row: &ChangingRow<'_>) -> Result<()> {
        if self.tables.get(self.last).is_none_or(|last| last.name != table) {
            let Some(&place) = self.places.get(table) else { return Ok(()) };
            self.last = place;
        }
        let Self { buffer, tables, last, before, after, .. } = self;
        let known = &tables[*last];
        let is_insert = change == RowChange::Insert;
        if change != RowChange::Update && known.encode(row, is_insert, buffer) {
            return Ok(());
        }
        match change {
            RowChange::Insert => buffer.inserted(&known.table, &known.row(row, true, after)?),
            RowChange::Delete => buffer.deleted(&known.table, &known.row(row, false, before)?),
            RowChange::Update => {
                let (old, new) = (known.row(row, false, before)?, known.row(row, true, after)?);
                buffer.updated(&known.table, &old, &new);
            }
        }
        Ok(())
    }
}

impl ChangeListener for Listener {
    fn changing(&mut self, table: &[u8], change: RowChange, row: &ChangingRow<'_>) {
        if let Err(error) = self.record(table, change, row) {
            self.misfit.get_or_insert(error);
        }
    }
}

impl Recording {
    fn with<T>(&self, work: impl FnOnce(&mut Listener) -> T) -> T {
        self.hook.with(work)
    }
}

impl Executor {
    /// Records the changes of this connection from now on.
    pub(crate) fn record(&mut self, recorder: &Arc<ChangeRecorder>) -> Result<()> {
        let mut tables = Vec::new();
        for known in recorder.tables() {
            tables.extend(ListenedTable::of(&mut self.connection, known)?);
        }
        let places = tables.iter().map(|table| table.name.clone()).zip(0..).collect();
        let listener = Listener {
            buffer: ChangeBuffer::default(),
            tables,
            places,
            last: 0,
            before: RowMemory::new(),
            after: RowMemory::new(),
            misfit: None,
        };
        let hook = Arc::new(ChangeHook::new(listener));
        self.connection.listen(&hook).map_err(|failure| fault::of(&failure))?;
        let recorder = Arc::clone(recorder);
        self.recording =
            Some(Box::new(Recording { recorder, hook, savepoints: Vec::new(), written: None }));
        Ok(())
    }

    /// Sets the actor of the next writes.
    #[inline]
    pub(crate) fn set_actor(&mut self, actor: Option<&Arc<str>>) {
        if let Some(recording) = &self.recording {
            recording.with(|listener| listener.buffer.set_actor(actor));
        }
    }

    /// Returns the recorded changes so far, to undo those of a write that fails.
    #[inline]
    pub(super) fn changes_so_far(&self) -> Option<ChangeMark> {
        self.recording.as_ref().map(|recording| recording.with(|changes| changes.buffer.mark()))
    }

    /// Forgets the changes since `mark`.
    #[cold]
    pub(super) fn forget_changes(&mut self, mark: Option<&ChangeMark>) {
        if let (Some(recording), Some(mark)) = (&self.recording, mark) {
            recording.with(|listener| listener.buffer.undo_to(mark));
        }
    }

    /// Forgets all changes: the transaction was rolled back.
    pub(super) fn forget_all_changes(&mut self) {
        if let Some(recording) = &mut self.recording {
            recording.savepoints.clear();
            recording.written = None;
            recording.with(|listener| {
                listener.misfit = None;
                drop(listener.buffer.take());
            });
        }
    }

    /// Follows a step of savepoints.
    pub(super) fn note_savepoint(&mut self, step: SavepointStep, number: u32) {
        let Some(recording) = &mut self.recording else { return };
        let open = recording.savepoints.iter().rposition(|(other, _)| *other == number);
        match (step, open) {
            (SavepointStep::Set, _) => {
                let mark = recording.with(|listener| listener.buffer.mark());
                recording.savepoints.push((number, mark));
            }
            (SavepointStep::Release, Some(at)) => recording.savepoints.truncate(at),
            (SavepointStep::RollBack, Some(at)) => {
                recording.savepoints.truncate(at + 1);
                let mark = &recording.savepoints[at].1;
                recording.with(|listener| listener.buffer.undo_to(mark));
            }
            (_, None) => {}
        }
    }

    /// Writes the row of a commit before its COMMIT, if there are changes.
    ///
    /// # Errors
    /// That of the insert, or of a value that another program wrote and no field can have.
    pub(super) fn write_changes(&mut self) -> Result<()> {
        let Some(recording) = &mut self.recording else { return Ok(()) };
        recording.savepoints.clear();
        let recorder = Arc::clone(&recording.recorder);
        let (misfit, changes) = recording.with(|listener| {
            let changes = (!listener.buffer.is_empty()).then(|| listener.buffer.take());
            (listener.misfit.take(), changes)
        });
        if let Some(error) = misfit {
            return Err(error);
        }
        let Some(changes) = changes else { return Ok(()) };
        let (at, mut outcome) = (Timestamp::now(), Outcome::default());
        self.insert(recorder.table(), &recorder.row(at, &changes), &mut outcome)?;
        let for_readers = recorder.for_readers(&changes);
        let number = match outcome.keys {
            Keys::One(Value::Int(number)) => u64::try_from(number).ok().and_then(NonZeroU64::new),
            _ => None,
        };
        let number =
            number.ok_or_else(|| Error::new(ErrorKind::Bug, "a commit was given no number"))?;
        if let Some(recording) = &mut self.recording {
            recording.with(|listener| listener.buffer.reuse(changes));
            recording.written = Some(WrittenCommit { number, at, changes: for_readers });
        }
        Ok(())
    }

    /// Reports the commit whose row was written, after its COMMIT.
    #[inline]
    pub(super) fn report_commit(&mut self) {
        let Some(recording) = &mut self.recording else { return };
        let Some(WrittenCommit { number, at, changes }) = recording.written.take() else { return };
        self.committed = Some(number);
        recording.recorder.committed(number.get(), at, changes);
    }

    /// Returns the number of the commit whose row was written, before it is reported.
    #[inline]
    pub(super) fn written_number(&self) -> Option<NonZeroU64> {
        self.recording.as_ref()?.written.as_ref().map(|written| written.number)
    }

    /// Returns the number of the last commit, once.
    #[inline]
    pub(crate) const fn take_committed(&mut self) -> Option<NonZeroU64> {
        self.committed.take()
    }

    /// Returns true if changes are recorded.
    #[inline]
    pub(crate) const fn is_recording(&self) -> bool {
        self.recording.is_some()
    }
}

/// A step of savepoints.
#[derive(Clone, Copy, Debug)]
pub(super) enum SavepointStep {
    Set,
    Release,
    RollBack,
}

/// Returns the name of a table as the file has it, which is how SQLite reports it.
fn stored_name(connection: &mut Connection, table: &Table) -> Result<Vec<u8>> {
    let mut stored = table.name().as_bytes().to_vec();
    let name = sql_literal(ValueRef::Text(table.name()));
    let sql =
        format!("SELECT name FROM sqlite_schema WHERE type='table' AND name={name} COLLATE NOCASE");
    connection
        .query(&sql, |row| stored = row.at(0).bytes().to_vec())
        .map_err(|failure| fault::of(&failure))?;
    Ok(stored)
}

#[cold]
fn no_memory() -> Error {
    Error::new(ErrorKind::Io, "there is no memory for a changed row")
}
