//! Types, collations and values as words of SQLite's SQL.

use marmota_model::{Collation, Field, Kind, ValueForm, ValueRef};

/// Returns the declared type of a column for this kind.
pub(crate) fn sql_type(kind: &Kind) -> &'static str {
    match kind.form() {
        ValueForm::Float => "REAL",
        ValueForm::Text | ValueForm::Json => "TEXT",
        ValueForm::Blob | ValueForm::Uuid => "BLOB",
        _ => "INTEGER",
    }
}

/// Returns the collation clause of a column's definition.
pub(crate) fn sql_collation(field: &Field) -> &'static str {
    match field.kind.collation() {
        Collation::Binary => "",
        Collation::NoCase => " COLLATE NOCASE",
    }
}

/// Returns a value as an SQL literal.
pub(crate) fn sql_literal(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Absent | ValueRef::Null => "NULL".to_owned(),
        ValueRef::Bool(value) => i64::from(value).to_string(),
        ValueRef::Int(value) => value.to_string(),
        // The shortest form that parses to the same value; never NaN or infinite.
        ValueRef::Float(value) => format!("{value:?}"),
        ValueRef::Currency(value) => value.scaled().to_string(),
        ValueRef::Text(text) | ValueRef::Json(text) => format!("'{}'", text.replace('\'', "''")),
        ValueRef::Blob(bytes) => sql_blob(bytes),
        ValueRef::Uuid(value) => sql_blob(value.as_bytes()),
        ValueRef::Date(value) => value.days().to_string(),
        ValueRef::Time(value) => value.micros().to_string(),
        ValueRef::Timestamp(value) => value.micros().to_string(),
    }
}

fn sql_blob(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("x'{digits}'")
}

#[cfg(test)]
mod tests {
    use marmota_model::Currency;

    use super::*;

    #[test]
    fn constants_are_quoted() {
        for (value, sql) in [
            (ValueRef::Text("O'Sullivan"), "'O''Sullivan'"),
            (ValueRef::Float(1e300), "1e300"),
            (ValueRef::Float(1.0), "1.0"),
            (ValueRef::Blob(&[0, 255]), "x'00ff'"),
            (ValueRef::Bool(true), "1"),
            (ValueRef::Currency(Currency::from_scaled(-5)), "-5"),
        ] {
            assert_eq!(sql_literal(value), sql);
        }
    }
}
