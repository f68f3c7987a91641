//! The relevance of a text for a search, by BM25 without statistics of other texts.

use super::{Search, Words};

/// How fast further occurrences of a term lose weight (BM25's `k1`).
const SATURATION: f64 = 1.2;
/// How much the length of a text counts (BM25's `b`).
const LENGTH_WEIGHT: f64 = 0.75;
/// The number of words of a text whose length has no effect, in place of the mean length.
const USUAL_WORDS: f64 = 100.0;

/// Returns the relevance of one text. Terms in short texts, such as titles, weigh more than those in
/// long ones. The sum over the fields of a row is the relevance of the row.
pub(crate) fn relevance(search: &Search, text: &Words) -> f64 {
    let length = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * text.len() as f64 / USUAL_WORDS;
    let mut sum = 0.0;
    for term in search.terms().unwrap_or_default().iter().filter(|term| !term.excluded) {
        let count = term.places(text).count() as f64;
        sum += count * (SATURATION + 1.0) / (count + SATURATION * length);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(search: &str, text: &str) -> f64 {
        let mut words = Words::default();
        words.take(text);
        relevance(&Search::new(search), &words)
    }

    #[test]
    fn more_and_shorter_is_better() {
        let (once, twice) =
            (of("marmot", "a marmot sleeps now"), of("marmot", "marmot and marmot"));
        assert!(twice > once && once > 0.0);
        let long = format!("a marmot {}", "word ".repeat(200));
        assert!(of("marmot", "The marmot") > of("marmot", &long));
        assert!(
            of("alpine marmot", "Alpine marmots, alpine marmot") > of("alpine marmot", "alpine")
        );
        assert_eq!(of("marmot -dog", "a marmot"), of("marmot", "a marmot"));
        assert_eq!(of("marmot", ""), 0.0);
    }

    #[test]
    fn a_title_with_all_terms_is_above_a_mention() {
        let title = of("alpine marmot", "The alpine marmot");
        let text = format!("{} alpine marmot {}", "word ".repeat(80), "word ".repeat(80));
        assert!(title > 2.0 * of("alpine marmot", &text));
    }
}
