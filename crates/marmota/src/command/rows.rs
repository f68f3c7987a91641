//! `export` and `import`: the rows of a table as CSV, JSON or NDJSON.
//!
//! ```text
//! $ people export person --format csv > people.csv
//! $ people import person people.csv --dry-run
//! people.csv:4: last_name = "": must not be empty
//! people: people.csv: nothing was imported
//! ```
//!
//! | format | a row | absent and NULL |
//! |---|---|---|
//! | `csv` (RFC 4180) | a record; the first has the names of the fields | an empty cell is NULL, or absent in a field that cannot be NULL |
//! | `json` | an object in an array | as in REST |
//! | `ndjson` | an object on a line | as in REST |
//!
//! An import is one transaction: all rows are stored, or none. Fields that the store sets
//! (`created_at`, `updated_at`, `version`) are exported, and ignored by an import.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use marmota_model::text::counted;
use marmota_model::{
    Error, ErrorKind, KeyKind, Kind, Record, Result, Role, RowQuery, Scratch, Table, ValueRef,
    Violation, json as row_json, parse_filter,
};
use marmota_store::{Store, Transaction};
use serde_json::json;
use serde_json::value::RawValue;

use super::{Command, Database, Done, JsonOutput, OutputError, complain, notice};

/// Rows that are read at once.
const PAGE_ROWS: u64 = 1_000;
/// Invalid rows that are reported before an import ends.
const FAULTS_MAX: usize = 20;

/// A format of rows.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum RowFormat {
    /// Comma-separated values, with the names of the fields in the first record
    Csv,
    /// An array of objects
    Json,
    /// An object on each line
    Ndjson,
}

impl RowFormat {
    /// Returns the format by the extension of a file name.
    fn of_path(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?;
        Self::from_str(extension, true).ok()
    }
}

/// Writes the rows of a table to standard output or to a file
///
/// All fields are written, in the order of the key. The rows are read in pages while others write; a
/// row that exists during the whole export is written once.
#[derive(Args)]
pub(super) struct Export {
    /// The table
    table: String,
    #[command(flatten)]
    database: Database,
    /// The format. Default: that of the extension of --to, otherwise ndjson
    #[arg(long)]
    format: Option<RowFormat>,
    /// Only rows that match this filter, as in REST: year > 1900 and name ~ 'cur'
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,
    /// The file, which must not exist; `-` is standard output
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

/// Inserts rows from a file into a table, all or none
///
/// A row with an invalid field is reported with its line. Fields that the store sets are ignored.
#[derive(Args)]
pub(super) struct Import {
    /// The table
    table: String,
    /// The file; `-` for standard input
    file: PathBuf,
    #[command(flatten)]
    database: Database,
    /// The format. Default: that of the file's extension
    #[arg(long)]
    format: Option<RowFormat>,
    /// Write over rows that have the same key or the same unique value
    #[arg(long)]
    update: bool,
    /// Insert the rows, report what is wrong, and undo it all
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: JsonOutput,
}

impl Export {
    /// Writes the rows.
    pub(super) fn run(&self, command: &Command) -> Done {
        let store = command.builder(command.url(&self.database))?.open()?;
        let table = store.table(&self.table)?;
        let file = self.to.as_deref().filter(|path| *path != Path::new("-"));
        let of_file = file.and_then(RowFormat::of_path);
        let format = self.format.or(of_file).unwrap_or(RowFormat::Ndjson);
        let filter =
            self.filter.as_deref().map(|text| parse_filter(&table, text)?.into_expr_for(&table));
        let query = RowQuery {
            filter: filter.transpose()?,
            limit: Some(PAGE_ROWS),
            fields: Some(table.all()),
            ..RowQuery::new()
        };
        let out: Box<dyn Write> = match file {
            None => Box::new(io::stdout().lock()),
            Some(path) => Box::new(
                File::create_new(path)
                    .map_err(|error| format!("cannot write {}: {error}", path.display()))?,
            ),
        };
        let rows =
            RowWriter::new(out, format, &table).and_then(|rows| rows.write_all(&store, &query));
        let rows = rows.map_err(|error| match error {
            ExportError::Store(error) => Box::<dyn std::error::Error>::from(error),
            ExportError::Output(error) => OutputError::from(error).into(),
        })?;
        if let Some(path) = file {
            notice(format_args!("{}: {}", path.display(), counted(rows, "row")));
        }
        store.close()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// An error of an export: of the store, or of the output.
enum ExportError {
    Store(Error),
    Output(io::Error),
}

impl From<Error> for ExportError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Writes rows in a format.
struct RowWriter<'t> {
    out: BufWriter<Box<dyn Write>>,
    format: RowFormat,
    table: &'t Arc<Table>,
    rows: u64,
}

impl<'t> RowWriter<'t> {
    fn new(
        out: Box<dyn Write>,
        format: RowFormat,
        table: &'t Arc<Table>,
    ) -> std::result::Result<Self, ExportError> {
        let mut writer = Self { out: BufWriter::new(out), format, table, rows: 0 };
        if format == RowFormat::Csv {
            let names = table.fields().iter().map(|field| field.name.to_string()).collect();
            writer.write_cells(names)?;
        }
        Ok(writer)
    }

