//! The events of a live query: snapshots and patches of its page.

use std::sync::Arc;

use marmota_model::{FieldSet, Value};
use parking_lot::Mutex;

use crate::contract::change::Position;

/// A row of a live query: a value for each field of the table. Fields that the query does not read
/// are absent.
pub type LiveRow = Arc<[Value]>;

/// A change of the page of a live query.
///
/// The patches of an event are applied in their order: each index is that in the page after the
/// patches before it.
#[derive(Clone, Debug, PartialEq)]
pub enum RowPatch<R = LiveRow> {
    /// The row at this index is not in the page any more.
    Remove {
        /// The index of the row.
        index: usize,
    },
    /// The row is new in the page, before the row that had this index.
    Add {
        /// The index of the row.
        index: usize,
        /// The row.
        row: R,
    },
    /// The row at this index has other values.
    Update {
        /// The index of the row.
        index: usize,
        /// The whole row after the change.
        row: R,
        /// The fields with other values.
        changed: FieldSet,
    },
}

/// An event of a live query.
///
/// ```
/// use marmota_store::live::{LiveEvent, RowPatch};
///
/// let position = "5f2b8e0c9a4d71630000000000000007".parse()?;
/// let patches = vec![RowPatch::Remove { index: 0 }, RowPatch::Add { index: 1, row: "Lyon" }];
/// let event = LiveEvent::Patch { position, patches, count: None, has_more: false };
/// let mut page = vec!["Arles", "Bourges"];
/// event.apply_to(&mut page);
/// assert_eq!(page, ["Bourges", "Lyon"]);
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum LiveEvent<R = LiveRow> {
    /// The whole page. It is the first event, and follows if a subscriber was too slow for patches
    /// or commits were removed from the feed.
    Snapshot {
        /// The position of the page in the change feed.
        position: Position,
        /// The rows.
        rows: Vec<R>,
        /// The number of all rows that the filter selects, if it was requested.
        count: Option<u64>,
        /// True if more rows follow the page.
        has_more: bool,
    },
    /// The changes that one or more commits made in the page.
    Patch {
        /// The position of the changed page in the change feed.
        position: Position,
        /// The changes, in the order in which they are applied.
        patches: Vec<RowPatch<R>>,
        /// The number of all rows that the filter selects, if it was requested.
        count: Option<u64>,
        /// True if more rows follow the page.
        has_more: bool,
    },
}

impl<R> LiveEvent<R> {
    /// Returns the position of the page after the event.
    #[must_use]
    pub const fn position(&self) -> Position {
        match self {
            Self::Snapshot { position, .. } | Self::Patch { position, .. } => *position,
        }
    }

    /// Returns the number of all rows that the filter selects, if it was requested.
    #[must_use]
    pub const fn count(&self) -> Option<u64> {
        match self {
            Self::Snapshot { count, .. } | Self::Patch { count, .. } => *count,
        }
    }

    /// Returns true if more rows follow the page.
    #[must_use]
    pub const fn has_more(&self) -> bool {
        match self {
            Self::Snapshot { has_more, .. } | Self::Patch { has_more, .. } => *has_more,
        }
    }
}

impl<R: Clone> LiveEvent<R> {
    /// Changes a page to the page after the event.
    pub fn apply_to(&self, page: &mut Vec<R>) {
        match self {
            Self::Snapshot { rows, .. } => page.clone_from(rows),
            Self::Patch { patches, .. } => apply_patches(page, patches),
        }
    }
}

/// Applies patches to the page that they were made for.
pub(crate) fn apply_patches<R: Clone>(page: &mut Vec<R>, patches: &[RowPatch<R>]) {
    for patch in patches {
        match patch {
            RowPatch::Remove { index } => drop(page.remove(*index)),
            RowPatch::Add { index, row } => page.insert(*index, row.clone()),
            RowPatch::Update { index, row, .. } => page[*index] = row.clone(),
        }
    }
}

/// The facts about a page that are not in its rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageEnd {
    /// The number of all rows that the filter selects, if it was requested.
    pub count: Option<u64>,
    /// True if more rows follow the page.
    pub has_more: bool,
    /// The last row of the page, with the fields of the order: the next page begins after it.
    pub last: Option<LiveRow>,
}

