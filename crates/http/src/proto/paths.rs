//! The tree of paths: from a method and a path to the number of an endpoint. All threads share it,
//! and it never changes after the server has started.
//!
//! A pattern ([`pattern`]) is split at its slashes. In each segment a constant is preferred to a
//! parameter, `int` and `uuid` are preferred to text, and a parameter of the kind `path` comes
//! last. Where a branch does not end in a route, the search returns and tries the next kind. The
//! node that is found decides: a method that it lacks is a 405, even if another pattern would have
//! matched too.
//!
//! ```text
//! /tasks              root ── tasks ┬─ {int} ── files ── {rest}
//! /tasks/{id:int}                   └─ new
//! /tasks/{id:int}/files/{rest:path}
//! /tasks/new
//! ```
//!
//! Paths without a parameter are found by one look-up in a hash table ([`ConstantPaths`]).
//! [`crate::routing::router`] builds the tree; this file knows numbers, not handlers.

mod pattern;

use crate::proto::head::Span;
use crate::proto::method::Method;
use crate::proto::percent;
use pattern::{Kind, Segment, segments};

/// The patterns of a server's routes, and the names of their parameters.
#[derive(Debug)]
pub(crate) struct PathTree {
    /// The nodes; the first is the root, the others are referred to by their index.
    nodes: Vec<Node>,
    /// The names of the parameters of each endpoint's pattern.
    params: Vec<Vec<String>>,
    /// The endpoint of paths that no pattern matches.
    fallback: Option<usize>,
    /// The shortcut for paths without parameters.
    constant: ConstantPaths,
}

/// A place in the tree, after some segments.
#[derive(Debug, Default)]
struct Node {
    /// The children by a constant segment, sorted by it.
    constants: Vec<(Box<[u8]>, usize)>,
    /// The child by a segment that is an integer.
    int: Option<usize>,
    /// The child by a segment that is a UUID.
    uuid: Option<usize>,
    /// The child by any segment that is not empty.
    text: Option<usize>,
    /// The child by all remaining segments.
    rest: Option<usize>,
    /// The endpoints of the patterns that end here.
    leaf: Option<Box<Leaf>>,
}

/// The endpoints of one path, by method.
#[derive(Debug, Default)]
struct Leaf {
    /// The endpoint of each method with a name, by [`Method`] as a number.
    named: [Option<usize>; Method::NAMED],
    /// The endpoint of all other methods.
    any: Option<usize>,
    /// The value of the `Allow` header.
    allow: String,
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The endpoint with this number.
    Endpoint(usize),
    /// The path has endpoints, but not for OPTIONS: the router answers with the `Allow` of this
    /// node.
    Options(usize),
    /// The path has endpoints, but not for this method (405, with the `Allow` of this node).
    NotAllowed(usize),
    /// The path has no endpoint (404).
    Nothing,
    /// The method has no name and no endpoint accepts all methods (501).
    NotImplemented,
}

impl Leaf {
    /// Returns the value of `Allow`: the methods with an endpoint, HEAD if GET has one, and
    /// OPTIONS.
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

impl PathTree {
    /// Builds the tree. The endpoint of a pattern has the pattern's index, the fallback has the
    /// next number. `None` as a method accepts all methods.
    ///
    /// # Errors
    /// The index of a pattern, and its fault: a malformed segment, a parameter that is named twice,
    /// or a method that is routed twice.
    pub(crate) fn build(
        patterns: &[(Option<Method>, &str)],
        has_fallback: bool,
    ) -> Result<Self, (usize, String)> {
        let mut tree = Self {
            nodes: vec![Node::default()],
            params: Vec::new(),
            fallback: has_fallback.then_some(patterns.len()),
            constant: ConstantPaths { slots: vec![None] },
        };
        for (index, &(method, pattern)) in patterns.iter().enumerate() {
            tree.add(method, pattern).map_err(|reason| (index, reason))?;
        }
        tree.constant = ConstantPaths::of(&tree.nodes);
        for leaf in tree.nodes.iter_mut().filter_map(|node| node.leaf.as_mut()) {
            leaf.allow = leaf.allow_text();
        }
        Ok(tree)
    }

    /// Returns the names of the parameters of an endpoint's pattern, in order.
    #[cfg(feature = "extract")]
    pub(crate) fn param_names(&self, endpoint: usize) -> &[String] {
        self.params.get(endpoint).map_or(&[], Vec::as_slice)
    }

    /// Returns the index of the parameter with this name in an endpoint's pattern.
    pub(crate) fn param_index(&self, endpoint: usize, name: &str) -> Option<usize> {
        self.params.get(endpoint)?.iter().position(|param| param == name)
    }

