//! Extracts of a text around the words that a search has found.

use std::ops::Range;

use super::{Search, SearchLanguage, Words};

/// The number of words of an extract.
const SNIPPET_WORDS: usize = 30;
/// The number of words before the first one that was found.
const WORDS_BEFORE: usize = 5;
/// The number of bytes of a text in which words are sought.
const TEXT_BYTES_MAX: usize = 256 << 10;
/// The number of bytes after the last word of a text.
const BYTES_BEHIND: usize = 40;

/// An extract of a text, with the ranges of the words that a search has found.
///
/// ```
/// use marmota_model::{Search, Snippet};
/// let snippet = Snippet::new("Marmots & the <b>Alpine</b> marmot", &[&Search::new("ALPINE")]);
/// assert_eq!(&snippet.text[snippet.found[0].clone()], "Alpine");
/// let html = "Marmots &amp; the &lt;b&gt;<mark>Alpine</mark>&lt;/b&gt; marmot";
/// assert_eq!(snippet.to_html(), html);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snippet {
    /// The extract; `…` stands for the parts before and after it.
    pub text: String,
    /// The ranges of the words that were found, in bytes of the text.
    pub found: Vec<Range<usize>>,
}

impl Snippet {
    /// Extracts up to 30 words around most of the words that searches find in a text, and its begin
    /// if they find none.
    #[must_use]
    pub fn new(text: &str, searches: &[&Search]) -> Self {
        Self::in_language(text, searches, None)
    }

    /// As [`Snippet::new`], with all forms of the words in a language.
    ///
    /// ```
    /// use marmota_model::{Search, SearchLanguage, Snippet};
    /// let english = Some(SearchLanguage::English);
    /// let snippet = Snippet::in_language("It runs", &[&Search::new("running")], english);
    /// assert_eq!(snippet.to_html(), "It <mark>runs</mark>");
    /// ```
    #[must_use]
    pub fn in_language(text: &str, searches: &[&Search], language: Option<SearchLanguage>) -> Self {
        let text_read = &text[..boundary(text, TEXT_BYTES_MAX)];
        let (places, words) = words_of(text_read, language);
        let is_found = found(&words, searches);
        let start = best_start(&is_found);
        let last = words.len().min(start + SNIPPET_WORDS);
        let begin = if start == 0 { 0 } else { places[start].start };
        // Other characters follow the last word, such as a full stop.
        let behind = if last == 0 { 0 } else { places[last - 1].end };
        let end = if last == places.len() { boundary(text, behind + BYTES_BEHIND) } else { behind };
        let mut snippet = Self::default();
        if begin > 0 {
            snippet.text.push('…');
        }
        let offset = snippet.text.len();
        snippet.text.push_str(&text[begin..end]);
        if end < text.len() {
            snippet.text.push('…');
        }
        let marked = (start..last).filter(|&at| is_found[at]).map(|at| &places[at]);
        snippet.found =
            marked.map(|place| place.start - begin + offset..place.end - begin + offset).collect();
        snippet
    }

    /// Returns the extract as HTML: the text is escaped, and the words that were found are in
    /// `<mark>`.
    #[must_use]
    pub fn to_html(&self) -> String {
        let mut html = String::with_capacity(self.text.len() + self.found.len() * 13);
        let mut at = 0;
        for found in &self.found {
            escape(&mut html, &self.text[at..found.start]);
            html.push_str("<mark>");
            escape(&mut html, &self.text[found.clone()]);
            html.push_str("</mark>");
            at = found.end;
        }
        escape(&mut html, &self.text[at..]);
        html
    }
}

/// Returns the last boundary of a character that is not after `at`.
fn boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Returns the places of the words in a text, and the words.
fn words_of(text: &str, language: Option<SearchLanguage>) -> (Vec<Range<usize>>, Words) {
    let mut places = Vec::new();
    let (mut start, mut word) = (None, Words::in_language(language));
    let ends = text.char_indices().map(|(at, c)| (at, Words::is_separator(c)));
    for (at, is_end) in ends.chain([(text.len(), true)]) {
        match (is_end, start) {
            (false, None) => start = Some(at),
            (true, Some(from)) => {
                // A part that consists of marks only is no word.
                word.take(&text[from..at]);
                if !word.is_empty() {
                    places.push(from..at);
                }
                start = None;
            }
            _ => {}
        }
    }
    word.take(text);
    (places, word)
}

/// Returns whether each word is part of a term that was found.
fn found(words: &Words, searches: &[&Search]) -> Vec<bool> {
    let mut found = vec![false; words.len()];
    let terms = searches.iter().flat_map(|search| search.terms().unwrap_or_default());
    for term in terms.filter(|term| !term.excluded) {
        for start in term.places(words) {
            found[start..start + term.words.len()].fill(true);
        }
    }
    found
}

/// Returns the number of the word at which the extract begins.
fn best_start(found: &[bool]) -> usize {
    let latest = found.len().saturating_sub(SNIPPET_WORDS);
    let mut count = found.iter().take(SNIPPET_WORDS).filter(|is| **is).count();
    let (mut best, mut best_count) = (0, count);
    for start in 1..=latest {
        count -= usize::from(found[start - 1]);
        count += usize::from(found[start + SNIPPET_WORDS - 1]);
        if count > best_count {
            (best, best_count) = (start, count);
        }
    }
    // The best range ends with a word that was found: begin closer to its first one.
    let first = found.iter().skip(best).position(|is| *is).map_or(best, |at| best + at);
    first.saturating_sub(WORDS_BEFORE).max(best).min(latest)
}

fn escape(html: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_words_found_are_in_the_extract() {
        let text = format!("{}the Alpine marmot{}", "before ".repeat(90), " after".repeat(90));
        let snippet = Snippet::new(&text, &[&Search::new("\"alpine marmot\" -dog")]);
        let words: Vec<&str> = snippet.found.iter().map(|at| &snippet.text[at.clone()]).collect();
        assert_eq!(words, ["Alpine", "marmot"]);
        assert!(snippet.text.starts_with("…before before before before the Alpine"), "{snippet:?}");
        assert!(snippet.text.ends_with("after…"), "{snippet:?}");
        let short = Snippet::new("L'été!", &[&Search::new("ete")]);
        assert_eq!(short.to_html(), "L&#39;<mark>été</mark>!");
    }

    #[test]
    fn a_text_without_found_words_shows_its_begin() {
        let snippet = Snippet::new("one two", &[&Search::new("three")]);
        assert_eq!((&*snippet.text, snippet.found.len()), ("one two", 0));
        assert_eq!(Snippet::new("", &[&Search::new("a")]), Snippet::default());
        assert!(Snippet::new(&"-".repeat(9_000), &[&Search::new("a")]).text.len() < 300);
    }

    proptest! {
        #[test]
        fn html_has_no_other_tags(text in "([a-c<>&\"' é\u{301}-]{0,9} ?){0,40}", search in "[a-c]{1,2}\\*?") {
            let snippet = Snippet::new(&text, &[&Search::new(&search)]);
            let html = snippet.to_html().replace("<mark>", "").replace("</mark>", "");
            prop_assert!(!html.contains(['<', '>', '"']));
        }
    }
}
