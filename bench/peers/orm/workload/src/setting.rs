//! Where the rows lie and how safely: the settings of the tables, as PRAGMAs that all contenders share.

use std::path::{Path, PathBuf};

/// The table of the record, for every contender that writes its own SQL.
pub const CREATE_TABLE: &str = "CREATE TABLE person (\
    id INTEGER PRIMARY KEY, \
    first_name TEXT NOT NULL, \
    last_name TEXT NOT NULL, \
    balance INTEGER NOT NULL, \
    met_at INTEGER NOT NULL, \
    modified_at INTEGER NOT NULL, \
    created_at INTEGER NOT NULL)";

/// One table of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Setting {
    /// A SQLite file, write-ahead log, an fsync a commit.
    FileFull,
    /// A SQLite file, write-ahead log, no fsync, one connection owns the file.
    FileOff,
    /// SQLite in memory.
    Memory,
    /// No SQLite: rows of the program itself (Marmota's memory engine, or a plain `Vec`).
    Engine,
}

impl Setting {
    /// All, in the order of the report.
    pub const ALL: [Self; 4] = [Self::FileFull, Self::FileOff, Self::Memory, Self::Engine];

    /// The word on the command line and in the JSON lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::FileFull => "file-full",
            Self::FileOff => "file-off",
            Self::Memory => "memory",
            Self::Engine => "engine",
        }
    }

    /// The title of the table.
    pub fn title(self) -> &'static str {
        match self {
            Self::FileFull => "SQLite file, durable (WAL, synchronous=FULL)",
            Self::FileOff => "SQLite file, synchronous=OFF, exclusive, WAL",
            Self::Memory => "SQLite in memory",
            Self::Engine => "Memory engine (no SQLite)",
        }
    }

    /// The setting of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.name() == name)
    }

    /// Whether rows lie in a file.
    pub fn is_file(self) -> bool {
        matches!(self, Self::FileFull | Self::FileOff)
    }

    /// PRAGMAs to run, in this order, on a new connection. Each may answer a row, to be ignored.
    pub fn pragmas(self) -> &'static [&'static str] {
        match self {
            Self::FileFull => &[
                "PRAGMA page_size = 4096",
                "PRAGMA cache_size = -65536",
                "PRAGMA mmap_size = 0",
                "PRAGMA journal_mode = WAL",
                "PRAGMA synchronous = FULL",
            ],
            Self::FileOff => &[
                "PRAGMA page_size = 4096",
                "PRAGMA cache_size = -65536",
                "PRAGMA mmap_size = 0",
                "PRAGMA locking_mode = EXCLUSIVE",
                "PRAGMA journal_mode = WAL",
                "PRAGMA synchronous = OFF",
            ],
            Self::Memory => &["PRAGMA page_size = 4096"],
            Self::Engine => &[],
        }
    }
}

/// Where a contender opens its store: new and empty each time it is asked.
#[derive(Debug, Clone)]
pub struct Place {
    /// The setting to open with.
    pub setting: Setting,
    path: PathBuf,
}

impl Place {
    pub(crate) fn new(setting: Setting, folder: &Path, number: usize) -> Self {
        Self { setting, path: folder.join(format!("bench-{}-{number}.db", std::process::id())) }
    }

    /// The file, or `:memory:`.
    pub fn path(&self) -> &str {
        if self.setting.is_file() { self.path.to_str().unwrap_or("bench.db") } else { ":memory:" }
    }

    /// Removes the file and what SQLite keeps beside it; absent files are no error.
    pub(crate) fn remove(&self) {
        for end in ["", "-wal", "-shm", "-journal"] {
            let mut path = self.path.clone().into_os_string();
            path.push(end);
            let _ = std::fs::remove_file(path);
        }
    }
}
