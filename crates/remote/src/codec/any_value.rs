//! Random values for tests of the codec.

use marmota_model::{Currency, Date, Time, Timestamp, Uuid, Value};
use proptest::prelude::*;

/// Any value, with valid JSON.
pub(crate) fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Absent),
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<i32>().prop_map(|small| Value::Float(f64::from(small) / 7.0)),
        any::<i64>().prop_map(|scaled| Value::Currency(Currency::from_scaled(scaled))),
        ".{0,40}".prop_map(Value::Text),
        any::<Vec<u8>>().prop_map(Value::Blob),
        any::<Vec<i64>>().prop_map(|list| Value::Json(format!("{list:?}"))),
        (-700_000..2_000_000_i32)
            .prop_filter_map("a day", |days| { Date::from_days(days).ok().map(Value::Date) }),
        (0..86_400_000_000_i64)
            .prop_filter_map("a time", |us| Time::from_micros(us).ok().map(Value::Time)),
        (-62_000_000_000_000_000..250_000_000_000_000_000_i64).prop_filter_map("a moment", |us| {
            Timestamp::from_micros(us).ok().map(Value::Timestamp)
        }),
        any::<u128>().prop_map(|bits| Value::Uuid(Uuid::from_u128(bits))),
    ]
}
