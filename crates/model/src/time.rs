//! Dates, times of day and UTC timestamps as plain integers. `jiff` implements the calendar; this
//! file converts between rows and text.

use std::fmt;
use std::str::FromStr;

use jiff::civil;
use jiff::fmt::temporal::Pieces;

use crate::digits::{Room, eight, put_word, without_zeros};

const MICROS_PER_DAY: i64 = 86_400_000_000;
/// 0001-01-01 and 9999-12-31 as days since 1970-01-01: four-digit years sort as text, and every
/// engine can store them.
const DAYS_MIN: i32 = -719_162;
const DAYS_MAX: i32 = 2_932_896;
/// Days from 0000-03-01, which is earlier than all valid dates, to 1970-01-01.
const CIVIL_DAYS: i32 = 719_468;

/// The error for a text that is not a date, time or timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeError;

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a date or time in the ISO 8601 form, or out of the years 1 to 9999")
    }
}

impl std::error::Error for TimeError {}

/// A calendar day, from 0001-01-01 to 9999-12-31.
///
/// ```
/// use marmota_model::Date;
/// let day: Date = "2026-11-21".parse()?;
/// assert_eq!(day.to_string(), "2026-11-21");
/// # Ok::<(), marmota_model::TimeError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(i32);

/// A time of day to the microsecond, without a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

/// A point in time to the microsecond, in UTC, in the years 1 to 9999.
///
/// ```
/// use marmota_model::Timestamp;
/// let at: Timestamp = "2026-11-21T12:00:00.25+01:00".parse()?;
/// assert_eq!(at.to_string(), "2026-11-21T11:00:00.25Z");
/// # Ok::<(), marmota_model::TimeError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Date {
    /// Returns the day that is `days` after 1970-01-01 (before it, if negative).
    ///
    /// # Errors
    /// [`TimeError`] outside the years 1 to 9999.
    pub const fn from_days(days: i32) -> Result<Self, TimeError> {
        if days < DAYS_MIN || days > DAYS_MAX { Err(TimeError) } else { Ok(Self(days)) }
    }

    /// Returns the days since 1970-01-01.
    #[must_use]
    pub const fn days(self) -> i32 {
        self.0
    }
}

impl Time {
    /// Returns the time that is `micros` after midnight.
    ///
    /// # Errors
    /// [`TimeError`] outside one day.
    pub const fn from_micros(micros: i64) -> Result<Self, TimeError> {
        if micros < 0 || micros >= MICROS_PER_DAY { Err(TimeError) } else { Ok(Self(micros)) }
    }

    /// Returns the microseconds since midnight.
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }
}

impl Timestamp {
    /// Returns the point in time that is `micros` after 1970-01-01T00:00:00Z.
    ///
    /// # Errors
    /// [`TimeError`] outside the years 1 to 9999.
    pub const fn from_micros(micros: i64) -> Result<Self, TimeError> {
        const MIN: i64 = DAYS_MIN as i64 * MICROS_PER_DAY;
        const MAX: i64 = (DAYS_MAX as i64 + 1) * MICROS_PER_DAY - 1;
        if micros < MIN || micros > MAX { Err(TimeError) } else { Ok(Self(micros)) }
    }

    /// Returns the microseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Returns the time of the system clock.
    #[must_use]
    pub fn now() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        // Not `as_micros`, which divides a 128-bit number.
        Self(since.map_or(0, |since| {
            since.as_secs() as i64 * 1_000_000 + i64::from(since.subsec_micros())
        }))
    }
}

const DATE_BYTES: usize = 10;

// Custom formatting, eight digits at a time: conversion of a list of rows to JSON spent half of its
// time in general formatting, and then a fifth with two digits at a time.

#[inline(always)]
fn put_date(to: &mut Room, day: Date) -> usize {
    let (year, month, day) = day.civil();
    let digits = eight(year * 10_000 + month * 100 + day);
    // YYYY-MM- and DD.
    let word = digits & 0xffff_ffff | DASHES | digits << 8 & 0x00ff_ff00_0000_0000;
    put_word(to, 0, word);
    to[8..DATE_BYTES].copy_from_slice(&digits.to_le_bytes()[6..]);
    DATE_BYTES
}

const DASHES: u64 = (b'-' as u64) << 32 | (b'-' as u64) << 56;
const COLONS: u64 = (b':' as u64) << 16 | (b':' as u64) << 40;

/// Writes a time at `at`, with as many decimals of the second as needed. Returns its end.
#[inline(always)]
fn put_time_at(to: &mut Room, at: usize, micros: u64) -> usize {
    let (seconds, micros) = ((micros / 1_000_000) as u32, (micros % 1_000_000) as u32);
    let minutes = seconds / 60;
    let digits = eight(minutes / 60 * 10_000 + minutes % 60 * 100 + seconds % 60);
    let word = digits >> 16 & 0xffff
        | COLONS
        | digits >> 8 & 0x0000_00ff_ff00_0000
        | digits & 0xffff_0000_0000_0000;
    put_word(to, at, word);
    if micros == 0 {
        return at + 8;
    }
    let digits = eight(micros);
    put_word(to, at + 8, digits >> 8 & !0xff | u64::from(b'.'));
    at + 9 + without_zeros(digits, 6)
}

