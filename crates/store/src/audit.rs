//! Writes to audited models: each is carried out together with the entry that
//! tells of it (`history.rs`), in one transaction. The same for all engines,
//! which see a batch.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use marmota_model::{
    Comparison, FieldSet, Filter, Index, NoRows, Query, Result, RowSink, Table, Timestamp, Value,
    ValueRef, json,
};

use crate::history::{History, HistoryAction, key_text};
use crate::operation::{Effect, Keys, OnConflict, Operation, Outcome, Write};

/// Entries that are too old are looked for at every so manieth write.
const WRITES_BETWEEN_CUTS: u32 = 256;

/// Carries out one operation inside the transaction.
pub(crate) type Run<'r> = dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<Outcome> + 'r;

/// Where entries go, and how long they stay.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) table: Arc<Table>,
    /// In microseconds.
    age_max_us: Option<i64>,
    writes: AtomicU32,
}

/// Who writes, when, and where that is entered.
#[derive(Clone, Debug)]
pub struct Audit {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) actor: Option<Arc<str>>,
    pub(crate) at: Timestamp,
}

impl Ledger {
    pub(crate) fn new(table: Arc<Table>, age_max_us: Option<i64>) -> Self {
        Self { table, age_max_us, writes: AtomicU32::new(0) }
    }
}

impl Audit {
    /// Who is said to write.
    #[must_use]
    pub fn actor(&self) -> Option<&str> {
        self.actor.as_deref()
    }

    /// The table of the entries.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.ledger.table
    }

    /// Carries out a write and enters it. One that changes no row leaves no
    /// entry.
    pub(crate) fn carry_out(&self, write: &Write, run: &mut Run<'_>) -> Result<Outcome> {
        let gone = match write {
            Write::DeleteWhere { table, filter } => keys_of(table, filter.as_ref(), run)?,
            Write::Insert { table, row, on_conflict: OnConflict::Replace } => {
                keys_of(table, Some(&in_the_way(table, row)), run)?
            }
            _ => Vec::new(),
        };
        let outcome = write.with_operation(&mut *run)?;
        if outcome.rows == 0 {
            return Ok(outcome);
        }
        let table = write.table();
        match write {
            Write::Insert { row, on_conflict, .. } => {
                let key = match &outcome.keys {
                    Keys::One(key) => key.as_ref(),
                    _ => row[table.key()].as_ref(),
                };
                for gone in gone.iter().filter(|gone| gone.as_ref() != key) {
                    self.enter_delete(table, gone.as_ref(), run)?;
                }
                let (action, fields) = match (outcome.effect, on_conflict) {
                    (Effect::Updated, OnConflict::Update { fields }) => {
                        (HistoryAction::Update, *fields)
                    }
                    _ => (HistoryAction::Insert, table.all()),
                };
                let present = row.iter().map(Value::as_ref).enumerate();
                let written = present.filter(|(field, _)| fields.contains(*field));
                self.enter(table, key, action, written, &outcome, run)?;
            }
            Write::Update { key, row, .. } => {
                let present = row.iter().map(Value::as_ref).enumerate();
                self.enter(table, key.as_ref(), HistoryAction::Update, present, &outcome, run)?;
            }
            Write::Increment { key, field, stamp, .. } => {
                let stamped = table.updated_at().map(|field| (field, stamp.as_ref()));
                let written = [(*field, outcome.value.as_ref())].into_iter().chain(stamped);
                self.enter(table, key.as_ref(), HistoryAction::Increment, written, &outcome, run)?;
            }
            Write::Delete { key, .. } => self.enter_delete(table, key.as_ref(), run)?,
            Write::DeleteWhere { .. } => {
                gone.iter().try_for_each(|key| self.enter_delete(table, key.as_ref(), run))?;
            }
            // It has its own.
            Write::Audited { .. } | Write::Guarded { .. } => {}
        }
        self.cut(run)?;
        Ok(outcome)
    }

    fn enter_delete(&self, table: &Table, key: ValueRef<'_>, run: &mut Run<'_>) -> Result<()> {
        let nothing = std::iter::empty();
        self.enter(table, key, HistoryAction::Delete, nothing, &Outcome::default(), run)
    }

    fn enter<'v>(
        &self,
        table: &Table,
        key: ValueRef<'_>,
        action: HistoryAction,
        written: impl Iterator<Item = (usize, ValueRef<'v>)>,
        outcome: &Outcome,
        run: &mut Run<'_>,
    ) -> Result<()> {
        let key = key_text(key);
        let fields = fields_json(table, written);
        let of_fields = match action {
            HistoryAction::Delete => ValueRef::Null,
            _ => ValueRef::Json(&fields),
        };
        let row = [
            ValueRef::Absent,
            ValueRef::Text(table.name()),
            ValueRef::Text(&key),
            ValueRef::Text(action.name()),
            of_fields,
            ValueRef::Timestamp(self.at),
            outcome.version.map_or(ValueRef::Null, ValueRef::Int),
            self.actor.as_deref().map_or(ValueRef::Null, ValueRef::Text),
        ];
        run(&mut Operation::insert(self.table(), &row), &mut NoRows).map(|_| ())
    }

    /// Lets go of entries that are too old, now and then.
    fn cut(&self, run: &mut Run<'_>) -> Result<()> {
        let Some(age_max_us) = self.ledger.age_max_us else { return Ok(()) };
        let write = self.ledger.writes.fetch_add(1, Ordering::Relaxed);
        let Ok(oldest) = Timestamp::from_micros(self.at.micros().saturating_sub(age_max_us)) else {
            return Ok(());
        };
        if !write.is_multiple_of(WRITES_BETWEEN_CUTS) {
            return Ok(());
        }
        let filter = History::AT.lt(oldest);
        let mut cut = Operation::DeleteWhere { table: self.table(), filter: Some(&filter) };
        run(&mut cut, &mut NoRows).map(|_| ())
    }
}

