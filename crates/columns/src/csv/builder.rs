//! [`Builder`]: the cells of one field while they are read from CSV, a run of records at a time. A
//! text is checked against the field's rules when it first occurs, other values each time.

use marmota_model::{
    Error, ErrorKind, Field, Kind, Result, Table, Uuid, ValueRef, Violation, rule, text,
};

use super::run::{Fault, Run};
use crate::cells::{Cells, Form, Nulls, Values, to_int};
use crate::dictionary::{FULL, Interning, Short, What};
use crate::narrow::{Ids, Ints};
use crate::steps::TextIds;

/// Rows of an appended part that are copied at once.
const BATCH_ROWS: usize = 4096;

/// The growing cells of one field.
pub(crate) struct Builder<'t> {
    check: Check<'t>,
    growing: Growing,
    nulls: Nulls,
    rows: usize,
    /// The values of a run of records, before they are narrowed.
    ids: Vec<u32>,
    ints: Vec<i64>,
    /// A quoted field without its quotes.
    unquoted: Vec<u8>,
}

enum Growing {
    Text(Ids, Interning),
    Int(Ints),
    Float(Vec<f64>),
    Uuid(Vec<Uuid>),
    RowNumber,
}

/// The rules of one field.
struct Check<'t> {
    table: &'t Table,
    position: usize,
    /// Integers in this range need no further check.
    plain_int: Option<(i64, i64)>,
    /// True if a text without NUL needs no further check.
    is_plain_text: bool,
}

impl<'t> Check<'t> {
    fn new(table: &'t Table, position: usize) -> Self {
        let field = &table.fields()[position];
        let plain_int = match field.kind {
            Kind::Int { min, max } if field.rules.is_empty() => Some((min, max)),
            _ => None,
        };
        let is_plain_text =
            matches!(field.kind, Kind::Text { chars_max: 0, .. }) && field.rules.is_empty();
        Self { table, position, plain_int, is_plain_text }
    }

    fn field(&self) -> &'t Field {
        &self.table.fields()[self.position]
    }

    fn value(&self, value: ValueRef<'_>) -> Result<(), Violation> {
        let mut row = vec![ValueRef::Absent; self.table.fields().len()];
        row[self.position] = value;
        let mut violations = Vec::new();
        self.table.check(&row, &mut violations);
        violations.pop().map_or(Ok(()), Err)
    }

    /// Parses the text of a value.
    fn parse<'a>(&self, text: &'a str) -> Result<ValueRef<'a>, Violation> {
        let field = self.field();
        let Ok(value) = text::parse(&field.kind, text) else {
            // Reports it as a violation of the field's kind, in the same words as elsewhere.
            self.value(ValueRef::Text(text))?;
            return Err(rule::violation(
                field,
                ValueRef::Text(text),
                "type",
                format!("must be of type {}", field.kind.name()),
            ));
        };
        self.value(value)?;
        Ok(value)
    }
}

impl<'t> Builder<'t> {
    /// Returns a builder for the field at `position`, or `None` if its kind has no text form.
    pub(crate) fn new(table: &'t Table, position: usize) -> Option<Self> {
        let growing = match Form::of(&table.fields()[position].kind)? {
            Form::Text => Growing::Text(Ids::new(), Interning::new(false)),
            Form::Json => Growing::Text(Ids::new(), Interning::new(true)),
            Form::Int => Growing::Int(Ints::new()),
            Form::Float => Growing::Float(Vec::new()),
            Form::Uuid => Growing::Uuid(Vec::new()),
        };
        Some(Self::of(table, position, growing))
    }

    /// Returns a builder for a key whose values are the row numbers.
    pub(crate) fn row_numbers(table: &'t Table, position: usize) -> Self {
        Self::of(table, position, Growing::RowNumber)
    }

    fn of(table: &'t Table, position: usize, growing: Growing) -> Self {
        Self {
            check: Check::new(table, position),
            growing,
            nulls: Nulls::default(),
            rows: 0,
            ids: Vec::new(),
            ints: Vec::new(),
            unquoted: Vec::new(),
        }
    }

