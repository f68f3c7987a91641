//! Names: conversion of Rust names to names of tables and columns, and suggestions for misspelt
//! names.

/// The maximum length of the name of a table or column.
const NAME_BYTES_MAX: usize = 63;

/// Returns the name in snake case: `LastName`, `lastName` and `last_name` as `last_name`; `HTTPLog`
/// as `http_log`.
pub(crate) fn snake_case(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut snake = String::with_capacity(name.len() + 4);
    for (at, &letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| letters[before]);
        let begins_word = letter.is_uppercase()
            && before.is_some_and(|before| {
                let next_is_small = letters.get(at + 1).is_some_and(|next| next.is_lowercase());
                before != '_' && (!before.is_uppercase() || next_is_small)
            });
        if begins_word {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

/// Returns the fault of the name of a table or column; the rule is the same as at the registration
/// of a model.
pub(crate) fn fault(name: &str) -> Option<&'static str> {
    let mut bytes = name.bytes();
    let fits = name.len() <= NAME_BYTES_MAX
        && bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if fits {
        None
    } else {
        Some(
            "a name must have 1 to 63 ASCII letters, digits or `_`, and must not start with a \
              digit",
        )
    }
}

/// Returns the name in `known` that is most similar to `name`, if it is similar enough.
///
/// Similar enough is a distance of 1 for names of up to three bytes, and of 2 for others.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let tolerance = if name.len() < 4 { 1 } else { 2 };
    known
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|&(distance, _)| distance <= tolerance)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the number of letters to insert, delete or replace (Levenshtein distance).
///
/// The algorithm is that of Wagner and Fischer (1974), with one row of the matrix; it compares
/// bytes, since names are ASCII.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter_a) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, letter_b) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(letter_a != letter_b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snake_case_keeps_acronyms_and_numbers_together() {
        for (name, snake) in [
            ("Person", "person"),
            ("OrderLine", "order_line"),
            ("HTTPLog", "http_log"),
            ("Person2", "person2"),
            ("last_name", "last_name"),
            ("lastName", "last_name"),
            ("A", "a"),
        ] {
            assert_eq!(snake_case(name), snake);
        }
    }

    #[test]
    fn nearest_finds_slips_and_nothing_else() {
        let known = ["max", "unique", "pattern", "not_empty"];
        let find = |name| nearest(name, known.into_iter());
        assert_eq!(find("uniqe"), Some("unique"));
        assert_eq!(find("maxx"), Some("max"));
        assert_eq!(find("not_emtpy"), Some("not_empty"));
        assert_eq!(find("colour"), None);
    }

    #[test]
    fn distance_counts_letters() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("same", "same"), 0);
    }
}
