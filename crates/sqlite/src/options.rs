//! Where a database lies and how it is kept.

use std::path::PathBuf;

use marmota_model::{Error, ErrorKind, Result};

/// Where a database lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In a file, made if it is missing, with a log and its index beside it.
    File(PathBuf),
    /// In memory, for as long as the engine lives.
    Memory,
}

/// What survives what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// What was acknowledged survives a loss of power: each commit waits for
    /// the disk.
    #[default]
    Full,
    /// What was acknowledged survives the end of the process; a loss of power
    /// may take the last seconds, but leaves the file sound.
    Relaxed,
    /// As relaxed, but a loss of power may damage the file.
    Off,
}

/// How a database is kept.
///
/// ```
/// use marmota_sqlite::{Durability, Options};
/// let options = Options { durability: Durability::Relaxed, ..Options::default() };
/// assert!(!options.exclusive);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What survives what.
    pub durability: Durability,
    /// True if no other process (nor another engine of this one) may open the
    /// file. Reads and writes then share one connection, which saves the locks
    /// on the file, but no two of them run at once: for one busy thread.
    pub exclusive: bool,
    /// The most memory that each connection keeps pages in, in bytes.
    pub cache_bytes_max: u64,
    /// How long an operation waits for its turn to write before it fails with
    /// [`ErrorKind::Busy`], in milliseconds.
    pub busy_timeout_ms: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Full,
            exclusive: false,
            cache_bytes_max: 64 << 20,
            busy_timeout_ms: 5_000,
        }
    }
}

/// Reads `sqlite:data/app.db?durability=relaxed` or `sqlite::memory:`.
pub(crate) fn parse(url: &str) -> Result<(Location, Options)> {
    let refuse = |why: String| {
        let url = marmota_model::text::excerpt(url);
        let form = "sqlite:folder/file.db?durability=relaxed&exclusive=true, or sqlite::memory:";
        Error::new(ErrorKind::Invalid, format!("`{url}`: {why}; write {form}"))
    };
    let Some(rest) = url.strip_prefix("sqlite:") else {
        return Err(refuse("does not begin with `sqlite:`".to_owned()));
    };
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = path.strip_prefix("//").unwrap_or(path);
    let location = match path {
        "" => return Err(refuse("names no file".to_owned())),
        ":memory:" => Location::Memory,
        path => Location::File(path.into()),
    };
    let mut options = Options::default();
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        set(&mut options, name, value).map_err(&refuse)?;
    }
    Ok((location, options))
}

fn set(options: &mut Options, name: &str, value: &str) -> Result<(), String> {
    let not = |what: &str| format!("the option `{name}` is {what}, not `{value}`");
    match name {
        "durability" => {
            options.durability = match value {
                "full" => Durability::Full,
                "relaxed" => Durability::Relaxed,
                "off" => Durability::Off,
                _ => return Err(not("full, relaxed or off")),
            }
        }
        "exclusive" => {
            options.exclusive = match value {
                "true" => true,
                "false" => false,
                _ => return Err(not("true or false")),
            }
        }
        "cache_bytes_max" => {
            options.cache_bytes_max = value.parse().map_err(|_| not("a number of bytes"))?;
        }
        "busy_timeout_ms" => {
            options.busy_timeout_ms = value.parse().map_err(|_| not("a number of milliseconds"))?;
        }
        _ => {
            return Err(format!(
                "there is no option `{name}`; there are durability, exclusive, \
                 cache_bytes_max and busy_timeout_ms"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_say_where_and_how() {
        let (location, options) =
            parse("sqlite:data/app.db?durability=relaxed&exclusive=true").unwrap();
        assert_eq!(location, Location::File("data/app.db".into()));
        assert_eq!(options.durability, Durability::Relaxed);
        assert!(options.exclusive);
        assert_eq!(parse("sqlite::memory:").unwrap().0, Location::Memory);
        assert_eq!(parse("sqlite:///a.db").unwrap().0, Location::File("/a.db".into()));
        let (_, options) = parse("sqlite:a?busy_timeout_ms=10&cache_bytes_max=4096").unwrap();
        assert_eq!((options.busy_timeout_ms, options.cache_bytes_max), (10, 4096));
    }

    #[test]
    fn what_is_unknown_is_refused_by_name() {
        for (url, part) in [
            ("postgres:x", "`sqlite:`"),
            ("sqlite:", "names no file"),
            ("sqlite:a?durable=yes", "no option `durable`"),
            ("sqlite:a?durability=some", "full, relaxed or off"),
            ("sqlite:a?exclusive=1", "true or false"),
            ("sqlite:a?busy_timeout_ms=-1", "milliseconds"),
        ] {
            let error = parse(url).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
