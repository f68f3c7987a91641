//! Values of parameters, in the types that the server expects: binary if Marmota has the type, as
//! text otherwise.

use std::fmt::Write as _;

use marmota_model::ValueRef;

use crate::wire::value::{self, PgType};

pub(super) use crate::wire::value::ValueMismatch;

/// PostgreSQL's OIDs of types that no field has.
pub(super) mod oid {
    pub(in super::super) const NAME: u32 = 19;
    pub(in super::super) const FLOAT4: u32 = 700;
    pub(in super::super) const UNKNOWN: u32 = 705;
    pub(in super::super) const BPCHAR: u32 = 1042;
    pub(in super::super) const VARCHAR: u32 = 1043;
    pub(in super::super) const TIMESTAMP: u32 = 1114;
    pub(in super::super) const JSONB: u32 = 3802;
}

/// Returns the type with an OID, or `None` for types that are written as text.
pub(super) fn pg_type(oid: u32) -> Option<PgType> {
    Some(match oid {
        oid::TIMESTAMP => PgType::Timestamptz,
        oid => *PgType::ALL.iter().find(|pg_type| pg_type.oid() == oid)?,
    })
}

/// Returns 1 for a type that is sent in binary, 0 for text.
pub(super) fn format(oid: u32) -> u8 {
    u8::from(pg_type(oid).is_some_and(|pg_type| pg_type != PgType::Numeric))
}

/// Returns a type's name, for errors.
pub(super) fn type_name(oid: u32) -> String {
    match pg_type(oid) {
        Some(pg_type) => crate::statement::sql_words::sql_type(pg_type).to_owned(),
        None => format!("type number {oid}"),
    }
}

/// Appends a value with its length before it.
pub(super) fn put(out: &mut Vec<u8>, oid: u32, value: ValueRef<'_>) -> Result<(), ValueMismatch> {
    let pg_type = pg_type(oid);
    match (pg_type, value) {
        (_, ValueRef::Null | ValueRef::Absent) => value::put(out, PgType::Text, ValueRef::Null),
        (Some(PgType::Bool), ValueRef::Int(int @ (0 | 1))) => {
            value::put(out, PgType::Bool, ValueRef::Bool(int == 1))
        }
        (Some(PgType::Float8), ValueRef::Int(int)) => {
            value::put(out, PgType::Float8, ValueRef::Float(int as f64))
        }
        (
            Some(pg_type @ (PgType::Uuid | PgType::Date | PgType::Time | PgType::Timestamptz)),
            ValueRef::Text(text),
        ) => {
            let read = match pg_type {
                PgType::Uuid => text.parse().map(ValueRef::Uuid).ok(),
                PgType::Date => text.parse().map(ValueRef::Date).ok(),
                PgType::Time => text.parse().map(ValueRef::Time).ok(),
                _ => text.parse().map(ValueRef::Timestamp).ok(),
            };
            value::put(out, pg_type, read.ok_or(ValueMismatch)?)
        }
        (None | Some(PgType::Text | PgType::Json | PgType::Numeric), value) => {
            let text = as_text(value).ok_or(ValueMismatch)?;
            value::put(out, PgType::Text, ValueRef::Text(&text))
        }
        (Some(pg_type), value) => value::put(out, pg_type, value),
    }
}

/// Returns a value as the text that PostgreSQL parses.
fn as_text(value: ValueRef<'_>) -> Option<std::borrow::Cow<'_, str>> {
    let mut text = String::new();
    let written = match value {
        ValueRef::Text(text) | ValueRef::Json(text) => return Some(text.into()),
        ValueRef::Bool(value) => write!(text, "{value}"),
        ValueRef::Int(value) => write!(text, "{value}"),
        ValueRef::Float(value) => write!(text, "{value}"),
        ValueRef::Currency(value) => write!(text, "{value}"),
        ValueRef::Date(value) => write!(text, "{value}"),
        ValueRef::Time(value) => write!(text, "{value}"),
        ValueRef::Timestamp(value) => write!(text, "{value}"),
        ValueRef::Uuid(value) => write!(text, "{value}"),
        ValueRef::Blob(_) | ValueRef::Null | ValueRef::Absent => return None,
    };
    written.ok().map(|()| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(oid: u32, value: ValueRef<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, oid, value).unwrap();
        out.split_off(4)
    }

    #[test]
    fn values_take_the_type_that_is_expected() {
        assert_eq!(written(21, ValueRef::Int(258)), [1, 2]);
        assert_eq!(written(701, ValueRef::Int(1)), 1.0_f64.to_be_bytes());
        assert_eq!(written(25, ValueRef::Int(12)), b"12");
        assert_eq!(written(1700, ValueRef::Float(0.5)), b"0.5");
        assert_eq!(written(16, ValueRef::Int(1)), [1]);
        assert_eq!(written(1082, ValueRef::Text("2000-01-02")), [0, 0, 0, 1]);
        assert_eq!(put(&mut Vec::new(), 21, ValueRef::Int(40_000)), Err(ValueMismatch));
        assert_eq!(put(&mut Vec::new(), 20, ValueRef::Text("1")), Err(ValueMismatch));
        assert_eq!((format(20), format(oid::JSONB), format(1700)), (1, 0, 0));
    }
}