    /// Writes all rows of a query, page by page, and returns their number.
    fn write_all(
        mut self,
        store: &Store,
        query: &RowQuery,
    ) -> std::result::Result<u64, ExportError> {
        let mut last: Option<Record> = None;
        loop {
            let list = store.list_records(self.table).query(query.clone());
            let page = match &last {
                None => list.run()?,
                Some(last) => list.after(last).run()?,
            };
            for record in &page {
                self.write(record)?;
            }
            let is_last = (page.len() as u64) < PAGE_ROWS;
            last = page.into_iter().last();
            if is_last || last.is_none() {
                break;
            }
        }
        if self.format == RowFormat::Json {
            self.out.write_all(if self.rows == 0 { b"[]\n" } else { b"\n]\n" })?;
        }
        self.out.flush()?;
        Ok(self.rows)
    }

    fn write(&mut self, record: &Record) -> std::result::Result<(), ExportError> {
        let row = record.as_row();
        match self.format {
            RowFormat::Csv => {
                let fields = self.table.fields().iter().zip(&row);
                let cells = fields.map(|(field, value)| cell(&field.kind, *value)).collect();
                self.write_cells(cells)?;
            }
            RowFormat::Json | RowFormat::Ndjson => {
                let mut line = match (self.format, self.rows) {
                    (RowFormat::Json, 0) => b"[\n".to_vec(),
                    (RowFormat::Json, _) => b",\n".to_vec(),
                    _ => Vec::new(),
                };
                row_json::write_row(&mut line, self.table, self.table.all(), &row);
                if self.format == RowFormat::Ndjson {
                    line.push(b'\n');
                }
                self.out.write_all(&line)?;
            }
        }
        self.rows += 1;
        Ok(())
    }

