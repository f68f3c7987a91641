//! The history: an entry for each write to a row of an audited model, as rows of a separate model.
//! The store writes them in the transaction of each write (`batch_machine/entries.rs`); they are
//! read like any other rows.

use std::borrow::Cow;
use std::sync::LazyLock;

use marmota_model::{
    Column, EnumStored, Field, FieldValue, Filter, Index, Json, KeyKind, Kind, Model, Result, Role,
    Schema, Scratch, Timestamp, ValueRef, Variant, read_field,
};

/// The table of every store that has an audited model.
pub const HISTORY_TABLE: &str = "marmota_history";

/// One write of one row of an audited model.
///
/// Fields are kept by name, as JSON, so that the entry stays readable when
/// the model's fields are renamed or gone.
///
/// The store adds the model itself when an audited one is registered; do not register it. Entries
/// are immutable for programs: they are read by [`Store::history`](crate::Store::history), or
/// listed like any other model.
///
/// ```
/// use marmota_memory::Memory;
/// use marmota_model::{Field, Kind, Record, Role, Schema};
/// use marmota_store::{History, HistoryAction, Store};
///
/// let note = Schema::new("note", vec![Field::new("id", Kind::I64).role(Role::Key)]).audit(true);
/// let store = Store::builder(Memory::new()).schema(note).open()?;
/// store.with_actor("ana").insert_record(&Record::new(store.table("note")?)).run()?;
/// let entries = store.list::<History>().filter(History::ACTOR.eq("ana")).run()?;
/// assert_eq!(entries[0].action, HistoryAction::Insert);
/// assert_eq!((&*entries[0].of_table, &*entries[0].of_key), ("note", "1"));
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// The entry's key: entries are in the order of writes.
    pub id: i64,
    /// The table that was written to.
    pub of_table: String,
    /// The row's key, as text.
    pub of_key: String,
    /// The kind of write.
    pub action: HistoryAction,
    /// The fields that were written, as JSON; of a blob its number of bytes. `None` for a delete.
    pub fields: Option<Json<serde_json::Value>>,
    /// The time of the write.
    pub at: Timestamp,
    /// The row's version after the write, if the model has one.
    pub version: Option<i64>,
    /// The actor, if set by [`crate::Store::with_actor`].
    pub actor: Option<String>,
}

/// A kind of write to a row.
///
/// It is stored as its name ([`HistoryAction::name`]). An upsert is an insert or an update, by its
/// effect; a replaced row has a `Delete` before the `Insert`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HistoryAction {
    /// The row was inserted.
    Insert,
    /// Fields of the row were written.
    Update,
    /// A number was added to a field of the row.
    Increment,
    /// The row was deleted.
    Delete,
}

impl HistoryAction {
    const ALL: [Self; 4] = [Self::Insert, Self::Update, Self::Increment, Self::Delete];
    const VARIANTS: [Variant; 4] = {
        const fn named(name: &'static str, number: i64) -> Variant {
            Variant { name: Cow::Borrowed(name), number }
        }
        [named("insert", 0), named("update", 1), named("increment", 2), named("delete", 3)]
    };

    /// Returns its name, as it is stored.
    ///
    /// ```
    /// use marmota_store::HistoryAction;
    /// assert_eq!(HistoryAction::Increment.name(), "increment");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Increment => "increment",
            Self::Delete => "delete",
        }
    }
}

impl FieldValue for HistoryAction {
    const KIND: Kind =
        Kind::Enum { variants: Cow::Borrowed(&Self::VARIANTS), stored: EnumStored::Text };

    fn to_row<'a>(&'a self, _: &'a Scratch) -> ValueRef<'a> {
        ValueRef::Text(self.name())
    }

    fn from_row(value: ValueRef<'_>) -> Option<Self> {
        let name = value.as_text()?;
        Self::ALL.into_iter().find(|action| action.name() == name)
    }
}

