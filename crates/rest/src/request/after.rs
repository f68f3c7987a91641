//! `Marmota-After: POSITION`: a request that is executed once this process has a position of the
//! change feed. A client that wrote through another process sends the `Marmota-Position` of that
//! write, and reads what it has written.

use std::time::Duration;

use marmota_http::Request;
use marmota_model::Result;
use marmota_store::Store;
use marmota_store::change::Position;

/// The header of a request.
const AFTER: &str = "marmota-after";
/// The maximum wait for a position.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Returns the position that a request waits for, unless it is reached already.
///
/// # Errors
/// [`marmota_model::ErrorKind::Invalid`] for a text that is not a position, or one of another
/// database; [`marmota_model::ErrorKind::Unsupported`] for a store without a change feed.
pub(crate) fn position(request: &Request, store: &Store) -> Result<Option<Position>> {
    let Some(text) = request.header_text(AFTER) else { return Ok(None) };
    let position: Position = text.trim().parse()?;
    Ok(if store.has_reached(position)? { None } else { Some(position) })
}

/// Waits for a position.
///
/// # Errors
/// [`marmota_model::ErrorKind::Timeout`] if it is not reached within 5 seconds.
pub(crate) async fn wait(store: &Store, position: Position) -> Result<()> {
    store.reached(position, WAIT_MAX).await
}
