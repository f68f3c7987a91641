//! Whether a service lives, and whether it is ready for requests: what schedulers and load
//! balancers ask.

use std::sync::Arc;

use crate::proto::method::Method;
use crate::proto::status::Status;
use crate::routing::handler::Flow;
use crate::routing::router::Router;

impl Router {
    /// Answers `/healthz` with 200 for as long as the process serves, and `/readyz` with 200
    /// while `ready` says so and the server is not going down, else 503. `ready` is asked on the
    /// threads that serve: it must not take long.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use marmota_http::Router;
    /// let warm = Arc::new(AtomicBool::new(false));
    /// let router = Router::new().health(move || warm.load(Ordering::Relaxed));
    /// ```
    #[must_use]
    pub fn health(self, ready: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let ready = Arc::new(ready);
        self.direct(Method::Get, "/healthz", |_, out| {
            out.send("text/plain", b"ok\n");
            Flow::Done
        })
        .direct(Method::Get, "/readyz", move |_, out| {
            if !out.local().draining && ready() {
                out.send("text/plain", b"ready\n");
            } else {
                out.status(Status::SERVICE_UNAVAILABLE).send("text/plain", b"not ready\n");
            }
            Flow::Done
        })
    }
}
