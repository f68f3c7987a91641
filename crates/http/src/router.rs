//! From method and path to an endpoint. [`Router`] collects patterns; the server turns it into
//! [`Routes`], a tree by segments that all threads share and that never changes.
//!
//! In each segment a constant wins over a parameter, `int` and `uuid` win over plain text, and
//! the rest of a path comes last. The node that is found decides: a method it does not have is
//! a 405, even where another pattern would have matched too.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::handler::{Endpoint, Flow};
use crate::head::Span;
use crate::layer::{Layer, Layered};
use crate::method::Method;
use crate::percent;
use crate::proxies::Proxies;
use crate::request::Request;
use crate::response::{IntoResponse, Response};
use crate::same_origin::Sites;
use crate::status::Status;
use crate::writer::ResponseWriter;

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
        self.map(|_, endpoint| Layered::around(&layer, endpoint))
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
                out.respond(request.0.routes.options(request));
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

    /// Builds the tree.
    pub(crate) fn into_routes(self) -> Result<Routes, RouteError> {
        if let Some(fault) = self.faults.into_iter().next() {
            return Err(fault);
        }
        let mut routes = Routes::new();
        for entry in self.entries {
            routes.add(entry)?;
        }
        if let Some(endpoint) = self.fallback {
            routes.fallback = Some(routes.endpoints.len());
            routes.endpoints.push(Route { endpoint, params: Vec::new() });
        }
        routes.constant = ConstantPaths::of(&routes.nodes);
        for leaf in routes.nodes.iter_mut().filter_map(|node| node.leaf.as_mut()) {
            leaf.allow = leaf.allow_text();
        }
        Ok(routes)
    }
}

/// The finished tree.
#[derive(Debug)]
pub(crate) struct Routes {
    nodes: Vec<Node>,
    endpoints: Vec<Route>,
    fallback: Option<usize>,
    constant: ConstantPaths,
    /// Who may say for whom a request is; beside the routes, because each request has them.
    pub(crate) proxies: Proxies,
    /// The origins and hosts allowed in addition to the server's own.
    pub(crate) sites: Sites,
}

/// An endpoint and the names of its pattern's parameters.
struct Route {
    endpoint: Endpoint,
    params: Vec<String>,
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route").field("params", &self.params).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Node {
    constants: Vec<(Box<[u8]>, usize)>,
    int: Option<usize>,
    uuid: Option<usize>,
    text: Option<usize>,
    /// The rest of the path ends here whatever it is.
    rest: Option<usize>,
    leaf: Option<Box<Leaf>>,
}

#[derive(Debug, Default)]
struct Leaf {
    named: [Option<usize>; Method::NAMED],
    any: Option<usize>,
    allow: String,
}

/// What a method and a path lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// This endpoint.
    Endpoint(usize),
    /// An OPTIONS that the node answers by itself, with its `Allow`.
    Options(usize),
    /// A node without this method.
    NotAllowed(usize),
    Nothing,
    /// A method without a name where no endpoint takes all.
    NotImplemented,
}

