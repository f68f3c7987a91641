//! Date, time of day and UTC timestamp as plain integers; `jiff` does the
//! calendar, this file only carries the numbers between rows and text.

use std::fmt;
use std::str::FromStr;

use jiff::civil;

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

    fn civil(self) -> civil::Date {
        // Within jiff's range for every day that `from_days` lets in.
        civil::date(1970, 1, 1).saturating_add(jiff::Span::new().days(self.0))
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

    fn civil(self) -> civil::Time {
        civil::Time::midnight().saturating_add(jiff::Span::new().microseconds(self.0))
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
        Self(since.map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX)))
    }

    fn jiff(self) -> jiff::Timestamp {
        jiff::Timestamp::from_microsecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.civil(), f)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.civil(), f)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.jiff(), f)
    }
}

impl FromStr for Date {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        // jiff takes a date out of a date-time too; a day is only a day.
        if text.contains(['T', 't', ' ']) {
            return Err(TimeError);
        }
        let day: civil::Date = text.parse().map_err(|_| TimeError)?;
        let epoch = civil::date(1970, 1, 1);
        let days = epoch.until((jiff::Unit::Day, day)).map_err(|_| TimeError)?;
        Self::from_days(days.get_days())
    }
}

impl FromStr for Time {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        let time: civil::Time = text.parse().map_err(|_| TimeError)?;
        let midnight = civil::Time::midnight();
        let micros = midnight.until((jiff::Unit::Microsecond, time)).map_err(|_| TimeError)?;
        Self::from_micros(micros.get_microseconds())
    }
}

impl FromStr for Timestamp {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        let at: jiff::Timestamp = text.parse().map_err(|_| TimeError)?;
        Self::from_micros(at.as_microsecond())
    }
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
