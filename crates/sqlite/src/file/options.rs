//! The location of a database and its options.

use std::path::PathBuf;
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::Durability;
#[cfg(feature = "encryption")]
use marmota_store::key::EncryptionKey;
use marmota_store::key::{KeySource, refuse_secrets};

/// The location of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In a file, created if it is missing, with a log and its index next to it.
    File(PathBuf),
    /// In memory, for as long as the engine lives.
    Memory,
}

/// The options of a database.
///
/// ```
/// use marmota_sqlite::{Durability, SqliteOptions};
/// let options = SqliteOptions { durability: Durability::Relaxed, ..SqliteOptions::default() };
/// assert!(!options.exclusive);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqliteOptions {
    /// The durability of commits. A write may request another.
    pub durability: Durability,
    /// True if no other process (nor another engine of this one) may open the file. Reads and
    /// writes then share one connection, which saves the locks on the file, but no two of them run
    /// at once: for one busy thread.
    pub exclusive: bool,
    /// The most memory for cached pages of each connection, in bytes.
    pub cache_bytes_max: u64,
    /// The time that an operation waits for its turn to write before it fails with
    /// [`ErrorKind::Busy`], in milliseconds.
    pub busy_timeout_ms: u32,
    /// True if a missing folder of the file is created (with access for its owner only). Default:
    /// false, which returns an error that names the folder.
    pub create_folders: bool,
    /// The most writes that wait for their turn or for the disk; further ones fail with
    /// [`ErrorKind::Busy`].
    pub writes_waiting_max: usize,
    /// The time after which a list, a count, SQL or a delete by a filter fails with
    /// [`ErrorKind::Timeout`], in milliseconds; 0 if unlimited. A write that fails this way leaves
    /// no changes. Default: 30,000.
    pub read_deadline_ms: u32,
    /// The most reads that continue on helper threads or wait for one; further ones fail with
    /// [`ErrorKind::Busy`]. Default: 256.
    pub scans_max: usize,
    /// The source of an encrypted file's key; [`SqliteOptions::key`] sets it. If `None`, the file
    /// is not encrypted.
    #[cfg(feature = "encryption")]
    pub key: Option<KeySource>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            durability: Durability::Full,
            exclusive: false,
            cache_bytes_max: 64 << 20,
            busy_timeout_ms: 5_000,
            create_folders: false,
            writes_waiting_max: 16_384,
            read_deadline_ms: 30_000,
            scans_max: 256,
            #[cfg(feature = "encryption")]
            key: None,
        }
    }
}

#[cfg(feature = "encryption")]
impl SqliteOptions {
    /// Encrypts the file with the key that `ask` returns: at each connection if it is a raw key,
    /// once per engine if it is a passphrase. A file that is not encrypted is refused;
    /// [`Sqlite::rekey`](crate::Sqlite::rekey) encrypts it.
    ///
    /// ```
    /// use marmota_sqlite::{EncryptionKey, Location, SqliteOptions, Sqlite};
    /// # let folder = std::env::temp_dir().join(format!("marmota-key-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let options = SqliteOptions::default().key(|| EncryptionKey::passphrase("correct horse".to_owned()));
    /// let engine = Sqlite::open(Location::File(folder.join("app.db")), options)?;
    /// # drop(engine);
    /// # std::fs::remove_dir_all(folder).ok();
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn key(mut self, ask: impl Fn() -> Result<EncryptionKey> + Send + Sync + 'static) -> Self {
        self.key = Some(KeySource::new(ask));
        self
    }

    /// Takes the key from the default variable, if that is set and the URL names no variable.
    pub(crate) fn take_key_from_environment(&mut self, location: &Location) -> Result<()> {
        let is_file = matches!(location, Location::File(_));
        if self.key.is_none() && is_file {
            self.key = KeySource::usual();
        }
        Ok(())
    }

    pub(crate) fn refuse_key_of_memory(&self) -> Result<()> {
        match self.key {
            None => Ok(()),
            Some(_) => Err(Error::new(
                ErrorKind::Invalid,
                "a database in memory cannot be encrypted: leave the key out, or name a file",
            )),
        }
    }
}

