//! Patterns of schedules: five or six fields, in the syntax of cron, with a time zone.

use std::fmt;

use croner::Cron;
use croner::parser::{CronParser, Seconds};
use jiff::tz::TimeZone;
use marmota_model::{Error, ErrorKind, Result, Timestamp, text};

/// The names of the fields of a pattern without seconds.
const FIELDS: [&str; 5] = ["minute", "hour", "day of month", "month", "day of week"];
/// The shorthands, which are patterns too.
const NICKNAMES: [&str; 6] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@hourly"];

/// The times of a schedule: `minute hour day-of-month month day-of-week`, in UTC or another time
/// zone.
///
/// | part | meaning |
/// |---|---|
/// | `*` | each |
/// | `1,15` | one of these |
/// | `1-5` | from 1 to 5 |
/// | `*/10` | each tenth |
/// | `jan`, `mon` | names of months and days |
/// | `L`, `#`, `W` | the last, the n-th weekday, the nearest working day |
/// | `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly` | the whole pattern |
///
/// A sixth field before the others has the seconds. The syntax is that of the crate `croner`, which
/// follows the specification OCPS 1.4.
///
/// ```
/// use marmota_jobs::CronPattern;
/// use marmota_model::Timestamp;
///
/// let pattern: CronPattern = "30 3 * * mon-fri".parse()?;
/// let friday: Timestamp = "2026-11-27T12:00:00Z".parse().unwrap();
/// assert_eq!(pattern.next_after(friday)?.to_string(), "2026-11-30T03:30:00Z");
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone)]
pub struct CronPattern {
    cron: Cron,
    zone: TimeZone,
    written: String,
}

impl CronPattern {
    /// Reads a pattern, with times in a time zone of the IANA database, such as `Europe/Paris`.
    ///
    /// A time that the clock skips in spring is run after the gap; one that it repeats in autumn is
    /// run once.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the field, its position and its value, or for a time zone that
    /// the system does not know.
    pub fn in_zone(pattern: &str, zone: &str) -> Result<Self> {
        let found = TimeZone::get(zone).map_err(|error| {
            let message = format!(
                "`{}` is not a time zone that this system knows, such as `Europe/Paris`: {error}",
                text::excerpt(zone)
            );
            Error::new(ErrorKind::Invalid, message)
        })?;
        let cron = parse(pattern)?;
        Ok(Self { cron, zone: found, written: format!("{} {zone}", pattern.trim()) })
    }

    /// Returns the first time of the pattern after another time.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if there is no such time, as for the 30th of February.
    pub fn next_after(&self, time: Timestamp) -> Result<Timestamp> {
        let invalid = |error: &dyn fmt::Display| {
            let message = format!("the schedule `{}` has no next time: {error}", self.written);
            Error::new(ErrorKind::Invalid, message)
        };
        let start = jiff::Timestamp::from_microsecond(time.micros()).map_err(|e| invalid(&e))?;
        let start = start.to_zoned(self.zone.clone());
        let next = self.cron.find_next_occurrence(&start, false).map_err(|e| invalid(&e))?;
        Timestamp::from_micros(next.timestamp().as_microsecond()).map_err(|e| invalid(&e))
    }
}

impl std::str::FromStr for CronPattern {
    type Err = Error;

    fn from_str(pattern: &str) -> Result<Self> {
        let cron = parse(pattern)?;
        Ok(Self { cron, zone: TimeZone::UTC, written: format!("{} UTC", pattern.trim()) })
    }
}

/// The pattern with its time zone.
impl fmt::Display for CronPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl fmt::Debug for CronPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CronPattern({})", self.written)
    }
}

fn parse(pattern: &str) -> Result<Cron> {
    let parser = CronParser::builder().seconds(Seconds::Optional).build();
    let cron = parser.parse(pattern).map_err(|error| explain(&parser, pattern, &error))?;
    Ok(cron)
}

/// Finds the field that is at fault: the one that is refused with all others as `*`.
#[cold]
fn explain(parser: &CronParser, pattern: &str, error: &dyn fmt::Display) -> Error {
    let shown = text::excerpt(pattern);
    let fields: Vec<&str> = pattern.split_whitespace().collect();
    let message = if pattern.trim().starts_with('@') {
        format!("`{shown}` is not a schedule; use one of {}", NICKNAMES.join(", "))
    } else if !(5..=6).contains(&fields.len()) {
        format!(
            "the schedule `{shown}` has {} fields; use 5 (minute, hour, day of month, month, day \
             of week), or 6 with the second before them, as in `30 3 * * *`",
            fields.len()
        )
    } else {
        let is_refused = |place: &usize| {
            let alone = |at| if at == *place { fields[at] } else { "*" };
            let fields: Vec<&str> = (0..fields.len()).map(alone).collect();
            parser.parse(&fields.join(" ")).is_err()
        };
        match (0..fields.len()).find(is_refused) {
            None => format!("the schedule `{shown}` is invalid: {error}"),
            Some(place) => {
                let seconds = fields.len() - FIELDS.len();
                let name = place.checked_sub(seconds).map_or("second", |place| FIELDS[place]);
                let before = fields[place].as_ptr() as usize - pattern.as_ptr() as usize;
                let position = pattern[..before].chars().count() + 1;
                format!(
                    "the schedule `{shown}` is invalid at position {position}: the {name} cannot \
                     be `{}` ({error})",
                    text::excerpt(fields[place])
                )
            }
        }
    };
    Error::new(ErrorKind::Invalid, message)
}
