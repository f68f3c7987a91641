//! From method and path to an endpoint. [`Router`] collects patterns and their endpoints; the server
//! turns it into [`Routes`], which find endpoints by a [`PathTree`].

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::message::request::{Context, Request};
use crate::message::response::{IntoResponse, Response};
use crate::message::sites::Sites;
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
/// `{name:int}` one that is an integer, `{name:uuid}` one that is a UUID, `{name:path}` all the
/// rest (the last segment of a pattern only).
///
/// ```
/// use marmota_http::{Request, Response, Router};
/// async fn person(request: Request) -> Response {
///     Response::text(format!("person {}", request.param_int("id").unwrap_or(0)))
/// }
/// let router = Router::new().get("/people/{id:int}", person);
/// ```
#[derive(Default)]
pub struct Router {
    entries: Vec<Entry>,
    fallback: Option<Endpoint>,
    /// The database server on this machine that handlers use.
    pub(crate) local_database: Option<String>,
    /// What was found wrong before the patterns are looked at.
    faults: Vec<RouteError>,
}

struct Entry {
    /// `None` takes every method.
    method: Option<Method>,
    pattern: String,
    endpoint: Endpoint,
}

/// A pattern that cannot be routed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteError {
    pattern: String,
    reason: String,
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "route {:?}: {}", self.pattern, self.reason)
    }
}

impl std::error::Error for RouteError {}

macro_rules! verbs {
    ($($verb:ident $method:ident)*) => {
        $(#[doc = concat!("Routes ", stringify!($method), " requests of a pattern to an asynchronous function.")]
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
    pub fn new() -> Self {
        Self::default()
    }

    verbs! { get Get post Post put Put patch Patch delete Delete }

    /// Routes a method to a synchronous function that writes into the connection's buffer.
    #[must_use]
    pub fn direct<F>(self, method: Method, pattern: &str, handler: F) -> Self
    where
        F: Fn(&Request, &mut ResponseWriter<'_>) -> Flow + Send + Sync + 'static,
    {
        self.on(method, pattern, Endpoint::direct(handler))
    }

    /// Routes a method to an endpoint, which can have limits and layers. Patterns are checked when the
    /// server starts.
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
        self.entries.push(Entry { method: Some(method), pattern: pattern.to_owned(), endpoint });
        self
    }

    /// Routes every method of a pattern to an endpoint, including those that [`Method`] does not have.
    #[must_use]
    pub fn any(mut self, pattern: &str, endpoint: Endpoint) -> Self {
        self.entries.push(Entry { method: None, pattern: pattern.to_owned(), endpoint });
        self
    }

    /// Adds the routes of another router under a prefix, and its fallback. An empty prefix merges the
    /// routers.
    ///
    /// ```
    /// use marmota_http::{Method, Request, Router};
    /// let admin = Router::new().get("/users", |_request: Request| async { "users" });
    /// let router = Router::new().nest("/admin", admin);
    /// assert!(router.patterns().any(|route| route == (Some(Method::Get), "/admin/users")));
    /// ```
    #[must_use]
    pub fn nest(mut self, prefix: &str, inner: Router) -> Self {
        self.faults.extend(inner.faults);
        self.local_database = self.local_database.or(inner.local_database);
        let prefix = prefix.trim_end_matches('/');
        for mut entry in inner.entries {
            entry.pattern = format!("{prefix}{}", entry.pattern);
            self.entries.push(entry);
        }
        match inner.fallback {
            Some(fallback) => self.any(&format!("{prefix}/{{rest:path}}"), fallback),
            None => self,
        }
    }

    /// Wraps all routes added so far, and the fallback, in a layer; the last layer is the outermost.
    /// Requests without a route (404, 405) pass no layer.
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

    /// Replaces each endpoint that was routed so far, the fallback (without a pattern) too.
    pub(crate) fn map(mut self, replace: impl Fn(Option<&str>, Endpoint) -> Endpoint) -> Self {
        for entry in std::mem::take(&mut self.entries) {
            let endpoint = replace(Some(&entry.pattern), entry.endpoint);
            self.entries.push(Entry { endpoint, ..entry });
        }
        self.fallback = self.fallback.map(|endpoint| replace(None, endpoint));
        self
    }

    /// Routes OPTIONS of each pattern that lacks it, for layers to see.
    fn answer_options(&mut self) {
        let mut patterns: Vec<String> = Vec::new();
        for Entry { pattern, .. } in &self.entries {
            let taken = self.entries.iter().any(|entry| {
                entry.pattern == *pattern && matches!(entry.method, None | Some(Method::Options))
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
            self.entries.push(Entry { method: Some(Method::Options), pattern, endpoint });
        }
    }

    /// Returns the methods and patterns of all routes, in order. A route without a method takes all
    /// methods.
    pub fn patterns(&self) -> impl Iterator<Item = (Option<Method>, &str)> {
        self.entries.iter().map(|entry| (entry.method, &*entry.pattern))
    }

    /// Sets the endpoint for paths that no pattern matches. Default: 404.
    ///
    /// ```
    /// use marmota_http::{Endpoint, Request, Router};
    /// let other = |request: Request| async move { format!("no page {}", request.path()) };
    /// let router = Router::new().fallback(Endpoint::future(other));
    /// ```
    #[must_use]
    pub fn fallback(mut self, endpoint: Endpoint) -> Self {
        self.fallback = Some(endpoint);
        self
    }

    /// Makes the start of a server with these routes fail with this reason, for invalid combinations
    /// of settings.
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

    /// Builds the tree of a router that is not used any more.
    pub(crate) fn into_routes(self, proxies: Proxies, sites: Sites) -> Result<Routes, RouteError> {
        self.routes(proxies, sites)
    }

    /// Builds the tree.
    pub(crate) fn routes(&self, proxies: Proxies, sites: Sites) -> Result<Routes, RouteError> {
        if let Some(fault) = self.faults.first() {
            return Err(fault.clone());
        }
        let patterns: Vec<(Option<Method>, &str)> =
            self.entries.iter().map(|entry| (entry.method, &*entry.pattern)).collect();
        let paths =
            PathTree::build(&patterns, self.fallback.is_some()).map_err(|(at, reason)| {
                RouteError { pattern: self.entries[at].pattern.clone(), reason }
            })?;
        let entries = self.entries.iter().map(|entry| &entry.endpoint);
        let endpoints: Vec<Endpoint> = entries.chain(&self.fallback).cloned().collect();
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

/// The routes of a server, which its threads share.
pub(crate) struct Routes {
    endpoints: Vec<Endpoint>,
    pub(crate) context: Arc<Context>,
}

impl Routes {
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.endpoints.iter()
    }

    pub(crate) fn endpoint(&self, index: usize) -> Option<&Endpoint> {
        self.endpoints.get(index)
    }
}

/// The answer to an OPTIONS that an endpoint of the router's own has taken.
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
            ("a", "starts with a slash"),
            ("/{a:float}", "no kind"),
            ("/{}", "no name"),
            ("/{a}/{a}", "named twice"),
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