    fn write_cells(&mut self, cells: Vec<String>) -> io::Result<()> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(cells).map_err(io::Error::other)?;
        self.out.write_all(&writer.into_inner().map_err(io::Error::other)?)
    }
}

/// Returns the text of a value in CSV: that of its JSON, without the quotes of texts.
fn cell(kind: &Kind, value: ValueRef<'_>) -> String {
    if matches!(value, ValueRef::Null | ValueRef::Absent) {
        return String::new();
    }
    let mut json = Vec::new();
    row_json::write_value_as(&mut json, kind, value);
    match (kind, serde_json::from_slice(&json)) {
        // A JSON text keeps its quotes, because the cell is JSON.
        (kind, Ok(text)) if !matches!(kind, Kind::Json) => text,
        _ => String::from_utf8_lossy(&json).into_owned(),
    }
}

impl Import {
    /// Inserts the rows.
    pub(super) fn run(&self, command: &Command) -> Done {
        let name = self.file.display().to_string();
        let format = self.format.or_else(|| RowFormat::of_path(&self.file)).ok_or_else(|| {
            format!("the format of {name} is unknown: add --format csv, json or ndjson")
        })?;
        let (input, bytes): (Box<dyn Read>, u64) = match self.file.to_str() {
            Some("-") => (Box::new(io::stdin().lock()), 0),
            _ => {
                let file = File::open(&self.file)
                    .map_err(|error| format!("cannot read {name}: {error}"))?;
                let bytes = file.metadata().map_or(0, |metadata| metadata.len());
                (Box::new(file), bytes)
            }
        };
        let bar = bar(bytes);
        let input = BufReader::new(bar.wrap_read(input));
        let store = command.builder(command.url(&self.database))?.open()?;
        let table = store.table(&self.table)?;
        let transaction = store.begin_run()?;
        let mut import = Importing {
            transaction: &transaction,
            table: &table,
            updates: self.update,
            rows: 0,
            faults: Vec::new(),
        };
        let read = import.read(input, format);
        bar.finish_and_clear();
        let Importing { rows, mut faults, .. } = import;
        if let Err(error) = read {
            faults.push(error.message().to_owned());
        }
        let is_done = faults.is_empty() && !self.dry_run;
        if is_done {
            transaction.commit().run()?;
        } else {
            transaction.rollback().run()?;
        }
        drop(transaction);
        store.close()?;
        let json = || {
            json!({
                "file": name,
                "table": self.table,
                "rows": rows,
                "is_imported": is_done,
                "errors": faults,
            })
        };
        if !faults.is_empty() {
            match self.output.is_json() {
                true => self.output.notice(json, String::new),
                false => faults.iter().for_each(|fault| complain(format_args!("{name}:{fault}"))),
            }
            return Err(format!("{name}: nothing was imported").into());
        }
        self.output.notice(json, || match is_done {
            true => format!("{name}: {} imported into {}", counted(rows, "row"), self.table),
            false => format!("{name}: {} valid; nothing was imported", counted(rows, "row")),
        });
        Ok(ExitCode::SUCCESS)
    }
}

/// An import in progress.
struct Importing<'s> {
    transaction: &'s Transaction,
    table: &'s Arc<Table>,
    /// Existing rows are updated.
    updates: bool,
    /// The rows that were read.
    rows: u64,
    /// Each invalid row with its line.
    faults: Vec<String>,
}

