//! Loading of CSV (RFC 4180) into [`Columns`]: [`load`] for a model's rows, [`load_records`] for
//! rows of a schema made at run time, and [`Loader`] for the options.
//!
//! The first line names the columns. Fields are matched to columns by name, in any order; columns
//! without a field are ignored. A field may be quoted, and can then contain separators, line ends
//! and doubled quotes. Lines end with LF or CRLF. Empty lines and a byte order mark are skipped.
//! Texts must be UTF-8; ignored columns are not checked.
//!
//! The value is everything between two separators, including blanks. An empty field is NULL if the
//! field may be NULL, and the empty text if it is a text; `""` is always the empty text. An
//! automatic key (`i64`) without a column in the file is the row's number, from 1. Values are
//! checked like in a store: kinds, rules, then uniqueness.
//!
//! Not supported: separators of several bytes, comments, other encodings. A quote that neither
//! opens nor closes a field is an error, since its meaning is ambiguous.

mod builder;
pub(crate) mod header;
pub(crate) mod part;
pub(crate) mod run;
pub(crate) mod scan;
pub(crate) mod source;
mod unique;
mod window;

use std::fmt;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use marmota_model::{Error, ErrorKind, Model, Record, Result, Table};

use crate::Columns;
use header::Header;
use part::{Part, Plan};
use source::Source;

/// A longer record is refused: most likely a quote was not closed.
const RECORD_BYTES_MAX: usize = 16 << 20;
/// Offsets in a window have four bytes, and a window has up to twice the size of a record.
const RECORD_BYTES_END: usize = 1 << 30;
/// The least bytes per thread.
const PART_BYTES_MIN: u64 = 2 << 20;
/// More threads would mostly merge dictionaries.
const THREADS_MAX: usize = 8;

/// Loads a file of a model's rows.
///
/// ```
/// use marmota_derive::Model;
/// use marmota_columns::csv;
///
/// #[derive(Debug, PartialEq, Model)]
/// struct City {
///     id: i64,
///     name: String,
///     people: Option<u32>,
/// }
///
/// let file = std::env::temp_dir().join(format!("cities-{}.csv", std::process::id()));
/// std::fs::write(&file, "people,name\n65000,Bourges\n,\"Trois, Rivières\"\n")?;
/// let cities = csv::load::<City>(&file)?;
/// assert_eq!(cities.len(), 2);
/// assert_eq!(cities.get(1)?, City { id: 2, name: "Trois, Rivières".into(), people: None });
/// # std::fs::remove_file(file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ErrorKind::NotFound`] if the file does not exist, [`ErrorKind::Invalid`] naming the file, the
/// line, the column and what is wrong (with a violation, if a value breaks a rule),
/// [`ErrorKind::Unsupported`] for a field of a kind without a text form in CSV, [`ErrorKind::Io`]
/// if the file cannot be read.
pub fn load<M: Model>(path: impl AsRef<Path>) -> Result<Columns<M>> {
    Loader::new().load(path)
}

/// Loads a file with the rows of a table made at run time.
///
/// # Errors
/// As [`load`].
pub fn load_records(table: &Arc<Table>, path: impl AsRef<Path>) -> Result<Columns<Record>> {
    Loader::new().load_records(table, path)
}

/// Parses CSV in memory.
///
/// # Errors
/// As [`load`].
pub fn read<M: Model>(bytes: &[u8]) -> Result<Columns<M>> {
    Loader::new().read(bytes)
}

type Progress<'p> = Box<dyn Fn(u64, u64) + Sync + 'p>;

/// The options for loading CSV.
///
/// ```
/// use marmota_columns::csv::Loader;
/// let loader = Loader::new().separator(b';').threads(1);
/// # let _ = loader;
/// ```
pub struct Loader<'p> {
    separator: u8,
    threads: Option<NonZeroUsize>,
    record_bytes_max: usize,
    progress: Option<Progress<'p>>,
}

impl<'p> Loader<'p> {
    /// Returns the defaults: commas between fields, as many threads as cores (at most 8).
    #[must_use]
    pub const fn new() -> Self {
        let record_bytes_max = RECORD_BYTES_MAX;
        Self { separator: b',', threads: None, record_bytes_max, progress: None }
    }

