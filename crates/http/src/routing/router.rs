//! The router: from a method and a path to an endpoint.
//!
//! [`Router`] collects patterns and their endpoints, in any order and from any number of parts of a
//! program. The server turns it into [`Routes`], which find endpoints by a [`PathTree`] and are
//! shared by its threads. Invalid patterns are collected too, and reported when the server starts,
//! so that building a router needs no error handling.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::message::request::{Context, Request};
use crate::message::response::{IntoResponse, Response};
use crate::message::sites::Sites;
use crate::message::thread_locals::ThreadLocals;
use crate::message::writer::ResponseWriter;
use crate::proto::method::Method;
use crate::proto::paths::PathTree;
use crate::proto::status::Status;
use crate::routing::endpoint::Endpoint;
use crate::routing::handler::Flow;
use crate::routing::layer::Layer;
use crate::socket::proxies::Proxies;

/// Maps methods and paths to handlers.
///
/// A pattern is a path whose segments are constants or parameters: `{name}` takes one segment,
/// `{name:int}` one that is an integer, `{name:uuid}` one that is a UUID, `{name:path}` all
/// remaining segments (only at the end of a pattern). In each segment a constant is preferred to a
/// parameter, and `int` and `uuid` to text, in any order of the routes.
///
/// Answers without a handler: 404 for an unknown path, 405 with `Allow` for another method of a
/// known path, 204 with `Allow` for OPTIONS. HEAD is answered by the handler of GET.
///
/// ```
/// use marmota_http::{Request, Response, Router, Status, TestRequest};
/// async fn person(request: Request) -> Response {
///     Response::text(format!("person {}", request.param_int("id").unwrap_or(0)))
/// }
/// let router = Router::new()
///     .get("/people/{id:int}", person)
///     .get("/people/new", |_: Request| async { "a form" });
/// assert_eq!(router.call(TestRequest::get("/people/7"))?.text(), "person 7");
/// assert_eq!(router.call(TestRequest::get("/people/new"))?.text(), "a form");
/// assert_eq!(router.call(TestRequest::get("/people/x"))?.status(), Status::NOT_FOUND);
/// let refused = router.call(TestRequest::delete("/people/7"))?;
/// assert_eq!(refused.status(), Status::METHOD_NOT_ALLOWED);
/// assert_eq!(refused.header("allow"), Some("GET, HEAD, OPTIONS"));
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Default)]
pub struct Router {
    /// The routes, in the order in which they were added.
    routes: Vec<Route>,
    /// The endpoint of paths that no pattern matches.
    fallback: Option<Endpoint>,
    /// The database server on this machine that handlers use.
    pub(crate) local_database: Option<String>,
    /// Invalid settings that were found before the patterns are checked.
    faults: Vec<RouteError>,
}

/// A route.
struct Route {
    /// `None` takes every method.
    method: Option<Method>,
    /// The pattern, with the prefixes of all routers around it.
    pattern: String,
    /// The handler and its settings.
    endpoint: Endpoint,
}

/// A pattern that cannot be routed. Its text names the pattern and the reason.
/// [`Server::start`](crate::Server::start) returns it as a [`ServerError`](crate::ServerError), and
/// [`Router::call`](crate::Router::call) as a [`CallError`](crate::CallError).
///
/// ```
/// use marmota_http::{Request, Router, TestRequest};
/// let router = Router::new().get("/a/{id:float}", |_: Request| async { "" });
/// let error = router.call(TestRequest::get("/a/1")).unwrap_err();
/// assert!(error.to_string().contains("use int, uuid, text or path"), "{error}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteError {
    /// The pattern that is not valid.
    pattern: String,
    /// The reason, for people.
    reason: String,
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "route {:?}: {}", self.pattern, self.reason)
    }
}

impl std::error::Error for RouteError {}

/// Makes the method of a verb.
macro_rules! verbs {
    ($($verb:ident $method:ident)*) => {
        $(#[doc = concat!("Routes ", stringify!($method), " requests of a pattern to an asynchronous function")]
        /// ([`Endpoint::future`]). For other settings than the defaults use [`Router::on`].
        ///
        /// ```
        /// use marmota_http::{Request, Router, TestRequest};
        #[doc = concat!("let router = Router::new().", stringify!($verb), "(\"/task/{id:int}\", |request: Request| async move {")]
        ///     format!("task {}", request.param_int("id").unwrap_or(0))
        /// });
        #[doc = concat!("assert_eq!(router.call(TestRequest::", stringify!($verb), "(\"/task/7\"))?.text(), \"task 7\");")]
        /// # Ok::<(), marmota_http::CallError>(())
        /// ```
        #[must_use]
        pub fn $verb<F, T>(self, pattern: &str, handler: F) -> Self
        where
            F: Fn(Request) -> T + Send + Sync + 'static,
            T: Future + 'static,
            T::Output: IntoResponse,
        {
            self.on(Method::$method, pattern, Endpoint::future(handler))
        })*
    };
}

