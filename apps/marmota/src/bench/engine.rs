//! The rows of the table: engines and how they are opened, the settings of direct calls on the same
//! SQLite, and mORMot 2's published figures.

use std::borrow::Cow;
use std::path::Path;

use marmota::memory::Memory;
use marmota::model::text::excerpt;
use marmota::prelude::*;

use super::record::Person;
use super::servers::{ServedBy, Servers};

/// The measurements of each engine: rows per second of four kinds of insert, of reads by id, and of
/// lists through SQL and direct.
pub(super) const FIGURES: [&str; 7] =
    ["one", "batch", "transaction", "batch in tr.", "by id", "list", "list direct"];

/// The source of mORMot's figures.
pub(super) const MORMOT_SOURCE: &str = "mORMot 2 extdb benchmark, measured on comparable hardware";

/// A row of the table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Engine {
    /// Its name on the command line.
    pub(super) name: Cow<'static, str>,
    pub(super) title: Cow<'static, str>,
    place: Place,
    /// The SQLite settings for the same measurement by direct calls; `None` for engines without
    /// SQLite.
    pub(super) by_hand: Option<&'static str>,
    /// The engine with which it is compared, with the same settings but unencrypted.
    pub(super) plain: Option<&'static str>,
    /// mORMot's figures, in thousands of rows per second.
    pub(super) mormot: Option<[f64; 7]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// A file, with these options of its URL.
    Sqlite(&'static str),
    /// `alone`: the file is used exclusively, and without disk syncs.
    #[cfg(feature = "encryption")]
    Encrypted {
        alone: bool,
    },
    SqliteMemory,
    Memory,
    MemoryLog,
    #[cfg(feature = "encryption")]
    MemoryLogEncrypted,
    /// Rows of the memory engine, read through SQL.
    MemorySql,
    /// The database of this URL, which has no people.
    Url(String),
    /// A new database on a server that is started.
    Served(ServedBy),
}

const FULL: &str = "PRAGMA cache_size=-65536; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL";
const OFF: &str = "PRAGMA cache_size=-65536; PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF";
const EXCLUSIVE: &str = "PRAGMA cache_size=-65536; PRAGMA locking_mode=EXCLUSIVE; \
                         PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF";

impl Engine {
    pub(super) fn all() -> Vec<Self> {
        vec![
            Self {
                name: "sqlite-full".into(),
                title: "SQLite file, full".into(),
                place: Place::Sqlite("durability=full"),
                by_hand: Some(FULL),
                plain: None,
                mormot: Some([2.9, 133.0, 272.0, 692.0, 281.0, 1_290.0, 1_250.0]),
            },
            Self {
                name: "sqlite-off".into(),
                title: "SQLite file, off".into(),
                place: Place::Sqlite("durability=none"),
                by_hand: Some(OFF),
                plain: None,
                mormot: Some([45.0, 680.0, 277.0, 813.0, 310.0, 1_300.0, 1_350.0]),
            },
            Self {
                name: "sqlite-off-exclusive".into(),
                title: "SQLite file, off, exclusive".into(),
                place: Place::Sqlite("durability=none&exclusive=true"),
                by_hand: Some(EXCLUSIVE),
                plain: None,
                mormot: Some([145.0, 754.0, 299.0, 845.0, 486.0, 1_360.0, 1_390.0]),
            },
            #[cfg(feature = "encryption")]
            Self {
                name: "sqlite-full-encrypted".into(),
                title: "SQLite file, full, encrypted".into(),
                place: Place::Encrypted { alone: false },
                by_hand: None,
                plain: Some("sqlite-full"),
                mormot: None,
            },
            #[cfg(feature = "encryption")]
            Self {
                name: "sqlite-off-exclusive-encrypted".into(),
                title: "… off, exclusive, encrypted".into(),
                place: Place::Encrypted { alone: true },
                by_hand: None,
                plain: Some("sqlite-off-exclusive"),
                mormot: Some([61.0, 644.0, 296.0, 827.0, 477.0, 1_220.0, 990.0]),
            },
            Self {
                name: "sqlite-memory".into(),
                title: "SQLite memory".into(),
                place: Place::SqliteMemory,
                by_hand: Some(""),
                plain: None,
                mormot: Some([220.0, 842.0, 297.0, 739.0, 332.0, 1_280.0, 1_290.0]),
            },
            Self {
                name: "memory".into(),
                title: "memory engine".into(),
                place: Place::Memory,
                by_hand: None,
                plain: None,
                mormot: Some([838.0, 2_350.0, 835.0, 2_240.0, 966.0, 3_470.0, 3_620.0]),
            },
            Self {
                name: "memory-log-full".into(),
                title: "memory engine, log full".into(),
                place: Place::MemoryLog,
                by_hand: None,
                plain: None,
                mormot: None,
            },
            #[cfg(feature = "encryption")]
            Self {
                name: "memory-log-full-encrypted".into(),
                title: "… log full, encrypted".into(),
                place: Place::MemoryLogEncrypted,
                by_hand: None,
                plain: Some("memory-log-full"),
                mormot: None,
            },
            Self {
                name: "memory-sql".into(),
                title: "memory engine, read through SQL".into(),
                place: Place::MemorySql,
                by_hand: None,
                plain: None,
                mormot: Some([839.0, 2_160.0, 843.0, 2_200.0, 961.0, 770.0, 530.0]),
            },
            Self::served("remote", "remote, memory engine", ServedBy::Marmota),
        ]
    }

