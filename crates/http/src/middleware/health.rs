//! Two routes for schedulers and load balancers, such as Kubernetes' probes: whether the process is
//! alive, and whether it is ready for requests.

use std::sync::Arc;

use crate::proto::method::Method;
use crate::proto::status::Status;
use crate::routing::handler::Flow;
use crate::routing::router::Router;

impl Router {
    /// Answers `/healthz` with 200 as long as the process serves. Answers `/readyz` with 200 while
    /// `ready` returns true and the server is not shutting down, else with 503.
    ///
    /// `ready` is called on the server's threads, so it must return quickly: read a flag, do not
    /// query a database.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use marmota_http::{Router, Status, TestRequest};
    ///
    /// let warm = Arc::new(AtomicBool::new(false));
    /// let is_warm = Arc::clone(&warm);
    /// let router = Router::new().health(move || is_warm.load(Ordering::Relaxed));
    /// assert_eq!(router.call(TestRequest::get("/readyz"))?.status(), Status::SERVICE_UNAVAILABLE);
    /// warm.store(true, Ordering::Relaxed);
    /// assert_eq!(router.call(TestRequest::get("/readyz"))?.text(), "ready\n");
    /// # Ok::<(), marmota_http::CallError>(())
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
