//! [`Part`]: the records of a source that begin between two offsets, read into builders by one
//! thread, while other threads read other parts.
//!
//! In the middle of a file, a line end may end a record or be inside of quotes; only reading
//! everything before it can decide that. So a part starts at the first line end that it finds, and
//! reports the start of the first record that it did not read. If the next part did not start
//! there, its guess was wrong, and it is read again.

use marmota_model::{Error, ErrorKind, Result, Table, Violation};

use super::builder::Builder;
use super::run::{Fault, Run};
use super::source::Source;
use super::window::Window;
use crate::dictionary::{FULL, What};

/// The settings that all parts of a file share.
pub(crate) struct Plan<'a> {
    pub(crate) source: &'a Source<'a>,
    pub(crate) table: &'a Table,
    pub(crate) separator: u8,
    pub(crate) record_bytes_max: usize,
    /// Names in the file's first line.
    pub(crate) names: &'a [String],
    /// The column of each field.
    pub(crate) columns: &'a [Option<usize>],
    /// Called with the number of bytes read since the last call.
    pub(crate) progress: &'a (dyn Fn(u64) + Sync),
}

/// The records of one part.
pub(crate) struct Part<'t> {
    pub(crate) builders: Vec<Builder<'t>>,
    pub(crate) rows: u64,
    /// The offset of its first record.
    pub(crate) start: u64,
    /// The offset of the first record that was not read.
    pub(crate) end: u64,
    /// The error in that record.
    pub(crate) broken: Option<Broken>,
}

/// An error and its offset.
pub(crate) struct Broken {
    offset: u64,
    message: String,
    violation: Option<Violation>,
}

impl<'a> Plan<'a> {
    /// Returns empty builders for all fields.
    fn builders(&self) -> Vec<Builder<'a>> {
        let builder = |(position, column): (usize, &Option<usize>)| match column {
            // The header has checked that the kind has a text form.
            Some(_) => Builder::new(self.table, position)
                .unwrap_or_else(|| Builder::row_numbers(self.table, position)),
            None => Builder::row_numbers(self.table, position),
        };
        self.columns.iter().enumerate().map(builder).collect()
    }

    /// Returns the offset after the first line end at or after `offset - 1`.
    pub(crate) fn line_start(&self, offset: u64) -> Result<u64> {
        let (mut at, mut buffer) = (offset - 1, vec![0; 4096]);
        loop {
            let read = self.source.read(&mut buffer, at)?;
            if let Some(end) = memchr::memchr(b'\n', &buffer[..read]) {
                return Ok(at + end as u64 + 1);
            }
            if read == 0 {
                return Ok(self.source.length());
            }
            at += read as u64;
        }
    }

    /// Reads the records that begin at or after `start` and before `end`.
    ///
    /// # Errors
    /// The source cannot be read, or a record is too long. An error in a record is returned in the
    /// part.
    pub(crate) fn read(&self, start: u64, end: u64) -> Result<Part<'a>> {
        let (builders, broken) = (self.builders(), None);
        let mut part = Part { builders, rows: 0, start, end: start, broken };
        if start >= end {
            return Ok(part);
        }
        let mut window = Window::new(self.source, self.separator, start, self.record_bytes_max);
        let mut taken = 0;
        while window.move_on(taken)? {
            taken = self.take(&window, end, &mut part);
            (self.progress)(taken as u64);
            part.end = window.offset(taken).min(self.source.length());
            if part.broken.is_some() || part.end >= end {
                return Ok(part);
            }
            if taken == 0 && window.at_end() {
                part.broken = Some(Broken {
                    offset: window.offset(last_start(&window)),
                    message: "the quote that opens here is never closed".to_owned(),
                    violation: None,
                });
                return Ok(part);
            }
            if part.start + taken as u64 == part.end && taken > 0 {
                self.reserve(&mut part, taken, end);
            }
        }
        part.end = self.source.length();
        Ok(part)
    }

    /// Reserves room for as many rows as the first window suggests.
    fn reserve(&self, part: &mut Part<'a>, taken: usize, end: u64) {
        let bytes = end - part.start;
        let rows = bytes.saturating_mul(part.rows) / taken as u64;
        for builder in &mut part.builders {
            builder.reserve(usize::try_from(rows + rows / 32).unwrap_or_default());
        }
    }

    /// Reads the complete records of a window. Returns their size in bytes.
    fn take(&self, window: &Window<'_>, end: u64, part: &mut Part<'a>) -> usize {
        let scan = window.scan();
        let (bytes, marks, fields) = (window.bytes(), scan.marks(), self.names.len());
        let is_line = |mark: usize| bytes[marks[mark] as usize] == b'\n';
        // The marks after a stray quote have no meaning.
        let sound = scan.stray_quote.map_or(marks.len(), |quote| {
            1 + marks[1..].partition_point(|&mark| (mark as usize) < quote)
        });
        let mut taker = Taker { plan: self, window, end, part, taken: 0, is_done: false };
        if let Some(whole) = (1..sound).rev().find(|&mark| is_line(mark)) {
            let even = fields > 1
                && whole == scan.lines * fields
                && (1..=scan.lines).all(|line| is_line(line * fields));
            if even {
                taker.run(0, whole);
            } else {
                taker.lines(whole, is_line);
            }
        }
        if let Some(quote) = scan.stray_quote
            && !taker.is_done
        {
            let message = "a quote in the middle of a field; put the whole field in quotes, and \
                           double the quotes inside the field";
            taker.refuse(quote, message.to_owned());
        }
        taker.taken
    }

    fn fault(&self, window: &Window<'_>, run: &Run<'_>, fault: Fault) -> Broken {
        let (start, _) = run.range(fault.record, fault.column);
        let name = &self.names[fault.column];
        let (message, violation) = match fault.what {
            What::NotUtf8 => (format!("field `{name}` is not UTF-8"), None),
            What::Broken(violation) => (violation.to_string(), Some(*violation)),
            What::Full => (format!("field `{name}` {FULL}"), None),
        };
        Broken { offset: window.offset(start), message, violation }
    }
}

