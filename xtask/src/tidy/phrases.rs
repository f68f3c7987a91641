//! Finds the phrases that the glossary avoids.

use super::markdown::Markdown;
use crate::step::Failure;

/// The number of columns of the table with the words to avoid.
const TABLE_COLUMNS: usize = 3;

/// The phrases to avoid, longest first.
pub(super) struct Phrases {
    avoided: Vec<String>,
    /// Longer phrases in which they are allowed.
    allowed: Vec<String>,
}

impl Phrases {
    /// Reads the last table of the glossary: avoided phrases in its first column, allowed ones in
    /// its third.
    pub(super) fn of_glossary(glossary: &str) -> Result<Self, Failure> {
        let (mut avoided, mut allowed) = (Vec::new(), Vec::new());
        for row in Markdown::parse(glossary).rows {
            if let [first, _, third] = &*row {
                avoided.extend(first.iter().cloned());
                allowed.extend(third.iter().cloned());
            }
        }
        if avoided.len() < 10 {
            let message = format!(
                "docs/glossary.md has no table of {TABLE_COLUMNS} columns with the words to avoid"
            );
            return Err(Failure(message));
        }
        avoided.sort_by_key(|phrase| std::cmp::Reverse(phrase.len()));
        Ok(Self { avoided, allowed })
    }

    /// Returns the phrases in a block of prose in lower case.
    pub(super) fn find(&self, prose: &str) -> Vec<&str> {
        let mut rest = prose.to_owned();
        for allowed in &self.allowed {
            rest = rest.replace(&**allowed, " | ");
        }
        let mut found = Vec::new();
        for phrase in &self.avoided {
            let ends: Vec<usize> = rest
                .match_indices(&**phrase)
                .map(|(start, _)| start)
                .filter(|&start| is_whole(&rest, start, phrase.len()))
                .collect();
            found.extend(ends.iter().map(|_| &**phrase));
            if !ends.is_empty() {
                // A shorter phrase within it does not count again.
                rest = rest.replace(&**phrase, " | ");
            }
        }
        found
    }
}

/// Returns true if the text at this place consists of whole words.
fn is_whole(text: &str, start: usize, length: usize) -> bool {
    let joins = |c: char| c.is_alphanumeric() || c == '\'' || c == '-' || c == '_';
    !text[..start].ends_with(joins) && !text[start + length..].starts_with(joins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_phrases_are_found() {
        let table = "| avoid | write | allowed |\n|---|---|---|\n";
        let filler: String = (0..10).map(|n| format!("| `zz{n}` | | |\n")).collect();
        let rows = "| `behind`, `goes on` | after | `behind a proxy` |\n";
        let phrases = Phrases::of_glossary(&format!("{table}{rows}{filler}")).unwrap();
        assert_eq!(phrases.find("it goes on behind it"), ["goes on", "behind"]);
        assert!(phrases.find("behind a proxy, hindbehind, goes-on").is_empty());
        assert!(Phrases::of_glossary("no table").is_err());
    }
}
