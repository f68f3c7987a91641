//! Sanitizers: changes to a text before its rules are checked.

use std::borrow::Cow;

/// A change to the texts of a field before their rules are checked and they are stored.
///
/// | sanitizer | `" Ada  LOVELACE "` becomes |
/// |---|---|
/// | `Trim` | `"Ada  LOVELACE"` |
/// | `CollapseSpaces` | `" Ada LOVELACE "` |
/// | `Lower` | `" ada  lovelace "` |
/// | `Upper` | `" ADA  LOVELACE "` |
///
/// White space and case are those of Unicode.
///
/// ```
/// use marmota_model::{Field, Kind, Rule, Sanitizer};
/// let email = Field::new("email", Kind::TEXT)
///     .sanitizers(vec![Sanitizer::Trim, Sanitizer::Lower])
///     .rules(vec![Rule::Email]);
/// assert_eq!(email.sanitizers.len(), 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sanitizer {
    /// Removes white space from the start and the end.
    Trim,
    /// Replaces each run of white space by one space.
    CollapseSpaces,
    /// Converts to lower case.
    Lower,
    /// Converts to upper case.
    Upper,
}

impl Sanitizer {
    /// Returns the name in attributes and schema documents.
    ///
    /// ```
    /// assert_eq!(marmota_model::Sanitizer::CollapseSpaces.name(), "collapse_spaces");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trim => "trim",
            Self::CollapseSpaces => "collapse_spaces",
            Self::Lower => "lower",
            Self::Upper => "upper",
        }
    }

    /// Returns the changed text; a text that it does not change is borrowed.
    ///
    /// ```
    /// use marmota_model::Sanitizer;
    /// assert_eq!(Sanitizer::CollapseSpaces.apply("a \t b"), "a b");
    /// assert!(matches!(Sanitizer::Trim.apply(" a "), std::borrow::Cow::Borrowed("a")));
    /// ```
    #[must_use]
    pub fn apply(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::Trim => Cow::Borrowed(text.trim()),
            Self::CollapseSpaces => collapsed(text),
            Self::Lower if text.chars().all(|c| c.to_lowercase().eq([c])) => Cow::Borrowed(text),
            Self::Lower => Cow::Owned(text.to_lowercase()),
            Self::Upper if text.chars().all(|c| c.to_uppercase().eq([c])) => Cow::Borrowed(text),
            Self::Upper => Cow::Owned(text.to_uppercase()),
        }
    }
}

fn collapsed(text: &str) -> Cow<'_, str> {
    let mut after_space = false;
    let is_collapsed = text.chars().all(|c| {
        let is_first = !std::mem::replace(&mut after_space, c.is_whitespace());
        !c.is_whitespace() || (is_first && c == ' ')
    });
    if is_collapsed {
        return Cow::Borrowed(text);
    }
    let mut collapsed = String::with_capacity(text.len());
    for c in text.chars() {
        if !c.is_whitespace() {
            collapsed.push(c);
        } else if !collapsed.ends_with(' ') {
            collapsed.push(' ');
        }
    }
    Cow::Owned(collapsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sanitized_text_is_not_changed_again() {
        let all = [Sanitizer::Trim, Sanitizer::CollapseSpaces, Sanitizer::Lower, Sanitizer::Upper];
        let texts = ["", " ", "a", " A  b\t\u{a0}c \n", "ΑΣ ΟΔΟΣ", "İzmir ŉ ß ǅ", "\u{2003}x"];
        for sanitizer in all {
            for text in texts {
                let once = sanitizer.apply(text).into_owned();
                assert_eq!(sanitizer.apply(&once), once, "{sanitizer:?} of {text:?}");
            }
        }
    }

    #[test]
    fn texts_are_changed_as_documented() {
        assert_eq!(Sanitizer::Trim.apply("\t Ada \u{a0}"), "Ada");
        assert_eq!(Sanitizer::CollapseSpaces.apply(" Ada \n Lovelace  "), " Ada Lovelace ");
        assert_eq!(Sanitizer::CollapseSpaces.apply("a\tb"), "a b");
        assert_eq!(Sanitizer::Lower.apply("ÉCOLE"), "école");
        assert_eq!(Sanitizer::Upper.apply("straße"), "STRASSE");
    }
}
