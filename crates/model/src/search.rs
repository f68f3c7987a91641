//! Full-text search in text fields: `marmot -dog "alpine mead*"`, as a tree that every engine
//! evaluates in the same way.

mod english;
mod language;
mod rank;
mod snippet;
mod words;

pub use language::SearchLanguage;
pub(crate) use rank::relevance;
pub use snippet::Snippet;
pub use words::Words;

use crate::value::excerpt::excerpt;

/// The maximum number of bytes in a search.
pub const SEARCH_BYTES_MAX: usize = 1_000;
/// The maximum number of words and phrases in a search.
pub const SEARCH_TERMS_MAX: usize = 32;

/// A search for words. All terms must occur, except the excluded ones, none of which may occur.
///
/// Words are separated by spaces, phrases are in double quotes. A `*` at the end of either matches
/// words with that prefix, a `-` in front excludes it. Case and accents are ignored. Characters
/// other than letters and digits separate words, so `jean-paul` is a phrase. In a table with a
/// [`SearchLanguage`], words are compared by their stems.
///
/// An invalid search is stored with its error, which the check of a filter reports.
///
/// ```
/// use marmota_model::Search;
/// let search = Search::new("marmot -dog \"Alpine mead*\"");
/// let terms = search.terms().unwrap();
/// assert!(terms[1].excluded);
/// assert_eq!(terms[2].words, ["alpine", "mead"]);
/// assert!(terms[2].prefix);
/// assert!(Search::new("-dog").terms().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Search {
    text: Box<str>,
    terms: Result<Box<[SearchTerm]>, String>,
}

/// A word or phrase of a search.
///
/// ```
/// use marmota_model::Search;
/// let search = Search::new("-\"Alpine mead*\" x");
/// let term = &search.terms().unwrap()[0];
/// assert_eq!(term.words, ["alpine", "mead"]);
/// assert!(term.prefix && term.excluded);
/// assert_eq!(term.written, "Alpine mead");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SearchTerm {
    /// The words in sequence, folded.
    pub words: Vec<String>,
    /// True if the last word is a prefix.
    pub prefix: bool,
    /// True if the term must not occur.
    pub excluded: bool,
    /// The words as written, without quotes and star.
    pub written: String,
    /// The stems of the words in English.
    english: Vec<String>,
}

impl Search {
    /// Parses a search.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: text.into(), terms: read(text).map(Into::into) }
    }

    /// Returns the original text.
    ///
    /// ```
    /// assert_eq!(marmota_model::Search::new("Marmot*").text(), "Marmot*");
    /// ```
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns its terms, of which at least one is not excluded.
    ///
    /// # Errors
    /// The fault of the text.
    ///
    /// ```
    /// use marmota_model::Search;
    /// assert_eq!(Search::new("marmot -dog").terms().unwrap().len(), 2);
    /// assert_eq!(Search::new("a \"b").terms(), Err("has a phrase without its closing quote"));
    /// ```
    pub fn terms(&self) -> Result<&[SearchTerm], &str> {
        match &self.terms {
            Ok(terms) => Ok(terms),
            Err(why) => Err(why),
        }
    }

    /// Returns true if texts, taken together, match the search: each term in any of them, a phrase
    /// within one of them.
    ///
    /// ```
    /// use marmota_model::{Search, Words};
    /// let mut words = Words::default();
    /// words.take("The Alpine marmot sleeps");
    /// assert!(Search::new("MARMOT -dog \"alpine mar*\"").finds(&[words]));
    /// ```
    #[must_use]
    pub fn finds(&self, texts: &[Words]) -> bool {
        let Ok(terms) = &self.terms else { return false };
        terms.iter().all(|term| texts.iter().any(|words| term.is_in(words)) != term.excluded)
    }
}

impl SearchTerm {
    /// Returns the words, or their stems in a language.
    ///
    /// ```
    /// use marmota_model::{Search, SearchLanguage};
    /// let search = Search::new("running");
    /// assert_eq!(search.terms().unwrap()[0].words_in(None), ["running"]);
    /// assert_eq!(search.terms().unwrap()[0].words_in(Some(SearchLanguage::English)), ["run"]);
    /// ```
    #[must_use]
    pub fn words_in(&self, language: Option<SearchLanguage>) -> &[String] {
        match language {
            None => &self.words,
            Some(SearchLanguage::English) => &self.english,
        }
    }

    /// Returns true if the term occurs in a text.
    fn is_in(&self, text: &Words) -> bool {
        self.places(text).next().is_some()
    }

