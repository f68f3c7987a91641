//! Dates, times of day and UTC timestamps as plain integers: the types and their ranges.

use std::fmt;

mod format;
mod parse;

const MICROS_PER_DAY: i64 = 86_400_000_000;
/// 0001-01-01 and 9999-12-31 as days since 1970-01-01: four-digit years sort as text, and every
/// engine can store them.
const DAYS_MIN: i32 = -719_162;
const DAYS_MAX: i32 = 2_932_896;
/// Days from 0000-03-01, which is earlier than all valid dates, to 1970-01-01.
const CIVIL_DAYS: i32 = 719_468;

/// The error for a text that is not a date, time or timestamp.
///
/// ```
/// use marmota_model::{Date, TimeError};
/// assert_eq!("2026-02-30".parse::<Date>(), Err(TimeError));
/// assert_eq!("21.11.2026".parse::<Date>(), Err(TimeError));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeError;

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a date or time in ISO 8601 format, or not in the years 1 to 9999")
    }
}

impl std::error::Error for TimeError {}

/// A calendar day, from 0001-01-01 to 9999-12-31.
///
/// The text form is that of ISO 8601, `YYYY-MM-DD`, in the proleptic Gregorian calendar. Days are
/// ordered and can be counted by [`Date::days`].
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
///
/// The text form is that of ISO 8601: `17:05:00`, with up to six decimals of the second. It is
/// written with as many decimals as needed.
///
/// ```
/// use marmota_model::Time;
/// let time: Time = "07:30:00.250".parse()?;
/// assert_eq!(time.to_string(), "07:30:00.25");
/// assert!(time < "07:31".parse()?);
/// # Ok::<(), marmota_model::TimeError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

/// A point in time to the microsecond, in UTC, in the years 1 to 9999.
///
/// The text form is that of RFC 3339. A text needs an offset (`Z` or `+01:00`), which is subtracted;
/// the point in time is always written in UTC.
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
    /// ```
    /// use marmota_model::Date;
    /// assert_eq!(Date::from_days(-1)?.to_string(), "1969-12-31");
    /// # Ok::<(), marmota_model::TimeError>(())
    /// ```
    ///
    /// # Errors
    /// [`TimeError`] outside the years 1 to 9999.
    pub const fn from_days(days: i32) -> Result<Self, TimeError> {
        if days < DAYS_MIN || days > DAYS_MAX { Err(TimeError) } else { Ok(Self(days)) }
    }

    /// Returns the days since 1970-01-01.
    ///
    /// ```
    /// use marmota_model::Date;
    /// let (from, to): (Date, Date) = ("2026-02-27".parse()?, "2026-03-02".parse()?);
    /// assert_eq!(to.days() - from.days(), 3);
    /// # Ok::<(), marmota_model::TimeError>(())
    /// ```
    #[must_use]
    pub const fn days(self) -> i32 {
        self.0
    }
}

impl Time {
    /// Returns the time that is `micros` after midnight.
    ///
    /// ```
    /// use marmota_model::Time;
    /// assert_eq!(Time::from_micros(90_000_000)?.to_string(), "00:01:30");
    /// assert!(Time::from_micros(86_400_000_000).is_err());
    /// # Ok::<(), marmota_model::TimeError>(())
    /// ```
    ///
    /// # Errors
    /// [`TimeError`] outside one day.
    pub const fn from_micros(micros: i64) -> Result<Self, TimeError> {
        if micros < 0 || micros >= MICROS_PER_DAY { Err(TimeError) } else { Ok(Self(micros)) }
    }

    /// Returns the microseconds since midnight.
    ///
    /// ```
    /// use marmota_model::Time;
    /// assert_eq!("01:00:00".parse::<Time>()?.micros(), 3_600_000_000);
    /// # Ok::<(), marmota_model::TimeError>(())
    /// ```
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }
}

impl Timestamp {
    /// Returns the point in time that is `micros` after 1970-01-01T00:00:00Z.
    ///
    /// ```
    /// use marmota_model::Timestamp;
    /// let at = Timestamp::from_micros(1_500_000)?;
    /// assert_eq!(at.to_string(), "1970-01-01T00:00:01.5Z");
    /// # Ok::<(), marmota_model::TimeError>(())
    /// ```
    ///
    /// # Errors
    /// [`TimeError`] outside the years 1 to 9999.
    pub const fn from_micros(micros: i64) -> Result<Self, TimeError> {
        const MIN: i64 = DAYS_MIN as i64 * MICROS_PER_DAY;
        const MAX: i64 = (DAYS_MAX as i64 + 1) * MICROS_PER_DAY - 1;
        if micros < MIN || micros > MAX { Err(TimeError) } else { Ok(Self(micros)) }
    }

    /// Returns the microseconds since 1970-01-01T00:00:00Z.
    ///
    /// ```
    /// use marmota_model::Timestamp;
    /// let at: Timestamp = "1970-01-01T01:00:00+01:00".parse()?;
    /// assert_eq!(at.micros(), 0);
    /// # Ok::<(), marmota_model::TimeError>(())
    /// ```
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Returns the time of the system clock.
    ///
    /// ```
    /// use marmota_model::Timestamp;
    /// let begin = Timestamp::now();
    /// assert!(begin > "2026-01-01T00:00:00Z".parse()?);
    /// # Ok::<(), marmota_model::TimeError>(())
    /// ```
    #[must_use]
    pub fn now() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        // Not `as_micros`, which divides a 128-bit number.
        Self(since.map_or(0, |since| {
            since.as_secs() as i64 * 1_000_000 + i64::from(since.subsec_micros())
        }))
    }
}

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
