//! [`ColumnIndex`]: the rows of each value of a field; [`Join`]: the matching rows for each row of
//! another table. Built once, when the rows are loaded. If the rows of each value are adjacent, as
//! they mostly are in a file, only their starts are stored.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use marmota_model::{Column, Comparable, Model, Record, Result, Value, ValueRef};

use crate::cells::Values;
use crate::columns::{Columns, Inner};
use crate::dictionary::{Dictionary, Numbers};

impl<M> Columns<M> {
    /// Returns an index on the field `name`: for tables made at run time, which have no typed
    /// columns.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](marmota_model::ErrorKind::Invalid) naming the existing fields.
    pub fn index_by(&self, name: &str) -> Result<ColumnIndex> {
        let position = self.inner.table.position(name)?;
        Ok(ColumnIndex::new(Keyed::new(&self.inner, position)))
    }
}

impl<M: Model> Columns<M> {
    /// Returns an index on a field: the rows of each value, in order.
    ///
    /// ```
    /// use marmota_columns::csv;
    /// # use marmota_derive::Model;
    /// # #[derive(Model)]
    /// # struct City { id: i64, name: String, people: u32 }
    /// let cities = csv::read::<City>(b"name,people\nBourges,65000\nNevers,33000\n")?;
    /// let by_people = cities.index(City::PEOPLE);
    /// assert_eq!(by_people.rows(33_000).collect::<Vec<_>>(), [1]);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn index<T>(&self, column: Column<M, T>) -> ColumnIndex<T> {
        ColumnIndex::new(Keyed::new(&self.inner, column.position()))
    }
}

/// Marks a value of the other table that does not occur in this one.
const NONE: u32 = u32::MAX;

/// Some rows of a table, by number, in order.
#[derive(Clone, Debug)]
pub struct MatchingRows<'a>(Numbered<'a>);

#[derive(Clone, Debug)]
enum Numbered<'a> {
    /// Adjacent rows.
    Together(std::ops::Range<u32>),
    Apart(std::slice::Iter<'a, u32>),
}

impl Iterator for MatchingRows<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        match &mut self.0 {
            Numbered::Together(rows) => rows.next(),
            Numbered::Apart(rows) => rows.next().copied(),
        }
    }

    fn nth(&mut self, skipped: usize) -> Option<u32> {
        match &mut self.0 {
            Numbered::Together(rows) => rows.nth(skipped),
            Numbered::Apart(rows) => rows.nth(skipped).copied(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.0 {
            Numbered::Together(rows) => rows.len(),
            Numbered::Apart(rows) => rows.len(),
        };
        (left, Some(left))
    }
}

impl ExactSizeIterator for MatchingRows<'_> {}

impl MatchingRows<'_> {
    const NONE: Self = Self(Numbered::Together(0..0));
}

/// Finds the rows with a given value in one field. `Send + Sync`; clones share the data.
///
/// ```
/// use marmota_derive::Model;
/// use marmota_columns::csv;
///
/// #[derive(Model)]
/// struct Stop {
///     id: i64,
///     line: String,
///     name: String,
/// }
///
/// let stops = csv::read::<Stop>(b"line,name\nRed,Alewife\nBlue,Wonderland\nRed,Davis\n")?;
/// let by_line = stops.index(Stop::LINE);
/// assert_eq!(by_line.rows("Red").collect::<Vec<_>>(), [0, 2]);
/// assert_eq!(by_line.rows("Orange").len(), 0);
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub struct ColumnIndex<T = Value> {
    keyed: Arc<Keyed>,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for ColumnIndex<T> {
    fn clone(&self) -> Self {
        Self { keyed: Arc::clone(&self.keyed), of: PhantomData }
    }
}

impl<T> fmt::Debug for ColumnIndex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColumnIndex")
            .field("table", &self.keyed.columns.table.name())
            .field("field", &self.keyed.name())
            .field("values", &self.len())
            .finish()
    }
}

impl<T> ColumnIndex<T> {
    pub(crate) fn new(keyed: Keyed) -> Self {
        Self { keyed: Arc::new(keyed), of: PhantomData }
    }