enum Segment<'a> {
    Constant(&'a str),
    Param(&'a str, Kind),
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Int,
    Uuid,
    Text,
    Rest,
}

impl Leaf {
    fn allow_text(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for method in Method::ALL {
            let has_get = self.named[Method::Get as usize].is_some();
            let automatic = method == Method::Options || (method == Method::Head && has_get);
            if automatic || self.named[method as usize].is_some() {
                names.push(method.name());
            }
        }
        names.join(", ")
    }
}

impl Routes {
    fn new() -> Self {
        let constant = ConstantPaths { slots: vec![None] };
        Self {
            nodes: vec![Node::default()],
            endpoints: Vec::new(),
            fallback: None,
            constant,
            proxies: Proxies::default(),
            sites: Sites::default(),
        }
    }

    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.endpoints.iter().map(|route| &route.endpoint)
    }

    pub(crate) fn endpoint(&self, index: usize) -> Option<&Endpoint> {
        self.endpoints.get(index).map(|route| &route.endpoint)
    }

    pub(crate) fn param_index(&self, endpoint: usize, name: &str) -> Option<usize> {
        self.endpoints.get(endpoint)?.params.iter().position(|param| param == name)
    }

    /// The answer to an OPTIONS that an endpoint of the routes' own has taken.
    fn options(&self, request: &Request) -> Response {
        let span = request.0.head.path;
        let path = match span.of(&request.0.buffer) {
            [] => b"/",
            path => path,
        };
        let node = self.constant.find(path);
        let node = node.or_else(|| self.descend(0, path, 1, span.start, &mut Vec::new()));
        let allow = node.map_or("", |node| self.allow(node)).to_owned();
        let mut response = Response::new(Status::NO_CONTENT);
        // Names of methods are fit for a header.
        let _ = response.add_header("Allow".into(), allow.into_bytes().into());
        response
    }

    /// What a node found allows, for the `Allow` header.
    pub(crate) fn allow(&self, node: usize) -> &str {
        self.nodes.get(node).and_then(|node| node.leaf.as_ref()).map_or("", |leaf| &leaf.allow)
    }

    fn add(&mut self, entry: Entry) -> Result<(), RouteError> {
        let error = |reason: String| RouteError { pattern: entry.pattern.clone(), reason };
        let mut params: Vec<String> = Vec::new();
        let mut node = 0;
        for segment in segments(&entry.pattern).map_err(error)? {
            if let Segment::Param(name, _) = segment {
                if params.iter().any(|param| param == name) {
                    return Err(error(format!("the parameter {name:?} is named twice")));
                }
                params.push(name.to_owned());
            }
            node = self.child(node, &segment);
        }
        let index = self.endpoints.len();
        let leaf = self.nodes[node].leaf.get_or_insert_default();
        let slot = match entry.method {
            None => &mut leaf.any,
            Some(Method::Other) => {
                return Err(error("a method without a name is routed by `any` only".to_owned()));
            }
            Some(method) => &mut leaf.named[method as usize],
        };
        if slot.replace(index).is_some() {
            let method = entry.method.map_or("any method", Method::name);
            return Err(error(format!("{method} is routed twice")));
        }
        self.endpoints.push(Route { endpoint: entry.endpoint, params });
        Ok(())
    }

    /// The child of a node for a pattern's segment, made when it is not there.
    fn child(&mut self, node: usize, segment: &Segment<'_>) -> usize {
        let fresh = self.nodes.len();
        let parent = &mut self.nodes[node];
        let child = match segment {
            Segment::Constant(text) => {
                match parent.constants.binary_search_by(|(key, _)| (**key).cmp(text.as_bytes())) {
                    Ok(at) => parent.constants[at].1,
                    Err(at) => {
                        parent.constants.insert(at, (text.as_bytes().into(), fresh));
                        fresh
                    }
                }
            }
            Segment::Param(_, kind) => *match kind {
                Kind::Int => &mut parent.int,
                Kind::Uuid => &mut parent.uuid,
                Kind::Text => &mut parent.text,
                Kind::Rest => &mut parent.rest,
            }
            .get_or_insert(fresh),
        };
        if child == fresh {
            self.nodes.push(Node::default());
        }
        child
    }

    /// Finds the endpoint of a request whose path lies at `path` in `buffer`, and leaves the
    /// ranges of its parameters in `params`.
    pub(crate) fn find(
        &self,
        method: Method,
        buffer: &[u8],
        path: Span,
        params: &mut Vec<Span>,
    ) -> Found {
        params.clear();
        let text = match path.of(buffer) {
            [] => b"/",
            text => text,
        };
        let node =
            self.constant.find(text).or_else(|| self.descend(0, text, 1, path.start, params));
        let Some(node) = node else {
            return match (self.fallback, method) {
                (Some(fallback), _) => Found::Endpoint(fallback),
                (None, Method::Other | Method::Connect) => Found::NotImplemented,
                (None, _) => Found::Nothing,
            };
        };
        let Some(leaf) = &self.nodes[node].leaf else { return Found::Nothing };
        let named = |method: Method| leaf.named.get(method as usize).copied().flatten();
        let head = || if method == Method::Head { named(Method::Get) } else { None };
        match named(method).or_else(head).or(leaf.any) {
            Some(endpoint) => Found::Endpoint(endpoint),
            None if method == Method::Options => Found::Options(node),
            None if matches!(method, Method::Other | Method::Connect) => Found::NotImplemented,
            None => Found::NotAllowed(node),
        }
    }

    /// The node of the path's segments from `at` on; goes back where a branch does not end in
    /// a leaf. As deep as the longest pattern, whatever the path.
    fn descend(
        &self,
        node: usize,
        path: &[u8],
        at: usize,
        base: u32,
        params: &mut Vec<Span>,
    ) -> Option<usize> {
        let here = &self.nodes[node];
        if at > path.len() {
            return here.leaf.is_some().then_some(node);
        }
        let rest = &path[at..];
        let length = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
        let segment = &rest[..length];
        let next = at + length + 1;
        let constant =
            here.constant(segment).and_then(|child| self.descend(child, path, next, base, params));
        if constant.is_some() {
            return constant;
        }
        let span = |end: usize| Span { start: base + at as u32, end: base + end as u32 };
        let kinds = [
            here.int.filter(|_| is_int(segment)),
            here.uuid.filter(|_| is_uuid(segment)),
            here.text.filter(|_| !segment.is_empty()),
        ];
        for child in kinds.into_iter().flatten() {
            params.push(span(at + length));
            if let Some(found) = self.descend(child, path, next, base, params) {
                return Some(found);
            }
            params.pop();
        }
        here.rest.inspect(|_| params.push(span(path.len())))
    }
}

