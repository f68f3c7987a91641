//! Names of public types: one name means one thing in all crates, so that a search for it finds it.

use std::collections::BTreeMap;
use std::fs;

use crate::step::{Failure, root};

/// Names that more than one public type has; the list only gets shorter.
const KNOWN: [&str; 27] = [
    "Column",
    "Columns",
    "Effect",
    "Event",
    "Form",
    "Format",
    "Happened",
    "Index",
    // An extractor and a field, both a value as JSON.
    "Json",
    "Key",
    "Limits",
    "List",
    "Map",
    "Measured",
    "Message",
    "Method",
    "Models",
    "Options",
    // Extractors have the names that users of axum know.
    "Query",
    "Result",
    "Rows",
    "Session",
    "Shape",
    "Step",
    "TemporaryServer",
    "Watch",
    "Writer",
];

const KINDS: [&str; 5] = ["struct ", "enum ", "trait ", "union ", "type "];

/// Adds a fault for each name that is taken twice and not known, or known and free again.
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

/// The types that begin a line with `pub`; those of a trait's implementation are indented.
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