/// The content of a [`LiveUpdate`].
#[derive(Clone, Debug)]
pub enum LiveContent {
    /// The whole page.
    Snapshot(Vec<LiveRow>),
    /// The changes of the page.
    Patch {
        /// The changes, in the order in which they are applied.
        patches: Vec<RowPatch>,
        /// The end of the page before the changes.
        before: PageEnd,
    },
}

/// An event of a live query, which all its subscribers share.
#[derive(Debug)]
pub struct LiveUpdate {
    /// The position of the page after the event.
    pub position: Position,
    /// The rows, or their changes.
    pub content: LiveContent,
    /// The end of the page after the event.
    pub end: PageEnd,
    renderings: Mutex<Vec<Rendering>>,
}

/// An update as bytes, with the name of their form.
#[derive(Debug)]
struct Rendering {
    name: Box<str>,
    bytes: Arc<[u8]>,
}

/// The number of renderings that an update keeps. Subscribers of one query usually have one URL.
const RENDERINGS_MAX: usize = 4;

impl LiveUpdate {
    pub(crate) fn new(position: Position, content: LiveContent, end: PageEnd) -> Self {
        Self { position, content, end, renderings: Mutex::default() }
    }

    /// Returns the update as bytes, which `render` makes once for all subscribers with this name,
    /// such as a URL.
    pub fn rendered(&self, name: &str, render: impl FnOnce(&Self) -> Vec<u8>) -> Arc<[u8]> {
        let mut renderings = self.renderings.lock();
        if let Some(known) = renderings.iter().find(|known| *known.name == *name) {
            return Arc::clone(&known.bytes);
        }
        let bytes: Arc<[u8]> = render(self).into();
        if renderings.len() < RENDERINGS_MAX {
            renderings.push(Rendering { name: name.into(), bytes: Arc::clone(&bytes) });
        }
        bytes
    }

    /// Returns the event, with each row converted.
    ///
    /// # Errors
    /// The first error of `convert`.
    pub fn event<R, E>(
        &self,
        mut convert: impl FnMut(&LiveRow) -> Result<R, E>,
    ) -> Result<LiveEvent<R>, E> {
        let (position, count, has_more) = (self.position, self.end.count, self.end.has_more);
        Ok(match &self.content {
            LiveContent::Snapshot(rows) => {
                let rows = rows.iter().map(convert).collect::<Result<_, E>>()?;
                LiveEvent::Snapshot { position, rows, count, has_more }
            }
            LiveContent::Patch { patches, .. } => {
                let mut converted = Vec::with_capacity(patches.len());
                for patch in patches {
                    converted.push(match patch {
                        RowPatch::Remove { index } => RowPatch::Remove { index: *index },
                        RowPatch::Add { index, row } => {
                            RowPatch::Add { index: *index, row: convert(row)? }
                        }
                        RowPatch::Update { index, row, changed } => {
                            let (index, changed) = (*index, *changed);
                            RowPatch::Update { index, row: convert(row)?, changed }
                        }
                    });
                }
                LiveEvent::Patch { position, patches: converted, count, has_more }
            }
        })
    }

    /// Returns the approximate number of bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        let of_row = |row: &LiveRow| row.iter().map(value_bytes).sum::<usize>();
        size_of::<Self>()
            + match &self.content {
                LiveContent::Snapshot(rows) => rows.iter().map(of_row).sum::<usize>(),
                LiveContent::Patch { patches, .. } => {
                    let of_patch = |patch: &RowPatch| match patch {
                        RowPatch::Remove { .. } => 0,
                        RowPatch::Add { row, .. } | RowPatch::Update { row, .. } => of_row(row),
                    };
                    patches
                        .iter()
                        .map(|patch| size_of::<RowPatch>() + of_patch(patch))
                        .sum::<usize>()
                }
            }
    }
}

fn value_bytes(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Text(text) | Value::Json(text) => text.len(),
            Value::Blob(bytes) => bytes.len(),
            _ => 0,
        }
}
