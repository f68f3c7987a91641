//! Date, time of day and UTC timestamp as plain integers; `jiff` does the
//! calendar, this file only carries the numbers between rows and text.

use std::fmt;
use std::str::FromStr;

use jiff::civil;
use jiff::fmt::temporal::Pieces;

const MICROS_PER_DAY: i64 = 86_400_000_000;
/// 0001-01-01 and 9999-12-31 as days since 1970-01-01: four-digit years sort
/// as text and every engine can hold them.
const DAYS_MIN: i32 = -719_162;
const DAYS_MAX: i32 = 2_932_896;

/// Why a text is no date, time or timestamp.
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
    /// The day that is `days` after 1970-01-01 (before it, if negative).
    ///
    /// # Errors
    /// [`TimeError`] outside the years 1 to 9999.
    pub const fn from_days(days: i32) -> Result<Self, TimeError> {
        if days < DAYS_MIN || days > DAYS_MAX { Err(TimeError) } else { Ok(Self(days)) }
    }

    /// Days since 1970-01-01.
    #[must_use]
    pub const fn days(self) -> i32 {
        self.0
    }
}

impl Time {
    /// The time that is `micros` after midnight.
    ///
    /// # Errors
    /// [`TimeError`] outside one day.
    pub const fn from_micros(micros: i64) -> Result<Self, TimeError> {
        if micros < 0 || micros >= MICROS_PER_DAY { Err(TimeError) } else { Ok(Self(micros)) }
    }

    /// Microseconds since midnight.
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }
}

impl Timestamp {
    /// The point that is `micros` after 1970-01-01T00:00:00Z.
    ///
    /// # Errors
    /// [`TimeError`] outside the years 1 to 9999.
    pub const fn from_micros(micros: i64) -> Result<Self, TimeError> {
        let days = micros.div_euclid(MICROS_PER_DAY);
        if days < DAYS_MIN as i64 || days > DAYS_MAX as i64 {
            Err(TimeError)
        } else {
            Ok(Self(micros))
        }
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// The system clock's time.
    #[must_use]
    pub fn now() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        // Not `as_micros`, which divides 128-bit numbers.
        Self(since.map_or(0, |since| {
            since.as_secs() as i64 * 1_000_000 + i64::from(since.subsec_micros())
        }))
    }
}

/// A date or time being written. By hand: a list of rows to JSON spent half of
/// its time in general formatting.
struct Form {
    /// As long as a timestamp with microseconds.
    bytes: [u8; 27],
    length: usize,
}

impl Form {
    const fn new() -> Self {
        Self { bytes: [0; 27], length: 0 }
    }

    /// Inlined wherever it is called with a place that is known then, so that
    /// nobody has to look whether there is such a place.
    #[inline(always)]
    fn two_digits(&mut self, at: usize, number: u32) {
        self.bytes[at] = b'0' + (number / 10) as u8;
        self.bytes[at + 1] = b'0' + (number % 10) as u8;
    }

    #[inline(always)]
    fn date(&mut self, day: Date) {
        let (year, month, day) = day.civil();
        self.two_digits(0, year / 100);
        self.two_digits(2, year % 100);
        self.bytes[4] = b'-';
        self.two_digits(5, month);
        self.bytes[7] = b'-';
        self.two_digits(8, day);
        self.length = 10;
    }

    #[inline(always)]
    fn time(&mut self, time: Time) {
        self.time_at(0, time);
    }

    /// With as many digits of the second as it takes.
    #[inline(always)]
    fn time_at(&mut self, at: usize, time: Time) {
        let seconds = (time.0 as u64 / 1_000_000) as u32;
        self.two_digits(at, seconds / 3_600);
        self.bytes[at + 2] = b':';
        self.two_digits(at + 3, seconds / 60 % 60);
        self.bytes[at + 5] = b':';
        self.two_digits(at + 6, seconds % 60);
        self.length = at + 8;
        let micros = (time.0 as u64 % 1_000_000) as u32;
        if micros == 0 {
            return;
        }
        self.bytes[at + 8] = b'.';
        self.two_digits(at + 9, micros / 10_000);
        self.two_digits(at + 11, micros / 100 % 100);
        self.two_digits(at + 13, micros % 100);
        self.length = at + 15;
        while self.bytes[self.length - 1] == b'0' {
            self.length -= 1;
        }
    }

    #[inline(always)]
    fn timestamp(&mut self, at: Timestamp) {
        self.date(Date(at.0.div_euclid(MICROS_PER_DAY) as i32));
        self.bytes[10] = b'T';
        self.time_at(11, Time(at.0.rem_euclid(MICROS_PER_DAY)));
        self.bytes[self.length] = b'Z';
        self.length += 1;
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Date {
    /// The year, month and day.
    const fn civil(self) -> (u32, u32, u32) {
        // From 0000-03-01 on, so that a leap day is the last of its year;
        // every 400 years have the same days. The first day there is lies 306
        // days after that.
        let days = (self.0 + 719_468) as u32;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        // Five months have 153 days, from March and from August.
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let year = year + 400 * era;
        if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
    }
}

macro_rules! written {
    ($($type:ty, $form:ident;)*) => {$(
        impl $type {
            /// Appends it as `Display` shows it.
            pub fn write(self, out: &mut Vec<u8>) {
                let mut form = Form::new();
                form.$form(self);
                out.extend_from_slice(form.bytes());
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut form = Form::new();
                form.$form(*self);
                f.write_str(std::str::from_utf8(form.bytes()).unwrap_or_default())
            }
        }
    )*};
}

written!(Date, date; Time, time; Timestamp, timestamp;);

impl FromStr for Date {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        // jiff takes a date out of a date-time too; a day is only a day.
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
