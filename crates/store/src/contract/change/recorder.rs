//! What an engine needs to record changes, and where it reports its commits.

use std::fmt;
use std::sync::Arc;

use hashbrown::HashMap;
use marmota_model::{FieldSet, Kind, Table, Timestamp, ValueRef};

/// Records the changes of an engine. The store passes it to
/// [`Engine::record_changes`](crate::engine::Engine::record_changes).
///
/// For each transaction that has changed rows of a [recorded table](Self::of), the engine
/// 1. inserts [a row](Self::row) into [the table of commits](Self::table) before it commits, whose
///    automatic key is the number of the commit, and
/// 2. calls [`Self::committed`] after the commit, with that number.
///
/// A commit that is visible to reads MUST have its row in the table of commits; commits that wrote
/// to the same row MUST have numbers in the order of these writes.
pub struct ChangeRecorder {
    /// The table of commits.
    table: Arc<Table>,
    /// The recorded tables, by the address of the table.
    recorded: HashMap<usize, RecordedTable>,
    /// The recorded tables, by their name in lower case.
    named: HashMap<String, usize>,
    receiver: Arc<dyn CommitReceiver>,
}

/// A table whose changes are recorded.
#[derive(Clone, Debug)]
pub struct RecordedTable {
    /// Its number in encoded changes: it stands for the fields that the table has now.
    number: u32,
    table: Arc<Table>,
    /// The fields whose values are not recorded.
    blobs: FieldSet,
}

/// Receives the commits of an engine.
pub(crate) trait CommitReceiver: Send + Sync {
    /// Returns true if there are readers of the feed.
    fn has_readers(&self) -> bool;

    /// The commit with this number is visible to reads, and on the disk as far as its durability
    /// demands.
    fn committed(&self, number: u64, at: Timestamp, changes: Option<Vec<u8>>);

    /// The commit with this number, and all before it, are visible to reads; their changes are in
    /// the table of commits.
    fn committed_in_order(&self, number: u64);

    /// The commit with this number is visible to reads; its changes are in the table of commits.
    fn acknowledged(&self, number: u64);

    /// The table of commits may have commits that were not reported.
    fn changed(&self);
}

impl ChangeRecorder {
    /// Creates the recorder of a feed. `recorded` are the tables whose changes are recorded.
    pub(crate) fn new(
        table: Arc<Table>,
        recorded: impl IntoIterator<Item = RecordedTable>,
        receiver: Arc<dyn CommitReceiver>,
    ) -> Self {
        let recorded = recorded.into_iter().map(|known| (address(&known.table), known));
        let recorded: HashMap<usize, RecordedTable> = recorded.collect();
        let named = recorded.iter();
        let named = named.map(|(&at, known)| (known.table.name().to_ascii_lowercase(), at));
        Self { table, named: named.collect(), recorded, receiver }
    }

    /// Returns the table of commits.
    #[must_use]
    pub const fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Returns the table if its changes are recorded. It is found by its identity: it is the table
    /// of an operation of this store.
    #[must_use]
    #[inline]
    pub fn of(&self, table: &Table) -> Option<&RecordedTable> {
        self.recorded.get(&(std::ptr::from_ref(table) as usize))
    }

    /// Returns the tables whose changes are recorded.
    pub fn tables(&self) -> impl Iterator<Item = &RecordedTable> {
        self.recorded.values()
    }

    /// Returns the table with this name, without regard to ASCII case, if its changes are recorded.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&RecordedTable> {
        self.recorded.get(self.named.get(&*name.to_ascii_lowercase())?)
    }

    /// Returns a row for the table of commits. Its key is absent: the engine assigns the number.
    #[must_use]
    pub const fn row<'a>(&self, at: Timestamp, changes: &'a [u8]) -> [ValueRef<'a>; 4] {
        let bytes = ValueRef::Int(changes.len() as i64);
        [ValueRef::Absent, ValueRef::Timestamp(at), bytes, ValueRef::Blob(changes)]
    }

    /// Returns the changes of a commit for [`Self::committed`]: a copy if there are readers.
    #[must_use]
    #[inline]
    pub fn for_readers(&self, changes: &[u8]) -> Option<Vec<u8>> {
        self.receiver.has_readers().then(|| changes.to_vec())
    }

    /// Reports a commit with its number, its time and its encoded changes; without these, readers
    /// read the table of commits. It does not block, and may be called from any thread. Commits of
    /// different threads may be reported in any order.
    pub fn committed(&self, number: u64, at: Timestamp, changes: Option<Vec<u8>>) {
        self.receiver.committed(number, at, changes);
    }

    /// Reports a commit without its changes, which readers read from the table of commits. All
    /// commits before it are visible to reads, and have their durability: so it costs less than
    /// [`Self::committed`]. It may be called before the lock of the table of commits is released,
    /// because readers wait for that.
    #[inline]
    pub fn committed_in_order(&self, number: u64) {
        self.receiver.committed_in_order(number);
    }

    /// Reports a commit of an engine with [`Capability::shared_commits`]: its number only, as the
    /// database has made the row. It does not block, and may be called from any thread.
    ///
    /// [`Capability::shared_commits`]: crate::engine::Capability::shared_commits
    pub fn acknowledged(&self, number: u64) {
        self.receiver.acknowledged(number);
    }

    /// Reports that the table of commits may have commits of other processes, or some of this one
    /// whose results are unknown. It does not block, and may be called from any thread.
    pub fn changed(&self) {
        self.receiver.changed();
    }
}

impl fmt::Debug for ChangeRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeRecorder").field("tables", &self.named.keys()).finish()
    }
}

impl RecordedTable {
    pub(crate) fn new(number: u32, table: Arc<Table>) -> Self {
        let fields = table.fields().iter().enumerate();
        let blobs = fields.filter(|(_, field)| field.kind == Kind::Blob);
        let blobs = blobs.fold(FieldSet::default(), |set, (place, _)| set.with(place));
        Self { number, table, blobs }
    }

    /// Returns the number of the table in encoded changes.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Returns the table.
    #[must_use]
    pub const fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Returns the value as it is recorded.
    #[inline]
    pub(super) fn kept<'a>(&self, place: usize, value: ValueRef<'a>) -> ValueRef<'a> {
        match value {
            _ if self.blobs.contains(place) => ValueRef::Absent,
            ValueRef::Absent => ValueRef::Null,
            value => value,
        }
    }
}

fn address(table: &Arc<Table>) -> usize {
    Arc::as_ptr(table) as usize
}