/// The columns, for filters and orders.
impl History {
    /// The field `id`.
    pub const ID: Column<Self, i64> = Column::new(0, "id");
    /// The field `of_table`.
    pub const OF_TABLE: Column<Self, String> = Column::new(1, "of_table");
    /// The field `of_key`.
    pub const OF_KEY: Column<Self, String> = Column::new(2, "of_key");
    /// The field `action`.
    pub const ACTION: Column<Self, HistoryAction> = Column::new(3, "action");
    /// The field `fields`.
    pub const FIELDS: Column<Self, Option<Json<serde_json::Value>>> = Column::new(4, "fields");
    /// The field `at`.
    pub const AT: Column<Self, Timestamp> = Column::new(5, "at");
    /// The field `version`.
    pub const VERSION: Column<Self, Option<i64>> = Column::new(6, "version");
    /// The field `actor`.
    pub const ACTOR: Column<Self, Option<String>> = Column::new(7, "actor");
}

impl Model for History {
    const TABLE: &'static str = HISTORY_TABLE;
    const KEY_KIND: KeyKind = KeyKind::Auto;
    type Key = i64;

    fn schema() -> &'static Schema {
        static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
            let plain = |fields: Vec<usize>| Index::new(fields);
            let fields = vec![
                Field::new("id", Kind::I64).role(Role::Key),
                Field::new("of_table", Kind::TEXT),
                Field::new("of_key", Kind::TEXT),
                Field::new("action", HistoryAction::KIND),
                Field::new("fields", Kind::Json).nullable(true),
                Field::new("at", Kind::Timestamp),
                Field::new("version", Kind::I64).nullable(true),
                Field::new("actor", Kind::TEXT).nullable(true),
            ];
            Schema::new(HISTORY_TABLE, fields).indexes(vec![plain(vec![1, 2]), plain(vec![5])])
        });
        &SCHEMA
    }

    fn key(&self) -> &i64 {
        &self.id
    }

    fn set_key(&mut self, key: i64) {
        self.id = key;
    }

    fn write<'a>(&'a self, row: &mut [ValueRef<'a>], scratch: &'a Scratch) {
        let values = [
            self.id.to_row(scratch),
            self.of_table.to_row(scratch),
            self.of_key.to_row(scratch),
            self.action.to_row(scratch),
            self.fields.to_row(scratch),
            self.at.to_row(scratch),
            self.version.to_row(scratch),
            self.actor.to_row(scratch),
        ];
        row[..values.len()].copy_from_slice(&values);
    }

    fn read(row: &[ValueRef<'_>]) -> Result<Self> {
        let schema = Self::schema();
        Ok(Self {
            id: read_field(row, 0, schema)?,
            of_table: read_field(row, 1, schema)?,
            of_key: read_field(row, 2, schema)?,
            action: read_field(row, 3, schema)?,
            fields: read_field(row, 4, schema)?,
            at: read_field(row, 5, schema)?,
            version: read_field(row, 6, schema)?,
            actor: read_field(row, 7, schema)?,
        })
    }
}

/// Formats a key as it is stored in [`History::of_key`].
///
/// The text is unique within a table, since all keys of a table have the same kind.
pub(crate) fn key_text(key: ValueRef<'_>) -> String {
    match key {
        ValueRef::Int(key) => key.to_string(),
        ValueRef::Uuid(key) => key.to_string(),
        ValueRef::Text(key) => key.to_owned(),
        other => marmota_model::text::excerpt_of(other),
    }
}

/// Returns a filter on the history's table for the entries of one row, including those from before
/// the table was renamed.
///
/// `schema` is that of the audited table, `key` the row's key; the row itself may be deleted.
///
/// ```
/// # use marmota_memory::Memory;
/// # use marmota_model::{Field, Kind, Record, Role, Schema, ValueRef};
/// # use marmota_store::{History, Store};
/// use marmota_store::history;
/// # let note = Schema::new("note", vec![Field::new("id", Kind::I64).role(Role::Key)]).audit(true);
/// # let store = Store::builder(Memory::new()).schema(note).open()?;
/// # store.insert_record(&Record::new(store.table("note")?)).run()?;
/// let filter = history::of_row(store.table("note")?.schema(), ValueRef::Int(1));
/// assert_eq!(store.list::<History>().filter(filter).run()?.len(), 1);
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub fn of_row(schema: &Schema, key: ValueRef<'_>) -> Filter<History> {
    let of_table = match &schema.was {
        Some(was) => History::OF_TABLE.is_in([&*schema.name, was]),
        None => History::OF_TABLE.eq(&*schema.name),
    };
    of_table.and(History::OF_KEY.eq(key_text(key)))
}
