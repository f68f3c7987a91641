//! The verbs of SQL: [`Store::sql`], the forms of its rows, and [`Store::execute`].
//!
//! A statement is passed to the engine as it is, with its values bound to parameters. Its rows can
//! be returned as values ([`SqlQuery::rows`]), converted one by one ([`SqlQuery::map`]), read as
//! structs of a model ([`SqlQuery::models`]), reduced to one value ([`SqlQuery::value`]) or written
//! as JSON ([`SqlQuery::json`]). The examples need an engine with SQL, such as SQLite.

use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, FieldValue, Model, Result, RowSink, Value, ValueRef};

use crate::contract::operation::{Operation, Outcome};
use crate::contract::sql::{SqlCall, SqlColumn, SqlColumns, SqlRow, SqlRows, no_sql};
use crate::store::Store;
use crate::verbs::action::{Action, Verb};

/// The maximum size of a statement in bytes.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// A statement that reads. Bind its values, then choose the form of its rows.
///
/// ```
/// # use marmota_derive::Model;
/// # use marmota_store::Store;
/// # #[derive(Clone, Debug, PartialEq, Model)]
/// # struct City { id: i64, name: String, people: i64 }
/// # fn examples(store: &Store) -> marmota_model::Result<()> {
/// let large: Vec<City> =
///     store.sql("SELECT * FROM city WHERE people > ?").bind(100_000).models().run()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a query does nothing until its rows are requested"]
#[derive(Debug)]
pub struct SqlQuery<'s> {
    store: &'s Store,
    statement: Statement,
}

#[derive(Clone, Debug)]
struct Statement {
    text: String,
    values: Vec<Value>,
    database: Option<String>,
    writes: bool,
    unaudited: bool,
}

impl Statement {
    /// Has an engine run it: `call` receives the operation.
    fn operate(
        &self,
        store: &Store,
        sink: &mut dyn SqlSink,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let capability = store.capability();
        if !capability.sql {
            return Err(no_sql(capability.name));
        }
        if self.text.len() > TEXT_BYTES_MAX {
            let message = format!(
                "the statement has {} bytes; at most {TEXT_BYTES_MAX} are allowed: bind values \
                 instead of writing them into the statement",
                self.text.len()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let columns = OnceCell::new();
        let statement = SqlCall {
            text: &self.text,
            values: &self.values,
            writes: self.writes,
            unaudited: self.unaudited,
            database: self.database.as_deref(),
            columns: &columns,
        };
        let mut error = None;
        let mut rows = |values: &[ValueRef<'_>]| {
            let known = columns.get().map_or(&*NO_COLUMNS, |columns| &**columns);
            match sink.row(&SqlRow::new(known, values)) {
                Ok(flow) => flow,
                Err(why) => {
                    error = Some(why);
                    ControlFlow::Break(())
                }
            }
        };
        call(&mut Operation::Sql { statement, lender: None }, &mut rows)?;
        if let Some(columns) = columns.get() {
            sink.columns(columns);
        }
        error.map_or(Ok(()), Err)
    }
}

static NO_COLUMNS: std::sync::LazyLock<SqlColumns> = std::sync::LazyLock::new(SqlColumns::default);

/// A sink for a statement's rows.
trait SqlSink {
    fn row(&mut self, row: &SqlRow<'_>) -> Result<ControlFlow<()>>;

    fn columns(&mut self, _: &Arc<SqlColumns>) {}
}

impl<'s> SqlQuery<'s> {
    /// Binds a value to the next parameter (`?`).
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, people: i64 }
    /// # fn examples(store: &Store) -> marmota_model::Result<()> {
    /// let query = store.sql("SELECT name FROM city WHERE people > ? AND name <> ?");
    /// let names = query.bind(100_000).bind("Lyon").map(|row| row.read_at::<String>(0)).run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn bind(mut self, value: impl Into<Value>) -> Self {
        self.statement.values.push(value.into());
        self
    }

    /// Runs the statement on the database with this name, in a store that has several; see the
    /// guide's page on databases.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, people: i64 }
    /// # fn examples(store: &Store) -> marmota_model::Result<()> {
    /// let count: Option<i64> = store.sql("SELECT count(*) FROM city").on("geo").value().run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on(mut self, database: &str) -> Self {
        self.statement.database = Some(database.to_owned());
        self
    }

