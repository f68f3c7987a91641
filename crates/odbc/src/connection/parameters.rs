//! Values as parameters.

use marmota_blocking::{Dialect, timestamp_text};
use marmota_model::Value;
use odbc_api::IntoParameter;
use odbc_api::parameter::InputParameter;

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
