//! Finds import circles: files of a crate that use each other, directly or through others.
//!
//! Files are read as text. A path that begins with `crate::`, `self::` or `super::` is followed to
//! the longest module that it names; a name that the module re-exports (`pub use`) is followed once
//! more, to the file that defines it. Unit tests at the foot of a file do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::step::{Failure, root};

/// The maximum number of files in a circle.
const CIRCLE_FILES_MAX: usize = 3;

/// A crate's modules, by their paths: `connection::flow` is `src/connection/flow.rs`.
struct Modules {
    /// The text of each module's file, without its unit tests, by module path.
    texts: BTreeMap<String, String>,
    /// The re-exports of each module: a name and the path that it comes from.
    exports: BTreeMap<String, BTreeMap<String, String>>,
}

/// Adds a fault for each circle of too many files or across folders, and for each circle of folders.
pub(super) fn check(files: &[String], faults: &mut Vec<String>) -> Result<(), Failure> {
    let mut crates: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for file in files {
        if let Some((name, module)) = file.split_once("/src/")
            && (name.starts_with("crates/") || name.starts_with("apps/"))
            && module.ends_with(".rs")
            && !module.ends_with("tests.rs")
        {
            crates.entry(name).or_default().push(module);
        }
    }
    for (name, files) in crates {
        let modules = Modules::read(name, &files)?;
        let imports = modules.imports();
        let mut found = circles(&imports);
        found.retain(|circle| {
            let folders: BTreeSet<&str> =
                circle.iter().map(|module| modules.folder(module)).collect();
            circle.len() > CIRCLE_FILES_MAX || folders.len() > 1
        });
        for circle in found {
            faults.push(format!("{name}: files import each other: {}", circle.join(", ")));
        }
        for circle in circles(&folders(&imports)) {
            faults.push(format!("{name}: folders import each other: {}", circle.join(", ")));
        }
    }
    Ok(())
}

impl Modules {
    fn read(name: &str, files: &[&str]) -> Result<Self, Failure> {
        let mut texts = BTreeMap::new();
        for file in files {
            let text = fs::read_to_string(root().join(name).join("src").join(file))?;
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let lines: Vec<&str> =
                code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
            let path = file.trim_end_matches(".rs").replace('/', "::");
            let path = if path == "lib" || path == "main" { String::new() } else { path };
            texts.insert(path, lines.join("\n"));
        }
        let mut modules = Self { texts, exports: BTreeMap::new() };
        let exports = modules
            .texts
            .iter()
            .map(|(module, text)| {
                let of_module = paths(text, true).into_iter().filter_map(|path| {
                    let path = absolute(module, &path)?;
                    Some((path.rsplit("::").next()?.to_owned(), path))
                });
                (module.clone(), of_module.collect())
            })
            .collect();
        modules.exports = exports;
        Ok(modules)
    }

    /// Returns the folder of a module's file. A module with children belongs to their folder.
    fn folder<'a>(&self, module: &'a str) -> &'a str {
        let prefix = format!("{module}::");
        if self.texts.keys().any(|other| other.starts_with(&prefix)) {
            return module;
        }
        module.rsplit_once("::").map_or("", |(folder, _)| folder)
    }

    fn imports(&self) -> BTreeMap<String, BTreeSet<String>> {
        self.texts
            .iter()
            .map(|(module, text)| {
                let used = paths(text, false)
                    .iter()
                    .filter_map(|path| self.target(&absolute(module, path)?))
                    .filter(|target| target != module)
                    .collect();
                (module.clone(), used)
            })
            .collect()
    }

    /// Returns the module that defines the item at a path.
    fn target(&self, path: &str) -> Option<String> {
        let mut path = path.to_owned();
        for _ in 0..4 {
            let (module, rest) = self.longest(&path)?;
            let name = rest.split("::").next().unwrap_or_default();
            match self.exports.get(&module).and_then(|exports| exports.get(name)) {
                Some(from) if *from != path => path.clone_from(from),
                _ => return (!module.is_empty()).then_some(module),
            }
        }
        None
    }

    fn longest(&self, path: &str) -> Option<(String, String)> {
        let parts: Vec<&str> = path.split("::").filter(|part| !part.is_empty()).collect();
        (0..=parts.len()).rev().find_map(|length| {
            let module = parts[..length].join("::");
            self.texts.contains_key(&module).then(|| (module, parts[length..].join("::")))
        })
    }
}

/// Returns a path from the crate's root, without `crate::`; `None` for a path of another crate.
fn absolute(module: &str, path: &str) -> Option<String> {
    if let Some(rest) = path.strip_prefix("crate::") {
        return Some(rest.to_owned());
    }
    let (mut base, mut rest) = match path.strip_prefix("self::") {
        Some(rest) => (module, rest),
        None => (module, path),
    };
    if base == module && rest == path && !path.starts_with("super::") {
        // A child module without `self::`.
        return Some(
            [module, path]
                .iter()
                .filter(|part| !part.is_empty())
                .copied()
                .collect::<Vec<_>>()
                .join("::"),
        );
    }
    while let Some(further) = rest.strip_prefix("super::") {
        base = base.rsplit_once("::").map_or("", |(parent, _)| parent);
        rest = further;
    }
    Some(if base.is_empty() { rest.to_owned() } else { format!("{base}::{rest}") })
}

