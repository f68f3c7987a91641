//! The options of an engine: the driver's URL, and the engine's own options in it.

use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result};

/// The engine's own options; all others are the driver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// The time limit of an operation, including the wait for a connection.
    pub(crate) timeout: Duration,
    /// The most concurrent operations; more are refused.
    pub(crate) operations_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30), operations_max: 10_000 }
    }
}

/// Extracts the engine's own options from a URL: `operation_timeout_ms` and `operations_max`.
pub(crate) fn parse(url: &str) -> Result<(String, Options)> {
    let mut options = Options::default();
    let Some((base, query)) = url.split_once('?') else { return Ok((url.to_owned(), options)) };
    let mut rest = Vec::new();
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let number = || {
            value.parse::<u64>().ok().filter(|number| *number > 0).ok_or_else(|| {
                let value = marmota_model::text::excerpt(value);
                let message = format!("`{name}={value}` in the URL: write a number greater than 0");
                Error::new(ErrorKind::Invalid, message)
            })
        };
        match name {
            "operation_timeout_ms" => options.timeout = Duration::from_millis(number()?),
            "operations_max" => options.operations_max = number()?,
            _ => rest.push(option),
        }
    }
    let driver = match rest.is_empty() {
        true => base.to_owned(),
        false => format!("{base}?{}", rest.join("&")),
    };
    Ok((driver, options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_options_are_taken_out() {
        let url = "mongodb://h/db?maxPoolSize=3&operations_max=7&operation_timeout_ms=20";
        let (driver, options) = parse(url).unwrap();
        assert_eq!(driver, "mongodb://h/db?maxPoolSize=3");
        assert_eq!(options.operations_max, 7);
        assert_eq!(options.timeout, Duration::from_millis(20));
        let error = parse("mongodb://h/db?operations_max=0").unwrap_err();
        assert!(error.message().contains("operations_max=0"), "{error}");
    }
}