    /// Returns the rows as values, with the names of their columns.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, people: i64 }
    /// # fn examples(store: &Store) -> marmota_model::Result<()> {
    /// let rows = store.sql("SELECT name, people FROM city ORDER BY name").rows().run()?;
    /// for row in &rows.rows {
    ///     println!("{:?}: {:?}", row[0], row[1]);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of the engine: [`ErrorKind::Invalid`] for an error in the statement, with its
    /// position; [`ErrorKind::Denied`] for a statement that would write.
    pub fn rows(self) -> Action<'s, QueryRows> {
        Action::new(self.store, QueryRows { statement: self.statement, rows: SqlRows::default() })
    }

    /// Converts each row with `read`.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, people: i64 }
    /// # fn examples(store: &Store) -> marmota_model::Result<()> {
    /// let names = store.sql("SELECT name FROM city").map(|row| row.read_at::<String>(0)).run()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`SqlQuery::rows`], and an error of `read`, which ends the query.
    pub fn map<T, F>(self, read: F) -> Action<'s, QueryMap<T, F>>
    where
        F: FnMut(&SqlRow<'_>) -> Result<T> + Unpin,
    {
        Action::new(self.store, QueryMap { statement: self.statement, read, rows: Vec::new() })
    }

    /// Returns the rows as structs of a model, whose fields are found by the names of the columns.
    /// Each field except blobs needs a column.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, people: i64 }
    /// # fn examples(store: &Store) -> marmota_model::Result<()> {
    /// let cities: Vec<City> = store.sql("SELECT * FROM city ORDER BY people").models().run()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`SqlQuery::rows`], and [`ErrorKind::Invalid`] with the field that has no column.
    pub fn models<M: Model>(self) -> Action<'s, QueryModels<M>> {
        let models =
            QueryModels { statement: self.statement, places: Places::Unknown, rows: Vec::new() };
        Action::new(self.store, models)
    }

    /// Returns the first column of the first row; `None` if there are no rows.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, people: i64 }
    /// # fn examples(store: &Store) -> marmota_model::Result<()> {
    /// let people: Option<i64> = store.sql("SELECT sum(people) FROM city").value().run()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`SqlQuery::rows`], and [`ErrorKind::Engine`] for a value that the type cannot
    /// hold.
    pub fn value<T: FieldValue>(self) -> Action<'s, QueryValue<T>> {
        Action::new(self.store, QueryValue { statement: self.statement, value: None })
    }

    /// Appends the rows to `out` as a JSON array of objects, without an intermediate form, and
    /// returns their number.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, people: i64 }
    /// # fn examples(store: &Store) -> marmota_model::Result<()> {
    /// let mut body = Vec::new();
    /// let count = store.sql("SELECT name, people FROM city").json(&mut body).run()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`SqlQuery::rows`], and [`ErrorKind::Invalid`] if two columns have the same name;
    /// then `out` is unchanged.
    pub fn json(self, out: &'s mut Vec<u8>) -> Action<'s, QueryJson<'s>> {
        let start = out.len();
        Action::new(self.store, QueryJson { statement: self.statement, out, start, count: 0 })
    }
}

/// The verb of [`SqlQuery::rows`]; its result has all rows as values.
pub struct QueryRows {
    statement: Statement,
    rows: SqlRows,
}

impl SqlSink for SqlRows {
    fn row(&mut self, row: &SqlRow<'_>) -> Result<ControlFlow<()>> {
        self.rows.push(row.values().iter().map(ValueRef::to_value).collect());
        Ok(ControlFlow::Continue(()))
    }

    fn columns(&mut self, columns: &Arc<SqlColumns>) {
        self.columns = Arc::clone(columns);
    }
}

impl Verb for QueryRows {
    type Output = SqlRows;

