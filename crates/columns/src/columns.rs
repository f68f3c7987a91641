//! [`Columns`]: the rows of one model, field by field.

use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, FieldSet, Model, Record, Result, RowSink, Table, ValueRef};
use xxhash_rust::xxh3::Xxh3;

use crate::cells::{Cells, Values};

/// The rows of one model in memory, field by field, read-only. Texts are numbers of one, two or
/// four bytes into the field's own dictionary (or about one and a half bits, if rows with the same
/// text are adjacent). Integers have the smallest width that fits all of them.
///
/// Made by [`csv::load`](crate::csv::load). A row is addressed by its number, from 0 in the order
/// of the file. Clones share the rows, which are `Send + Sync`.
///
/// ```
/// use marmota_columns::csv;
/// # use marmota_derive::Model;
/// # #[derive(Model)]
/// # struct City { id: i64, name: String, people: u32 }
/// let cities = csv::read::<City>(b"name,people\nBourges,65000\nNevers,33000\n")?;
/// assert_eq!(cities.len(), 2);
/// assert_eq!(cities.get(1)?.name, "Nevers");
/// let people: u32 = cities.iter().map(|city| city.map_or(0, |city| city.people)).sum();
/// assert_eq!(people, 98_000);
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub struct Columns<M = Record> {
    pub(crate) inner: Arc<Inner>,
    model: PhantomData<fn() -> M>,
}

pub(crate) struct Inner {
    pub(crate) table: Arc<Table>,
    pub(crate) cells: Vec<Cells>,
    pub(crate) rows: u32,
}

impl<M> Clone for Columns<M> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), model: PhantomData }
    }
}

impl<M> fmt::Debug for Columns<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Columns")
            .field("table", &self.table().name())
            .field("rows", &self.len())
            .field("bytes", &self.bytes())
            .finish()
    }
}

impl Inner {
    /// Returns the value of a field of a row. Both must exist.
    #[inline]
    pub(crate) fn value(&self, row: u32, position: usize) -> ValueRef<'_> {
        self.cells[position].value(&self.table.fields()[position].kind, row as usize)
    }
}

impl<M> Columns<M> {
    pub(crate) fn new(table: Arc<Table>, cells: Vec<Cells>, rows: u32) -> Self {
        Self { inner: Arc::new(Inner { table, cells, rows }), model: PhantomData }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.rows as usize
    }

    /// Returns true if there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.rows == 0
    }

    /// Returns the table of the rows.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.inner.table
    }

    /// Returns the value of a field, by its position in the schema, or `None` if the row or the
    /// field does not exist.
    ///
    /// ```
    /// use marmota_columns::csv;
    /// # use marmota_derive::Model;
    /// # #[derive(Model)]
    /// # struct City { id: i64, name: String, people: u32 }
    /// let cities = csv::read::<City>(b"name,people\nBourges,65000\nNevers,33000\n")?;
    /// use marmota_model::ValueRef;
    /// let name = cities.table().position("name")?;
    /// assert_eq!(cities.value(0, name), Some(ValueRef::Text("Bourges")));
    /// assert_eq!(cities.value(2, name), None);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn value(&self, row: u32, position: usize) -> Option<ValueRef<'_>> {
        let is_there = row < self.inner.rows && position < self.inner.cells.len();
        is_there.then(|| self.inner.value(row, position))
    }

    /// Passes `fields` of the given rows to a sink until it has enough. Other fields are
    /// [`ValueRef::Absent`].
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for a row that does not exist.
    ///
    /// ```
    /// use marmota_columns::csv;
    /// # use marmota_derive::Model;
    /// # #[derive(Model)]
    /// # struct City { id: i64, name: String, people: u32 }
    /// let cities = csv::read::<City>(b"name,people\nBourges,65000\nNevers,33000\n")?;
    /// use std::ops::ControlFlow;
    /// use marmota_model::ValueRef;
    /// let mut names = Vec::new();
    /// cities.read([1, 0], cities.table().all(), &mut |row: &[ValueRef<'_>]| {
    ///     names.extend(row[1].as_text().map(str::to_owned));
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(names, ["Nevers", "Bourges"]);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn read(
        &self,
        rows: impl IntoIterator<Item = u32>,
        fields: FieldSet,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        let mut values = vec![ValueRef::Absent; self.inner.cells.len()];
        for row in rows {
            self.check_row(row)?;
            for (position, value) in values.iter_mut().enumerate() {
                if fields.contains(position) {
                    *value = self.inner.value(row, position);
                }
            }
            if sink.row(&values) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }

    /// Returns the memory in use, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.inner.cells.iter().map(Cells::bytes).sum()
    }

    /// Returns a hash of all values: equal for the same values in the same order, on every machine,
    /// and almost certainly different for others. For ETags. It does not protect against deliberate
    /// collisions.
    ///
    /// ```
    /// use marmota_columns::csv;
    /// # use marmota_derive::Model;
    /// # #[derive(Model)]
    /// # struct City { id: i64, name: String, people: u32 }
    /// let cities = csv::read::<City>(b"name,people\nBourges,65000\nNevers,33000\n")?;
    /// let same = csv::read::<City>(b"people,name\n65000,Bourges\n33000,Nevers\n")?;
    /// assert_eq!(cities.fingerprint(), same.fingerprint());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(&self.inner.rows.to_le_bytes());
        for (field, cells) in self.inner.table.fields().iter().zip(&self.inner.cells) {
            hash.update(field.name.as_bytes());
            hash.update(&[0]);
            cells.hash(&mut hash);
        }
        hash.digest()
    }

    pub(crate) fn check_row(&self, row: u32) -> Result<()> {
        if row < self.inner.rows {
            return Ok(());
        }
        let (name, rows) = (self.inner.table.name(), self.inner.rows);
        let message = format!("no row {row} of `{name}`, which has {rows} rows");
        Err(Error::new(ErrorKind::NotFound, message))
    }
}

