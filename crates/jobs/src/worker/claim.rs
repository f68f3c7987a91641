//! Claiming: jobs of a queue that are due become those of this worker.
//!
//! Pending jobs are read from the start of their range in the index, and scheduled ones up to now.
//! Both are updated in one batch, each with the version that was read. If another process was
//! faster with one of them, nothing is written, and the jobs are read again in a transaction.

use std::ops::ControlFlow;
use std::sync::Arc;

use marmota_model::{
    Comparison, ErrorKind, FieldSet, FieldValue, FilterExpr, Result, RowQuery, SortKey, Table,
    Timestamp, Uuid, Value, ValueRef,
};
use marmota_store::operation::{Operation, Write};
use marmota_store::{Durability, Store};

use crate::context::is_other_version;
use crate::models::column::{
    ATTEMPTS, ATTEMPTS_MAX, HOLDER, ID, INPUT, KIND, PRIORITY, QUEUE, RANK, RUN_AT, STARTED_AT,
    STATE, UNIQUE_KEY, VERSION,
};
use crate::models::writes::{self, value};
use crate::models::{JobState, distinct_time};

/// A job that this worker has claimed.
#[derive(Clone, Debug)]
pub(crate) struct Claimed {
    pub(crate) id: Uuid,
    pub(crate) kind: String,
    pub(crate) input: String,
    pub(crate) holder: Uuid,
    /// The number of the attempt.
    pub(crate) attempt: i32,
    pub(crate) attempts_max: i32,
    pub(crate) priority: i8,
    pub(crate) run_at: Timestamp,
    pub(crate) version: i64,
    pub(crate) has_key: bool,
}

/// The claim of jobs of one queue.
pub(crate) struct Claim<'a> {
    pub(crate) store: &'a Store,
    pub(crate) table: &'a Arc<Table>,
    pub(crate) queue: &'a str,
    /// The kinds of jobs that this worker executes.
    pub(crate) kinds: &'a [Value],
    pub(crate) holder: Uuid,
    pub(crate) now: Timestamp,
    pub(crate) limit: usize,
}

