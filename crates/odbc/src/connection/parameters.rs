//! Values as parameters: one by one, and as columns of many rows.

use marmota_blocking::{Dialect, timestamp_text};
use marmota_model::Value;
use odbc_api::buffers::BoxColumBufferRefMut;
use odbc_api::parameter::InputParameter;
use odbc_api::{BindParamDesc, IntoParameter};

/// The most bytes of the buffers of an insert.
const BUFFER_BYTES_MAX: usize = 32 << 20;

/// Returns a value as a text, unless it is a number or bytes.
fn text_of(value: &Value) -> Option<String> {
    Some(match value {
        Value::Bool(value) => u8::from(*value).to_string(),
        Value::Currency(value) => value.to_string(),
        Value::Text(text) | Value::Json(text) => text.clone(),
        Value::Date(date) => date.to_string(),
        Value::Time(time) => time.to_string(),
        Value::Timestamp(at) => timestamp_text(*at),
        Value::Uuid(uuid) => uuid.to_string(),
        _ => return None,
    })
}

/// Returns a value as a parameter.
pub(super) fn parameter(value: &Value, dialect: &Dialect) -> Box<dyn InputParameter> {
    match value {
        Value::Int(value) => Box::new(*value),
        Value::Float(value) => Box::new(*value),
        Value::Blob(blob) => Box::new(blob.clone().into_parameter()),
        Value::Uuid(uuid) if !dialect.values.uuid_is_text => {
            Box::new(uuid.as_bytes().to_vec().into_parameter())
        }
        value => Box::new(text_of(value).into_parameter()),
    }
}

/// How the values of a column are bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BoundColumn {
    Int,
    Float,
    /// At most this number of bytes.
    Binary(usize),
    /// At most this number of UTF-16 units.
    Text(usize),
}

impl BoundColumn {
    pub(super) fn bound(self) -> BindParamDesc {
        match self {
            Self::Int => BindParamDesc::i64(true),
            Self::Float => BindParamDesc::f64(true),
            Self::Binary(most) => BindParamDesc::binary(most),
            Self::Text(most) => BindParamDesc::wide_text(most),
        }
    }

    const fn bytes(self) -> usize {
        match self {
            Self::Int | Self::Float => 16,
            Self::Binary(most) => most + 8,
            Self::Text(most) => most * 2 + 10,
        }
    }
}

/// Returns how the columns of rows are bound; `None` if their buffers would be too large.
pub(super) fn columns_of(rows: &[Vec<&Value>], dialect: &Dialect) -> Option<Vec<BoundColumn>> {
    let width = rows.first().map_or(0, Vec::len);
    let columns: Vec<BoundColumn> = (0..width)
        .map(|at| {
            let column = rows.iter().map(|row| bound_as(row[at], dialect));
            column.reduce(wider).flatten().unwrap_or(BoundColumn::Text(1))
        })
        .collect();
    let row: usize = columns.iter().map(|column| column.bytes()).sum();
    (width > 0 && row.checked_mul(rows.len())? <= BUFFER_BYTES_MAX).then_some(columns)
}

fn bound_as(value: &Value, dialect: &Dialect) -> Option<BoundColumn> {
    Some(match value {
        Value::Null | Value::Absent => return None,
        Value::Int(_) => BoundColumn::Int,
        Value::Float(_) => BoundColumn::Float,
        Value::Blob(blob) => BoundColumn::Binary(blob.len().max(1)),
        Value::Uuid(_) if !dialect.values.uuid_is_text => BoundColumn::Binary(16),
        Value::Text(text) | Value::Json(text) => BoundColumn::Text(text.len().max(1)),
        _ => BoundColumn::Text(36),
    })
}

fn wider(one: Option<BoundColumn>, other: Option<BoundColumn>) -> Option<BoundColumn> {
    use BoundColumn::{Binary, Text};
    match (one, other) {
        (Some(Binary(one)), Some(Binary(other))) => Some(Binary(one.max(other))),
        (Some(Text(one)), Some(Text(other))) => Some(Text(one.max(other))),
        (one, other) => one.or(other),
    }
}

/// Writes the values of a column to its buffer.
pub(super) fn fill<'v>(
    buffer: BoxColumBufferRefMut<'_>,
    column: &BoundColumn,
    values: impl Iterator<Item = &'v Value>,
    dialect: &Dialect,
) {
    match column {
        BoundColumn::Int => {
            if let Some(mut slice) = buffer.as_nullable_slice::<i64>() {
                slice.write(values.map(|value| value.as_ref().as_int()));
            }
        }
        BoundColumn::Float => {
            if let Some(mut slice) = buffer.as_nullable_slice::<f64>() {
                slice.write(values.map(|value| match value {
                    Value::Float(value) => Some(*value),
                    _ => None,
                }));
            }
        }
        BoundColumn::Binary(_) => {
            if let Some(mut slice) = buffer.as_binary() {
                for (at, value) in values.enumerate() {
                    slice.set_cell(
                        at,
                        match value {
                            Value::Blob(blob) => Some(blob),
                            Value::Uuid(uuid) if !dialect.values.uuid_is_text => {
                                Some(uuid.as_bytes())
                            }
                            _ => None,
                        },
                    );
                }
            }
        }
        BoundColumn::Text(_) => {
            if let Some(mut slice) = buffer.as_wide_text() {
                for (at, value) in values.enumerate() {
                    let text = text_of(value).map(|text| text.encode_utf16().collect::<Vec<_>>());
                    slice.set_cell(at, text.as_deref());
                }
            }
        }
    }
}