    /// Sets the separator between fields, e.g. `b';'` or `b'\t'`. Default: `b','`.
    ///
    /// ```
    /// use marmota_columns::csv::Loader;
    /// # use marmota_derive::Model;
    /// # #[derive(Model)]
    /// # struct City { id: i64, name: String }
    /// let cities = Loader::new().separator(b';').read::<City>(b"name\nBourges\n")?;
    /// assert_eq!(cities.len(), 1);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn separator(mut self, separator: u8) -> Self {
        self.separator = separator;
        self
    }

    /// Sets the number of threads that read a large file. The rows are the same for any number.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN));
        self
    }

    /// Sets the most bytes of one record, up to 1 GB. Default: 16 MB.
    #[must_use]
    pub fn record_bytes_max(mut self, bytes: usize) -> Self {
        self.record_bytes_max = bytes.min(RECORD_BYTES_END);
        self
    }

    /// Sets a function that is called about every 100 kB, on any of the threads, with the bytes
    /// read so far and the total.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use marmota_columns::csv::Loader;
    /// let done = AtomicU64::new(0);
    /// let loader = Loader::new().progress(|bytes, _total| done.store(bytes, Ordering::Relaxed));
    /// # drop(loader);
    /// ```
    #[must_use]
    pub fn progress(mut self, progress: impl Fn(u64, u64) + Sync + 'p) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }

    /// Loads a file of a model's rows.
    ///
    /// # Errors
    /// As [`load`].
    pub fn load<M: Model>(&self, path: impl AsRef<Path>) -> Result<Columns<M>> {
        self.columns(&table_of::<M>()?, &Source::open(path.as_ref())?)
    }

    /// Loads a file with the rows of a table made at run time.
    ///
    /// # Errors
    /// As [`load`].
    pub fn load_records(
        &self,
        table: &Arc<Table>,
        path: impl AsRef<Path>,
    ) -> Result<Columns<Record>> {
        self.columns(table, &Source::open(path.as_ref())?)
    }

    /// Parses CSV in memory.
    ///
    /// # Errors
    /// As [`load`].
    pub fn read<M: Model>(&self, bytes: &[u8]) -> Result<Columns<M>> {
        self.columns(&table_of::<M>()?, &Source::Bytes(bytes))
    }

    /// Parses CSV in memory, for a table made at run time.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use marmota_columns::csv::Loader;
    /// use marmota_model::{Field, Kind, Role, Schema, Table, Value};
    /// let table = Arc::new(Table::new(Schema::new("city", vec![
    ///     Field::new("id", Kind::I64).role(Role::Key),
    ///     Field::new("name", Kind::TEXT),
    /// ]))?);
    /// let cities = Loader::new().read_records(&table, b"name\nBourges\n")?;
    /// assert_eq!(cities.record(0)?.value("name")?, &Value::from("Bourges"));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`load`].
    pub fn read_records(&self, table: &Arc<Table>, bytes: &[u8]) -> Result<Columns<Record>> {
        self.columns(table, &Source::Bytes(bytes))
    }

    fn columns<M>(&self, table: &Arc<Table>, source: &Source<'_>) -> Result<Columns<M>> {
        if matches!(self.separator, b'"' | b'\r' | b'\n') {
            let message = "a separator of CSV cannot be a quote or a line end; use `,`, `;` or a \
                           tab";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let header = Header::read(source, self.separator, self.record_bytes_max)?;
        let columns = header.columns(source, table)?;
        let (done, total) = (AtomicU64::new(header.end), source.length());
        let progress = |bytes: u64| {
            let done = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
            if let Some(progress) = &self.progress {
                progress(done.min(total), total);
            }
        };
        let plan = Plan {
            source,
            table,
            separator: self.separator,
            record_bytes_max: self.record_bytes_max,
            names: &header.names,
            columns: &columns,
            progress: &progress,
        };
        let whole = self.whole(&plan, header.end)?;
        let Ok(rows) = u32::try_from(whole.rows) else {
            let message = format!("{} has more than {} rows", source.name(), u32::MAX);
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let cells: Vec<_> = whole.builders.into_iter().map(|builder| builder.finish()).collect();
        unique::check(source.name(), table, &cells, rows)?;
        if let Some(progress) = &self.progress {
            progress(total, total);
        }
        Ok(Columns::new(Arc::clone(table), cells, rows))
    }

    /// Reads all parts and joins them.
    fn whole<'a>(&self, plan: &Plan<'a>, start: u64) -> Result<Part<'a>> {
        let length = plan.source.length();
        let mut parts = self.parts(plan, start)?.into_iter();
        let mut whole = match parts.next() {
            Some((_, first)) => first?,
            None => plan.read(start, length)?,
        };
        for (start, part) in parts {
            if whole.broken.is_some() {
                break;
            }
            if start != whole.end {
                // This part began inside of quotes, so the parts after it are wrong as well.
                whole.append(plan.read(whole.end, length)?)?;
                break;
            }
            whole.append(part?)?;
        }
        match whole.broken.take() {
            Some(broken) => Err(broken.error(plan.source)),
            None => Ok(whole),
        }
    }

    /// Reads a large source in as many parts as there are threads. Returns each part with its
    /// start.
    fn parts<'a>(&self, plan: &Plan<'a>, start: u64) -> Result<Vec<(u64, Result<Part<'a>>)>> {
        let length = plan.source.length();
        let bytes = length.saturating_sub(start);
        let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let threads = match self.threads {
            Some(threads) => threads.get(),
            None => cores().get().min((bytes / PART_BYTES_MIN) as usize),
        };
        let count = threads.clamp(1, THREADS_MAX) as u64;
        let mut starts = vec![start];
        for part in 1..count {
            starts.push(plan.line_start(start + (bytes * part / count).max(1))?);
        }
        let ends: Vec<u64> = starts[1..].iter().copied().chain([length]).collect();
        let read = |(&start, &end): (&u64, &u64)| (start, plan.read(start, end));
        std::thread::scope(|scope| {
            let mut others = Vec::new();
            for place in starts.iter().zip(&ends).skip(1) {
                let thread = std::thread::Builder::new().name("csv".to_owned());
                others.push(thread.spawn_scoped(scope, move || read(place))?);
            }
            let mut parts = vec![read((&starts[0], &ends[0]))];
            for other in others {
                parts.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            Ok(parts)
        })
    }
}

impl Default for Loader<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Loader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader")
            .field("separator", &char::from(self.separator))
            .field("threads", &self.threads)
            .field("record_bytes_max", &self.record_bytes_max)
            .finish_non_exhaustive()
    }
}

fn table_of<M: Model>() -> Result<Arc<Table>> {
    Ok(Arc::new(Table::new(M::schema().clone())?))
}