    /// Reserves room for about `rows` more rows.
    pub(crate) fn reserve(&mut self, rows: usize) {
        match &mut self.growing {
            Growing::Text(ids, _) => ids.reserve(rows),
            Growing::Int(ints) => ints.reserve(rows),
            Growing::Float(floats) => floats.reserve(rows),
            Growing::Uuid(uuids) => uuids.reserve(rows),
            Growing::RowNumber => {}
        }
    }

    /// Appends the values in column `column` of a run's records.
    ///
    /// # Errors
    /// The first record with an invalid value in this column.
    pub(crate) fn extend(&mut self, run: &Run<'_>, column: usize) -> Result<(), Fault> {
        match &mut self.growing {
            Growing::RowNumber => {}
            Growing::Text(ids, interning) => {
                self.ids.clear();
                let unquoted = &mut self.unquoted;
                number_texts(&self.check, interning, run, column, unquoted, &mut self.ids)?;
                ids.extend(&self.ids);
            }
            Growing::Int(_) if self.check.plain_int.is_some() => {
                self.extend_plain_ints(run, column)?;
            }
            _ => self.extend_values(run, column)?,
        }
        self.rows += run.len();
        Ok(())
    }

    /// Appends integers of a field without rules. Most are short.
    fn extend_plain_ints(&mut self, run: &Run<'_>, column: usize) -> Result<(), Fault> {
        let (min, max) = self.check.plain_int.unwrap_or((i64::MIN, i64::MAX));
        self.ints.clear();
        for (record, (start, end)) in run.ranges(column).enumerate() {
            let (raw, is_quoted) = (run.slice(start, end), run.is_quoted(start));
            let bytes = if is_quoted { unquote(raw, &mut self.unquoted) } else { raw };
            let int = match short_digits(bytes) {
                Some(int) if int >= min && int <= max => int,
                _ => match self.check.value_of(bytes, is_quoted) {
                    Ok(ValueRef::Null) => {
                        self.nulls.set(self.rows + record);
                        0
                    }
                    Ok(value) => to_int(value).unwrap_or_default(),
                    Err(what) => return Err(Fault { record, column, what }),
                },
            };
            self.ints.push(int);
        }
        if let Growing::Int(ints) = &mut self.growing {
            ints.extend(&self.ints);
        }
        Ok(())
    }

    fn extend_values(&mut self, run: &Run<'_>, column: usize) -> Result<(), Fault> {
        self.ints.clear();
        for (record, (start, end)) in run.ranges(column).enumerate() {
            let (raw, is_quoted) = (run.slice(start, end), run.is_quoted(start));
            let bytes = if is_quoted { unquote(raw, &mut self.unquoted) } else { raw };
            let value = self.check.value_of(bytes, is_quoted);
            let value = value.map_err(|what| Fault { record, column, what })?;
            if value.is_null() {
                self.nulls.set(self.rows + record);
            }
            match &mut self.growing {
                Growing::Int(_) => self.ints.push(to_int(value).unwrap_or_default()),
                Growing::Float(floats) => floats.push(match value {
                    ValueRef::Float(float) => float,
                    _ => 0.0,
                }),
                Growing::Uuid(uuids) => uuids.push(match value {
                    ValueRef::Uuid(uuid) => uuid,
                    _ => Uuid::nil(),
                }),
                Growing::Text(..) | Growing::RowNumber => {}
            }
        }
        if let Growing::Int(ints) = &mut self.growing {
            ints.extend(&self.ints);
        }
        Ok(())
    }

