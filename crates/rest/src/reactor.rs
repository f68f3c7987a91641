//! Where the server meets the store: engines' sockets are watched by the
//! threads that serve.

use marmota_http::{Watch, watch};
use marmota_store::engine::{Watching, watch_by};

struct Own(Watch);

impl Watching for Own {
    fn is_here(&self) -> bool {
        self.0.is_here()
    }

    fn is_over(&self) -> bool {
        self.0.is_over()
    }
}

/// Has the sockets of engines that handlers wait for (PostgreSQL's, say) watched
/// by the server's threads, instead of by a thread beside them. [`crate::api`]
/// does it, and so does `marmota::open`; calling it again does nothing.
pub fn watch_engines() {
    watch_by(|socket, happened| Some(Box::new(Own(watch(socket, happened)?))));
}
