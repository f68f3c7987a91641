//! A router whose handlers take typed parts of a request and a state that they share.

use std::fmt;

use crate::proto::method::Method;
use crate::routing::endpoint::Endpoint;
use crate::routing::layer::Layer;
use crate::routing::router::Router;
use crate::routing::typed_handler::TypedHandler;

/// A router whose handlers are functions of [extractors](crate::extract): see
/// [`Router::with_state`].
///
/// ```
/// use marmota_http::extract::{Json, State};
/// use marmota_http::{Router, TestRequest};
/// async fn limit(State(limit): State<u32>) -> Json<u32> {
///     Json(limit)
/// }
/// let typed = Router::with_state(7).get("/limit", limit);
/// // Routes with another state, or without one, are nested.
/// let router = Router::new().nest("/api", typed.router());
/// assert_eq!(router.call(TestRequest::get("/api/limit"))?.text(), "7");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
pub struct StateRouter<S> {
    /// The state, which each handler added later gets.
    state: S,
    /// The routes so far.
    pub(crate) router: Router,
}

/// Makes the method of a verb.
macro_rules! verbs {
    ($($verb:ident $method:ident)*) => {
        $(#[doc = concat!("Routes ", stringify!($method), " requests of a pattern to an asynchronous function of extractors.")]
        ///
        /// ```
        /// use marmota_http::extract::Path;
        /// use marmota_http::{Router, TestRequest};
        /// async fn task(Path(id): Path<u32>) -> String {
        ///     format!("task {id}")
        /// }
        #[doc = concat!("let router = Router::with_state(()).", stringify!($verb), "(\"/task/{id}\", task);")]
        #[doc = concat!("assert_eq!(router.call(TestRequest::", stringify!($verb), "(\"/task/7\"))?.text(), \"task 7\");")]
        /// # Ok::<(), marmota_http::CallError>(())
        /// ```
        #[must_use]
        pub fn $verb<A>(self, pattern: &str, handler: impl TypedHandler<A, S>) -> Self {
            self.on(Method::$method, pattern, handler, |endpoint| endpoint)
        })*
    };
}

impl Router {
    /// Begins routes whose handlers are functions of [extractors](crate::extract) and share a state,
    /// such as a store. The state is cloned for each request that takes it by
    /// [`State`](crate::extract::State). `()` is for handlers without one.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use marmota_http::{Router, TestRequest};
    /// use marmota_http::extract::{Path, State};
    ///
    /// type Names = Arc<Vec<String>>;
    ///
    /// async fn name(State(names): State<Names>, Path(index): Path<usize>) -> String {
    ///     names.get(index).cloned().unwrap_or_default()
    /// }
    ///
    /// let names: Names = Arc::new(vec!["Ada".to_owned()]);
    /// let router = Router::with_state(names).get("/names/{index}", name);
    /// assert_eq!(router.call(TestRequest::get("/names/0"))?.text(), "Ada");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn with_state<S: Clone + Send + Sync + 'static>(state: S) -> StateRouter<S> {
        StateRouter { state, router: Self::new() }
    }
}

impl<S: Clone + Send + Sync + 'static> StateRouter<S> {
    verbs! { get Get post Post put Put patch Patch delete Delete }

    /// Routes a method to a function of extractors, by an endpoint with other settings.
    ///
    /// ```
    /// use marmota_http::extract::Json;
    /// use marmota_http::{Method, Router, TestRequest};
    /// async fn count(Json(numbers): Json<Vec<f64>>) -> Json<usize> {
    ///     Json(numbers.len())
    /// }
    /// let router = Router::with_state(())
    ///     .on(Method::Post, "/count", count, |endpoint| endpoint.body_bytes_max(64 << 20))
    ///     .router();
    /// assert_eq!(router.call(TestRequest::post("/count").json(&[1.0, 2.0]))?.text(), "2");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    #[must_use]
    pub fn on<A>(
        mut self,
        method: Method,
        pattern: &str,
        handler: impl TypedHandler<A, S>,
        settings: impl FnOnce(Endpoint) -> Endpoint,
    ) -> Self {
        let endpoint = settings(handler.endpoint(self.state.clone()));
        self.router = self.router.on(method, pattern, endpoint);
        self
    }

    /// Wraps all routes added so far in a layer, as [`Router::layer`] does.
    ///
    /// ```
    /// use marmota_http::{RateLimit, Router};
    /// let router = Router::with_state(())
    ///     .get("/search", || async { "found" })
    ///     .layer(RateLimit::per_address(5.0, 20));
    /// ```
    #[must_use]
    pub fn layer(mut self, layer: impl Layer) -> Self {
        self.router = self.router.layer(layer);
        self
    }

    /// Returns the routes as a router, to be served or nested.
    ///
    /// ```
    /// use marmota_http::{Router, TestRequest};
    /// let router: Router = Router::with_state(()).get("/", || async { "ok" }).router();
    /// assert_eq!(router.call(TestRequest::get("/"))?.text(), "ok");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    #[must_use]
    pub fn router(self) -> Router {
        self.router
    }
}

impl<S> From<StateRouter<S>> for Router {
    fn from(typed: StateRouter<S>) -> Self {
        typed.router
    }
}

impl<S> fmt::Debug for StateRouter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateRouter").finish_non_exhaustive()
    }
}
