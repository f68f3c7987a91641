//! The verbs that read rows of tables made at run time.

use std::sync::Arc;

use marmota_model::{
    Error, ErrorKind, Filter, FilterExpr, Order, Record, Records, Result, RowQuery, RowSink, Table,
    Value,
};

use super::{check_key, continue_after, narrow};
use crate::contract::operation::{Operation, Outcome};
use crate::rows::refusal::no_row;
use crate::store::Store;
use crate::verbs::action::{Action, Verb};

/// The verb of [`Store::get_record`].
pub struct GetRecord {
    table: Arc<Table>,
    key: Value,
    records: Records,
}

impl Verb for GetRecord {
    type Output = Record;

    fn operate(
        &mut self,
        _: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let Self { table, key, records } = self;
        check_key(table, key.as_ref())?;
        let fields = table.read_by_default();
        call(&mut Operation::Get { table, key: key.as_ref(), fields }, records)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<Record> {
        self.records.rows.pop().ok_or_else(|| no_row(&self.table, self.key.as_ref()))
    }
}

/// The verb of [`Store::list_records`]. Its filter and order are made with the same table.
pub struct ListRecords {
    table: Arc<Table>,
    query: RowQuery,
    /// The first filter or order that was made with another table.
    refused: Option<Error>,
    records: Records,
}

impl Verb for ListRecords {
    type Output = Vec<Record>;

    fn operate(
        &mut self,
        _: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let Self { table, query, refused, records } = self;
        if let Some(error) = refused.take() {
            return Err(error);
        }
        query.check(table)?;
        call(&mut Operation::List { table, query }, records)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<Vec<Record>> {
        Ok(std::mem::take(&mut self.records.rows))
    }
}

impl Action<'_, ListRecords> {
    /// Selects rows that match the filter, and those set before.
    ///
    /// The list fails with [`ErrorKind::Invalid`] if the filter was made with
    /// another table.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, parse_filter, parse_order};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # let fields = || vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("n", Kind::I64)];
    /// # let store = Store::builder(Memory::new())
    /// #     .schema(Schema::new("note", fields())).schema(Schema::new("page", fields())).open()?;
    /// let (note, page) = (store.table("note")?, store.table("page")?);
    /// let filter = parse_filter(&note, "n > 3")?;
    /// store.list_records(&note).filter(filter.clone()).limit(10).run()?;
    /// assert!(store.list_records(&page).filter(filter).run().is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn filter(mut self, filter: Filter) -> Self {
        match filter.into_expr_for(&self.verb.table) {
            Ok(expr) => narrow(&mut self.verb.query.filter, expr),
            Err(error) => self.refuse(error),
        }
        self
    }

    /// Sorts by this, after the orders set before. Rows that are equal in all
    /// of them come in the order of keys, in the direction of the last order.
    ///
    /// The list fails with [`ErrorKind::Invalid`] if the order was made with
    /// another table.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Record, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let note = Schema::new("note", vec![id, Field::new("text", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(note).open()?;
    /// # let notes = store.table("note")?;
    /// use marmota_model::parse_order;
    /// let newest_first = parse_order(&notes, "-id")?;
    /// assert!(store.list_records(&notes).order(newest_first[0].clone()).run()?.is_empty());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn order(mut self, order: Order) -> Self {
        let table = std::sync::Arc::clone(&self.verb.table);
        if let Err(error) = order.append_to_query_of(&table, &mut self.verb.query) {
            self.refuse(error);
        }
        self
    }

    /// Reads at most this many rows. Default: no limit.
    pub fn limit(mut self, rows: u64) -> Self {
        self.verb.query.limit = Some(rows);
        self
    }

    /// Continues after `last` in the list's order: the next page. Set the
    /// order first.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Record, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let note = Schema::new("note", vec![id, Field::new("text", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(note).open()?;
    /// # let notes = store.table("note")?;
    /// for text in ["first", "second"] {
    ///     let mut note = Record::new(notes.clone());
    ///     note.set("text", text)?;
    ///     store.insert_record(&note).run()?;
    /// }
    /// let first = store.list_records(&notes).limit(1).run()?;
    /// let rest = store.list_records(&notes).after(&first[0]).run()?;
    /// assert_eq!(rest[0].value("text")?, &"second".into());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn after(mut self, last: &Record) -> Self {
        let (table, values) = (&self.verb.table, last.values());
        if values.len() == table.fields().len() {
            continue_after(&mut self.verb.query, table.schema(), |field| values[field].clone());
        } else {
            let message = format!(
                "a list of `{}` cannot continue after a row of `{}`",
                self.verb.table.name(),
                last.table().name()
            );
            self.refuse(Error::new(ErrorKind::Invalid, message));
        }
        self
    }

    /// Replaces the filter, order, limit, page and fields set before by a query
    /// that names fields by their positions in this table.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Record, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let note = Schema::new("note", vec![id, Field::new("text", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(note).open()?;
    /// # let notes = store.table("note")?;
    /// use marmota_model::RowQuery;
    /// let mut query = RowQuery::new();
    /// query.limit = Some(10);
    /// assert!(store.list_records(&notes).query(query).run()?.is_empty());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn query(mut self, query: RowQuery) -> Self {
        self.verb.query = query;
        self
    }

    /// Returns the table, the condition on rows, and the first error of the list so far.
    pub(in crate::verbs) fn into_parts(
        mut self,
    ) -> (Arc<Table>, Option<FilterExpr>, Option<Error>) {
        let verb = &mut self.verb;
        (Arc::clone(&verb.table), verb.query.filter.take(), verb.refused.take())
    }

    fn refuse(&mut self, error: Error) {
        self.verb.refused.get_or_insert(error);
    }
}

impl Store {
    /// Reads the row with this key of a run-time table.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Record, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let note = Schema::new("note", vec![id, Field::new("text", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(note).open()?;
    /// # let notes = store.table("note")?;
    /// let mut note = Record::new(notes.clone());
    /// note.set("text", "first")?;
    /// let key = store.insert_record(&note).run()?;
    /// assert_eq!(store.get_record(&notes, key).run()?.value("text")?, &"first".into());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn get_record(&self, table: &Arc<Table>, key: impl Into<Value>) -> Action<'_, GetRecord> {
        let records = Records::new(Arc::clone(table));
        Action::new(self, GetRecord { table: Arc::clone(table), key: key.into(), records })
    }

    /// Lists rows of a run-time table, in the order of keys unless [`Action::order`] sets another.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Record, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let note = Schema::new("note", vec![id, Field::new("text", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(note).open()?;
    /// # let notes = store.table("note")?;
    /// use marmota_model::parse_filter;
    /// let long = parse_filter(&notes, "text != ''")?;
    /// assert!(store.list_records(&notes).filter(long).limit(10).run()?.is_empty());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn list_records(&self, table: &Arc<Table>) -> Action<'_, ListRecords> {
        let records = Records::new(Arc::clone(table));
        let (table, query) = (Arc::clone(table), RowQuery::new());
        Action::new(self, ListRecords { table, query, refused: None, records })
    }
}
