//! A store with a table of a given size.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use marmota_derive::Model;
use marmota_memory::Memory;
use marmota_postgres::{Postgres, TemporaryPostgres};
use marmota_sqlite::Sqlite;
use marmota_store::{Store, StoreBuilder};
use tempfile::TempDir;

pub(crate) const ENGINES: [&str; 3] = ["sqlite", "memory", "postgres"];

/// The rows of a category, of any table.
pub(crate) const CATEGORY_ROWS: u64 = 50;

/// The rows that are inserted at once.
const BATCH_ROWS: u64 = 10_000;

/// The row of the tables. Its keys are 1, 2, 3, …
#[derive(Clone, Debug, Model)]
pub(crate) struct Item {
    pub(crate) id: i64,
    #[model(index)]
    pub(crate) category: i64,
    /// Has no index.
    pub(crate) amount: i64,
    #[model(max = 40)]
    pub(crate) name: String,
}

/// The same table with a further column.
#[derive(Clone, Debug, Model)]
#[model(table = "item")]
struct ItemWithNote {
    id: i64,
    #[model(index)]
    category: i64,
    amount: i64,
    #[model(max = 40)]
    name: String,
    note: Option<String>,
}

pub(crate) struct Subject {
    pub(crate) rows: u64,
    /// `None` while it is opened again.
    store: Option<Store>,
    url: String,
    pub(crate) folder: TempDir,
    /// Ends when this is dropped.
    _server: Option<TemporaryPostgres>,
}

impl Subject {
    /// Makes a table with this number of rows.
    pub(crate) fn with_rows(engine: &str, rows: u64) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (url, server) = place(engine, folder.path())?;
        let store = builder(&url)?.model::<Item>().open()?;
        let mut first = 0;
        while first < rows {
            let last = rows.min(first + BATCH_ROWS);
            let items: Vec<Item> = (first..last).map(item).collect();
            store.insert_many(&items).run()?;
            first = last;
        }
        Ok(Self { rows, store: Some(store), url, folder, _server: server })
    }

    pub(crate) fn store(&self) -> Result<&Store> {
        self.store.as_ref().ok_or_else(|| anyhow!("the store is closed"))
    }

    /// Closes the store.
    pub(crate) fn close(&mut self) -> Result<()> {
        match self.store.take() {
            Some(store) => Ok(store.close()?),
            None => Ok(()),
        }
    }

    /// Opens the store again, which must be closed.
    pub(crate) fn open(&mut self) -> Result<()> {
        self.store = Some(builder(&self.url)?.model::<Item>().open()?);
        Ok(())
    }

    /// Opens the store again with a further column in its table.
    pub(crate) fn open_with_column(&mut self) -> Result<()> {
        self.store = Some(builder(&self.url)?.model::<ItemWithNote>().open()?);
        Ok(())
    }

    /// Returns a file that does not exist.
    pub(crate) fn new_file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns true if the database makes its own backups.
    pub(crate) fn has_backups(&self) -> bool {
        self._server.is_none()
    }
}

/// Returns a row, whose key the database makes.
pub(crate) fn item(number: u64) -> Item {
    // Spreads the rows of a category over the table.
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    Item {
        id: 0,
        category: (number / CATEGORY_ROWS) as i64,
        amount: mixed as i64,
        name: format!("item {mixed}"),
    }
}

/// Returns the URL of an empty database, which is in the folder or on a server that ends when it is
/// dropped.
pub(crate) fn place(engine: &str, folder: &Path) -> Result<(String, Option<TemporaryPostgres>)> {
    if engine == "postgres" {
        let server = TemporaryPostgres::start(&[])?;
        return Ok((server.make_database()?, Some(server)));
    }
    let file = folder.join("database").display().to_string();
    Ok((format!("{engine}:{file}?durability=relaxed"), None))
}

/// Returns the builder of a store at this URL.
pub(crate) fn builder(url: &str) -> Result<StoreBuilder> {
    Ok(match url.split_once(':').map_or(url, |(scheme, _)| scheme) {
        "sqlite" => Store::builder(Sqlite::from_url(url)?),
        "memory" => Store::builder(Memory::from_url(url)?),
        _ => Store::builder(Postgres::from_url(url)?),
    })
}
