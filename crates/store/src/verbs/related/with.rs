//! Lists of structs with the rows that they are related to.

use std::future::{Future, IntoFuture};
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use marmota_model::{
    Error, ErrorKind, FieldSet, Model, Result, RowQuery, RowSink, Table, Value, ValueRef,
};

use super::{RelatedRead, Relations, ValueNumbers};
use crate::contract::operation::{Operation, Outcome};
use crate::runtime::block_on::block_on;
use crate::store::{Pending, Progress, Store};

/// A relation of listed rows: how its rows are found, and which of them are read.
#[derive(Debug)]
pub struct RelatedQuery {
    /// The field of the listed rows by which they find theirs.
    pub(super) local: usize,
    /// Finds the related table.
    pub(super) table: fn(&Store) -> Result<Arc<Table>>,
    /// The field of the related rows.
    pub(super) by: usize,
    pub(super) query: RowQuery,
    /// The maximum number of related rows for each row.
    pub(super) limit: Option<u64>,
}

/// The rows of a relation, by the value by which they are found.
#[derive(Debug)]
pub struct RelatedRows {
    keys: ValueNumbers,
    /// The rows of each key.
    rows: Vec<Vec<Vec<Value>>>,
}

impl RelatedRows {
    /// Reads the rows that are related to a row with this value.
    pub(super) fn of<C: Model>(&self, local: &Value) -> Result<Vec<C>> {
        let Some(key) = self.keys.find(local.as_ref()) else { return Ok(Vec::new()) };
        let read = |row: &Vec<Value>| C::read(&row.iter().map(Value::as_ref).collect::<Vec<_>>());
        self.rows[key].iter().map(read).collect()
    }
}

/// The list of [`Action::with`](crate::action::Action::with): await it, or call
/// [`ListWith::run`].
pub struct ListWith<'s, M, W> {
    pub(super) store: &'s Store,
    pub(super) query: RowQuery,
    pub(super) with: W,
    pub(super) model: std::marker::PhantomData<fn() -> M>,
}

impl<'s, M: Model, W: Relations<M>> ListWith<'s, M, W> {
    /// Reads the rows, and blocks the thread until they are read.
    ///
    /// # Errors
    /// As [`Action::run`](crate::action::Action::run).
    pub fn run(self) -> Result<Vec<(M, W::Output)>> {
        block_on(self.read())
    }

    async fn read(self) -> Result<Vec<(M, W::Output)>> {
        let Self { store, mut query, with, .. } = self;
        let mut parts = Vec::new();
        with.parts(&mut parts);
        let table = store.registry().of::<M>()?;
        let locals: FieldSet = parts.iter().map(|part| part.local).collect();
        query.fields = Some(query.fields.unwrap_or(table.read_by_default()).union(locals));
        query.check(table)?;
        let (mut rows, mut values, mut error) = (Vec::new(), Vec::new(), None);
        let mut one = OneOperation { store, pending: None };
        std::future::poll_fn(|context| {
            let mut sink = |row: &[ValueRef<'_>]| match M::read(row) {
                Ok(model) => {
                    rows.push(model);
                    let locals = parts.iter().map(|part| row[part.local].to_value());
                    values.push(locals.collect::<Vec<Value>>());
                    ControlFlow::Continue(())
                }
                Err(why) => {
                    error = Some(why);
                    ControlFlow::Break(())
                }
            };
            one.poll(&mut Operation::List { table, query: &query }, &mut sink, context)
        })
        .await?;
        if let Some(error) = error {
            return Err(error);
        }
        let mut found = Vec::with_capacity(parts.len());
        for (at, part) in parts.into_iter().enumerate() {
            let keys = values.iter().map(|row| row[at].clone()).collect();
            found.push(read_part(store, part, keys).await?);
        }
        let with_related = |(row, values): (M, Vec<Value>)| {
            let mut related = found.iter().zip(&values);
            Ok((row, W::read(&mut related)?))
        };
        rows.into_iter().zip(values).map(with_related).collect()
    }
}

/// Reads the rows of a relation.
async fn read_part(store: &Store, part: RelatedQuery, keys: ValueNumbers) -> Result<RelatedRows> {
    let table = (part.table)(store)?;
    part.query.check(&table)?;
    let (by, mut rows) = (part.by, vec![Vec::new(); keys.values().len()]);
    let mut read = RelatedRead::new(table, by, part.query, part.limit, keys);
    let mut one = OneOperation { store, pending: None };
    loop {
        let done = std::future::poll_fn(|context| {
            let polled = read.with_operation(|operation, keys| {
                let mut sink = |row: &[ValueRef<'_>]| {
                    if let Some(key) = keys.find(row[by]) {
                        rows[key].push(row.iter().map(ValueRef::to_value).collect());
                    }
                    ControlFlow::Continue(())
                };
                one.poll(operation, &mut sink, context)
            });
            match polled {
                None => Poll::Ready(Ok(true)),
                Some(Poll::Ready(Ok(()))) => Poll::Ready(Ok(false)),
                Some(Poll::Ready(Err(error))) => Poll::Ready(Err(error)),
                Some(Poll::Pending) => Poll::Pending,
            }
        });
        match done.await {
            Ok(false) => read.advance(),
            Ok(true) => break,
            // The caller may read no row of the table.
            Err(error)
                if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Unauthenticated) =>
            {
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(RelatedRows { keys: read.into_keys(), rows })
}

/// Executes one operation after the other; the one that waits is cancelled when this is dropped.
struct OneOperation<'s> {
    store: &'s Store,
    pending: Option<Pending>,
}

impl OneOperation<'_> {
    /// Submits an operation, or continues it.
    fn poll(
        &mut self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        let mut outcome = Outcome::default();
        if self.pending.is_none() {
            match self.store.submit(None, operation, sink, &mut outcome)? {
                Progress::Done => return Poll::Ready(Ok(())),
                Progress::Pending(pending) => self.pending = Some(pending),
            }
        }
        let Some(pending) = &mut self.pending else { return Poll::Pending };
        let polled = self.store.poll(pending, operation, sink, &mut outcome, context);
        if polled.is_ready() {
            self.pending = None;
        }
        polled
    }
}

impl Drop for OneOperation<'_> {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.store.cancel(pending);
        }
    }
}

impl<'s, M, W> IntoFuture for ListWith<'s, M, W>
where
    M: Model + Send + 's,
    W: Relations<M> + Send + 's,
{
    type Output = Result<Vec<(M, W::Output)>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 's>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.read())
    }
}
