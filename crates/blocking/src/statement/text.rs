//! Values as the texts that databases write and read.

use marmota_model::{Date, Time, Timestamp, Value, ValueForm};

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// The bytes of a point in time as text.
const TIMESTAMP_BYTES: usize = 26;

/// Returns a point in time as `2026-01-31 12:00:00.000000`, in UTC.
#[must_use]
pub fn timestamp_text(at: Timestamp) -> String {
    let (days, micros) =
        (at.micros().div_euclid(MICROS_PER_DAY), at.micros().rem_euclid(MICROS_PER_DAY));
    let date = i32::try_from(days).ok().and_then(|days| Date::from_days(days).ok());
    let time = Time::from_micros(micros).unwrap_or_default();
    let mut text = Vec::with_capacity(TIMESTAMP_BYTES);
    date.unwrap_or_default().write(&mut text);
    text.push(b' ');
    time.write(&mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// Reads a value from the text that a database writes; `None` if it does not have the form.
#[must_use]
pub fn value_of_text(form: ValueForm, text: &str) -> Option<Value> {
    Some(match form {
        ValueForm::Text => Value::Text(text.to_owned()),
        ValueForm::Json => Value::Json(text.to_owned()),
        ValueForm::Int => Value::Int(text.trim().parse().ok()?),
        ValueForm::Float => Value::Float(text.trim().parse().ok()?),
        ValueForm::Currency => Value::Currency(text.trim().parse().ok()?),
        ValueForm::Bool => Value::Bool(match text.trim() {
            "0" | "f" | "false" | "F" | "FALSE" => false,
            "1" | "t" | "true" | "T" | "TRUE" => true,
            _ => return None,
        }),
        ValueForm::Date => Value::Date(text.get(..10)?.parse().ok()?),
        ValueForm::Time => Value::Time(text.trim().parse().ok()?),
        ValueForm::Uuid => Value::Uuid(text.trim().parse().ok()?),
        ValueForm::Timestamp => {
            let date: Date = text.get(..10)?.parse().ok()?;
            let time = text.get(11..).unwrap_or_default().trim();
            let time = time.strip_suffix("+00").unwrap_or(time);
            let time: Time = if time.is_empty() { Time::default() } else { time.parse().ok()? };
            let micros = i64::from(date.days()) * MICROS_PER_DAY + time.micros();
            Value::Timestamp(Timestamp::from_micros(micros).ok()?)
        }
        ValueForm::Blob => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_read_as_they_are_written() {
        for micros in [0, 1, -1, 1_700_000_000_000_000, 1_700_000_000_123_456] {
            let at = Timestamp::from_micros(micros).unwrap();
            let read = value_of_text(ValueForm::Timestamp, &timestamp_text(at));
            assert_eq!(read, Some(Value::Timestamp(at)));
        }
        assert_eq!(value_of_text(ValueForm::Timestamp, "yesterday"), None);
    }
}