impl SqliteOptions {
    /// Returns the time limit of a read; `None` if unlimited.
    pub(crate) fn read_deadline(&self) -> Option<Duration> {
        (self.read_deadline_ms > 0).then(|| Duration::from_millis(self.read_deadline_ms.into()))
    }
}

#[cfg(not(feature = "encryption"))]
impl SqliteOptions {
    /// Refuses a key in the environment: ignoring it would leave the file unencrypted.
    #[allow(clippy::unused_self, clippy::needless_pass_by_ref_mut, reason = "with keys it is used")]
    pub(crate) fn take_key_from_environment(&mut self, location: &Location) -> Result<()> {
        let is_file = matches!(location, Location::File(_));
        if is_file && KeySource::usual().is_some() {
            let message = "MARMOTA_KEY is set, but this build does not support encryption: build \
                           with the feature `encryption`, or unset the variable";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(())
    }

    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "with keys it is used")]
    pub(crate) fn refuse_key_of_memory(&self) -> Result<()> {
        Ok(())
    }
}

/// Parses `sqlite:data/app.db?durability=relaxed` or `sqlite::memory:`.
pub(crate) fn parse(url: &str) -> Result<(Location, SqliteOptions)> {
    refuse_secrets(url)?;
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
    let mut options = SqliteOptions::default();
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        if name == "key_env" {
            set_key_env(&mut options, value)?;
            continue;
        }
        set(&mut options, name, value).map_err(&refuse)?;
    }
    Ok((location, options))
}

fn set_key_env(options: &mut SqliteOptions, name: &str) -> Result<()> {
    let source = KeySource::named(name)?;
    #[cfg(feature = "encryption")]
    {
        options.key = Some(source);
        Ok(())
    }
    #[cfg(not(feature = "encryption"))]
    {
        let _ = (options, source);
        let message = "the option `key_env` needs a build with the feature `encryption`";
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}

fn set(options: &mut SqliteOptions, name: &str, value: &str) -> Result<(), String> {
    let not = |what: &str| format!("the option `{name}` must be {what}, not `{value}`");
    match name {
        "durability" => {
            options.durability = match value {
                "full" => Durability::Full,
                "relaxed" => Durability::Relaxed,
                "none" => Durability::None,
                _ => return Err(not("full, relaxed or none")),
            }
        }
        "exclusive" => {
            options.exclusive = match value {
                "true" => true,
                "false" => false,
                _ => return Err(not("true or false")),
            }
        }
        "create_folders" => {
            options.create_folders = match value {
                "true" => true,
                "false" => false,
                _ => return Err(not("true or false")),
            }
        }
        "cache_bytes_max" => {
            options.cache_bytes_max = value.parse().map_err(|_| not("a number of bytes"))?;
        }
        "writes_waiting_max" => {
            options.writes_waiting_max = value.parse().map_err(|_| not("a number of writes"))?;
        }
        "busy_timeout_ms" => {
            options.busy_timeout_ms = value.parse().map_err(|_| not("a number of milliseconds"))?;
        }
        "read_deadline_ms" => {
            options.read_deadline_ms =
                value.parse().map_err(|_| not("a number of milliseconds"))?;
        }
        "scans_max" => {
            options.scans_max = value.parse().map_err(|_| not("a number of reads"))?;
        }
        _ => {
            return Err(format!(
                "there is no option `{name}`; there are durability, exclusive, create_folders, \
                 cache_bytes_max, busy_timeout_ms, writes_waiting_max, read_deadline_ms, \
                 scans_max and key_env"
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
            ("sqlite:a?durability=some", "full, relaxed or none"),
            ("sqlite:a?exclusive=1", "true or false"),
            ("sqlite:a?busy_timeout_ms=-1", "milliseconds"),
        ] {
            let error = parse(url).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn a_key_in_a_url_is_refused_and_not_repeated() {
        for url in [
            "sqlite:a?key=hunter2",
            "sqlite:a?durability=some&KEY=hunter2",
            "sqlite:a?passphrase=hunter2&key_env=X",
            "file:a?hexkey=hunter2",
            "sqlite:a?key_env=hunter2+",
            "sqlite:a?key_env=2hunter2",
        ] {
            let error = parse(url).unwrap_err();
            assert!(error.to_string().contains("environment variable"), "{error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
