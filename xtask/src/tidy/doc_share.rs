//! The share of documentation in the crates that users read: lines of doc comments among all lines
//! of library code, without unit tests. The subcommands of programs do not count: their users read the
//! help and the guide.

use std::collections::BTreeMap;
use std::fs;

use crate::step::{Failure, root};

/// The crates, and the minimum percentage of their lines that are doc comments.
const PERCENT_MIN: [(&str, usize); 5] = [
    ("crates/http", 25),
    ("crates/marmota", 25),
    ("crates/model", 25),
    ("crates/rest", 25),
    ("crates/store", 25),
];

/// The lines of library code, and those of them that are doc comments.
#[derive(Debug, Default, PartialEq, Eq)]
struct Lines {
    all: usize,
    docs: usize,
}

/// Adds a fault for each crate with too few doc comments.
pub(super) fn check(files: &[String], faults: &mut Vec<String>) -> Result<(), Failure> {
    let mut found: BTreeMap<&str, Lines> = BTreeMap::new();
    for file in files {
        let Some((name, module)) = file.split_once("/src/") else { continue };
        let is_read = !module.ends_with("tests.rs") && !module.starts_with("command/");
        if module.ends_with(".rs") && is_read {
            let lines = found.entry(name).or_default();
            lines.add(&fs::read_to_string(root().join(file))?);
        }
    }
    for (name, percent_min) in PERCENT_MIN {
        let Lines { all, docs } = found.remove(name).unwrap_or_default();
        if docs * 100 < all * percent_min {
            let percent = docs * 100 / all.max(1);
            faults.push(format!(
                "{name}: {docs} of {all} lines are doc comments ({percent} %); the minimum is \
                 {percent_min} %"
            ));
        }
    }
    Ok(())
}

impl Lines {
    fn add(&mut self, text: &str) {
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for line in code.lines().map(str::trim_start) {
            self.all += 1;
            self.docs += usize::from(line.starts_with("///") || line.starts_with("//!"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;

    #[test]
    fn doc_comments_outside_of_unit_tests_are_counted() {
        let mut lines = Lines::default();
        lines.add(
            "//! A file.\n\n/// A type.\nstruct A; // no doc\n    /// A field.\n\
             #[cfg(test)]\nmod tests {\n/// Not counted.\n}\n",
        );
        assert_eq!(lines, Lines { all: 5, docs: 3 });
    }
}