impl Part<'_> {
    /// Appends the records of the next part.
    pub(crate) fn append(&mut self, next: Self) -> Result<()> {
        for (builder, more) in self.builders.iter_mut().zip(next.builders) {
            builder.append(more)?;
        }
        (self.rows, self.end) = (self.rows + next.rows, next.end);
        self.broken = next.broken;
        Ok(())
    }
}

/// Reads runs of records from a window.
struct Taker<'p, 'a, 'w> {
    plan: &'p Plan<'a>,
    window: &'w Window<'w>,
    end: u64,
    part: &'p mut Part<'a>,
    /// Bytes of the window that were processed.
    taken: usize,
    /// True at the end of the part or at a refused record.
    is_done: bool,
}

impl Taker<'_, '_, '_> {
    /// Processes line by line: some are empty, or have too many or too few fields.
    fn lines(&mut self, whole: usize, is_line: impl Fn(usize) -> bool) {
        let (mut from, mut last) = (0, 0);
        for mark in (1..=whole).filter(|&mark| is_line(mark)) {
            let fields = mark - last;
            let is_blank = fields == 1 && self.is_blank(last, mark);
            if is_blank || fields != self.plan.names.len() {
                self.run(from, last);
                if self.is_done {
                    return;
                }
                if !is_blank {
                    return self.ragged(last, fields);
                }
                from = mark;
                self.taken = self.start(mark);
            }
            last = mark;
        }
        self.run(from, whole);
    }

    /// Returns where in the window the field after this mark begins.
    fn start(&self, mark: usize) -> usize {
        self.window.scan().marks()[mark].wrapping_add(1) as usize
    }

    fn is_blank(&self, last: usize, mark: usize) -> bool {
        let end = self.window.scan().marks()[mark] as usize;
        matches!(&self.window.bytes()[self.start(last)..end], b"" | b"\r")
    }

    fn ragged(&mut self, last: usize, fields: usize) {
        let names = self.plan.names;
        let message = match names.get(fields) {
            Some(missing) => format!(
                "the record has {fields} of {} fields; the first missing field is `{missing}`",
                names.len()
            ),
            None => format!("the record has {fields} fields instead of {}", names.len()),
        };
        self.refuse(self.start(last), message);
    }

    fn refuse(&mut self, at: usize, message: String) {
        let offset = self.window.offset(at);
        self.part.broken = Some(Broken { offset, message, violation: None });
        self.is_done = true;
    }

    /// Reads the records between two marks, up to the end of the part.
    fn run(&mut self, from: usize, to: usize) {
        let (scan, fields) = (self.window.scan(), self.plan.names.len());
        let marks = &scan.marks()[from..=to];
        let all = Run::new(self.window.bytes(), marks, fields, scan.has_quotes);
        let run = all.up_to(records_before(&all, |at| self.window.offset(at) < self.end));
        let half_quoted = if scan.has_quotes { run.half_quoted() } else { None };
        let sound = run.up_to(half_quoted.map_or(run.len(), |(record, _)| record));
        let broken = self.extend(&sound);
        self.part.rows += run.len() as u64;
        self.taken = run.start(run.len());
        self.is_done = self.window.offset(self.taken) >= self.end;
        if broken.is_some() {
            self.part.broken = broken;
            self.is_done = true;
        } else if let Some((record, column)) = half_quoted {
            let name = &self.plan.names[column];
            let message = format!(
                "field `{name}` continues after its closing quote; double a quote inside the field"
            );
            self.refuse(run.range(record, column).0, message);
        }
    }

    /// Appends a run to all fields. Returns the error in its first invalid record.
    fn extend(&mut self, run: &Run<'_>) -> Option<Broken> {
        let mut first: Option<Fault> = None;
        for (builder, column) in self.part.builders.iter_mut().zip(self.plan.columns) {
            let sound = first.as_ref().map_or(run.len(), |fault| fault.record);
            // A field without a column in the file only counts rows, so any column works.
            if let Err(fault) = builder.extend(&run.up_to(sound), column.unwrap_or(0)) {
                first = Some(fault);
            }
        }
        first.map(|fault| self.plan.fault(self.window, run, fault))
    }
}

/// Returns the number of records that begin at places for which `is_before` is true.
fn records_before(run: &Run<'_>, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, run.len());
    while low < high {
        let middle = low.midpoint(high);
        if is_before(run.start(middle)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Returns the start of the field that is incomplete at the end of the window.
fn last_start(window: &Window<'_>) -> usize {
    window.scan().marks().last().map_or(0, |&mark| mark.wrapping_add(1) as usize)
}

impl Broken {
    /// Converts it to an error that names the file, the line and the column.
    pub(crate) fn error(self, source: &Source<'_>) -> Error {
        let (line, column) = source.place(self.offset);
        let message = format!("{}, line {line}, column {column}: {}", source.name(), self.message);
        let error = Error::new(ErrorKind::Invalid, message);
        match self.violation {
            Some(violation) => error.with_violation(violation),
            None => error,
        }
    }
}