impl Router {
    /// Returns a router without routes, which answers 404.
    ///
    /// ```
    /// use marmota_http::{Router, Status, TestRequest};
    /// assert_eq!(Router::new().call(TestRequest::get("/"))?.status(), Status::NOT_FOUND);
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    verbs! { get Get post Post put Put patch Patch delete Delete }

    /// Routes a method to a synchronous function that writes into the connection's buffer
    /// ([`Endpoint::direct`]).
    ///
    /// ```
    /// use marmota_http::{Flow, Method, Router, TestRequest};
    /// let router = Router::new().direct(Method::Get, "/square/{n:int}", |request, out| {
    ///     let number = request.param_int_at(0).unwrap_or(0);
    ///     let body = out.content_type("text/plain").body_mut();
    ///     body.extend_from_slice(number.wrapping_mul(number).to_string().as_bytes());
    ///     Flow::Done
    /// });
    /// assert_eq!(router.call(TestRequest::get("/square/12"))?.text(), "144");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    #[must_use]
    pub fn direct<F>(self, method: Method, pattern: &str, handler: F) -> Self
    where
        F: Fn(&Request, &mut ResponseWriter<'_>) -> Flow + Send + Sync + 'static,
    {
        self.on(method, pattern, Endpoint::direct(handler))
    }

    /// Routes a method to an endpoint, which can have limits and layers. Patterns are checked when
    /// the server starts.
    ///
    /// ```
    /// use marmota_http::{Endpoint, Method, Request, Router};
    /// async fn store(request: Request) -> String {
    ///     format!("{} bytes", request.body().len())
    /// }
    /// let endpoint = Endpoint::future(store).body_bytes_max(16 << 20).timeout_ms(5_000);
    /// let router = Router::new().on(Method::Put, "/files/{name}", endpoint);
    /// ```
    #[must_use]
    pub fn on(mut self, method: Method, pattern: &str, endpoint: Endpoint) -> Self {
        self.routes.push(Route { method: Some(method), pattern: pattern.to_owned(), endpoint });
        self
    }

    /// Routes all methods of a pattern to an endpoint, including those that [`Method`] does not
    /// have. A route of the same pattern for one method is preferred.
    ///
    /// ```
    /// use marmota_http::{Endpoint, Method, Request, Router, TestRequest};
    /// let other = |request: Request| async move { request.method_name().to_owned() };
    /// let router = Router::new()
    ///     .any("/dav/{path:path}", Endpoint::future(other))
    ///     .get("/dav/{path:path}", |_: Request| async { "a file" });
    /// assert_eq!(router.call(TestRequest::put("/dav/a/b"))?.text(), "PUT");
    /// assert_eq!(router.call(TestRequest::get("/dav/a/b"))?.text(), "a file");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    #[must_use]
    pub fn any(mut self, pattern: &str, endpoint: Endpoint) -> Self {
        self.routes.push(Route { method: None, pattern: pattern.to_owned(), endpoint });
        self
    }

    /// Adds the routes of another router under a prefix, and its fallback. An empty prefix merges
    /// the routers. Layers of the inner router stay around its routes only.
    ///
    /// ```
    /// use marmota_http::{Method, Request, Router, TestRequest};
    /// let admin = Router::new().get("/users", |_request: Request| async { "users" });
    /// let router = Router::new().nest("/admin", admin);
    /// assert!(router.patterns().any(|route| route == (Some(Method::Get), "/admin/users")));
    /// assert_eq!(router.call(TestRequest::get("/admin/users"))?.text(), "users");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    #[must_use]
    pub fn nest(mut self, prefix: &str, inner: Router) -> Self {
        self.faults.extend(inner.faults);
        self.local_database = self.local_database.or(inner.local_database);
        let prefix = prefix.trim_end_matches('/');
        for mut route in inner.routes {
            route.pattern = format!("{prefix}{}", route.pattern);
            self.routes.push(route);
        }
        match inner.fallback {
            Some(fallback) => self.any(&format!("{prefix}/{{rest:path}}"), fallback),
            None => self,
        }
    }

    /// Wraps all routes added so far, and the fallback, in a layer; the last layer is the
    /// outermost. Requests without a route (404, 405) pass no layer.
    ///
    /// ```
    /// use marmota_http::{RateLimit, Request, Router};
    /// let router = Router::new()
    ///     .get("/search", |_request: Request| async { "found" })
    ///     .layer(RateLimit::per_address(5.0, 20))
    ///     .get("/health", |_request: Request| async { "ok" }); // not limited
    /// ```
    #[must_use]
    pub fn layer(mut self, layer: impl Layer) -> Self {
        let layer: Arc<dyn Layer> = Arc::new(layer);
        if layer.answers_options() {
            self.answer_options();
        }
        self.map(|_, endpoint| endpoint.layered(&layer))
    }

    /// Replaces each endpoint that was routed so far, and the fallback, which has no pattern.
    pub(crate) fn map(mut self, replace: impl Fn(Option<&str>, Endpoint) -> Endpoint) -> Self {
        for route in std::mem::take(&mut self.routes) {
            let endpoint = replace(Some(&route.pattern), route.endpoint);
            self.routes.push(Route { endpoint, ..route });
        }
        self.fallback = self.fallback.map(|endpoint| replace(None, endpoint));
        self
    }

    /// Routes OPTIONS of each pattern that lacks it, so that the layers see such requests.
    fn answer_options(&mut self) {
        let mut patterns: Vec<String> = Vec::new();
        for Route { pattern, .. } in &self.routes {
            let taken = self.routes.iter().any(|route| {
                route.pattern == *pattern && matches!(route.method, None | Some(Method::Options))
            });
            if !taken && !patterns.contains(pattern) {
                patterns.push(pattern.clone());
            }
        }
        for pattern in patterns {
            let endpoint = Endpoint::direct(|request, out| {
                out.respond(options(request));
                Flow::Done
            });
            self.routes.push(Route { method: Some(Method::Options), pattern, endpoint });
        }
    }

    /// Returns the methods and patterns of all routes, in order. A route without a method accepts
    /// all methods.
    ///
    /// ```
    /// use marmota_http::{Method, Request, Router};
    /// let router = Router::new()
    ///     .get("/a", |_: Request| async { "" })
    ///     .post("/b", |_: Request| async { "" });
    /// let patterns: Vec<_> = router.patterns().collect();
    /// assert_eq!(patterns, [(Some(Method::Get), "/a"), (Some(Method::Post), "/b")]);
    /// ```
    pub fn patterns(&self) -> impl Iterator<Item = (Option<Method>, &str)> {
        self.routes.iter().map(|route| (route.method, &*route.pattern))
    }

    /// Returns all routes with their endpoints, in order.
    #[cfg(feature = "schemars")]
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = (Option<Method>, &str, &Endpoint)> {
        self.routes.iter().map(|route| (route.method, &*route.pattern, &route.endpoint))
    }

    /// Sets the endpoint for paths that no pattern matches. Default: 404.
    ///
    /// ```
    /// use marmota_http::{Endpoint, Request, Router, TestRequest};
    /// let other = |request: Request| async move { format!("no page {}", request.path()) };
    /// let router = Router::new().fallback(Endpoint::future(other));
    /// assert_eq!(router.call(TestRequest::get("/x"))?.text(), "no page /x");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    #[must_use]
    pub fn fallback(mut self, endpoint: Endpoint) -> Self {
        self.fallback = Some(endpoint);
        self
    }

    /// Makes the start of a server with these routes fail with this reason, for invalid
    /// combinations of settings in code that builds routers.
    ///
    /// ```
    /// use marmota_http::{Router, TestRequest};
    /// let router = Router::new().refuse("/api", "a read-only API has no uploads");
    /// let error = router.call(TestRequest::get("/api")).unwrap_err();
    /// assert!(error.to_string().contains("a read-only API has no uploads"));
    /// ```
    #[must_use]
    pub fn refuse(mut self, pattern: &str, reason: impl Into<String>) -> Self {
        self.faults.push(RouteError { pattern: pattern.to_owned(), reason: reason.into() });
        self
    }

    /// Declares that handlers use a database server on this machine, for
    /// [`BatchScheduling::Auto`](crate::BatchScheduling::Auto). The text is logged as the reason;
    /// `None` changes nothing. REST and served stores declare their store's.
    ///
    /// ```
    /// # use marmota_http::Router;
    /// let router = Router::new().local_database(Some("PostgreSQL on this machine (127.0.0.1:5432)"));
    /// ```
    #[must_use]
    pub fn local_database(mut self, database: Option<&str>) -> Self {
        self.local_database = self.local_database.or(database.map(str::to_owned));
        self
    }

    /// Builds the routes of a router that is not used any more, for a server.
    pub(crate) fn into_routes(self, proxies: Proxies, sites: Sites) -> Result<Routes, RouteError> {
        self.routes(proxies, sites)
    }

    /// Builds the routes, with the proxies and sites of their server.
    ///
    /// # Errors
    /// The first fault that was reported, or the first pattern that is not valid.
    pub(crate) fn routes(&self, proxies: Proxies, sites: Sites) -> Result<Routes, RouteError> {
        if let Some(fault) = self.faults.first() {
            return Err(fault.clone());
        }
        let patterns: Vec<(Option<Method>, &str)> =
            self.routes.iter().map(|route| (route.method, &*route.pattern)).collect();
        let paths =
            PathTree::build(&patterns, self.fallback.is_some()).map_err(|(at, reason)| {
                RouteError { pattern: self.routes[at].pattern.clone(), reason }
            })?;
        let routes = self.routes.iter().map(|route| &route.endpoint);
        let endpoints: Vec<Endpoint> = routes.chain(&self.fallback).cloned().collect();
        let context = Context {
            paths,
            #[cfg(feature = "compression")]
            compresses_from: endpoints.iter().map(|endpoint| endpoint.compresses_from).collect(),
            proxies,
            sites,
        };
        Ok(Routes { endpoints, context: Arc::new(context) })
    }
}

/// The routes of a server, which its threads share. They may be replaced while it runs; a request
/// keeps those that it was found in.
pub(crate) struct Routes {
    /// The endpoints, by their number; the fallback is the last.
    endpoints: Vec<Endpoint>,
    /// The part of them that requests refer to.
    pub(crate) context: Arc<Context>,
}

impl Routes {
    /// Returns all endpoints, by their number.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.endpoints.iter()
    }

