//! Dates and times from text in ISO 8601, read with `jiff`.

use std::str::FromStr;

use jiff::civil;
use jiff::fmt::temporal::Pieces;

use super::{Date, MICROS_PER_DAY, Time, TimeError, Timestamp};

impl FromStr for Date {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        // jiff also parses a date from a date-time; only a date is accepted here.
        if text.contains(['T', 't', ' ']) {
            return Err(TimeError);
        }
        let day: civil::Date = text.parse().map_err(|_| TimeError)?;
        Self::from_days(days_since_1970(day)?)
    }
}

impl FromStr for Time {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        let time: civil::Time = text.parse().map_err(|_| TimeError)?;
        Self::from_micros(micros_since_midnight(time)?)
    }
}

impl FromStr for Timestamp {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        let pieces = Pieces::parse(text).map_err(|_| TimeError)?;
        let (Some(time), Some(offset)) = (pieces.time(), pieces.to_numeric_offset()) else {
            return Err(TimeError);
        };
        let days = i64::from(days_since_1970(pieces.date())?);
        let offset_micros = i64::from(offset.seconds()) * 1_000_000;
        Self::from_micros(days * MICROS_PER_DAY + micros_since_midnight(time)? - offset_micros)
    }
}

fn days_since_1970(day: civil::Date) -> Result<i32, TimeError> {
    let days = civil::date(1970, 1, 1).until((jiff::Unit::Day, day));
    days.map(|days| days.get_days()).map_err(|_| TimeError)
}

fn micros_since_midnight(time: civil::Time) -> Result<i64, TimeError> {
    let micros = civil::Time::midnight().until((jiff::Unit::Microsecond, time));
    micros.map(|micros| micros.get_microseconds()).map_err(|_| TimeError)
}

macro_rules! serde_as_text {
    ($($type:ty),*) => {$(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(de: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'_, str>::deserialize(de)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

serde_as_text!(Date, Time, Timestamp);
