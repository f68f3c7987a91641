//! Stems of English words, by the algorithm of M. F. Porter (An algorithm for suffix stripping,
//! 1980) in the variant of SQLite's tokenizer `porter`, so that all engines find the same rows.
//!
//! A word is `[C](VC)^m[V]`, with C a sequence of consonants and V one of vowels. Most rules replace
//! a suffix if `m` of the part before it is large enough.

/// Longer and shorter words have no stem.
const STEMMED_BYTES: std::ops::RangeInclusive<usize> = 3..=64;

/// Suffixes with their replacements. The first one that a word has is the only one that counts.
type Suffixes = &'static [(&'static str, &'static str)];

const STEP_2: Suffixes = &[
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("logi", "log"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
];

const STEP_3: Suffixes = &[
    ("ical", "ic"),
    ("ness", ""),
    ("icate", "ic"),
    ("iciti", "ic"),
    ("ful", ""),
    ("ative", ""),
    ("alize", "al"),
];

const STEP_4: Suffixes = &[
    ("al", ""),
    ("ance", ""),
    ("ence", ""),
    ("er", ""),
    ("ic", ""),
    ("able", ""),
    ("ible", ""),
    ("ant", ""),
    ("ement", ""),
    ("ment", ""),
    ("ent", ""),
    ("ion", ""),
    ("ou", ""),
    ("ism", ""),
    ("ate", ""),
    ("iti", ""),
    ("ous", ""),
    ("ive", ""),
    ("ize", ""),
];

/// Replaces the word at the end of a text, from `start`, by its stem.
pub(super) fn stem_last(text: &mut String, start: usize) {
    let word = &text.as_bytes()[start..];
    if !STEMMED_BYTES.contains(&word.len()) {
        return;
    }
    let mut stem = Stem { bytes: [0; 65], len: word.len() };
    stem.bytes[..word.len()].copy_from_slice(word);
    stem.strip();
    if let Ok(stem) = std::str::from_utf8(stem.all()) {
        text.truncate(start);
        text.push_str(stem);
    }
}

/// A word that becomes a stem. It has at most one byte more than the word.
struct Stem {
    bytes: [u8; 65],
    len: usize,
}

impl Stem {
    fn all(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn ends_with(&self, suffix: &str) -> bool {
        self.len > suffix.len() && self.all().ends_with(suffix.as_bytes())
    }

    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    fn strip(&mut self) {
        self.strip_plural();
        if self.strip_participle() {
            self.restore_end();
        }
        if self.all().ends_with(b"y") && has_vowel(&self.all()[..self.len - 1]) {
            self.bytes[self.len - 1] = b'i';
        }
        self.replace_first(STEP_2, 1);
        self.replace_first(STEP_3, 1);
        self.replace_first(STEP_4, 2);
        if self.all().ends_with(b"e") {
            let rest = &self.all()[..self.len - 1];
            if measure(rest) > 1 || measure(rest) == 1 && !ends_short(rest) {
                self.len -= 1;
            }
        }
        if self.all().ends_with(b"ll") && measure(&self.all()[..self.len - 1]) > 1 {
            self.len -= 1;
        }
    }

    fn strip_plural(&mut self) {
        if self.ends_with("sses") || self.ends_with("ies") {
            self.len -= 2;
        } else if self.all().ends_with(b"s") && !self.all().ends_with(b"ss") {
            self.len -= 1;
        }
    }

    /// Returns true if a suffix was removed.
    fn strip_participle(&mut self) -> bool {
        if self.ends_with("eed") {
            self.len -= usize::from(measure(&self.all()[..self.len - 3]) > 0);
            return false;
        }
        for suffix in ["ed", "ing"] {
            let rest = self.len.saturating_sub(suffix.len());
            if self.ends_with(suffix) && has_vowel(&self.all()[..rest]) {
                self.len = rest;
                return true;
            }
        }
        false
    }

    /// Restores the end of a word whose participle was removed: `hoping` is `hope`, `hopping` is
    /// `hop`.
    fn restore_end(&mut self) {
        if ["at", "bl", "iz"].iter().any(|end| self.ends_with(end)) {
            return self.push(b'e');
        }
        if let [.., first, last] = *self.all()
            && first == last
            && last.is_ascii()
            && !matches!(last, b'a' | b'e' | b'i' | b'o' | b'u' | b'l' | b's' | b'z')
        {
            self.len -= 1;
        } else if measure(self.all()) == 1 && ends_short(self.all()) {
            self.push(b'e');
        }
    }

    /// Replaces a suffix, if the measure of the part before it is at least `least`.
    fn replace_first(&mut self, suffixes: Suffixes, least: usize) {
        let Some((suffix, by)) = suffixes.iter().find(|(suffix, _)| self.ends_with(suffix)) else {
            return;
        };
        let rest = &self.all()[..self.len - suffix.len()];
        let is_bound = *suffix == "ion" && !matches!(rest.last(), Some(b's' | b't'));
        if measure(rest) >= least && !is_bound {
            self.len = rest.len();
            by.bytes().for_each(|byte| self.push(byte));
        }
    }
}

/// Returns whether each letter is a consonant. `y` is one at the start and after a vowel.
fn consonants(word: &[u8]) -> impl Iterator<Item = bool> {
    word.iter().scan(false, |after_consonant, byte| {
        *after_consonant = match byte {
            b'a' | b'e' | b'i' | b'o' | b'u' => false,
            b'y' => !*after_consonant,
            _ => true,
        };
        Some(*after_consonant)
    })
}

/// Returns how often a consonant follows a vowel.
fn measure(word: &[u8]) -> usize {
    let mut after_vowel = false;
    consonants(word).filter(|&is| std::mem::replace(&mut after_vowel, !is) && is).count()
}

fn has_vowel(word: &[u8]) -> bool {
    let is_vowel = |(at, byte): (usize, &u8)| match byte {
        b'y' => at > 0,
        byte => matches!(byte, b'a' | b'e' | b'i' | b'o' | b'u'),
    };
    word.iter().enumerate().any(is_vowel)
}

/// Returns true for a word that ends with a consonant, a vowel and a consonant, as `hop` does.
fn ends_short(word: &[u8]) -> bool {
    let last: Vec<bool> = consonants(word).skip(word.len().saturating_sub(3)).collect();
    last == [true, false, true] && !matches!(word.last(), Some(b'w' | b'x' | b'y'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stem(word: &str) -> String {
        let mut text = format!("a {word}");
        stem_last(&mut text, 2);
        text.split_off(2)
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for (forms, wanted) in [
            ("run runs running", "run"),
            ("hope hopes hoped hoping", "hope"),
            ("hop hopping hopped", "hop"),
            ("pony ponies", "poni"),
            ("connect connected connection connections connecting", "connect"),
            ("relate relational relation", "relat"),
            ("caress caresses", "caress"),
            ("probable probably", "probabl"),
            ("agreed agree", "agre"),
            ("control controlling", "control"),
            ("feed", "feed"),
            ("as", "as"),
            ("sky", "sky"),
            ("élan", "élan"),
        ] {
            for form in forms.split(' ') {
                assert_eq!(stem(form), wanted, "{form}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_stem_is_short(word in "[a-zß日]{0,70}") {
            prop_assert!(stem(&word).len() <= word.len());
        }
    }
}