impl Importing<'_> {
    /// Reads all rows. An error, which ends the import, begins with its line.
    fn read(&mut self, input: impl BufRead, format: RowFormat) -> Result<()> {
        match format {
            RowFormat::Csv => self.read_csv(input),
            RowFormat::Json => self.read_json(input),
            RowFormat::Ndjson => self.read_lines(input),
        }
    }

    fn read_lines(&mut self, mut input: impl BufRead) -> Result<()> {
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            if input.read_until(b'\n', &mut line).map_err(|error| at(number, &error))? == 0 {
                break;
            }
            if !line.trim_ascii().is_empty() {
                self.row(number, &line)?;
            }
        }
        Ok(())
    }

    fn read_json(&mut self, mut input: impl BufRead) -> Result<()> {
        let mut text = String::new();
        input.read_to_string(&mut text).map_err(|error| at(1, &error))?;
        let rows: Vec<&RawValue> = serde_json::from_str(&text).map_err(|error| {
            at(error.line() as u64, &format!("not an array of objects: {error}"))
        })?;
        let mut seen = 0;
        let mut line = 1;
        for row in rows {
            // The rows are parts of the text, in its order.
            let start = row.get().as_ptr() as usize - text.as_ptr() as usize;
            line += text[seen..start].matches('\n').count() as u64;
            seen = start;
            self.row(line, row.get().as_bytes())?;
        }
        Ok(())
    }

    fn read_csv(&mut self, input: impl BufRead) -> Result<()> {
        let mut reader = csv::Reader::from_reader(input);
        let names = reader.headers().map_err(|error| at(1, &error))?.clone();
        let fields: Vec<usize> = names
            .iter()
            .map(|name| self.table.position(name).map_err(|error| at(1, &error.message())))
            .collect::<Result<_>>()?;
        for record in reader.into_records() {
            let record = record.map_err(|error| {
                let line = error.position().map_or(1, csv::Position::line);
                at(line, &error)
            })?;
            let line = record.position().map_or(1, csv::Position::line);
            let mut object = vec![b'{'];
            for (&position, text) in fields.iter().zip(&record) {
                let field = &self.table.fields()[position];
                let is_text = matches!(field.kind, Kind::Text { .. });
                if text.is_empty() && (field.nullable || !is_text) {
                    // An absent field is NULL, or has its default.
                    continue;
                }
                if object.len() > 1 {
                    object.push(b',');
                }
                object.extend_from_slice(self.table.json_key(position));
                member(&mut object, &field.kind, text);
            }
            object.push(b'}');
            self.row(line, &object)?;
        }
        Ok(())
    }

    /// Inserts one row. After the first invalid row, the others are only checked.
    fn row(&mut self, line: u64, object: &[u8]) -> Result<()> {
        self.rows += 1;
        let scratch = Scratch::new();
        let mut violations = Vec::new();
        let mut row = vec![ValueRef::Absent; self.table.fields().len()];
        if let Err(error) =
            row_json::read_object(self.table, object, &scratch, &mut row, &mut violations)
        {
            return Err(at(line, &error.message()));
        }
        for (value, field) in row.iter_mut().zip(self.table.fields()) {
            if !matches!(field.role, Role::Plain | Role::Key) {
                *value = ValueRef::Absent;
            }
        }
        if violations.is_empty() {
            let record = Record::from_row(Arc::clone(self.table), &row);
            let inserted = match self.updates {
                true => self.transaction.upsert_record(&record).run().map(drop),
                false => self.transaction.insert_record(&record).run().map(drop),
            };
            let Err(error) = inserted else { return Ok(()) };
            if error.violations().is_empty() {
                return Err(at(line, &error.message()));
            }
            violations = error.violations().to_vec();
            // A transaction may accept nothing after an error of the database.
            let is_of_row = error.kind() == ErrorKind::Invalid;
            if !is_of_row {
                return Err(at(line, &described(&violations)));
            }
        }
        self.faults.push(format!("{line}: {}", described(&violations)));
        match self.faults.len() < FAULTS_MAX {
            true => Ok(()),
            false => Err(at(line, &"too many invalid rows; the rest was not checked")),
        }
    }
}

/// Appends a cell as a member of an object. What is not valid for the kind is a text, which is refused
/// with the name of the field.
fn member(object: &mut Vec<u8>, kind: &Kind, text: &str) {
    if let (Kind::Bool, Some(truth)) = (kind, truth(text)) {
        return object.extend_from_slice(truth.as_bytes());
    }
    let is_json = match kind {
        Kind::Json | Kind::File { .. } | Kind::Vector { .. } => true,
        Kind::Int { .. } | Kind::Float | Kind::Reference { key: KeyKind::Auto, .. } => {
            text.parse::<f64>().is_ok_and(f64::is_finite)
        }
        _ => false,
    };
    match is_json && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        true => object.extend_from_slice(text.as_bytes()),
        false => row_json::write_string(object, text),
    }
}

/// Returns the JSON of a boolean in the forms of spreadsheets, PostgreSQL and SQLite.
fn truth(text: &str) -> Option<&'static str> {
    let is_one_of = |words: [&str; 3]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is_one_of(["true", "t", "1"]) {
        Some("true")
    } else if is_one_of(["false", "f", "0"]) {
        Some("false")
    } else {
        None
    }
}

/// Returns an error with its line.
fn at(line: u64, error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Invalid, format!("{line}: {error}"))
}

/// Returns the violations of a row in one line.
fn described(violations: &[Violation]) -> String {
    let described = violations.iter().map(|one| match one.value.is_empty() {
        true => format!("{}: {}", one.field, one.message),
        false => format!("{} = {}: {}", one.field, one.value, one.message),
    });
    described.collect::<Vec<_>>().join("; ")
}

/// Returns a progress bar in bytes; it is drawn only on a terminal.
fn bar(bytes: u64) -> ProgressBar {
    if bytes == 0 {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(bytes);
    if let Ok(style) =
        ProgressStyle::with_template("{bar:40} {percent}% {bytes}/{total_bytes} {eta}")
    {
        bar.set_style(style);
    }
    bar
}
