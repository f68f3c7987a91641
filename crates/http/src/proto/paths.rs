//! From a method and a path to the number of an endpoint: a tree by segments that all threads share
//! and that never changes.
//!
//! In each segment a constant wins over a parameter, `int` and `uuid` win over plain text, and
//! the rest of a path comes last. The node that is found decides: a method it does not have is
//! a 405, even where another pattern would have matched too.

use crate::proto::head::Span;
use crate::proto::method::Method;
use crate::proto::percent;

/// The patterns of a server's routes, and the names of their parameters.
#[derive(Debug)]
pub(crate) struct PathTree {
    nodes: Vec<Node>,
    /// By endpoint: the names of its pattern's parameters.
    params: Vec<Vec<String>>,
    fallback: Option<usize>,
    constant: ConstantPaths,
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

impl PathTree {
    /// Builds the tree; endpoints have the numbers of their patterns, the fallback has the next one.
    /// An error has the number of the pattern and what is wrong with it.
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

    #[cfg(feature = "extract")]
    pub(crate) fn param_names(&self, endpoint: usize) -> &[String] {
        self.params.get(endpoint).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn param_index(&self, endpoint: usize, name: &str) -> Option<usize> {
        self.params.get(endpoint)?.iter().position(|param| param == name)
    }

    /// What a path allows, for the `Allow` header; empty for a path without a node.
    pub(crate) fn allow_of(&self, path: &[u8]) -> &str {
        let path = if path.is_empty() { b"/" } else { path };
        let node = self.constant.find(path);
        let node = node.or_else(|| self.descend(0, path, 1, 0, &mut Vec::new()));
        node.map_or("", |node| self.allow(node))
    }

    /// What a node found allows, for the `Allow` header.
    pub(crate) fn allow(&self, node: usize) -> &str {
        self.nodes.get(node).and_then(|node| node.leaf.as_ref()).map_or("", |leaf| &leaf.allow)
    }

    fn add(&mut self, method: Option<Method>, pattern: &str) -> Result<(), String> {
        let mut params: Vec<String> = Vec::new();
        let mut node = 0;
        for segment in segments(pattern)? {
            if let Segment::Param(name, _) = segment {
                if params.iter().any(|param| param == name) {
                    return Err(format!("the parameter {name:?} is named twice"));
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
                return Err("a method without a name is routed by `any` only".to_owned());
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
            let decoded = percent::decode(segment);
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
