//! Names, types and values as words of PostgreSQL's SQL.

use marmota_model::ValueRef;
pub(crate) use marmota_sql::{bounded, quoted};

use crate::wire::value::PgType;

/// Returns the declared type of a column.
pub(crate) const fn sql_type(pg_type: PgType) -> &'static str {
    match pg_type {
        PgType::Bool => "boolean",
        PgType::Int2 => "smallint",
        PgType::Int4 => "integer",
        PgType::Int8 => "bigint",
        PgType::Float8 => "double precision",
        PgType::Numeric => "numeric(19,4)",
        PgType::Text => "text",
        PgType::Bytea => "bytea",
        PgType::Json => "json",
        PgType::Date => "date",
        PgType::Time => "time",
        PgType::Timestamptz => "timestamptz",
        PgType::Uuid => "uuid",
    }
}

/// Returns a value as an SQL literal.
pub(crate) fn sql_literal(value: ValueRef<'_>) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    match value {
        ValueRef::Absent | ValueRef::Null => "NULL".to_owned(),
        ValueRef::Bool(value) => value.to_string(),
        ValueRef::Int(value) => format!("'{value}'"),
        // The shortest form that parses to the same value; never NaN or infinite.
        ValueRef::Float(value) => format!("'{value:?}'"),
        ValueRef::Currency(value) => format!("'{value}'"),
        ValueRef::Text(text) | ValueRef::Json(text) => quoted(text),
        ValueRef::Blob(bytes) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("'\\x{digits}'")
        }
        ValueRef::Uuid(value) => format!("'{value}'"),
        ValueRef::Date(value) => format!("'{value}'"),
        ValueRef::Time(value) => format!("'{value}'"),
        ValueRef::Timestamp(value) => format!("'{value}'"),
    }
}

/// Returns a text as an SQL literal.
pub(crate) fn literal(text: &str) -> String {
    sql_literal(ValueRef::Text(text))
}