    /// Returns the rows with this value, in order; empty if no row has it. Texts are compared byte
    /// by byte, regardless of the field's collation.
    ///
    /// ```
    /// use marmota_columns::csv;
    /// # use marmota_derive::Model;
    /// # #[derive(Model)]
    /// # struct City { id: i64, name: String, people: u32 }
    /// let cities = csv::read::<City>(b"name,people\nBourges,65000\nNevers,33000\n")?;
    /// let by_name = cities.index(City::NAME);
    /// assert_eq!(by_name.rows("Bourges").next(), Some(0));
    /// assert_eq!(by_name.rows("bourges").len(), 0);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn rows(&self, value: impl Comparable<T>) -> MatchingRows<'_> {
        self.rows_of(value.into_value().as_ref())
    }

    /// Like [`ColumnIndex::rows`], for a borrowed value.
    #[must_use]
    pub fn rows_of(&self, value: ValueRef<'_>) -> MatchingRows<'_> {
        self.keyed.find(value).map_or(MatchingRows::NONE, |group| self.keyed.group(group))
    }

    /// Returns the number of different values, including NULL.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keyed.starts.len() - 1
    }

    /// Returns true if there are no values, and so no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the values, each with its rows.
    ///
    /// ```
    /// use marmota_columns::csv;
    /// # use marmota_derive::Model;
    /// # #[derive(Model)]
    /// # struct City { id: i64, name: String, people: u32 }
    /// let cities = csv::read::<City>(b"name,people\nBourges,65000\nNevers,33000\n")?;
    /// let by_name = cities.index(City::NAME);
    /// let sizes: Vec<usize> = by_name.iter().map(|(_, rows)| rows.len()).collect();
    /// assert_eq!(sizes, [1, 1]);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (ValueRef<'_>, MatchingRows<'_>)> {
        (0..self.len() as u32).map(|group| {
            let rows = self.keyed.group(group);
            let value = rows.clone().next().map(|row| self.keyed.value(row));
            (value.unwrap_or_default(), rows)
        })
    }

    /// Joins another table: for each of its rows, the rows here with the value of its `column`.
    /// NULL matches nothing.
    ///
    /// ```
    /// use marmota_columns::csv;
    /// # use marmota_derive::Model;
    /// # #[derive(Model)]
    /// # struct Line { id: i64, name: String }
    /// # #[derive(Model)]
    /// # struct Stop { id: i64, line: String }
    /// let lines = csv::read::<Line>(b"name\nRed\nBlue\n")?;
    /// let stops = csv::read::<Stop>(b"line\nBlue\nRed\nBlue\n")?;
    /// let stops_of = stops.index(Stop::LINE).join(&lines, Line::NAME);
    /// assert_eq!(stops_of.rows(1).collect::<Vec<_>>(), [0, 2], "the stops of Blue");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn join<N>(&self, other: &Columns<N>, column: Column<N, T>) -> Join {
        Join::new(Arc::clone(&self.keyed), Arc::clone(&other.inner), column.position())
    }

    /// Like [`ColumnIndex::join`] by field name, for tables made at run time.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] naming the existing fields.
    pub fn join_by(&self, other: &Columns<Record>, name: &str) -> Result<Join> {
        let position = other.table().position(name)?;
        Ok(Join::new(Arc::clone(&self.keyed), Arc::clone(&other.inner), position))
    }

    /// Returns the memory in use, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.keyed.bytes()
    }
}

/// For each row of one table, the rows of another with the same value.
///
/// Made by [`ColumnIndex::join`], which has an example.
#[derive(Clone)]
pub struct Join {
    keyed: Arc<Keyed>,
    other: Arc<Inner>,
    position: usize,
    /// For texts: the group of each text in the other table's dictionary.
    groups: Arc<[u32]>,
}

impl fmt::Debug for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Join")
            .field("table", &self.other.table.name())
            .field("with", &self.keyed.columns.table.name())
            .field("on", &self.keyed.name())
            .finish_non_exhaustive()
    }
}

impl Join {
    fn new(keyed: Arc<Keyed>, other: Arc<Inner>, position: usize) -> Self {
        let groups = match &other.cells[position].values {
            Values::Text(_, dictionary) => (0..dictionary.len() as u32)
                .map(|id| dictionary.text(id).and_then(|text| keyed.find(ValueRef::Text(text))))
                .map(|group| group.unwrap_or(NONE))
                .collect(),
            _ => Arc::default(),
        };
        Self { keyed, other, position, groups }
    }

    /// Returns the rows with the value of the other table's `row`; empty if that row does not
    /// exist.
    #[must_use]
    #[inline]
    pub fn rows(&self, row: u32) -> MatchingRows<'_> {
        if row >= self.other.rows {
            return MatchingRows::NONE;
        }
        let group = match &self.other.cells[self.position].values {
            Values::Text(ids, _) => Some(self.groups[ids.at(row as usize) as usize]),
            _ => Some(self.other.value(row, self.position))
                .filter(|value| !value.is_null())
                .and_then(|value| self.keyed.find(value)),
        };
        group
            .filter(|&group| group != NONE)
            .map_or(MatchingRows::NONE, |group| self.keyed.group(group))
    }
}

