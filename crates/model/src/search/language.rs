//! The languages in which searches find other forms of a word.

use super::english;

/// A language in which a search finds other forms of a word: `run` finds `running` and `runs`.
///
/// ```
/// use marmota_model::SearchLanguage;
/// assert_eq!(SearchLanguage::from_name("english"), Some(SearchLanguage::English));
/// assert_eq!(SearchLanguage::English.name(), "english");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SearchLanguage {
    /// English.
    English,
}

impl SearchLanguage {
    /// All languages.
    pub const ALL: [Self; 1] = [Self::English];

    /// Returns its name in attributes, application files and plans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::English => "english",
        }
    }

    /// Returns the language with a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.name() == name)
    }

    /// Replaces the word at the end of a text, from `start`, by its stem.
    pub(super) fn stem_last(self, text: &mut String, start: usize) {
        match self {
            Self::English => english::stem_last(text, start),
        }
    }

    /// Returns the stems of words.
    pub(super) fn stems(self, words: &[String]) -> Vec<String> {
        let stem = |word: &String| {
            let mut stem = word.clone();
            self.stem_last(&mut stem, 0);
            stem
        };
        words.iter().map(stem).collect()
    }
}