    /// Returns the engines whose servers are started if they are installed.
    pub(super) fn servers() -> Vec<Self> {
        let postgres_odbc = ServedBy::PostgresOdbc("psqlodbcw.so");
        let mariadb_odbc = ServedBy::MariadbOdbc("libmaodbc.so");
        vec![
            Self::served("postgres", "PostgreSQL", ServedBy::Postgres),
            Self::served("mariadb", "MariaDB", ServedBy::Mariadb),
            Self::served("odbc-postgres", "PostgreSQL over ODBC", postgres_odbc),
            Self::served("odbc-mariadb", "MariaDB over ODBC", mariadb_odbc),
        ]
    }

    fn served(name: &'static str, title: &'static str, by: ServedBy) -> Self {
        let (name, title, place) = (name.into(), title.into(), Place::Served(by));
        Self { name, title, place, by_hand: None, plain: None, mormot: None }
    }

    /// Returns the engine with this name.
    pub(super) fn parse(name: &str) -> std::result::Result<Self, String> {
        let known = || Self::all().into_iter().chain(Self::servers());
        known().find(|engine| engine.name == name).ok_or_else(|| {
            let names: Vec<_> = known().map(|engine| engine.name).collect();
            format!("there is no engine {}; the engines are {}", excerpt(name), names.join(", "))
        })
    }

    /// Parses `NAME=URL`, a database whose rows are the caller's.
    pub(super) fn parse_database(text: &str) -> std::result::Result<Self, String> {
        let named = text.split_once('=').filter(|(name, url)| {
            !name.is_empty() && !name.contains([':', '/']) && url.contains(':')
        });
        let Some((name, url)) = named else {
            return Err("use NAME=URL, such as mariadb=mariadb://ada@localhost/bench".to_owned());
        };
        let name: Cow<'static, str> = name.to_owned().into();
        let (title, place) = (name.clone(), Place::Url(url.to_owned()));
        Ok(Self { name, title, place, by_hand: None, plain: None, mormot: None })
    }

    /// Opens the engine with the model of people; `path` is a new file for engines that use one.
    pub(super) fn open(&self, path: &Path, servers: &Servers) -> Result<Store> {
        let shown = path.display();
        let builder = match &self.place {
            Place::Url(url) => marmota::open(url)?,
            Place::Served(by) => marmota::open(&servers.make_database(*by)?)?,
            Place::Sqlite(options) => marmota::open(&format!("sqlite:{shown}?{options}"))?,
            #[cfg(feature = "encryption")]
            Place::Encrypted { alone } => encrypted(path.to_owned(), *alone)?,
            Place::SqliteMemory => marmota::open("sqlite::memory:")?,
            Place::Memory => marmota::open("memory:")?,
            Place::MemoryLog => marmota::open(&format!("memory:{shown}?durability=full"))?,
            #[cfg(feature = "encryption")]
            Place::MemoryLogEncrypted => {
                let url = format!("memory:{shown}?durability=full");
                let key = || Ok(marmota::sqlite::EncryptionKey::raw([7; 32]));
                Store::builder(Memory::from_url(&url)?.key(key)?)
            }
            Place::MemorySql => {
                let first = marmota::open("sqlite::memory:")?;
                return first.database("live", Memory::new(), |it| it.model::<Person>()).open();
            }
        };
        builder.model::<Person>().open()
    }

    /// Returns true if rows are read through SQL instead of the verbs.
    pub(super) fn reads_by_sql(&self) -> bool {
        self.place == Place::MemorySql
    }

    /// Returns true if the engine may be missing on this machine.
    pub(super) const fn may_be_missing(&self) -> bool {
        matches!(self.place, Place::Url(_) | Place::Served(_))
    }

    /// Returns true if the rows remain after a measurement, unless they are deleted.
    pub(super) const fn keeps_rows(&self) -> bool {
        matches!(self.place, Place::Url(_))
    }

    /// Returns true if direct calls use a file.
    pub(super) fn is_file(&self) -> bool {
        self.place != Place::SqliteMemory
    }
}

#[cfg(feature = "encryption")]
fn encrypted(path: std::path::PathBuf, alone: bool) -> Result<marmota::store::StoreBuilder> {
    use marmota::sqlite::{Durability, EncryptionKey, Location, Sqlite, SqliteOptions};
    let durability = if alone { Durability::None } else { Durability::Full };
    let options = SqliteOptions { durability, exclusive: alone, ..SqliteOptions::default() };
    let options = options.key(|| Ok(EncryptionKey::raw([7; 32])));
    Ok(Store::builder(Sqlite::open(Location::File(path), options)?))
}
