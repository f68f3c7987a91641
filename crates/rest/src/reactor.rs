//! Connects the server and the store: engines' sockets are watched by the server's threads.

use marmota_http::{ReadinessWatch, watch};
use marmota_store::engine::{Watching, watch_by};

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
/// wait for, instead of a separate thread. [`crate::api`] and `marmota::open` call this; repeated
/// calls have no effect.
pub fn watch_engines() {
    watch_by(|socket, happened| Some(Box::new(Own(watch(socket, happened)?))));
}
