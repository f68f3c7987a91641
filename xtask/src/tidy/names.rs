//! Checks that the names of public types are unique in all crates, so that a search finds one type.

use std::collections::BTreeMap;
use std::fs;

use crate::step::{Failure, root};

/// Names that more than one public type has. Each is an extractor and what it extracts: `Json`, a
/// field, is a value as JSON in both.
const KNOWN: [&str; 3] = ["Caller", "Json", "Transaction"];

const KINDS: [&str; 5] = ["struct ", "enum ", "trait ", "union ", "type "];

/// Adds a fault for each name that two types have and [`KNOWN`] does not list, or the reverse.
pub(super) fn check(files: &[String], faults: &mut Vec<String>) -> Result<(), Failure> {
    let mut places: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for file in files {
        let is_code = ["crates/", "apps/"].iter().any(|top| file.starts_with(top));
        if !is_code || !file.contains("/src/") || !file.ends_with(".rs") {
            continue;
        }
        for name in public_types(&fs::read_to_string(root().join(file))?) {
            places.entry(name.to_owned()).or_default().push(file);
        }
    }
    for (name, files) in &places {
        if files.len() > 1 && !KNOWN.contains(&&**name) {
            faults.push(format!("`{name}` is the name of public types in {}", files.join(", ")));
        }
    }
    for name in KNOWN {
        if places.get(name).is_none_or(|files| files.len() < 2) {
            faults.push(format!("{name} is unique: take it off the list in tidy/names.rs"));
        }
    }
    Ok(())
}

/// Returns the types that begin a line with `pub`. Associated types are indented.
fn public_types(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let item = line.strip_prefix("pub ")?;
        let item = item.strip_prefix("unsafe ").unwrap_or(item);
        let name = KINDS.iter().find_map(|kind| item.strip_prefix(kind))?;
        name.split(|c: char| !c.is_alphanumeric() && c != '_').next()
    })
}

#[cfg(test)]
mod tests {
    use super::public_types;

    #[test]
    fn only_public_types_are_found() {
        let text = "pub struct Store;\npub(crate) struct Inner;\npub enum Kind<T> {\n    pub type X = ();\n\
                    pub fn open() {}\npub unsafe trait Lent: Send {}\nstruct Own;\n";
        assert_eq!(public_types(text).collect::<Vec<_>>(), ["Store", "Kind", "Lent"]);
    }
}