/// The nodes that constants alone lead to, by their whole path: a shortcut that finds what
/// the descent would find first. Open addressing at half load, one comparison as a rule.
#[derive(Debug)]
struct ConstantPaths {
    slots: Vec<Option<(Box<[u8]>, usize)>>,
}

impl ConstantPaths {
    fn of(nodes: &[Node]) -> Self {
        let mut paths = Vec::new();
        let mut open = vec![(Vec::new(), 0)];
        while let Some((path, index)) = open.pop() {
            let node: &Node = &nodes[index];
            for (text, child) in &node.constants {
                open.push(([&path[..], b"/", text].concat(), *child));
            }
            if node.leaf.is_some() {
                paths.push((path.into_boxed_slice(), index));
            }
        }
        let mut slots = vec![None; (paths.len() * 2 + 1).next_power_of_two()];
        for (path, node) in paths {
            let mut at = hash(&path) & (slots.len() - 1);
            while slots[at].is_some() {
                at = (at + 1) & (slots.len() - 1);
            }
            slots[at] = Some((path, node));
        }
        Self { slots }
    }

    #[inline]
    fn find(&self, path: &[u8]) -> Option<usize> {
        let mask = self.slots.len() - 1;
        let mut at = hash(path) & mask;
        while let Some((key, node)) = &self.slots[at & mask] {
            if **key == *path {
                return Some(*node);
            }
            at += 1;
        }
        None
    }
}

/// A quick hash of a path: only this process' own routes are in the table, so nobody can fill
/// it with collisions, and a miss costs one comparison.
#[inline]
fn hash(path: &[u8]) -> usize {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = path.len() as u64;
    let mut rest = path;
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        hash = (hash.rotate_left(23) ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR);
        rest = after;
    }
    for &byte in rest {
        hash = (hash.rotate_left(7) ^ u64::from(byte)).wrapping_mul(FACTOR);
    }
    (hash >> 32) as usize
}

impl Node {
    fn constant(&self, segment: &[u8]) -> Option<usize> {
        if segment.contains(&b'%') {
            let decoded = percent::decode(segment, false);
            return self.exact(decoded.as_bytes());
        }
        self.exact(segment)
    }

    fn exact(&self, segment: &[u8]) -> Option<usize> {
        // A few constants are compared faster than searched: most differ in length already.
        if self.constants.len() <= 16 {
            return self
                .constants
                .iter()
                .find(|(key, _)| **key == *segment)
                .map(|(_, child)| *child);
        }
        let at = self.constants.binary_search_by(|(key, _)| (**key).cmp(segment)).ok()?;
        Some(self.constants[at].1)
    }
}

fn segments(pattern: &str) -> Result<Vec<Segment<'_>>, String> {
    let path = pattern.strip_prefix('/').ok_or("a pattern starts with a slash")?;
    let mut segments = Vec::new();
    for part in path.split('/') {
        if let Some(Segment::Param(_, Kind::Rest)) = segments.last() {
            return Err("a parameter of the kind path must be the last segment".to_owned());
        }
        segments.push(segment(part)?);
    }
    Ok(segments)
}