    fn operate(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        self.statement.operate(store, &mut self.rows, call)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<SqlRows> {
        Ok(std::mem::take(&mut self.rows))
    }
}

/// The verb of [`SqlQuery::map`]: it calls a function for each row, while the engine lends it.
pub struct QueryMap<T, F> {
    statement: Statement,
    read: F,
    rows: Vec<T>,
}

impl<T, F> Unpin for QueryMap<T, F> {}

struct Mapping<'m, T, F>(&'m mut F, &'m mut Vec<T>);

impl<T, F: FnMut(&SqlRow<'_>) -> Result<T>> SqlSink for Mapping<'_, T, F> {
    fn row(&mut self, row: &SqlRow<'_>) -> Result<ControlFlow<()>> {
        self.1.push((self.0)(row)?);
        Ok(ControlFlow::Continue(()))
    }
}

impl<T, F: FnMut(&SqlRow<'_>) -> Result<T> + Unpin> Verb for QueryMap<T, F> {
    type Output = Vec<T>;

    fn operate(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let Self { statement, read, rows } = self;
        statement.operate(store, &mut Mapping(read, rows), call)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<Vec<T>> {
        Ok(std::mem::take(&mut self.rows))
    }
}

/// The verb of [`SqlQuery::models`]: it reads each row as a struct, by the names of the columns.
pub struct QueryModels<M> {
    statement: Statement,
    /// The column of each field, known once the first row has come.
    places: Places,
    rows: Vec<M>,
}

impl<M> Unpin for QueryModels<M> {}

/// The columns of a model's fields.
enum Places {
    Unknown,
    /// The columns are the fields, in the same order and of the same kinds.
    Same,
    Each(Vec<Option<usize>>),
}

struct Modelling<'m, M> {
    places: &'m mut Places,
    rows: &'m mut Vec<M>,
}

impl<M: Model> SqlSink for Modelling<'_, M> {
    fn row(&mut self, row: &SqlRow<'_>) -> Result<ControlFlow<()>> {
        if let Places::Unknown = self.places {
            *self.places = places::<M>(row.columns())?;
        }
        let Places::Each(places) = &*self.places else {
            self.rows.push(M::read(row.values())?);
            return Ok(ControlFlow::Continue(()));
        };
        let mut values: smallvec::SmallVec<[ValueRef<'_>; 16]> = smallvec::SmallVec::new();
        for (field, place) in M::schema().fields.iter().zip(places) {
            let value = place.map_or(ValueRef::Absent, |place| row.values()[place]);
            // If the value does not fit the kind, the struct reports the error.
            values.push(field.kind.read_stored(value).unwrap_or(value));
        }
        self.rows.push(M::read(&values)?);
        Ok(ControlFlow::Continue(()))
    }
}

fn places<M: Model>(columns: &SqlColumns) -> Result<Places> {
    let fields = &M::schema().fields;
    let is_same = |(field, column): (&marmota_model::Field, &SqlColumn)| {
        column.name == field.name && column.kind.as_ref() == Some(&field.kind)
    };
    if columns.list().len() == fields.len() && fields.iter().zip(columns.list()).all(is_same) {
        return Ok(Places::Same);
    }
    let place = |field: &marmota_model::Field| match columns.position(&field.name) {
        Ok(place) => Ok(Some(place)),
        Err(_) if matches!(field.kind, marmota_model::Kind::Blob) => Ok(None),
        Err(error) => {
            let message = format!(
                "field `{}` of `{}` cannot be read from the statement: {}",
                field.name,
                M::TABLE,
                error.message()
            );
            Err(Error::new(error.kind(), message))
        }
    };
    fields.iter().map(place).collect::<Result<_>>().map(Places::Each)
}

impl<M: Model> Verb for QueryModels<M> {
    type Output = Vec<M>;

    fn operate(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let Self { statement, places, rows } = self;
        statement.operate(store, &mut Modelling { places, rows }, call)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<Vec<M>> {
        Ok(std::mem::take(&mut self.rows))
    }
}

/// The verb of [`SqlQuery::value`]: it reads the first column of the first row, and ends the
/// statement there.
pub struct QueryValue<T> {
    statement: Statement,
    value: Option<T>,
}

impl<T> Unpin for QueryValue<T> {}

struct First<'m, T>(&'m mut Option<T>);

impl<T: FieldValue> SqlSink for First<'_, T> {
    fn row(&mut self, row: &SqlRow<'_>) -> Result<ControlFlow<()>> {
        *self.0 = Some(row.read_at(0)?);
        Ok(ControlFlow::Break(()))
    }
}

impl<T: FieldValue> Verb for QueryValue<T> {
    type Output = Option<T>;

    fn operate(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        self.statement.operate(store, &mut First(&mut self.value), call)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<Option<T>> {
        Ok(self.value.take())
    }
}

/// The verb of [`SqlQuery::json`]: it appends the rows to a buffer, which is as before if it fails.
pub struct QueryJson<'b> {
    statement: Statement,
    out: &'b mut Vec<u8>,
    start: usize,
    count: u64,
}

struct Array<'m>(&'m mut Vec<u8>, &'m mut u64);

impl SqlSink for Array<'_> {
    fn row(&mut self, row: &SqlRow<'_>) -> Result<ControlFlow<()>> {
        if *self.1 == 0 {
            row.columns().check_names()?;
        }
        self.0.push(if *self.1 == 0 { b'[' } else { b',' });
        *self.1 += 1;
        row.write_json(self.0);
        Ok(ControlFlow::Continue(()))
    }
}