#[inline(always)]
fn put_time(to: &mut Room, time: Time) -> usize {
    put_time_at(to, 0, time.0 as u64)
}

#[inline(always)]
fn put_timestamp(to: &mut Room, at: Timestamp) -> usize {
    // Counts from 0000-03-01, so that the number is not negative.
    let micros = (at.0 + i64::from(CIVIL_DAYS) * MICROS_PER_DAY) as u64;
    let day = (micros / MICROS_PER_DAY as u64) as i32 - CIVIL_DAYS;
    put_date(to, Date(day));
    to[DATE_BYTES] = b'T';
    let end = put_time_at(to, DATE_BYTES + 1, micros % MICROS_PER_DAY as u64);
    to[end] = b'Z';
    end + 1
}

impl Date {
    /// Returns the year, month and day.
    const fn civil(self) -> (u32, u32, u32) {
        // Years begin in March, so that a leap day is the last day of its year. The calendar
        // repeats every 400 years.
        let days = (self.0 + CIVIL_DAYS) as u32;
        // In quarters of a day, a century has 146,097 and a year 1,461.
        let quarters = 4 * days + 3;
        let century = quarters / 146_097;
        let quarters = (quarters - century * 146_097) | 3;
        let year_of_century = quarters / 1_461;
        let day = (quarters - year_of_century * 1_461) / 4;
        // Five months have 153 days, starting with March and with August.
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let year = 100 * century + year_of_century;
        if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
    }
}

macro_rules! written {
    ($($type:ty, $put:ident;)*) => {$(
        impl $type {
            /// Appends it in the form of `Display`.
            pub fn write(self, out: &mut Vec<u8>) {
                let mut room = [0; 32];
                let length = $put(&mut room, self);
                out.extend_from_slice(&room[..length]);
            }

            /// Writes it in the form of `Display`. Returns the number of bytes written.
            #[inline(always)]
            pub(crate) fn put(self, to: &mut Room) -> usize {
                $put(to, self)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut room = [0; 32];
                let length = $put(&mut room, *self);
                f.write_str(std::str::from_utf8(&room[..length]).unwrap_or_default())
            }
        }
    )*};
}

written!(Date, put_date; Time, put_time; Timestamp, put_timestamp;);

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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_ends_of_the_range_are_what_they_say() {
        assert_eq!("0001-01-01".parse(), Ok(Date(DAYS_MIN)));
        assert_eq!("9999-12-31".parse(), Ok(Date(DAYS_MAX)));
        assert_eq!("-000001-12-31".parse::<Date>(), Err(TimeError));
        assert_eq!("2026-02-30".parse::<Date>(), Err(TimeError));
        assert_eq!("2026-02-03T00:00:00".parse::<Date>(), Err(TimeError));
        assert_eq!("24:00:00".parse::<Time>(), Err(TimeError));
        assert_eq!("2026-02-03T00:00:00".parse::<Timestamp>(), Err(TimeError));
        assert_eq!("2026-02-03Z".parse::<Timestamp>(), Err(TimeError));
        for end in ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"] {
            assert_eq!(end.parse::<Timestamp>().unwrap().to_string(), end);
        }
        assert_eq!("9999-12-31T23:00:00-01:00".parse::<Timestamp>(), Err(TimeError));
        assert_eq!("0001-01-01T00:00:00+00:01".parse::<Timestamp>(), Err(TimeError));
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut before = Date(DAYS_MIN).civil();
        assert_eq!(before, (1, 1, 1));
        for days in DAYS_MIN + 1..=DAYS_MAX {
            let (year, month, day) = Date(days).civil();
            let follows = match before {
                (y, m, d) if day > 1 => (y, m, d + 1) == (year, month, day),
                (y, m, _) if month > 1 => (y, m + 1) == (year, month),
                (y, 12, 31) => y + 1 == year,
                _ => false,
            };
            assert!(follows, "{before:?}, {:?}", (year, month, day));
            before = (year, month, day);
        }
        assert_eq!(before, (9999, 12, 31));
    }

    #[test]
    fn an_offset_is_taken_off() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap().to_string();
        assert_eq!(at("1970-01-01T00:00:00.5+01:30"), "1969-12-31T22:30:00.5Z");
        assert_eq!(at("2026-11-21 12:00:00-05"), "2026-11-21T17:00:00Z");
    }

    proptest! {
        #[test]
        fn dates_round_trip(days in DAYS_MIN..=DAYS_MAX) {
            let day = Date::from_days(days).unwrap();
            prop_assert_eq!(day.to_string().parse(), Ok(day));
        }

        #[test]
        fn times_round_trip(micros in 0..MICROS_PER_DAY) {
            let time = Time::from_micros(micros).unwrap();
            prop_assert_eq!(time.to_string().parse(), Ok(time));
        }

        #[test]
        fn timestamps_round_trip(
            micros in i64::from(DAYS_MIN) * MICROS_PER_DAY..=i64::from(DAYS_MAX) * MICROS_PER_DAY
        ) {
            let at = Timestamp::from_micros(micros).unwrap();
            prop_assert_eq!(at.to_string().parse(), Ok(at));
        }
    }
}
