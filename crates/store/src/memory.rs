//! The memory engine: typed rows in compact pages, indexes, transactions and
//! files to save to and load from.
//!
//! ```text
//! session ─ locked ─ write ─ table_rows ─ pages (the rows)
//!    │         │       │         ├─ key_index   (by key, in its order)
//!  gate     catalog   log        └─ row_index   (unique: hashed; all: ordered)
//!                                plan ─ scan ─ predicate   (reads)
//! ```
//! It is the oracle of the conformance suite: what it answers is what an
//! operation means.
//!
//! # What a session sees
//! Reads are of what is committed. One transaction is open at a time, and it
//! is serializable: other sessions' writes to the tables that it has used wait
//! for its end, and so do their reads of tables that it has written to (there
//! are no old versions of rows). Operations outside a transaction take place at once
//! and whole. A waiting operation holds nothing and answers
//! [`Submitted::Waiting`](crate::engine::Submitted::Waiting); what
//! [`Session::submit`] does block on is only another thread's running
//! operation.

mod catalog;
mod compare;
mod file;
mod file_binary;
mod file_json;
mod gate;
mod hashed;
mod install;
mod key_index;
mod layout;
mod locked;
mod log;
mod ordered;
mod page;
mod plan;
mod predicate;
mod row_index;
mod scan;
mod session;
mod table_rows;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use marmota_model::{Error, ErrorKind, Result, Table};
use parking_lot::Mutex;

use crate::engine::{Capability, Engine, Session};
use catalog::Catalog;
pub use file::Format;
use file::Loaded;
use gate::Gate;
use session::MemorySession;

/// The memory engine.
pub struct Memory {
    shared: Arc<Shared>,
    capability: Capability,
}

/// What the engine's sessions share.
struct Shared {
    catalog: Arc<ArcSwap<Catalog>>,
    gate: Gate,
    closed: AtomicBool,
    /// How many sessions there were; their numbers.
    sessions: AtomicU64,
    /// Where to load from and save to, and how.
    file: Option<(PathBuf, Format)>,
    /// What a file had, once one was read; tables leave it as models ask for them.
    loaded: Mutex<Option<Loaded>>,
}

impl Shared {
    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Closed, "the memory engine is closed"));
        }
        Ok(())
    }

    /// Holds the gate, so that no transaction is open while `run` runs.
    fn between_transactions<T>(&self, run: impl FnOnce() -> Result<T>) -> Result<T> {
        struct Opened<'g>(&'g Gate);
        impl Drop for Opened<'_> {
            fn drop(&mut self) {
                self.0.open();
            }
        }
        self.gate.wait(|| Ok::<_, Error>(self.gate.try_take(u64::MAX).then_some(())))?;
        let _opened = Opened(&self.gate);
        run()
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// An empty engine.
    #[must_use]
    pub fn new() -> Self {
        Self::with(None, None)
    }

    fn with(file: Option<(PathBuf, Format)>, loaded: Option<Loaded>) -> Self {
        let shared = Shared {
            catalog: Arc::default(),
            gate: Gate::default(),
            closed: AtomicBool::new(false),
            sessions: AtomicU64::new(0),
            file,
            loaded: Mutex::new(loaded),
        };
        Self { shared: Arc::new(shared), capability: Capability::new("memory", false) }
    }

    /// The engine that a URL names: `memory:`, or `memory:data/app.mem` with a
    /// file that is loaded when the first model is registered and saved when
    /// the engine is closed. `?format=json` or `?format=binary` says how; else
    /// the name does (JSON if it ends in `.json`).
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for any other URL.
    ///
    /// ```
    /// use marmota_store::memory::Memory;
    /// assert!(Memory::from_url("memory:data/app.mem?format=binary").is_ok());
    /// assert!(Memory::from_url("memory:data/app.mem?format=xml").is_err());
    /// ```
    pub fn from_url(url: &str) -> Result<Self> {
        let refuse = || {
            let message = format!(
                "{url:?} is no URL of the memory engine; use memory: or \
                 memory:FILE?format=json or binary"
            );
            Error::new(ErrorKind::Invalid, message)
        };
        let rest = url.strip_prefix("memory:").ok_or_else(refuse)?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let format = match query {
            "" if path.ends_with(".json") => Format::Json,
            "" | "format=binary" => Format::Binary,
            "format=json" => Format::Json,
            _ => return Err(refuse()),
        };
        match path {
            "" if query.is_empty() => Ok(Self::new()),
            "" => Err(refuse()),
            path => Ok(Self::with(Some((path.into(), format)), None)),
        }
    }

    /// An engine with what [`Memory::save`] has put into a file of either
    /// format. Rows take their place when their models are registered.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the file cannot be read, [`ErrorKind::Invalid`] if
    /// it is damaged or none of ours.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::with(None, Some(file::load(path.as_ref())?)))
    }

    /// Saves everything that is committed. A crash leaves the old file or the
    /// new one, whole.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if it cannot be written; [`ErrorKind::Busy`] if a
    /// transaction stays open for too long.
    pub fn save(&self, path: impl AsRef<Path>, format: Format) -> Result<()> {
        self.shared.between_transactions(|| self.shared.save(path.as_ref(), format))
    }
}

impl Shared {
    fn save(&self, path: &Path, format: Format) -> Result<()> {
        let loaded = self.loaded.lock();
        let catalog = self.catalog.load();
        let guards: Vec<_> = catalog.slots.iter().map(|slot| slot.rows.read()).collect();
        let tables = guards.iter().map(|rows| &**rows).collect();
        let no_sections = BTreeMap::new();
        let (schema, sections) = match &*loaded {
            Some(loaded) => (loaded.schema, &loaded.tables),
            None => (0, &no_sections),
        };
        file::save(path, format, &file::Contents { schema, tables, sections })
    }

    fn prepare(&self, tables: &[Arc<Table>], version: u32) -> Result<()> {
        let mut loaded = self.loaded.lock();
        if loaded.is_none() {
            *loaded = Some(match &self.file {
                Some((path, _)) if path.exists() => file::load(path)?,
                _ => Loaded::default(),
            });
        }
        let Some(loaded) = &mut *loaded else { return Ok(()) };
        if loaded.schema > version {
            let message = format!(
                "{} was written by a program with schema version {}, and this one has {version}: \
                 use that program, or a newer one",
                loaded.path.display(),
                loaded.schema
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        self.install(tables, loaded)?;
        loaded.schema = version;
        Ok(())
    }

    fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        // A file that was never read must not be written over.
        let read = self.loaded.lock().is_some();
        let saved = match &self.file {
            Some((path, format)) if read => self.save(path, *format),
            _ => Ok(()),
        };
        if saved.is_err() {
            self.closed.store(false, Ordering::Relaxed);
        }
        saved
    }
}

impl Engine for Memory {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn prepare(&self, tables: &[Arc<Table>], version: u32) -> Result<()> {
        self.shared.between_transactions(|| {
            self.shared.check_open()?;
            self.shared.prepare(tables, version)
        })
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        self.shared.check_open()?;
        Ok(Box::new(MemorySession::new(Arc::clone(&self.shared))))
    }

    fn close(&self) -> Result<()> {
        self.shared.between_transactions(|| self.shared.close())
    }
}
