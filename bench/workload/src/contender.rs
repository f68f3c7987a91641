//! The trait that contenders implement: the verbs of the tables, without any timing.

use crate::{AsPerson, Figure, Person, Place, Setting, Sum};

/// A result with an error of any type, because each contender has its own.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The origin of `modified_at` and `created_at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamps {
    /// The caller sets them; they must be read back unchanged.
    Given,
    /// The store sets them at insertion; they must be from this run. [`Sum::add_unstamped`] leaves
    /// them out.
    Made,
}

/// A layer under test.
pub trait Contender: Sized {
    /// The name in the tables.
    const NAME: &'static str;
    /// The origin of the two stamps.
    const STAMPS: Stamps = Stamps::Given;
    /// The settings that this contender supports.
    const SETTINGS: &'static [Setting] = &[Setting::FileFull, Setting::FileOff, Setting::Memory];
    /// The figures that this contender supports.
    const FIGURES: &'static [Figure] = &Figure::ALL;
    /// The numbers of rows per statement that [`insert_batch`](Self::insert_batch) supports. The
    /// driver tries each and uses the fastest.
    const STATEMENT_ROWS: &'static [usize] = &[500];

    /// The object that this contender inserts. It is made before the clock starts.
    type New;
    /// The object this contender reads into.
    type Row: AsPerson;

    /// Makes an object to insert. The store assigns its id.
    fn new(person: &Person) -> Self::New;

    /// Opens a new store at `place` with an empty table.
    fn open(place: &Place) -> Result<Self>;
    /// Starts a transaction.
    fn begin(&mut self) -> Result<()>;
    /// Commits the transaction; the rows are then as durable as the setting specifies.
    fn commit(&mut self) -> Result<()>;
    /// Inserts rows with one statement each, with ids from the store, and returns the last id.
    fn insert_each(&mut self, people: &[Self::New]) -> Result<i64>;
    /// Inserts up to 500 people with up to `statement_rows` rows per statement, with ids from the
    /// store. If this takes several statements, the driver calls `begin` and `commit` around it.
    fn insert_batch(&mut self, people: &[Self::New], statement_rows: usize) -> Result<()>;
    /// Reads one object per id, with one call each, and adds each to the sum.
    fn read_each(&mut self, ids: &[i64], sum: &mut Sum) -> Result<()>;
    /// Reads all rows into objects, in the order of their ids.
    fn list(&mut self) -> Result<Vec<Self::Row>>;
    /// Reads all rows in the cheapest way, without objects, and adds each to the sum.
    fn scan(&mut self, sum: &mut Sum) -> Result<()>;
}