impl Claim<'_> {
    /// Claims jobs.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn run(&self) -> Result<Vec<Claimed>> {
        if is_postgres(self.store) {
            return self.run_by_sql();
        }
        let mut found = self.find(self.store)?;
        if found.is_empty() {
            return Ok(found);
        }
        // A claim that a power cut undoes is no harm: the jobs are pending again.
        let writes = self.writes(&found);
        if !self.store.capability().transactions {
            found = self.run_each(found)?;
            found.iter_mut().for_each(|claimed| claimed.version += 1);
            return Ok(found);
        }
        match writes::all(self.store, &writes).durability(Durability::Relaxed).run() {
            Ok(_) => {}
            Err(error) if is_other_version(&error) || error.kind() == ErrorKind::Conflict => {
                found = self.run_in_turn()?;
            }
            Err(error) => return Err(error),
        }
        for claimed in &mut found {
            claimed.version += 1;
        }
        Ok(found)
    }

    /// Claims jobs by two statements, which skip those that another process is claiming: on
    /// PostgreSQL, a statement for many rows costs a fraction of one for each. The rows of this
    /// claim are found by their rank, which no other claim of this process has.
    fn run_by_sql(&self) -> Result<Vec<Claimed>> {
        let stamp = distinct_time(self.now).micros();
        let transaction = self.store.begin_run()?;
        let mut count = 0;
        for (state, due) in
            [(JobState::Scheduled, self.now.micros()), (JobState::Pending, i64::MAX)]
        {
            let kinds = vec!["?"; self.kinds.len()].join(",");
            let claim = transaction.execute(format!(
                "UPDATE marmota_job SET state = {running}, rank = ?, attempts = attempts + 1, \
                 holder = ?, started_at = ?, version = version + 1 WHERE id IN (SELECT id FROM \
                 marmota_job WHERE queue = ? AND state = {from} AND rank <= ? AND kind IN ({kinds}) \
                 ORDER BY rank LIMIT ? FOR UPDATE SKIP LOCKED)",
                running = JobState::Running as i64,
                from = state as i64,
            ));
            let claim = claim.bind(stamp).bind(self.holder).bind(self.now);
            let claim = claim.bind(self.queue.to_owned()).bind(due);
            let claim = self.kinds.iter().cloned().fold(claim, |claim, kind| claim.bind(kind));
            count += claim.bind(self.limit as i64).run()?;
        }
        let mut found = Vec::new();
        if count == 0 {
            return Ok(found);
        }
        let claimed = compare(RANK, Comparison::Equal, Value::Int(stamp));
        let claimed = claimed.and(compare(HOLDER, Comparison::Equal, Value::Uuid(self.holder)));
        self.list(&transaction, JobState::Running, Some(claimed), count, &mut found)?;
        transaction.commit().durability(Durability::Relaxed).run()?;
        for job in &mut found {
            // It was counted by the statement.
            job.attempt -= 1;
        }
        found.sort_by_key(|job| (std::cmp::Reverse(job.priority), job.run_at, job.id));
        Ok(found)
    }

    /// Claims jobs while other processes do.
    fn run_in_turn(&self) -> Result<Vec<Claimed>> {
        self.store.transaction(|transaction| {
            let found = self.find(transaction)?;
            writes::all(transaction, &self.writes(&found)).run()?;
            Ok(found)
        })
    }

    /// Claims those of the jobs that no other process has claimed, without a transaction.
    fn run_each(&self, found: Vec<Claimed>) -> Result<Vec<Claimed>> {
        let results = writes::each(self.store, &self.writes(&found)).run()?;
        let claimed = found.into_iter().zip(results);
        Ok(claimed.filter_map(|(claimed, result)| result.ok().map(|_| claimed)).collect())
    }

    /// Reads the jobs to claim: scheduled ones that are due and pending ones, by priority.
    fn find(&self, store: &Store) -> Result<Vec<Claimed>> {
        let (mut found, limit) = (Vec::new(), self.limit as u64);
        let due = compare(RANK, Comparison::LessOrEqual, Value::Int(self.now.micros()));
        self.list(store, JobState::Scheduled, Some(due), limit, &mut found)?;
        let are_mixed = !found.is_empty();
        self.list(store, JobState::Pending, None, limit, &mut found)?;
        if are_mixed {
            found.sort_by_key(|job| (std::cmp::Reverse(job.priority), job.run_at, job.id));
            found.truncate(self.limit);
        }
        Ok(found)
    }

    fn list(
        &self,
        store: &Store,
        state: JobState,
        due: Option<FilterExpr>,
        limit: u64,
        found: &mut Vec<Claimed>,
    ) -> Result<()> {
        let filter = FilterExpr::And(vec![
            compare(QUEUE, Comparison::Equal, Value::Text(self.queue.to_owned())),
            compare(STATE, Comparison::Equal, value(&state)),
        ]);
        let filter = due.into_iter().fold(filter, FilterExpr::and);
        let filter = filter.and(FilterExpr::In { field: KIND, values: self.kinds.to_vec() });
        let read = [ID, KIND, INPUT, ATTEMPTS, ATTEMPTS_MAX, PRIORITY, RUN_AT, UNIQUE_KEY, VERSION];
        let query = RowQuery {
            filter: Some(filter),
            order: vec![SortKey { field: RANK, descending: false }],
            limit: Some(limit),
            fields: Some(read.into_iter().fold(FieldSet::EMPTY, FieldSet::with)),
            ..RowQuery::new()
        };
        let mut list = Operation::List { table: self.table, query: &query };
        store.run(&mut list, &mut |row: &[ValueRef<'_>]| {
            found.extend(self.read(row));
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    fn read(&self, row: &[ValueRef<'_>]) -> Option<Claimed> {
        Some(Claimed {
            id: Uuid::from_row(row[ID])?,
            kind: row[KIND].as_text()?.to_owned(),
            input: row[INPUT].as_text()?.to_owned(),
            holder: self.holder,
            attempt: i32::from_row(row[ATTEMPTS])? + 1,
            attempts_max: i32::from_row(row[ATTEMPTS_MAX])?,
            priority: i8::from_row(row[PRIORITY])?,
            run_at: Timestamp::from_row(row[RUN_AT])?,
            version: i64::from_row(row[VERSION])?,
            has_key: row[UNIQUE_KEY].as_text().is_some(),
        })
    }

    fn writes(&self, found: &[Claimed]) -> Vec<Write> {
        let write = |job: &Claimed| {
            let values = [
                (STATE, value(&JobState::Running)),
                (RANK, Value::Int(self.now.micros())),
                (ATTEMPTS, Value::Int(job.attempt.into())),
                (HOLDER, Value::Uuid(self.holder)),
                (STARTED_AT, Value::Timestamp(self.now)),
            ];
            writes::update(self.table, job.id, job.version, values)
        };
        found.iter().map(write).collect()
    }

    /// Returns the time at which the next scheduled job is due.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn next_due(&self) -> Result<Option<Timestamp>> {
        let filter = FilterExpr::And(vec![
            compare(QUEUE, Comparison::Equal, Value::Text(self.queue.to_owned())),
            compare(STATE, Comparison::Equal, value(&JobState::Scheduled)),
        ]);
        let query = RowQuery {
            filter: Some(filter),
            order: vec![SortKey { field: RANK, descending: false }],
            limit: Some(1),
            fields: Some(FieldSet::EMPTY.with(ID).with(RANK)),
            ..RowQuery::new()
        };
        let mut due = None;
        let mut list = Operation::List { table: self.table, query: &query };
        self.store.run(&mut list, &mut |row: &[ValueRef<'_>]| {
            due = row[RANK].as_int().and_then(|micros| Timestamp::from_micros(micros).ok());
            ControlFlow::Break(())
        })?;
        Ok(due)
    }
}

fn compare(field: usize, comparison: Comparison, value: Value) -> FilterExpr {
    FilterExpr::Compare { field, comparison, value }
}

/// Returns true if rows can be claimed by SQL of PostgreSQL.
pub(crate) fn is_postgres(store: &Store) -> bool {
    let capability = store.capability();
    capability.sql && capability.name == "postgres"
}