    /// Returns the numbers of the words in a text at which the term begins.
    fn places(&self, text: &Words) -> impl Iterator<Item = usize> {
        let words = self.words_in(text.language());
        let starts = (text.len() + 1).saturating_sub(words.len());
        let last = words.len() - 1;
        (0..starts).filter(move |start| {
            words.iter().enumerate().all(|(place, word)| {
                let found = text.at(start + place);
                if self.prefix && place == last {
                    found.starts_with(&**word)
                } else {
                    found == word
                }
            })
        })
    }
}

fn read(text: &str) -> Result<Vec<SearchTerm>, String> {
    if text.len() > SEARCH_BYTES_MAX {
        return Err(format!("has {} bytes; at most {SEARCH_BYTES_MAX} are allowed", text.len()));
    }
    if text.contains('\0') {
        return Err("contains the character U+0000".to_owned());
    }
    let mut terms = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let excluded = rest.starts_with('-');
        rest = &rest[usize::from(excluded)..];
        let (written, behind) = match rest.strip_prefix('"') {
            Some(inside) => {
                let end = inside.find('"').ok_or("has a phrase without its closing quote")?;
                (&inside[..end], &inside[end + 1..])
            }
            None => rest.split_at(rest.find([' ', '\t', '\n', '\r', '"']).unwrap_or(rest.len())),
        };
        // A star after the quotes is equivalent to one inside.
        let (mut prefix, mut behind, mut written) = (false, behind, written);
        if let (Some(after), true) = (behind.strip_prefix('*'), rest.starts_with('"')) {
            (prefix, behind) = (true, after);
        }
        if let Some(before) = written.strip_suffix('*') {
            (prefix, written) = (true, before);
        }
        terms.push(term(written, prefix, excluded)?);
        if terms.len() > SEARCH_TERMS_MAX {
            return Err(format!("has more than {SEARCH_TERMS_MAX} words and phrases"));
        }
        rest = behind.trim_start();
    }
    if terms.iter().all(|term| term.excluded) {
        return Err("has no word to search for; words with `-` only exclude rows".to_owned());
    }
    Ok(terms)
}

fn term(written: &str, prefix: bool, excluded: bool) -> Result<SearchTerm, String> {
    if written.contains('*') {
        return Err(format!(
            "has a `*` inside {:?}; a `*` is only allowed at the end of a word or phrase",
            excerpt(written)
        ));
    }
    let mut words = Words::default();
    words.take(written);
    if words.is_empty() {
        return Err(format!("has {:?}, which contains no letter or digit", excerpt(written)));
    }
    let words: Vec<String> = words.iter().map(str::to_owned).collect();
    let english = SearchLanguage::English.stems(&words);
    Ok(SearchTerm { words, prefix, excluded, written: written.to_owned(), english })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn finds(search: &str, texts: &[&str]) -> bool {
        let texts: Vec<Words> = texts
            .iter()
            .map(|text| {
                let mut words = Words::default();
                words.take(text);
                words
            })
            .collect();
        let search = Search::new(search);
        search.terms().unwrap();
        search.finds(&texts)
    }

    #[test]
    fn terms_are_found() {
        let texts = &["The Alpine marmot", "sleeps in a meadow; l'été"][..];
        for (search, found) in [
            ("MARMOT", true),
            ("marmot meadow", true),
            ("marmot dog", false),
            ("marmot -dog", true),
            ("marmot -sleeps", false),
            ("\"alpine marmot\"", true),
            ("\"marmot alpine\"", false),
            ("\"marmot sleeps\"", false),
            ("alp*", true),
            ("\"the alp*\"", true),
            ("\"the alp\"*", true),
            ("lpine*", false),
            ("ete", true),
            ("l'ÉTÉ", true),
            ("a-meadow", true),
        ] {
            assert_eq!(finds(search, texts), found, "{search}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, part) in [
            ("", "no word"),
            ("-a", "no word to search for"),
            ("a \"b", "closing quote"),
            ("a *", "no letter"),
            ("a b*c", "at the end"),
            ("a --", "no letter"),
            ("\"\"", "no letter"),
        ] {
            let why = Search::new(text).terms().unwrap_err().to_owned();
            assert!(why.contains(part), "{text}: {why}");
        }
        assert!(Search::new(&"a ".repeat(33)).terms().is_err());
        assert!(Search::new(&"a".repeat(1001)).terms().is_err());
    }

    proptest! {
        #[test]
        fn never_panics(text in "[a é\"*\\-\u{301}]{0,12}") {
            let _ = Search::new(&text);
        }
    }
}