    /// Appends the rows of another part of the same file.
    ///
    /// # Errors
    /// The texts of both parts are too many for one dictionary.
    pub(crate) fn append(&mut self, part: Self) -> Result<()> {
        if !part.nulls.words().is_empty() {
            for row in (0..part.rows).filter(|&row| part.nulls.has(row)) {
                self.nulls.set(self.rows + row);
            }
        }
        self.rows += part.rows;
        match (&mut self.growing, part.growing) {
            (Growing::Text(ids, interning), Growing::Text(more, other)) => {
                let texts = other.dictionary();
                let renumber = |id| match texts.text(id) {
                    Some(text) => interning.number(text),
                    None => interning.null(),
                };
                let renumbered: Result<Vec<u32>, _> =
                    (0..texts.len() as u32).map(renumber).collect();
                let Ok(renumbered) = renumbered else {
                    let name = &self.check.field().name;
                    let message = format!("field `{name}` {FULL}");
                    return Err(Error::new(ErrorKind::Unsupported, message));
                };
                ids.extend_renumbered(&more, &renumbered);
            }
            (Growing::Int(ints), Growing::Int(more)) => {
                for start in (0..part.rows).step_by(BATCH_ROWS) {
                    self.ints.clear();
                    let end = part.rows.min(start + BATCH_ROWS);
                    self.ints.extend((start..end).map(|row| more.at(row)));
                    ints.extend(&self.ints);
                }
            }
            (Growing::Float(floats), Growing::Float(more)) => floats.extend(more),
            (Growing::Uuid(uuids), Growing::Uuid(more)) => uuids.extend(more),
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Cells {
        let values = match self.growing {
            Growing::Text(ids, interning) => {
                let dictionary = interning.finish();
                Values::Text(TextIds::new(ids, dictionary.len()), dictionary)
            }
            Growing::Int(mut ints) => {
                ints.shrink();
                Values::Int(ints)
            }
            Growing::Float(mut floats) => {
                floats.shrink_to_fit();
                Values::Float(floats)
            }
            Growing::Uuid(mut uuids) => {
                uuids.shrink_to_fit();
                Values::Uuid(uuids)
            }
            Growing::RowNumber => Values::RowNumber,
        };
        Cells { values, nulls: self.nulls }
    }
}

impl Check<'_> {
    /// Returns the value of a field's bytes. An empty field without quotes is NULL.
    fn value_of<'a>(&self, bytes: &'a [u8], is_quoted: bool) -> Result<ValueRef<'a>, What> {
        if bytes.is_empty() && !is_quoted {
            self.value(ValueRef::Null).map_err(What::broken)?;
            return Ok(ValueRef::Null);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| What::NotUtf8)?;
        self.parse(text).map_err(What::broken)
    }
}

/// Appends the numbers of one field's texts. Adjacent rows often have the same text, which is then
/// not looked up again.
fn number_texts(
    check: &Check<'_>,
    interning: &mut Interning,
    run: &Run<'_>,
    column: usize,
    unquoted: &mut Vec<u8>,
    ids: &mut Vec<u32>,
) -> Result<(), Fault> {
    let nullable = check.field().nullable;
    let is_new = |text: &str| match check.is_plain_text && !text.as_bytes().contains(&0) {
        true => Ok(()),
        false => check.parse(text).map(|_| ()),
    };
    let (mut last, mut last_id) = (Short::NONE, 0);
    for (start, end) in run.ranges(column) {
        if let Some(short) = run.short(start, end)
            && !(start == end && nullable)
            && !run.is_quoted(start)
        {
            if short != last {
                last_id = match interning.short(short, is_new) {
                    Ok(id) => id,
                    Err(what) => return Err(Fault { record: ids.len(), column, what }),
                };
                last = short;
            }
            ids.push(last_id);
            continue;
        }
        let bytes = run.slice(start, end);
        let id = if run.is_quoted(start) {
            interning.long_or_short(unquote(bytes, unquoted), is_new)
        } else if bytes.is_empty() {
            interning.null()
        } else {
            interning.long(bytes, is_new)
        };
        ids.push(id.map_err(|what| Fault { record: ids.len(), column, what })?);
    }
    Ok(())
}

/// Returns the content of a quoted field. The scan has checked that quotes inside are doubled.
fn unquote<'a>(quoted: &[u8], out: &'a mut Vec<u8>) -> &'a [u8] {
    out.clear();
    let inner = quoted.get(1..quoted.len() - 1).unwrap_or_default();
    let mut from = 0;
    while let Some(at) = memchr::memchr(b'"', &inner[from..]) {
        out.extend_from_slice(&inner[from..=from + at]);
        from = inner.len().min(from + at + 2);
    }
    out.extend_from_slice(&inner[from..]);
    out
}

/// Parses up to 18 digits.
fn short_digits(bytes: &[u8]) -> Option<i64> {
    if bytes.is_empty() || bytes.len() > 18 {
        return None;
    }
    bytes.iter().try_fold(0_i64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit <= 9).then(|| number * 10 + i64::from(digit))
    })
}
