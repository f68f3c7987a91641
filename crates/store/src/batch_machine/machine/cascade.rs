//! The rows that refer to deleted ones ([`OnDelete`]): they are read, changed and deleted before the
//! delete, by a batch inside of the batch, so that they have history entries, hooks and versions.
//!
//! 1. The keys of the rows to be deleted are read, for a delete by filter.
//! 2. The keys of the rows that refer to them are read, then of those that refer to these, until
//!    there are no others. A row is read once, so circles end. All rows together are at most
//!    [`CASCADE_ROWS_MAX`].
//! 3. References with [`OnDelete::SetNull`] are updated.
//! 4. Rows are deleted, those of referring tables first.
//!
//! Engines execute the same actions by themselves, for rows that other transactions have inserted
//! since, and for rows of several tables that refer to each other.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use marmota_model::{
    Comparison, Error, ErrorKind, FieldSet, FilterExpr, OnDelete, Result, RowQuery, Value,
};

use super::{BatchMachine, BatchParts, BatchStep, Stage, write_of};
use crate::contract::operation::{BatchMode, Cascade, Outcome, Write};
use crate::rows::cascades::{CASCADE_ROWS_MAX, CascadeField, CascadePlan};
use crate::rows::history::key_text;

/// The number of rows whose referring rows are read at once.
const PAGE_ROWS: usize = 256;
/// The number of rows that one operation deletes.
const DELETE_ROWS: usize = 256;

/// The rows of one delete.
pub(super) struct CascadeRun {
    cascade: Cascade,
    /// The keys of rows that are deleted, for each table of the plan.
    deleted: Vec<Vec<Value>>,
    /// The same as texts.
    known: Vec<HashMap<String, ()>>,
    /// The number of rows that the delete itself deletes, which come first, once they are known.
    own: usize,
    has_own: bool,
    own_keys: Vec<Value>,
    /// The key of the row, for a delete of one row.
    own_key: Option<Value>,
    /// The rows whose references become NULL, by table and key.
    changed: Vec<HashMap<String, (Value, FieldSet)>>,
    /// Rows whose referring rows are still to be read: a field, their keys, and whether the delete
    /// itself deletes them.
    looks: VecDeque<(CascadeField, Arc<[Value]>, bool)>,
    /// The field of the read in progress, and whether it is for rows of the delete itself.
    look: Option<CascadeField>,
    looked_for_own: bool,
    /// True for a delete of one row that refers to one of those that are deleted because of it.
    is_circle: bool,
    /// The number of all rows so far.
    rows: usize,
    /// The batch of the writes to the referring rows.
    inner: Option<Box<InnerBatch>>,
    is_over: bool,
}

/// A batch inside of a batch.
struct InnerBatch {
    machine: BatchMachine,
    writes: Vec<Write>,
    results: Vec<Result<Outcome>>,
}

impl InnerBatch {
    fn step(
        &mut self,
        call: impl FnOnce(&mut BatchMachine, &mut BatchParts<'_, '_>) -> BatchStep,
    ) -> BatchStep {
        let Self { machine, writes, results } = self;
        let mode = BatchMode::AllOrNothing;
        call(machine, &mut BatchParts { writes, links: &[], once: None, mode, results })
    }
}

