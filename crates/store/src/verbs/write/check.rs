//! Checks of a write's arguments, for the verbs and for layers that make operations from the
//! requests of others.

use marmota_model::rule::violation;
use marmota_model::{Error, ErrorKind, Result, Table, ValueRef};

/// Refuses an expected version if the table has no version field.
///
/// ```
/// # use marmota_memory::Memory;
/// # use marmota_model::{Field, Kind, Record, Role, Schema};
/// # use marmota_store::Store;
/// # let id = Field::new("id", Kind::I64).role(Role::Key);
/// # let note = Schema::new("note", vec![id, Field::new("text", Kind::TEXT)]);
/// # let store = Store::builder(Memory::new()).schema(note).open()?;
/// # let notes = store.table("note")?;
/// use marmota_store::write::check_version;
///
/// check_version(&notes, None)?;
/// assert!(check_version(&notes, Some(3)).is_err());
/// # Ok::<(), marmota_model::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Invalid`]; the message has an alternative.
pub fn check_version(table: &Table, version: Option<i64>) -> Result<()> {
    if version.is_none() || table.version().is_some() {
        return Ok(());
    }
    let message = format!(
        "`{}` has no version to compare with; add #[model(version)] to one of its fields",
        table.name()
    );
    Err(Error::new(ErrorKind::Invalid, message))
}

/// Checks that this amount can be added to a field.
///
/// ```
/// # use marmota_memory::Memory;
/// # use marmota_model::{Field, Kind, Role, Schema, ValueRef};
/// # use marmota_store::Store;
/// # let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("n", Kind::I64)];
/// # let store = Store::builder(Memory::new()).schema(Schema::new("counter", fields)).open()?;
/// use marmota_store::write::check_increment;
///
/// let counters = store.table("counter")?;
/// check_increment(&counters, 1, ValueRef::Int(5))?;
/// assert!(check_increment(&counters, 1, ValueRef::Text("five")).is_err());
/// assert!(check_increment(&counters, 0, ValueRef::Int(5)).is_err(), "the key is not added to");
/// # Ok::<(), marmota_model::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Invalid`] with the field and the value.
pub fn check_increment(table: &Table, field: usize, by: ValueRef<'_>) -> Result<()> {
    use marmota_model::{Kind, Role};
    let what = &table.fields()[field];
    let fits = matches!(
        (&what.kind, by),
        (Kind::Int { .. }, ValueRef::Int(_)) | (Kind::Currency, ValueRef::Currency(_))
    );
    if let Some(expression) = table.computed(field) {
        let message = format!("is computed by the store (`{expression}`); change what it uses");
        return Err(Error::invalid(vec![violation(what, by, "computed", message)]));
    }
    if what.generated.is_some() {
        let message = "is computed by the database; change what it uses";
        return Err(Error::invalid(vec![violation(what, by, "computed", message)]));
    }
    if fits && what.role == Role::Plain {
        return Ok(());
    }
    let message = "only integer and currency fields of the caller's can be added to, by their kind";
    Err(Error::invalid(vec![violation(what, by, "type", message)]))
}
