//! The words of a text: what SQLite's tokenizer `unicode61
//! remove_diacritics 2` makes of it, so that an engine that searches by itself
//! finds what SQLite finds. `unicode61.txt` was made by asking that tokenizer
//! about every character; a test of the SQLite engine asks again.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

/// The most bytes of a word; what is behind them is left out.
const WORD_BYTES_MAX: usize = 32_768;

const TABLES: &str = include_str!("unicode61.txt");

/// What a character is to a word, as a table by its number.
struct Characters {
    /// Ranges of those that end a word, both ends included, in order.
    separators: Vec<(u32, u32)>,
    /// Ranges of those that are left out inside a word and end none.
    marks: Vec<(u32, u32)>,
    /// Those that another stands for.
    folds: Vec<(u32, char)>,
    ascii: [Part; 128],
}

/// What a character is to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// It is of the word, in this form.
    Letter(char),
    /// It is of the word, but left out; it begins none.
    Mark,
    /// It ends the word.
    Separator,
}

static CHARACTERS: LazyLock<Characters> = LazyLock::new(Characters::read);

impl Characters {
    fn read() -> Self {
        let (mut separators, mut marks, mut folds) = (Vec::new(), Vec::new(), Vec::new());
        let mut section = "";
        let number = |digits: &str| u32::from_str_radix(digits, 16).unwrap_or_default();
        let range = |item: &str| {
            let (first, last) = item.split_once('-').unwrap_or((item, item));
            (number(first), number(last))
        };
        for item in TABLES.split_ascii_whitespace() {
            match (item, section) {
                ("separators" | "marks" | "folds", _) => section = item,
                (item, "separators") => separators.push(range(item)),
                (item, "marks") => marks.push(range(item)),
                (item, _) => {
                    let (from, to) = item.split_once(':').unwrap_or_default();
                    folds.push((number(from), char::from_u32(number(to)).unwrap_or_default()));
                }
            }
        }
        let mut read = Self { separators, marks, folds, ascii: [Part::Separator; 128] };
        for byte in 0..128_u8 {
            read.ascii[usize::from(byte)] = read.look_up(char::from(byte));
        }
        read
    }

    fn part(&self, c: char) -> Part {
        match self.ascii.get(c as usize) {
            Some(part) => *part,
            None => self.look_up(c),
        }
    }

    fn look_up(&self, c: char) -> Part {
        let number = u32::from(c);
        let within = |ranges: &[(u32, u32)]| {
            let behind = ranges.partition_point(|&(first, _)| first <= number);
            behind > 0 && number <= ranges[behind - 1].1
        };
        if number == 0 || within(&self.separators) {
            Part::Separator
        } else if within(&self.marks) {
            Part::Mark
        } else {
            let fold = self.folds.binary_search_by_key(&number, |&(from, _)| from);
            Part::Letter(fold.map_or(c, |at| self.folds[at].1))
        }
    }
}

/// The words of one text, in a form in which words that count as the same are
/// the same. Memory is kept from one text to the next.
#[derive(Debug, Default)]
pub struct Words {
    text: String,
    /// Where each word ends.
    ends: Vec<usize>,
}

impl Words {
    /// Takes the words of `text` instead of those it had.
    pub fn take(&mut self, text: &str) {
        self.text.clear();
        self.ends.clear();
        let characters = &*CHARACTERS;
        let (mut start, mut inside) = (0, false);
        for c in text.chars() {
            match characters.part(c) {
                Part::Letter(letter) => {
                    inside = true;
                    self.text.push(letter);
                }
                Part::Mark => {}
                Part::Separator if inside => {
                    self.end(start);
                    start = self.text.len();
                    inside = false;
                }
                Part::Separator => {}
            }
        }
        if inside {
            self.end(start);
        }
    }

    fn end(&mut self, start: usize) {
        if self.text.len() - start > WORD_BYTES_MAX {
            // SQLite cuts in the middle of a character if need be, and so
            // compares what no text is; no word of a language is so long.
            let mut end = start + WORD_BYTES_MAX;
            while !self.text.is_char_boundary(end) {
                end -= 1;
            }
            self.text.truncate(end);
        }
        self.ends.push(self.text.len());
    }

    /// Ranges of the characters that part words.
    pub fn separators() -> impl Iterator<Item = RangeInclusive<u32>> {
        CHARACTERS.separators.iter().map(|&(first, last)| first..=last)
    }

    /// Ranges of the characters that are left out of words and part none.
    pub fn marks() -> impl Iterator<Item = RangeInclusive<u32>> {
        CHARACTERS.marks.iter().map(|&(first, last)| first..=last)
    }

    /// The characters for which another stands in words, with that one.
    pub fn folds() -> impl Iterator<Item = (char, char)> {
        let folds = CHARACTERS.folds.iter();
        folds.filter_map(|&(from, to)| Some((char::from_u32(from)?, to)))
    }

    /// How many words there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The word at a place.
    #[must_use]
    pub fn at(&self, place: usize) -> &str {
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.text[start..self.ends[place]]
    }

    /// The words in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|place| self.at(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Words::default();
        words.take(text);
        words.iter().map(str::to_owned).collect()
    }

    #[test]
    fn words_are_folded() {
        assert_eq!(words("Élan, l'ÉLAN\u{301} 2-fois!"), ["elan", "l", "elan", "2", "fois"]);
        assert_eq!(words("Ǖber Straße МИР"), ["uber", "straße", "мир"]);
        assert_eq!(words(" \u{301}--\n"), [""; 0]);
        assert_eq!(words("日本語 x"), ["日本語", "x"]);
        assert_eq!(words(&"a".repeat(40_000))[0].len(), WORD_BYTES_MAX);
    }
}