impl fmt::Debug for CascadeRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CascadeRun").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl CascadeRun {
    fn new(cascade: Cascade) -> Self {
        let tables = cascade.plan.tables.len();
        Self {
            cascade,
            deleted: vec![Vec::new(); tables],
            known: vec![HashMap::new(); tables],
            own: 0,
            has_own: false,
            own_keys: Vec::new(),
            own_key: None,
            changed: vec![HashMap::new(); tables],
            looks: VecDeque::new(),
            look: None,
            looked_for_own: false,
            is_circle: false,
            rows: 0,
            inner: None,
            is_over: false,
        }
    }

    /// Returns true once all referring rows are written.
    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Adds rows of a table that are deleted.
    fn delete(&mut self, table: usize, keys: Vec<Value>) -> Result<()> {
        let mut new = Vec::with_capacity(keys.len());
        for key in keys {
            if self.known[table].insert(key_text(key.as_ref()), ()).is_none() {
                new.push(key);
            } else if table == 0 && self.own_key.as_ref() == Some(&key) {
                self.is_circle |= !self.looked_for_own;
            }
        }
        self.count(new.len())?;
        for &field in &self.cascade.plan.tables[table].referrers {
            let is_own = !self.has_own;
            let pages = new.chunks(PAGE_ROWS).map(|page| (field, Arc::from(page), is_own));
            self.looks.extend(pages);
        }
        self.deleted[table].append(&mut new);
        if !self.has_own {
            (self.has_own, self.own) = (true, self.deleted[0].len());
        }
        Ok(())
    }

    /// Adds rows of a table whose references become NULL.
    fn change(&mut self, field: CascadeField, keys: Vec<Value>) -> Result<()> {
        let mut new = 0;
        let nulled = self.cascade.plan.tables[field.table].table.nulled_with(field.field);
        for key in keys {
            match self.changed[field.table].entry(key_text(key.as_ref())) {
                Entry::Occupied(mut row) => {
                    let fields = &mut row.get_mut().1;
                    *fields = fields.union(nulled);
                }
                Entry::Vacant(row) => {
                    row.insert((key, nulled));
                    new += 1;
                }
            }
        }
        self.count(new)
    }

    fn count(&mut self, new: usize) -> Result<()> {
        self.rows += new;
        match self.rows > CASCADE_ROWS_MAX {
            true => Err(too_many(&self.cascade.plan)),
            false => Ok(()),
        }
    }

    /// Returns the limit of a read: one row more than are permitted.
    fn limit(&self) -> Option<u64> {
        Some((CASCADE_ROWS_MAX + 1).saturating_sub(self.rows) as u64)
    }

    /// Returns the writes to the referring rows, in their order.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] for rows that refer to each other in a circle, if they have history
    /// entries or hooks.
    fn writes(&mut self) -> Result<Vec<Write>> {
        let Self { cascade, deleted, known, own, own_keys, changed, is_circle, .. } = self;
        let plan = Arc::clone(&cascade.plan);
        if *is_circle && cascade.has_steps(0) {
            let message = format!(
                "rows of `{}` refer to each other in a circle, and the table is audited or has \
                 hooks or files: set one of these references to NULL first",
                plan.tables[0].table.name()
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let mut writes = Vec::new();
        for (index, rows) in changed.iter_mut().enumerate() {
            let table = &plan.tables[index].table;
            let mut rows: Vec<(String, (Value, FieldSet))> = rows.drain().collect();
            rows.retain(|(key, _)| !known[index].contains_key(key));
            rows.sort_unstable_by(|a, b| a.1.0.as_ref().order(&b.1.0.as_ref()));
            for (_, (key, fields)) in rows {
                let mut row = vec![Value::Absent; table.fields().len()];
                fields.iter().for_each(|field| row[field] = Value::Null);
                if let Some(updated_at) = table.updated_at() {
                    row[updated_at] = Value::Timestamp(cascade.at);
                }
                let table = Arc::clone(table);
                let write = Write::Update { table, key, row, version: None };
                writes.push(cascade.with_steps(index, write));
            }
        }
        for &index in &plan.order {
            let table = &plan.tables[index];
            let keys = std::mem::take(&mut deleted[index]);
            let keys = match index {
                0 => {
                    *own_keys = keys[..*own].to_vec();
                    &keys[*own..]
                }
                _ => &keys,
            };
            // The engine would delete the rows of the delete itself together with these.
            if *is_circle && !cascade.has_steps(index) {
                continue;
            }
            // Rows that refer to others of their table come after those: in parts from the end, no
            // engine has to follow long chains of them. Rows with several such references have no
            // such order.
            let most = match table.referrers.iter().filter(|field| field.table == index).count() {
                0 | 1 => DELETE_ROWS,
                _ => CASCADE_ROWS_MAX,
            };
            for some in keys.rchunks(most) {
                let filter = Some(is_one_of(table.table.key(), some));
                let write = Write::DeleteWhere { table: Arc::clone(&table.table), filter };
                writes.push(cascade.with_steps(index, write));
            }
        }
        Ok(writes)
    }
}

impl BatchMachine {
    /// Begins to read the rows that refer to those that the current write deletes.
    #[cold]
    pub(super) fn begin_cascade(
        &mut self,
        cascade: Cascade,
        parts: &BatchParts<'_, '_>,
    ) -> Result<BatchStep> {
        let write = write_of(self.write.as_deref(), parts.writes, self.place)?;
        let mut run = CascadeRun::new(cascade);
        if let Write::DeleteWhere { table, filter } = write.bare() {
            let (table, fields) = (Arc::clone(table), FieldSet::EMPTY.with(table.key()));
            let (filter, limit, fields) = (filter.clone(), run.limit(), Some(fields));
            let query = RowQuery { filter, limit, fields, ..RowQuery::new() };
            self.cascade = Some(Box::new(run));
            self.look(Stage::LookForDeleted, &table, Some(table.key()), query);
            return Ok(BatchStep::Next);
        }
        if let Write::Delete { key, .. } = write.bare() {
            run.own_key = Some(key.clone());
            run.delete(0, vec![key.clone()])?;
        }
        self.cascade = Some(Box::new(run));
        self.continue_cascade(parts)
    }

    /// Takes the keys of rows that were read, of those to be deleted or of those that refer to them.
    #[cold]
    pub(super) fn cascade_looked(&mut self, parts: &BatchParts<'_, '_>) -> Result<BatchStep> {
        let keys = std::mem::take(&mut self.looked.values);
        if let Some(run) = &mut self.cascade {
            match run.look.take() {
                None => run.delete(0, keys)?,
                Some(field) if field.on_delete == OnDelete::SetNull => run.change(field, keys)?,
                Some(field) => run.delete(field.table, keys)?,
            }
        }
        self.continue_cascade(parts)
    }

    /// Reads the next referring rows, or begins their writes.
    fn continue_cascade(&mut self, parts: &BatchParts<'_, '_>) -> Result<BatchStep> {
        let Some(run) = &mut self.cascade else { return self.check(parts) };
        if let Some((field, keys, is_own)) = run.looks.pop_front() {
            run.looked_for_own = is_own;
            let table = Arc::clone(&run.cascade.plan.tables[field.table].table);
            run.look = Some(field);
            let (filter, limit) = (Some(is_one_of(field.field, &keys)), run.limit());
            let fields = Some(FieldSet::EMPTY.with(table.key()));
            let query = RowQuery { filter, limit, fields, ..RowQuery::new() };
            self.look(Stage::LookForReferrers, &table, Some(table.key()), query);
            return Ok(BatchStep::Next);
        }
        let writes = run.writes()?;
        if writes.is_empty() {
            run.is_over = true;
            return self.check(parts);
        }
        let machine = BatchMachine { is_of_cascade: true, ..BatchMachine::default() };
        let inner = run.inner.insert(Box::new(InnerBatch { machine, writes, results: Vec::new() }));
        let step = inner.step(|machine, parts| machine.begin(parts));
        self.after_inner(parts, step)
    }

    /// Continues after a step of the batch of referring rows.
    fn after_inner(&mut self, parts: &BatchParts<'_, '_>, step: BatchStep) -> Result<BatchStep> {
        match step {
            BatchStep::Done(done) => {
                if let Some(run) = &mut self.cascade {
                    (run.inner, run.is_over) = (None, true);
                }
                done.and_then(|()| self.check(parts))
            }
            step => Ok(step),
        }
    }

    /// Returns the batch of referring rows, if it is in progress, with its writes.
    #[inline]
    pub(super) fn inner(&mut self) -> Option<(&mut BatchMachine, &[Write])> {
        let inner = self.cascade.as_mut()?.inner.as_mut()?;
        Some((&mut inner.machine, &inner.writes))
    }

    /// Takes the outcome of an operation of the batch of referring rows.
    #[cold]
    pub(super) fn advance_inner(
        &mut self,
        parts: &mut BatchParts<'_, '_>,
        came: Result<Outcome>,
    ) -> BatchStep {
        let inner = self.cascade.as_mut().and_then(|run| run.inner.as_mut());
        let Some(inner) = inner else {
            return BatchStep::Done(Err(Error::new(ErrorKind::Bug, "no batch is in progress")));
        };
        let step = inner.step(|machine, parts| machine.advance(parts, came));
        let followed = self.after_inner(parts, step);
        followed.unwrap_or_else(|error| self.fail_write(parts, error))
    }

    /// Continues a hook of the batch of referring rows; `None` if none is in progress.
    pub(super) fn poll_inner_hook(
        &mut self,
        parts: &mut BatchParts<'_, '_>,
        context: &mut Context<'_>,
    ) -> Option<Poll<BatchStep>> {
        let inner = self.cascade.as_mut()?.inner.as_mut()?;
        let mut polled = Poll::Pending;
        let step = inner.step(|machine, parts| {
            polled = machine.poll_hook(parts, context);
            match std::mem::replace(&mut polled, Poll::Ready(BatchStep::Hook)) {
                Poll::Ready(step) => step,
                Poll::Pending => {
                    polled = Poll::Pending;
                    BatchStep::Hook
                }
            }
        });
        if polled.is_pending() {
            return Some(Poll::Pending);
        }
        let followed = self.after_inner(parts, step);
        Some(Poll::Ready(followed.unwrap_or_else(|error| self.fail_write(parts, error))))
    }

    /// Returns the keys of the rows that a delete by filter deletes, if they were read.
    pub(super) fn keys_of_deleted(&self, write: &Write) -> Option<Vec<Value>> {
        let run = self.cascade.as_ref().filter(|_| matches!(write, Write::DeleteWhere { .. }))?;
        Some(run.own_keys.clone())
    }

    /// Corrects the number of rows that a delete by filter has deleted: an engine does not count a
    /// row that it has deleted because of another one before.
    ///
    /// # Errors
    /// [`ErrorKind::Bug`] if the batch has changed.
    #[cold]
    pub(super) fn count_deleted(&mut self, parts: &BatchParts<'_, '_>) -> Result<()> {
        let write = write_of(self.write.as_deref(), parts.writes, self.place)?;
        if let (Some(run), Write::DeleteWhere { .. }) = (&self.cascade, write.bare())
            && run.cascade.plan.reaches_itself
        {
            self.written.rows = run.own as u64;
        }
        Ok(())
    }
}

/// Returns the filter for rows with one of these values.
fn is_one_of(field: usize, values: &[Value]) -> FilterExpr {
    match values {
        [value] => {
            let comparison = Comparison::Equal;
            FilterExpr::Compare { field, comparison, value: value.clone() }
        }
        values => FilterExpr::In { field, values: values.to_vec() },
    }
}

/// The error for a delete of too many rows.
#[cold]
fn too_many(plan: &CascadePlan) -> Error {
    let tables: Vec<String> =
        plan.tables.iter().map(|one| format!("`{}`", one.table.name())).collect();
    let message = format!(
        "the delete from {} would delete or change more than {CASCADE_ROWS_MAX} rows, together with \
         those that refer to them (in {}): delete or change those first, in parts",
        tables[0],
        tables[1..].join(", ")
    );
    Error::new(ErrorKind::Conflict, message)
}
