//! Groups of rows of tables made at run time.

use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, GroupQuery, Record, Result, RowSink, Table, ValueRef, json};
use serde::de::DeserializeOwned;

use crate::contract::operation::{Operation, Outcome};
use crate::store::Store;
use crate::verbs::action::{Action, Verb};
use crate::verbs::read::ListRecords;

/// The verb of [`Action::group`]: a record for each group, with the fields of
/// [`GroupQuery::result`].
pub struct GroupRecords {
    table: Arc<Table>,
    query: GroupQuery,
    result: Result<Arc<Table>, Option<Error>>,
    rows: Vec<Record>,
}

impl Verb for GroupRecords {
    type Output = Vec<Record>;

    fn operate(
        &mut self,
        _: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let Self { table, query, result, rows } = self;
        let result = known(result)?;
        let mut sink = |row: &[ValueRef<'_>]| {
            rows.push(Record::from_row(Arc::clone(result), row));
            ControlFlow::Continue(())
        };
        call(&mut Operation::Group { table, query, result }, &mut sink)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<Vec<Record>> {
        Ok(std::mem::take(&mut self.rows))
    }
}

/// Returns the table of the groups, or the error of the query.
fn known(result: &mut Result<Arc<Table>, Option<Error>>) -> Result<&Arc<Table>> {
    match result {
        Ok(result) => Ok(result),
        Err(error) => Err(error
            .take()
            .unwrap_or_else(|| Error::new(ErrorKind::Invalid, "the query of groups is invalid"))),
    }
}

/// The verb of [`Action::read_as`]: groups, read with serde.
pub struct ReadGroups<T> {
    groups: GroupRecords,
    read: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Verb for ReadGroups<T> {
    type Output = Vec<T>;

    fn operate(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        self.groups.operate(store, call)
    }

    fn finish(&mut self, store: &Store, outcome: &mut Outcome) -> Result<Vec<T>> {
        let rows = self.groups.finish(store, outcome)?;
        rows.iter()
            .map(|row| {
                let mut text = Vec::new();
                json::write_row(&mut text, row.table(), row.table().all(), &row.as_row());
                serde_json::from_slice(&text).map_err(|why| {
                    let text = marmota_model::text::excerpt(&String::from_utf8_lossy(&text));
                    let message = format!("the group {text} cannot be read: {why}");
                    Error::new(ErrorKind::Invalid, message)
                })
            })
            .collect()
    }
}

impl<'s> Action<'s, ListRecords> {
    /// Groups the listed rows. The filter of the list applies in addition to that of the query; its
    /// order and limit do not apply.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Record, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let note = Schema::new("note", vec![id, Field::new("text", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(note).open()?;
    /// # let notes = store.table("note")?;
    /// use marmota_model::GroupQuery;
    ///
    /// let mut query = GroupQuery::new();
    /// query.select(&notes, "count,longest:max(text)")?;
    /// let groups = store.list_records(&notes).group(query).run()?;
    /// assert_eq!(groups[0].value("count")?, &0_i64.into());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn group(self, mut query: GroupQuery) -> Action<'s, GroupRecords> {
        let store = self.store;
        let (table, filter, refused) = self.into_parts();
        query.filter = match (query.filter.take(), filter) {
            (Some(one), Some(other)) => Some(one.and(other)),
            (one, other) => one.or(other),
        };
        let result = match refused {
            Some(error) => Err(Some(error)),
            None => query.check(&table).map(Arc::new).map_err(Some),
        };
        Action::new(store, GroupRecords { table, query, result, rows: Vec::new() })
    }
}

impl<'s> Action<'s, GroupRecords> {
    /// Reads each group as a `T`, with serde: its members have the names of the result.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, GroupQuery, Kind, Record, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let note = Schema::new("note", vec![id, Field::new("text", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(note).open()?;
    /// # let notes = store.table("note")?;
    /// #[derive(serde::Deserialize)]
    /// struct Total {
    ///     count: u64,
    /// }
    ///
    /// let mut query = GroupQuery::new();
    /// query.select(&notes, "count")?;
    /// let totals = store.list_records(&notes).group(query).read_as::<Total>().run()?;
    /// assert_eq!(totals[0].count, 0);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn read_as<T: DeserializeOwned>(self) -> Action<'s, ReadGroups<T>> {
        let store = self.store;
        let verb = &self.verb;
        let result = match &verb.result {
            Ok(result) => Ok(Arc::clone(result)),
            Err(_) => verb.query.check(&verb.table).map(Arc::new).map_err(Some),
        };
        let (table, query) = (Arc::clone(&verb.table), verb.query.clone());
        let groups = GroupRecords { table, query, result, rows: Vec::new() };
        Action::new(store, ReadGroups { groups, read: PhantomData })
    }
}