    /// Returns the methods of a path, for the `Allow` header; empty for a path without a node.
    pub(crate) fn allow_of(&self, path: &[u8]) -> &str {
        let path = if path.is_empty() { b"/" } else { path };
        let node = self.constant.find(path);
        let node = node.or_else(|| self.descend(0, path, 1, 0, &mut Vec::new()));
        node.map_or("", |node| self.allow(node))
    }

    /// Returns the methods of a node that was found, for the `Allow` header.
    pub(crate) fn allow(&self, node: usize) -> &str {
        self.nodes.get(node).and_then(|node| node.leaf.as_ref()).map_or("", |leaf| &leaf.allow)
    }

    /// Adds the next pattern.
    fn add(&mut self, method: Option<Method>, pattern: &str) -> Result<(), String> {
        let mut params: Vec<String> = Vec::new();
        let mut node = 0;
        for segment in segments(pattern)? {
            if let Segment::Param(name, _) = segment {
                if params.iter().any(|param| param == name) {
                    return Err(format!("the parameter {name:?} occurs twice"));
                }
                params.push(name.to_owned());
            }
            node = self.child(node, &segment);
        }
        let index = self.params.len();
        let leaf = self.nodes[node].leaf.get_or_insert_default();
        let slot = match method {
            None => &mut leaf.any,
            Some(Method::Other) => {
                return Err("a method without a name can only be routed with `any`".to_owned());
            }
            Some(method) => &mut leaf.named[method as usize],
        };
        if slot.replace(index).is_some() {
            let method = method.map_or("any method", Method::name);
            return Err(format!("{method} is routed twice"));
        }
        self.params.push(params);
        Ok(())
    }

    /// Returns the child of a node for a segment of a pattern, and creates it if it is missing.
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

    /// Finds the endpoint of a request whose path is at `path` in `buffer`, and leaves the ranges
    /// of its parameters, in the pattern's order, in `params`.
    ///
    /// HEAD falls back to GET, and each method to an endpoint of all methods. No allocation takes
    /// place, except for the decoding of a segment with an escape.
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

    /// Returns the node of the path's segments from `at` on, and leaves the ranges of the
    /// parameters, which start at `base`, in `params`. It returns and tries the next branch where
    /// one does not end in a leaf. The depth is that of the longest pattern, not that of the path.
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

/// The nodes that constants alone lead to, by their whole path: a shortcut that finds the node that
/// the descent would find first. A hash table with open addressing, at most half full, so that one
/// comparison is the rule.
#[derive(Debug)]
struct ConstantPaths {
    /// Paths with their nodes. The length is a power of two, and at least one slot is empty.
    slots: Vec<Option<(Box<[u8]>, usize)>>,
}

impl ConstantPaths {
    /// Collects the constant paths of a tree.
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

    /// Returns the node of a path that consists of constants.
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

/// Hashes a path. The table has only the routes of the program, so a client cannot fill it with
/// collisions, and a miss costs one comparison: a fast hash without a secret is enough.
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
    /// Returns the child by the constant that the segment is, after percent-decoding.
    fn constant(&self, segment: &[u8]) -> Option<usize> {
        if segment.contains(&b'%') {
            let decoded = percent::decode(segment);
            return self.exact(decoded.as_bytes());
        }
        self.exact(segment)
    }

    /// Returns the child by exactly this constant.
    fn exact(&self, segment: &[u8]) -> Option<usize> {
        // A linear search is faster for a few constants: most of them differ in length.
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

/// Returns true for an optional minus and 1 to 19 digits. The value may still exceed an `i64`.
fn is_int(segment: &[u8]) -> bool {
    let digits = segment.strip_prefix(b"-").unwrap_or(segment);
    (1..=19).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
}

/// Returns true for a UUID with its hyphens (RFC 9562, 4).
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

    fn tree(patterns: &[(Method, &str)]) -> PathTree {
        let patterns: Vec<(Option<Method>, &str)> =
            patterns.iter().map(|(method, pattern)| (Some(*method), *pattern)).collect();
        PathTree::build(&patterns, false).unwrap()
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
        let routes = tree(&patterns.map(|pattern| (Method::Get, pattern)));
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
        let routes = tree(&[(Method::Get, "/a"), (Method::Post, "/a")]);
        let find = |method| routes.find(method, b"/a", Span::new(0, 2), &mut Vec::new());
        assert_eq!(find(Method::Head), Found::Endpoint(0));
        assert_eq!(find(Method::Other), Found::NotImplemented);
        let Found::NotAllowed(node) = find(Method::Put) else { panic!("405 expected") };
        assert_eq!(routes.allow(node), "GET, HEAD, POST, OPTIONS");
        assert_eq!(find(Method::Options), Found::Options(node));
    }
}