    /// Returns the routes of this thread if they are not these: they were replaced.
    #[inline]
    pub(crate) fn successor(&self, local: &ThreadLocals) -> Option<Arc<Self>> {
        match Arc::ptr_eq(&self.context, local.context()) {
            true => None,
            false => local.replacement()?.downcast().ok(),
        }
    }

    /// Returns true if the routes are not replaced before this request is answered.
    pub(crate) fn is_awaited(&self, request: &Request) -> bool {
        let endpoint = request.0.endpoint.and_then(|index| self.endpoint(index));
        endpoint.is_none_or(|endpoint| !endpoint.outlives_routes)
    }

    /// Returns the endpoint with this number.
    pub(crate) fn endpoint(&self, index: usize) -> Option<&Endpoint> {
        self.endpoints.get(index)
    }
}

/// Returns the answer to an OPTIONS that an endpoint of [`Router::answer_options`] has received.
fn options(request: &Request) -> Response {
    let exchange = &request.0;
    let path = exchange.head.path.of(&exchange.buffer);
    let allow = exchange.context.paths.allow_of(path).to_owned();
    let mut response = Response::new(Status::NO_CONTENT);
    // Names of methods are fit for a header.
    let _ = response.add_header("Allow".into(), allow.into_bytes().into());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(patterns: &[(Method, &str)]) -> Result<Routes, RouteError> {
        let endpoint = || Endpoint::direct(|_, _| Flow::Done);
        let router = patterns
            .iter()
            .fold(Router::new(), |router, (method, path)| router.on(*method, path, endpoint()));
        router.routes(Proxies::default(), Sites::default())
    }

    #[test]
    fn bad_patterns_say_what_is_wrong() {
        for (pattern, reason) in [
            ("a", "start with a slash"),
            ("/{a:float}", "not a kind"),
            ("/{}", "not a valid name"),
            ("/{a}/{a}", "occurs twice"),
            ("/{a:path}/b", "last segment"),
            ("/a{b}", "neither a constant"),
        ] {
            let error = routes(&[(Method::Get, pattern)]).err().unwrap().to_string();
            assert!(error.contains(reason), "{error}");
        }
        let error = routes(&[(Method::Get, "/{a}"), (Method::Get, "/{b}")]).err().unwrap();
        assert!(error.to_string().contains("GET is routed twice"));
    }
}
