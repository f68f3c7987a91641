//! The choice of the scheduling policy SCHED_BATCH for a server's threads (sched(7)).
//!
//! Measurements are in the design document about batch scheduling. The system call is in
//! [`crate::reactor::thread_policy`].

use std::fmt;
use std::str::FromStr;

/// When the threads of a server have the scheduling policy SCHED_BATCH of Linux: a thread that
/// wakes does not preempt the thread that runs on its core.
///
/// A database server on the same machine sends each answer by itself, and each answer wakes the
/// server's thread. With this policy the database continues instead of being interrupted, and the
/// thread finds several answers at once. A process whose policy is not the usual one (SCHED_OTHER)
/// keeps it.
///
/// ```
/// use marmota_http::BatchScheduling;
/// assert_eq!("off".parse(), Ok(BatchScheduling::Off));
/// assert!("never".parse::<BatchScheduling>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchScheduling {
    /// Used if the routes use a database server on this machine
    /// ([`Router::local_database`](crate::Router::local_database)). The default.
    #[default]
    Auto,
    /// Always used.
    On,
    /// Never used.
    Off,
}

/// A text that is not a [`BatchScheduling`]. The error contains the text.
///
/// ```
/// use marmota_http::BatchScheduling;
/// let error = "never".parse::<BatchScheduling>().unwrap_err();
/// assert_eq!(error.to_string(), "unknown batch scheduling \"never\"; use auto, on or off");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchSchedulingError(String);

impl fmt::Display for BatchSchedulingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown batch scheduling {:?}; use auto, on or off", self.0)
    }
}

impl std::error::Error for BatchSchedulingError {}

impl FromStr for BatchScheduling {
    type Err = BatchSchedulingError;

    fn from_str(text: &str) -> Result<Self, BatchSchedulingError> {
        match text {
            "auto" => Ok(Self::Auto),
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            _ => Err(BatchSchedulingError(text.to_owned())),
        }
    }
}

impl BatchScheduling {
    /// Decides for a server whose routes use this local database server, and logs the reason.
    pub(crate) fn decide(self, local_database: Option<&str>) -> bool {
        match (self, local_database) {
            (Self::Auto, Some(database)) => {
                log::info!("batch scheduling on: {database}");
                true
            }
            (Self::Auto, None) => {
                log::debug!("batch scheduling off: no database server on this machine");
                false
            }
            (Self::On, _) => {
                log::info!("batch scheduling on: as configured");
                true
            }
            (Self::Off, _) => {
                log::info!("batch scheduling off: as configured");
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_follows_the_database_and_the_others_do_not() {
        let database = Some("PostgreSQL on this machine (127.0.0.1:5432)");
        assert!(BatchScheduling::Auto.decide(database));
        assert!(!BatchScheduling::Auto.decide(None));
        assert!(BatchScheduling::On.decide(None));
        assert!(!BatchScheduling::Off.decide(database));
    }
}