impl Verb for QueryJson<'_> {
    type Output = u64;

    fn operate(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let Self { statement, out, start, count } = self;
        let done = statement.operate(store, &mut Array(out, count), call);
        if done.is_err() {
            out.truncate(*start);
        }
        done
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<u64> {
        self.out.extend_from_slice(if self.count == 0 { b"[]" } else { b"]" });
        Ok(self.count)
    }
}

/// The verb of [`Store::execute`]; its result is the number of changed rows.
pub struct Execute {
    statement: Statement,
}

struct NoRowsWanted;

impl SqlSink for NoRowsWanted {
    fn row(&mut self, _: &SqlRow<'_>) -> Result<ControlFlow<()>> {
        Ok(ControlFlow::Continue(()))
    }
}

impl Verb for Execute {
    type Output = u64;

    fn operate(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        self.statement.operate(store, &mut NoRowsWanted, call)
    }

    fn finish(&mut self, _: &Store, outcome: &mut Outcome) -> Result<u64> {
        Ok(outcome.rows)
    }
}

impl Action<'_, Execute> {
    /// Binds a value to the next parameter (`?`).
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, people: i64 }
    /// # fn examples(store: &Store) -> marmota_model::Result<()> {
    /// let update = store.execute("UPDATE city SET people = ? WHERE name = ?");
    /// update.bind(64_000).bind("Bourges").run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn bind(mut self, value: impl Into<Value>) -> Self {
        self.verb.statement.values.push(value.into());
        self
    }

    /// Runs the statement on the database with this name, in a store that has several.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, people: i64 }
    /// # fn examples(store: &Store) -> marmota_model::Result<()> {
    /// store.execute("DELETE FROM city").on("geo").run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on(mut self, database: &str) -> Self {
        self.verb.statement.database = Some(database.to_owned());
        self
    }

    /// Allows the statement to write to audited models, and to their history, without an entry.
    /// Otherwise it is refused with [`ErrorKind::Denied`].
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, people: i64 }
    /// # fn examples(store: &Store) -> marmota_model::Result<()> {
    /// store.execute("UPDATE city SET people = 0").unaudited().run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn unaudited(mut self) -> Self {
        self.verb.statement.unaudited = true;
        self
    }
}

impl Store {
    /// Runs one SQL statement that reads, on an engine with SQL. Values are bound, never written
    /// into the text: `store.sql("SELECT … WHERE x > ?").bind(7)`.
    ///
    /// Tables and columns have the names of models and fields. Values have the form in which SQL
    /// stores them: booleans are 0 and 1, amounts whole ten-thousandths, dates days and times
    /// microseconds since 1970, UUIDs 16 bytes. A bound [`Value`] is converted to that, and a
    /// column that was read from a field is returned as the field's kind.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, people: i64 }
    /// # fn examples(store: &Store) -> marmota_model::Result<()> {
    /// let query = "SELECT count(*) FROM city WHERE people > ?";
    /// let large: Option<i64> = store.sql(query).bind(100_000).value().run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn sql(&self, text: impl Into<String>) -> SqlQuery<'_> {
        SqlQuery { store: self, statement: Statement::new(text.into(), false) }
    }

    /// Runs one SQL statement that changes rows (INSERT, UPDATE, DELETE), and returns their number.
    /// It bypasses the rules, timestamps and versions of models: the caller is responsible for
    /// valid data. The whole cache is invalidated.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, people: i64 }
    /// # fn examples(store: &Store) -> marmota_model::Result<()> {
    /// let changed = store.execute("UPDATE city SET people = people + 1").run()?;
    /// println!("{changed} cities");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for any other statement; otherwise those of the engine.
    pub fn execute(&self, text: impl Into<String>) -> Action<'_, Execute> {
        Action::new(self, Execute { statement: Statement::new(text.into(), true) })
    }
}

impl Statement {
    const fn new(text: String, writes: bool) -> Self {
        Self { text, values: Vec::new(), database: None, writes, unaudited: false }
    }
}
