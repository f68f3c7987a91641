//! Connects the server and the store: engines' sockets are watched by the server's threads.
//!
//! A server has a thread for each event loop. While a handler waits for a query, the connection to
//! the database is a socket that becomes readable. If the event loop of the handler watches this
//! socket, the result arrives on the thread that continues the handler, without a switch to another
//! thread.
//!
//! The store does not depend on the server. It has a slot for a function that watches sockets
//! ([`watch_by`]), which this module sets.

use marmota_http::{ReadinessWatch, watch};
use marmota_store::engine::{Watching, watch_by};

/// A socket that the calling thread's event loop watches, as the store sees it.
struct Own(ReadinessWatch);

impl Watching for Own {
    fn is_here(&self) -> bool {
        self.0.is_here()
    }

    fn is_over(&self) -> bool {
        self.0.is_over()
    }
}

/// Lets the server's threads watch the sockets of engines (for example PostgreSQL) that handlers
/// wait for, instead of a separate thread. [`crate::api()`] and `marmota::open` call this; repeated
/// calls have no effect.
///
/// On a thread that does not belong to a server, sockets are watched by the store's own thread as
/// before.
///
/// ```
/// // A program with its own routes calls it once, before it opens its store.
/// marmota_rest::watch_engines();
/// ```
pub fn watch_engines() {
    watch_by(|socket, happened| Some(Box::new(Own(watch(socket, happened)?))));
}
