//! What a contender must be able to do: the verbs of the table, and nothing about time.

use crate::{AsPerson, Figure, Person, Place, Setting, Sum};

/// Each peer has an error type of its own, and none of them matters here.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Who fills `modified_at` and `created_at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamps {
    /// The caller: they must come back as given.
    Given,
    /// The store, at insertion: they must be of this run. The sum of such rows leaves them out
    /// ([`Sum::add_unstamped`]).
    Made,
}

/// A layer under test.
pub trait Contender: Sized {
    /// Name in the table.
    const NAME: &'static str;
    /// Who fills the two stamps.
    const STAMPS: Stamps = Stamps::Given;
    /// Settings this contender knows.
    const SETTINGS: &'static [Setting] = &[Setting::FileFull, Setting::FileOff, Setting::Memory];
    /// Figures this contender has anything to say about.
    const FIGURES: &'static [Figure] = &Figure::ALL;
    /// Rows a statement that [`insert_batch`](Self::insert_batch) offers; the driver tries each and reports the best.
    const STATEMENT_ROWS: &'static [usize] = &[500];

    /// The object this contender inserts from; made of people before the clock starts.
    type New;
    /// The object this contender reads into.
    type Row: AsPerson;

    /// The object to insert a person from, its id left to the store.
    fn new(person: &Person) -> Self::New;

    /// Opens a new store at `place` with an empty table.
    fn open(place: &Place) -> Result<Self>;
    /// Starts the one transaction.
    fn begin(&mut self) -> Result<()>;
    /// Commits the transaction; the rows are then as durable as the setting specifies.
    fn commit(&mut self) -> Result<()>;
    /// Inserts one row a statement, leaving the id to the store, and answers the last id.
    fn insert_each(&mut self, people: &[Self::New]) -> Result<i64>;
    /// Inserts at most 500 people, at most `statement_rows` a statement, leaving the ids to the store.
    /// The driver wraps the call into `begin` and `commit` where it takes several statements.
    fn insert_batch(&mut self, people: &[Self::New], statement_rows: usize) -> Result<()>;
    /// Reads one object an id, a call each, and adds each to the sum.
    fn read_each(&mut self, ids: &[i64], sum: &mut Sum) -> Result<()>;
    /// Reads all rows into objects, in the order of their ids.
    fn list(&mut self) -> Result<Vec<Self::Row>>;
    /// Reads all rows by the fewest means the layer has, making no object, and adds each to the sum.
    fn scan(&mut self, sum: &mut Sum) -> Result<()>;
}
