//! The columns of fields by dialect: their types, names, values as literals, and reading rows.

use marmota_model::{
    Collation, Error, Field, FieldSet, Kind, Result, Table, Value, ValueForm, ValueRef, Violation,
    text::excerpt,
};
use marmota_sql::quoted;

use super::text::timestamp_text;
use crate::dialect::Dialect;

/// Returns the declared type of a field's column, in the form in which the server reports it.
pub(crate) fn sql_type(dialect: &Dialect, table: &Table, position: usize) -> String {
    let types = &dialect.types;
    let field = &table.fields()[position];
    let is_key = position == table.key() || matches!(field.kind, Kind::Reference { .. });
    let varchar = |chars: u32| types.varchar.replace("{}", &chars.to_string());
    let fixed = match (field.kind.form(), &field.kind) {
        (ValueForm::Bool, _) => types.boolean,
        (ValueForm::Int, Kind::Int { min, max }) if position != table.key() => {
            let fits = |low: i64, high: i64| *min >= low && *max <= high;
            if fits(i16::MIN.into(), i16::MAX.into()) {
                types.small
            } else if fits(i32::MIN.into(), i32::MAX.into()) {
                types.int
            } else {
                types.big
            }
        }
        (ValueForm::Int, _) => types.big,
        (ValueForm::Float, _) => types.float,
        (ValueForm::Currency, _) => types.currency,
        (ValueForm::Text, Kind::Text { chars_max: chars @ 1.., .. })
            if !is_key && *chars <= types.varchar_max =>
        {
            return varchar(*chars);
        }
        (ValueForm::Text, _) if is_key => match types.key_chars {
            Some(chars) => return varchar(chars),
            None => types.text,
        },
        (ValueForm::Text | ValueForm::Json, _) => types.text,
        (ValueForm::Blob, _) => types.blob,
        (ValueForm::Date, _) => types.date,
        (ValueForm::Time, _) => types.time,
        (ValueForm::Timestamp, _) => types.timestamp,
        (ValueForm::Uuid, _) => types.uuid,
    };
    fixed.to_owned()
}

/// Returns true if the field's texts compare without regard to the case of A to Z.
pub(crate) fn is_folded(field: &Field) -> bool {
    field.kind.collation() == Collation::NoCase
}

/// Returns the name of the column with the bytes of a text in lower case.
pub(crate) fn folded_name(field: &str) -> String {
    marmota_sql::bounded(&format!("fold:{field}"))
}

/// Returns a column's texts with A to Z in lower case.
pub(crate) fn folded_sql(dialect: &Dialect, name: &str) -> String {
    dialect.texts.folded.replace("{}", name)
}

/// Returns a text as [`folded_sql`] has it.
pub(crate) fn folded(dialect: &Dialect, text: &str) -> Value {
    let text = text.to_ascii_lowercase();
    match dialect.texts.folded_is_binary {
        true => Value::Blob(text.into_bytes()),
        false => Value::Text(text),
    }
}

/// Returns a field's name in SQL.
pub(crate) fn name(table: &Table, position: usize) -> String {
    quoted(&table.fields()[position].name)
}

/// Returns the SQL expression by which a field is compared and sorted.
pub(crate) fn compared(dialect: &Dialect, field: &Field) -> String {
    match is_folded(field) {
        true if dialect.texts.fold_column.is_some() => quoted(&folded_name(&field.name)),
        true => folded_sql(dialect, &quoted(&field.name)),
        false => quoted(&field.name),
    }
}

/// Returns a value that a field is compared with, as a parameter.
pub(crate) fn compared_value(dialect: &Dialect, field: &Field, value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Text(text) if is_folded(field) => folded(dialect, text),
        value => value.to_value(),
    }
}

/// Returns a value as an SQL literal, for defaults.
pub(crate) fn literal(dialect: &Dialect, value: ValueRef<'_>) -> String {
    let bytes = |bytes: &[u8]| {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let [begin, end] = dialect.values.bytes;
        format!("{begin}{digits}{end}")
    };
    match value {
        ValueRef::Absent | ValueRef::Null => "NULL".to_owned(),
        ValueRef::Bool(value) => dialect.values.booleans[usize::from(value)].to_owned(),
        ValueRef::Int(value) => value.to_string(),
        ValueRef::Float(value) => format!("{value:e}"),
        ValueRef::Currency(value) => text_literal(&value.to_string()),
        ValueRef::Text(text) | ValueRef::Json(text) => text_literal(text),
        ValueRef::Blob(blob) => bytes(blob),
        ValueRef::Uuid(uuid) if dialect.values.uuid_is_text => text_literal(&uuid.to_string()),
        ValueRef::Uuid(uuid) => bytes(uuid.as_bytes()),
        ValueRef::Date(date) => text_literal(&date.to_string()),
        ValueRef::Time(time) => text_literal(&time.to_string()),
        ValueRef::Timestamp(at) => text_literal(&timestamp_text(at)),
    }
}

/// Returns a text as an SQL literal.
pub(crate) fn text_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Returns the fields that a statement reads, and their names in SQL.
pub(crate) fn columns(table: &Table, fields: FieldSet) -> (Vec<usize>, String) {
    let known: Vec<usize> = fields.iter().filter(|&at| at < table.fields().len()).collect();
    let names: Vec<String> = known.iter().map(|&at| name(table, at)).collect();
    let names = if names.is_empty() { "1".to_owned() } else { names.join(",") };
    (known, names)
}

/// Returns a row with these columns; other fields are absent.
///
/// # Errors
/// [`marmota_model::ErrorKind::Invalid`] for a stored value that is invalid for its field.
pub(crate) fn row_of<'v>(
    table: &Table,
    columns: &[usize],
    values: &[Option<ValueRef<'v>>],
) -> Result<Vec<ValueRef<'v>>> {
    let mut row = vec![ValueRef::Absent; table.fields().len()];
    for (&position, value) in columns.iter().zip(values) {
        let key = row[table.key()];
        row[position] = value.ok_or_else(|| unreadable(table, position, key))?;
    }
    Ok(row)
}

/// Returns the forms of fields.
pub(crate) fn forms(table: &Table, columns: &[usize]) -> Vec<ValueForm> {
    columns.iter().map(|&at| table.fields()[at].kind.form()).collect()
}

#[cold]
fn unreadable(table: &Table, position: usize, key: ValueRef<'_>) -> Error {
    let field = &table.fields()[position];
    let row = match key {
        ValueRef::Absent => String::new(),
        key => format!(" of row {}", marmota_model::text::excerpt_of(key)),
    };
    let message = format!(
        "the value{row} in `{}` cannot be represented by a {} field: another program wrote this \
         value; correct it in the database, or leave the field out of the read",
        table.name(),
        field.kind.name()
    );
    Error::invalid(vec![Violation {
        field: field.name.to_string(),
        value: excerpt("?"),
        rule: "type".to_owned(),
        message,
    }])
}
