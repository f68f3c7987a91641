//! Continues a live query at an earlier position: the commits since then are undone on a copy of
//! its window, and the difference of the two pages is the first event.

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Kind, Result, Table, Value};

use super::definition::LiveDefinition;
use super::shared_query::is_changed_end;
use super::update::{LiveContent, LiveUpdate};
use super::window::{ChangedRow, LiveWindow, WindowEffect};
use crate::contract::change::{Commit, Position};
use crate::store::Store;
use crate::verbs::changes::FeedEvent;

/// The number of commits that are undone; after more, a snapshot is cheaper.
const COMMITS_MAX: usize = 10_000;

/// The first event of a subscriber that continues.
pub(crate) enum Resumed {
    /// The page is the same as it was.
    Unchanged,
    /// The changes since the position.
    Patch(Arc<LiveUpdate>),
    /// The page at the position is not known any more.
    Unknown,
}

/// Returns the event that leads from the page at a position to that of the window, which is at
/// another position.
///
/// # Errors
/// Those of the engine that reads stored commits.
pub(crate) async fn resume(
    store: &Store,
    definition: &LiveDefinition,
    window: &LiveWindow,
    from: Position,
    to: Position,
) -> Result<Resumed> {
    if from == to {
        return Ok(Resumed::Unchanged);
    }
    // The rows at the position depend on related rows as they were then.
    if definition.is_related() {
        return Ok(Resumed::Unknown);
    }
    let Some(commits) = commits_between(store, from, to).await? else {
        return Ok(Resumed::Unknown);
    };
    let mut old = window.clone();
    let selector = definition.selector()?;
    for change in commits.iter().rev().flat_map(|commit| commit.changes.iter().rev()) {
        if !Arc::ptr_eq(&change.table, &definition.table) {
            continue;
        }
        let mut rows = change.before.iter().chain(&change.after);
        if !rows.all(|row| is_complete(&definition.table, row)) {
            return Ok(Resumed::Unknown);
        }
        let before = change.before.as_deref().map(ChangedRow::new);
        let after = change.after.as_deref().map(ChangedRow::new);
        let effect = old.apply(&selector, definition, after.as_ref(), before.as_ref());
        if effect == WindowEffect::Conflict {
            return Ok(Resumed::Unknown);
        }
    }
    if !old.is_sufficient(definition) {
        return Ok(Resumed::Unknown);
    }
    let patches = definition.shape().diff(old.page(definition), window.page(definition));
    let (before, end) = (old.end(definition), window.end(definition));
    if patches.is_empty() && !is_changed_end(definition, &before, &end) {
        return Ok(Resumed::Unchanged);
    }
    let content = LiveContent::Patch { patches, before };
    Ok(Resumed::Patch(Arc::new(LiveUpdate::new(to, content, end))))
}

/// Returns the commits after a position and up to another, if the feed has all of them, and they
/// are not too many.
async fn commits_between(
    store: &Store,
    from: Position,
    to: Position,
) -> Result<Option<Vec<Arc<Commit>>>> {
    if from.feed != to.feed || from > to {
        return Ok(None);
    }
    let mut stream = match store.outside().changes()?.from(from) {
        Ok(stream) => stream,
        Err(error) if error.kind() == ErrorKind::Invalid => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut commits = Vec::new();
    while stream.position() < to {
        match stream.next().await? {
            Some(FeedEvent::Commit(commit)) if commits.len() < COMMITS_MAX => commits.push(commit),
            Some(_) => return Ok(None),
            None => return Err(Error::new(ErrorKind::Closed, "the store is closed")),
        }
    }
    Ok((stream.position() == to).then_some(commits))
}

/// Returns true if a recorded row has all fields that the table has now, other than blobs.
fn is_complete(table: &Table, row: &[Value]) -> bool {
    let mut values = table.fields().iter().zip(row);
    values.all(|(field, value)| field.kind == Kind::Blob || !matches!(value, Value::Absent))
}