/// Returns the paths that a text uses: those of `use` declarations, with braces expanded, and those in
/// code that begin with `crate::` or `super::`. If `exported`, only those of `pub use`.
fn paths(text: &str, exported: bool) -> Vec<String> {
    let mut found = Vec::new();
    for statement in text.split(';') {
        let Some(at) = statement.rfind("use ") else { continue };
        let before = statement[..at].rsplit('\n').next().unwrap_or_default().trim();
        let is_use = before.is_empty() || before.starts_with("pub");
        if is_use && (!exported || before.starts_with("pub")) {
            let tree: String = statement[at + 4..].split_whitespace().collect::<Vec<_>>().join(" ");
            expand("", &tree, &mut found);
        }
    }
    if !exported {
        for start in ["crate::", "super::"] {
            for (at, _) in text.match_indices(start) {
                let path: String = text[at..]
                    .chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_' || *c == ':')
                    .collect();
                found.push(path.trim_end_matches(':').to_owned());
            }
        }
    }
    found.retain(|path| !path.starts_with("std::") && !path.starts_with("marmota"));
    found
}

/// Expands `a::{b, c::{d, e}}`.
fn expand(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        let path = path.trim_end_matches("::self").trim_end_matches("::*");
        if !path.is_empty() {
            found.push(match path {
                "self" => prefix.trim_end_matches("::").to_owned(),
                path => format!("{prefix}{path}"),
            });
        }
        return;
    };
    let Some(inner) = tree[open + 1..].strip_suffix('}') else { return };
    let prefix = format!("{prefix}{}", &tree[..open]);
    let (mut depth, mut begin) = (0_usize, 0);
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                expand(&prefix, &inner[begin..at], found);
                begin = at + 1;
            }
            _ => {}
        }
    }
    expand(&prefix, &inner[begin..], found);
}

/// Returns the imports between the folders at the top of `src`; a file there counts as a folder.
fn folders(imports: &BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, BTreeSet<String>> {
    let top = |module: &str| module.split("::").next().unwrap_or_default().to_owned();
    let mut folders: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (module, targets) in imports.iter().filter(|(module, _)| !module.is_empty()) {
        let from = top(module);
        let to = targets.iter().map(|target| top(target)).filter(|to| *to != from);
        folders.entry(from.clone()).or_default().extend(to);
    }
    folders
}

/// Returns the groups of two or more files that reach each other (strongly connected components, by
/// Tarjan's algorithm).
fn circles(imports: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let mut search =
        Search { imports, numbers: BTreeMap::new(), stack: Vec::new(), found: Vec::new() };
    for module in imports.keys() {
        if !search.numbers.contains_key(module) {
            search.visit(module);
        }
    }
    search.found
}

struct Search<'a> {
    imports: &'a BTreeMap<String, BTreeSet<String>>,
    /// Each module's number in the order of visits, and the lowest number that it reaches.
    numbers: BTreeMap<String, (usize, usize)>,
    stack: Vec<String>,
    found: Vec<Vec<String>>,
}

impl Search<'_> {
    fn visit(&mut self, module: &str) -> usize {
        let number = self.numbers.len();
        self.numbers.insert(module.to_owned(), (number, number));
        self.stack.push(module.to_owned());
        let mut lowest = number;
        for target in self.imports.get(module).into_iter().flatten() {
            match self.numbers.get(target) {
                None => lowest = lowest.min(self.visit(target)),
                Some((seen, _)) if self.stack.contains(target) => lowest = lowest.min(*seen),
                Some(_) => {}
            }
        }
        self.numbers.insert(module.to_owned(), (number, lowest));
        if lowest == number
            && let Some(at) = self.stack.iter().position(|other| other == module)
        {
            let circle = self.stack.split_off(at);
            if circle.len() > 1 {
                self.found.push(circle);
            }
        }
        lowest
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::{absolute, circles, paths};

    #[test]
    fn folders_that_import_each_other_are_a_circle_without_one_of_files() {
        let edges = [("a::x", "b::x"), ("b::y", "a::y"), ("c", "a::x"), ("a::y", "a::z")];
        let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in edges {
            imports.entry(from.to_owned()).or_default().insert(to.to_owned());
            imports.entry(to.to_owned()).or_default();
        }
        assert!(circles(&imports).is_empty());
        let mut found = circles(&super::folders(&imports));
        found.iter_mut().for_each(|circle| circle.sort());
        assert_eq!(found, [["a", "b"]]);
    }

    #[test]
    fn trees_of_names_are_taken_apart() {
        let text = "use crate::a::{self, b::{C, D as E}, f::*};\npub(crate) use self::g::H;\n";
        let found = paths(text, false);
        for path in ["crate::a", "crate::a::b::C", "crate::a::b::D", "crate::a::f", "self::g::H"] {
            assert!(found.iter().any(|known| known == path), "{path} in {found:?}");
        }
        assert_eq!(paths(text, true), ["self::g::H"]);
    }

    #[test]
    fn paths_begin_at_the_root() {
        assert_eq!(absolute("a::b", "super::c::D").as_deref(), Some("a::c::D"));
        assert_eq!(absolute("a", "self::b::C").as_deref(), Some("a::b::C"));
        assert_eq!(absolute("a", "super::D").as_deref(), Some("D"));
    }

    #[test]
    fn a_circle_is_found_and_a_chain_is_not() {
        let graph = |edges: &[(&str, &str)]| {
            let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for (from, to) in edges {
                imports.entry((*to).to_owned()).or_default();
                imports.entry((*from).to_owned()).or_default().insert((*to).to_owned());
            }
            imports
        };
        assert!(circles(&graph(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
        let found = circles(&graph(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].len(), 3);
    }
}