fn segment(part: &str) -> Result<Segment<'_>, String> {
    let Some(inner) = part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) else {
        if part.contains(['{', '}', '%', '?', '#']) {
            return Err(format!(
                "{part:?} is neither a constant (not percent-encoded) nor {{name}} or {{name:kind}}"
            ));
        }
        return Ok(Segment::Constant(part));
    };
    let (name, kind) = inner.split_once(':').unwrap_or((inner, "text"));
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err(format!("{name:?} is no name of a parameter: use letters, digits and _"));
    }
    let kind = match kind {
        "text" => Kind::Text,
        "int" => Kind::Int,
        "uuid" => Kind::Uuid,
        "path" => Kind::Rest,
        _ => return Err(format!("{kind:?} is no kind of parameter: use int, uuid, text or path")),
    };
    Ok(Segment::Param(name, kind))
}

fn is_int(segment: &[u8]) -> bool {
    let digits = segment.strip_prefix(b"-").unwrap_or(segment);
    (1..=19).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
}

fn is_uuid(segment: &[u8]) -> bool {
    segment.len() == 36
        && segment.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> Endpoint {
        Endpoint::direct(|_, _| Flow::Done)
    }

    fn routes(patterns: &[(Method, &str)]) -> Result<Routes, RouteError> {
        patterns
            .iter()
            .fold(Router::new(), |router, (method, path)| router.on(*method, path, endpoint()))
            .into_routes()
    }

    #[test]
    fn the_most_exact_pattern_wins() {
        let patterns = [
            "/",
            "/a",
            "/a/{id:int}",
            "/a/{id:uuid}",
            "/a/{name}",
            "/a/new",
            "/a/{id:int}/b",
            "/f/{p:path}",
            "/a/{name}/c",
            "/a/",
        ];
        let routes = routes(&patterns.map(|pattern| (Method::Get, pattern))).unwrap();
        let mut params = Vec::new();
        for (path, expected, values) in [
            ("/", Some(0), &[][..]),
            ("/a", Some(1), &[]),
            ("/a/-7", Some(2), &["-7"]),
            (
                "/a/7e0f3a10-0000-4000-8000-00000000000f",
                Some(3),
                &["7e0f3a10-0000-4000-8000-00000000000f"],
            ),
            ("/a/7x", Some(4), &["7x"]),
            ("/a/new", Some(5), &[]),
            ("/a/n%65w", Some(5), &[]),
            ("/a/7/b", Some(6), &["7"]),
            ("/a/7/c", Some(8), &["7"]),
            ("/f/x/y/z", Some(7), &["x/y/z"]),
            ("/f/", Some(7), &[""]),
            ("/a/", Some(9), &[]),
            ("/f", None, &[]),
            ("/b", None, &[]),
            ("//", None, &[]),
            ("/a/7/d", None, &[]),
        ] {
            let found =
                routes.find(Method::Get, path.as_bytes(), Span::new(0, path.len()), &mut params);
            assert_eq!(found, expected.map_or(Found::Nothing, Found::Endpoint), "{path}");
            let found: Vec<_> = params
                .iter()
                .map(|span| std::str::from_utf8(span.of(path.as_bytes())).unwrap())
                .collect();
            assert_eq!(found, values, "{path}");
        }
    }

    #[test]
    fn methods_of_a_node() {
        let routes = routes(&[(Method::Get, "/a"), (Method::Post, "/a")]).unwrap();
        let find = |method| routes.find(method, b"/a", Span::new(0, 2), &mut Vec::new());
        assert_eq!(find(Method::Head), Found::Endpoint(0));
        assert_eq!(find(Method::Other), Found::NotImplemented);
        let Found::NotAllowed(node) = find(Method::Put) else { panic!("405 expected") };
        assert_eq!(routes.allow(node), "GET, HEAD, POST, OPTIONS");
        assert_eq!(find(Method::Options), Found::Options(node));
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
            let error = routes(&[(Method::Get, pattern)]).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        let error = routes(&[(Method::Get, "/{a}"), (Method::Get, "/{b}")]).unwrap_err();
        assert!(error.to_string().contains("GET is routed twice"));
    }
}