/// The rows of a table, grouped by the values of a field.
pub(crate) struct Keyed {
    columns: Arc<Inner>,
    position: usize,
    /// Finds a text's number, which is the number of its group. Groups of other values are sorted
    /// and found by binary search.
    numbers: Option<Numbers>,
    /// The start of each group in `rows`, and the end of the last one.
    starts: Box<[u32]>,
    /// Row numbers, group by group. `None` if they are 0, 1, 2, ….
    rows: Option<Box<[u32]>>,
}

impl Keyed {
    pub(crate) fn new(columns: &Arc<Inner>, position: usize) -> Self {
        let columns = Arc::clone(columns);
        let count = columns.rows as usize;
        let (numbers, starts, rows) = match &columns.cells[position].values {
            Values::Text(ids, dictionary) => {
                let (starts, rows) = match ids.starts() {
                    Some(starts) => (starts.chain([columns.rows]).collect(), None),
                    None => by_number(count, dictionary.len(), |row| ids.at(row) as usize),
                };
                (Some(Numbers::of(dictionary)), starts, rows)
            }
            _ => {
                let (starts, rows) = by_order(&columns, position);
                (None, starts, rows)
            }
        };
        Self { columns, position, numbers, starts, rows }
    }

    fn name(&self) -> &str {
        &self.columns.table.fields()[self.position].name
    }

    fn value(&self, row: u32) -> ValueRef<'_> {
        self.columns.value(row, self.position)
    }

    fn dictionary(&self) -> Option<&Dictionary> {
        match &self.columns.cells[self.position].values {
            Values::Text(_, dictionary) => Some(dictionary),
            _ => None,
        }
    }

    fn find(&self, value: ValueRef<'_>) -> Option<u32> {
        if let (Some(numbers), Some(dictionary)) = (&self.numbers, self.dictionary()) {
            return match value {
                ValueRef::Text(text) | ValueRef::Json(text) => numbers.find(dictionary, text),
                ValueRef::Null => dictionary.null(),
                _ => None,
            };
        }
        let (mut low, mut high) = (0, self.starts.len() as u32 - 1);
        while low < high {
            let middle = low.midpoint(high);
            let there = self.group(middle).next().map_or(ValueRef::Absent, |row| self.value(row));
            match there.order(&value) {
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    #[inline]
    fn group(&self, group: u32) -> MatchingRows<'_> {
        let (start, end) = (self.starts[group as usize], self.starts[group as usize + 1]);
        MatchingRows(match &self.rows {
            None => Numbered::Together(start..end),
            Some(rows) => Numbered::Apart(rows[start as usize..end as usize].iter()),
        })
    }

    fn bytes(&self) -> usize {
        let rows = self.rows.as_ref().map_or(0, |rows| size_of_val(&**rows));
        size_of_val(&*self.starts) + rows + self.numbers.as_ref().map_or(0, Numbers::bytes)
    }
}

/// Groups rows by a number from 0 to `groups`, with a counting sort.
fn by_number(
    count: usize,
    groups: usize,
    number: impl Fn(usize) -> usize,
) -> (Box<[u32]>, Option<Box<[u32]>>) {
    let mut starts = vec![0_u32; groups + 1];
    let (mut before, mut together) = (0, true);
    for row in 0..count {
        let group = number(row);
        starts[group + 1] += 1;
        together &= group >= before;
        before = group;
    }
    for group in 0..groups {
        starts[group + 1] += starts[group];
    }
    if together {
        return (starts.into(), None);
    }
    let mut next = starts.clone();
    let mut rows = vec![0; count];
    for row in 0..count {
        let place = &mut next[number(row)];
        rows[*place as usize] = row as u32;
        *place += 1;
    }
    (starts.into(), Some(rows.into()))
}

/// Groups rows by sorting their values.
fn by_order(columns: &Inner, position: usize) -> (Box<[u32]>, Option<Box<[u32]>>) {
    let value = |row: u32| columns.value(row, position);
    let mut rows: Vec<u32> = (0..columns.rows).collect();
    let is_sorted = matches!(columns.cells[position].values, Values::RowNumber)
        || rows.is_sorted_by(|&a, &b| value(a).order(&value(b)).is_le());
    if !is_sorted {
        rows.sort_by(|&a, &b| value(a).order(&value(b)));
    }
    let mut starts: Vec<u32> = (0..columns.rows)
        .filter(|&at| {
            at == 0 || value(rows[at as usize - 1]).order(&value(rows[at as usize])).is_ne()
        })
        .collect();
    starts.push(columns.rows);
    (starts.into(), (!is_sorted).then(|| rows.into()))
}