impl<M: Model> Columns<M> {
    /// Returns a row as a struct.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the row does not exist.
    pub fn get(&self, row: u32) -> Result<M> {
        self.check_row(row)?;
        let fields = 0..self.inner.cells.len();
        M::read(&fields.map(|position| self.inner.value(row, position)).collect::<Vec<_>>())
    }

    /// Returns all rows as structs, in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<M>> {
        (0..self.inner.rows).map(|row| self.get(row))
    }
}

impl Columns<Record> {
    /// Returns a row as a record.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the row does not exist.
    pub fn record(&self, row: u32) -> Result<Record> {
        self.check_row(row)?;
        let fields = 0..self.inner.cells.len();
        let values: Vec<_> = fields.map(|position| self.inner.value(row, position)).collect();
        Ok(Record::from_row(Arc::clone(&self.inner.table), &values))
    }
}

impl Cells {
    /// Adds the values to the hash, for every storage form.
    fn hash(&self, hash: &mut Xxh3) {
        for word in self.nulls.words() {
            hash.update(&word.to_le_bytes());
        }
        // The width of the numbers depends only on their values, so their bytes are hashed as
        // stored.
        match &self.values {
            Values::Text(ids, _) => ids.each_bytes(|bytes| hash.update(bytes)),
            Values::Int(ints) => ints.each_bytes(|bytes| hash.update(bytes)),
            _ => {}
        }
        let mut words = Words { hash, bytes: [0; 4096], filled: 0 };
        match &self.values {
            Values::Text(_, dictionary) => {
                let (json, ends) = dictionary.parts();
                ends.iter().for_each(|&end| words.add(&end.to_le_bytes()));
                words.flush();
                words.hash.update(json.as_bytes());
            }
            Values::Float(floats) => {
                floats.iter().for_each(|float| words.add(&float.to_bits().to_le_bytes()));
            }
            Values::Uuid(uuids) => {
                uuids.iter().for_each(|uuid| words.add(uuid.as_bytes()));
            }
            Values::Int(_) | Values::RowNumber => {}
        }
        words.flush();
    }
}

/// Buffers numbers for a hash, which is faster with thousands of bytes per call.
struct Words<'h> {
    hash: &'h mut Xxh3,
    bytes: [u8; 4096],
    filled: usize,
}

impl Words<'_> {
    #[inline]
    fn add<const BYTES: usize>(&mut self, word: &[u8; BYTES]) {
        if self.bytes.len() - self.filled < BYTES {
            self.flush();
        }
        self.bytes[self.filled..self.filled + BYTES].copy_from_slice(word);
        self.filled += BYTES;
    }

    fn flush(&mut self) {
        self.hash.update(&self.bytes[..self.filled]);
        self.filled = 0;
    }
}