/// The rows with the key of a new one, or with its values in a unique index.
pub(crate) fn in_the_way(table: &Table, row: &[Value]) -> Filter {
    let key = Index { fields: vec![table.key()].into(), unique: true };
    let there = |field: &usize| !matches!(row[*field], Value::Absent | Value::Null);
    let equal = |&field: &usize| Filter::Compare {
        field,
        comparison: Comparison::Equal,
        value: row[field].clone(),
    };
    let indexes = table.indexes().into_iter().chain([key]);
    let same = indexes
        .filter(|index| index.unique && index.fields.iter().all(there))
        .map(|index| Filter::And(index.fields.iter().map(equal).collect()));
    Filter::Or(same.collect())
}

/// The keys of the rows that a filter selects.
fn keys_of(table: &Table, filter: Option<&Filter>, run: &mut Run<'_>) -> Result<Vec<Value>> {
    let fields = Some(FieldSet::EMPTY.with(table.key()));
    let query = Query { filter: filter.cloned(), fields, ..Query::new() };
    let mut keys = Vec::new();
    let mut sink = |row: &[ValueRef<'_>]| {
        keys.push(row[table.key()].to_value());
        ControlFlow::Continue(())
    };
    run(&mut Operation::List { table, query: &query }, &mut sink)?;
    Ok(keys)
}

/// The fields that are there as a JSON object.
fn fields_json<'v>(table: &Table, written: impl Iterator<Item = (usize, ValueRef<'v>)>) -> String {
    let mut out = vec![b'{'];
    for (position, value) in written.filter(|(_, value)| !value.is_absent()) {
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(table.json_key(position));
        match value {
            ValueRef::Blob(bytes) => out.extend_from_slice(bytes.len().to_string().as_bytes()),
            value => json::write_value_as(&mut out, &table.fields()[position].kind, value),
        }
    }
    out.push(b'}');
    // It is made of texts and ASCII.
    String::from_utf8(out).unwrap_or_default()
}
