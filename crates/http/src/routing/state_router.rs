//! A router whose handlers take typed parts of a request and a state that they share.

use std::fmt;

use crate::proto::method::Method;
use crate::routing::endpoint::Endpoint;
use crate::routing::layer::Layer;
use crate::routing::router::Router;
use crate::routing::typed_handler::TypedHandler;

/// A router whose handlers are functions of [extractors](crate::extract): see
/// [`Router::with_state`].
pub struct StateRouter<S> {
    state: S,
    pub(crate) router: Router,
}

macro_rules! verbs {
    ($($verb:ident $method:ident)*) => {
        $(#[doc = concat!("Routes ", stringify!($method), " requests of a pattern to an asynchronous function of extractors.")]
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
    /// use marmota_http::{Method, Router};
    /// async fn count(Json(numbers): Json<Vec<f64>>) -> Json<usize> {
    ///     Json(numbers.len())
    /// }
    /// let router = Router::with_state(())
    ///     .on(Method::Post, "/count", count, |endpoint| endpoint.body_bytes_max(64 << 20))
    ///     .router();
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
    #[must_use]
    pub fn layer(mut self, layer: impl Layer) -> Self {
        self.router = self.router.layer(layer);
        self
    }

    /// Returns the routes as a router, to be served or nested.
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
