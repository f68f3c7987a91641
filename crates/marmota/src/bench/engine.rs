//! The rows of the table: engines and how they are opened, what is done by
//! hand on the same SQLite beside them, and what mORMot 2 says of its own.

use std::path::Path;

use marmota::model::text::excerpt;
use marmota::prelude::*;

/// What is measured of each: rows a second of four ways to insert, of reads by
/// id, and of lists through SQL and direct.
pub(super) const FIGURES: [&str; 7] =
    ["one", "batch", "transaction", "batch in tr.", "by id", "list", "list direct"];

/// Where mORMot's figures are from.
pub(super) const MORMOT_SOURCE: &str = "mORMot 2 extdb benchmark, measured on such a machine";

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Engine {
    /// Its name on the command line.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    place: Place,
    /// How SQLite is set up for the same by hand; none where there is no SQLite.
    pub(super) by_hand: Option<&'static str>,
    /// mORMot's figures, in thousands of rows a second.
    pub(super) mormot: Option<[f64; 7]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Options of a URL behind a file's name.
    Sqlite(&'static str),
    #[cfg(feature = "encryption")]
    Encrypted,
    SqliteMemory,
    Memory,
    MemoryLog,
}

const FULL: &str = "PRAGMA cache_size=-65536; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL";
const OFF: &str = "PRAGMA cache_size=-65536; PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF";
const EXCLUSIVE: &str = "PRAGMA cache_size=-65536; PRAGMA locking_mode=EXCLUSIVE; \
                         PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF";

impl Engine {
    pub(super) fn all() -> Vec<Self> {
        vec![
            Self {
                name: "sqlite-full",
                title: "SQLite file, full",
                place: Place::Sqlite("durability=full"),
                by_hand: Some(FULL),
                mormot: Some([2.9, 133.0, 272.0, 692.0, 281.0, 1_290.0, 1_250.0]),
            },
            Self {
                name: "sqlite-off",
                title: "SQLite file, off",
                place: Place::Sqlite("durability=none"),
                by_hand: Some(OFF),
                mormot: Some([45.0, 680.0, 277.0, 813.0, 310.0, 1_300.0, 1_350.0]),
            },
            Self {
                name: "sqlite-off-exclusive",
                title: "SQLite file, off, exclusive",
                place: Place::Sqlite("durability=none&exclusive=true"),
                by_hand: Some(EXCLUSIVE),
                mormot: Some([145.0, 754.0, 299.0, 845.0, 486.0, 1_360.0, 1_390.0]),
            },
            #[cfg(feature = "encryption")]
            Self {
                name: "sqlite-off-exclusive-encrypted",
                title: "the same, encrypted",
                place: Place::Encrypted,
                by_hand: None,
                mormot: Some([61.0, 644.0, 296.0, 827.0, 477.0, 1_220.0, 990.0]),
            },
            Self {
                name: "sqlite-memory",
                title: "SQLite memory",
                place: Place::SqliteMemory,
                by_hand: Some(""),
                mormot: Some([220.0, 842.0, 297.0, 739.0, 332.0, 1_280.0, 1_290.0]),
            },
            Self {
                name: "memory",
                title: "memory engine",
                place: Place::Memory,
                by_hand: None,
                mormot: Some([838.0, 2_350.0, 835.0, 2_240.0, 966.0, 3_470.0, 3_620.0]),
            },
            Self {
                name: "memory-log-full",
                title: "memory engine, log full",
                place: Place::MemoryLog,
                by_hand: None,
                mormot: None,
            },
        ]
    }

    /// The engine of that name.
    pub(super) fn parse(name: &str) -> std::result::Result<Self, String> {
        Self::all().into_iter().find(|engine| engine.name == name).ok_or_else(|| {
            let names: Vec<_> = Self::all().iter().map(|engine| engine.name).collect();
            format!("there is no engine {}; there are {}", excerpt(name), names.join(", "))
        })
    }

    /// Opens it with a file that is not there yet, if it takes one.
    pub(super) fn open(&self, path: &Path) -> Result<marmota::store::StoreBuilder> {
        let path = path.display();
        match self.place {
            Place::Sqlite(options) => marmota::open(&format!("sqlite:{path}?{options}")),
            #[cfg(feature = "encryption")]
            Place::Encrypted => encrypted(path.to_string().into()),
            Place::SqliteMemory => marmota::open("sqlite::memory:"),
            Place::Memory => marmota::open("memory:"),
            Place::MemoryLog => marmota::open(&format!("memory:{path}?durability=full")),
        }
    }

    /// True if what is done by hand is done to a file.
    pub(super) fn is_file(&self) -> bool {
        self.place != Place::SqliteMemory
    }
}

#[cfg(feature = "encryption")]
fn encrypted(path: std::path::PathBuf) -> Result<marmota::store::StoreBuilder> {
    use marmota::sqlite::{Durability, Key, Location, Options, Sqlite};
    let options = Options { durability: Durability::None, exclusive: true, ..Options::default() };
    let options = options.key(|| Ok(Key::raw([7; 32])));
    Ok(Store::builder(Sqlite::open(Location::File(path), options)?))
}
