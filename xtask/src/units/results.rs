//! The results of a test program, parsed from its output.

use std::collections::BTreeSet;

/// The failed and the unfinished tests of a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Results {
    failed: BTreeSet<String>,
    /// The tests that have been running for over a minute.
    slow: BTreeSet<String>,
}

impl Results {
    /// Parses a line of output.
    pub(crate) fn parse(&mut self, line: &str) {
        if let Some((head, _)) = line.split_once(" has been running for over ") {
            // The line may start with the output of another test.
            if let Some((_, name)) = head.rsplit_once("test ") {
                self.slow.insert(name.to_owned());
            }
        } else if let Some(test) = line.strip_prefix("test ") {
            if let Some(name) = test.strip_suffix(" ... FAILED") {
                self.failed.insert(name.to_owned());
            }
            if let Some((name, _)) = test.rsplit_once(" ... ") {
                self.slow.remove(name);
            }
        }
    }

    /// Returns the failed tests, and those that had not ended when their program did.
    pub(crate) fn failed(&self) -> Vec<&str> {
        self.failed.union(&self.slow).map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_and_unfinished_tests_are_parsed() {
        let mut results = Results::default();
        for line in [
            "test a::passes ... ok",
            "output test a::slow has been running for over 60 seconds",
            "test a::slow ... ok",
            "test a::breaks ... FAILED",
            "test a::hangs has been running for over 60 seconds",
            "test a.rs [should pass] ... test b::other has been running for over 60 seconds",
        ] {
            results.parse(line);
        }
        assert_eq!(results.failed(), ["a::breaks", "a::hangs", "b::other"]);
    }
}
