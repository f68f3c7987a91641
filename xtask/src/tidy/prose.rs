//! Plain English in the sources: comments and texts (such as errors) have no phrases that the
//! glossary avoids.

use std::fs;
use std::str::FromStr as _;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::markdown::Markdown;
use super::phrases::Phrases;
use crate::step::{Failure, root};

/// The string literals of a source file, without those of tests.
#[derive(Debug, Default)]
struct Texts(Vec<String>);

/// Adds a fault for each phrase in a source file.
pub(super) fn check(
    files: &[String],
    phrases: &Phrases,
    faults: &mut Vec<String>,
) -> Result<(), Failure> {
    for file in files.iter().filter(|file| file.ends_with(".rs") && file.contains("src/")) {
        let source = fs::read_to_string(root().join(file))?;
        for (line, comment) in comments(&source) {
            for phrase in found(phrases, &comment) {
                faults.push(format!("{file}:{line}: avoid \"{phrase}\"; see docs/glossary.md"));
            }
        }
        let is_library_or_program = file.starts_with("crates/") || file.starts_with("apps/");
        if !is_library_or_program || file.ends_with("tests.rs") {
            continue;
        }
        let Ok(Texts(texts)) = Texts::of(&source) else {
            faults.push(format!("{file} cannot be parsed as Rust"));
            continue;
        };
        for text in texts {
            for phrase in found(phrases, &text) {
                faults
                    .push(format!("{file}: avoid \"{phrase}\" in {text:?}; see docs/glossary.md"));
            }
        }
    }
    Ok(())
}

fn found(phrases: &Phrases, text: &str) -> Vec<String> {
    let blocks = Markdown::parse(text).prose;
    let found = blocks.iter().flat_map(|(_, block)| phrases.find(block));
    found.map(str::to_owned).collect()
}

/// Returns the comments of a source file, each with its first line. Consecutive lines are one
/// comment.
fn comments(source: &str) -> Vec<(usize, String)> {
    let mut comments: Vec<(usize, String)> = Vec::new();
    let mut is_comment = false;
    for (index, line) in source.lines().enumerate() {
        let Some(text) = line.trim_start().strip_prefix("//") else {
            is_comment = false;
            continue;
        };
        let text = text.trim_start_matches(['/', '!']);
        match comments.last_mut() {
            Some((_, comment)) if is_comment => comment.push_str(text),
            _ => comments.push((index + 1, text.to_owned())),
        }
        if let Some((_, comment)) = comments.last_mut() {
            comment.push('\n');
        }
        is_comment = true;
    }
    comments
}

impl Texts {
    fn of(source: &str) -> Result<Self, proc_macro2::LexError> {
        let mut texts = Self::default();
        texts.walk(TokenStream::from_str(source)?);
        Ok(texts)
    }

    fn walk(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        let mut skips_body = false;
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(mark) if mark.as_char() == '#' => {
                    let _ = tokens
                        .next_if(|next| matches!(next, TokenTree::Punct(p) if p.as_char() == '!'));
                    if let Some(TokenTree::Group(group)) = tokens.next_if(|next| {
                        matches!(next, TokenTree::Group(g) if g.delimiter() == Delimiter::Bracket)
                    }) {
                        skips_body |= is_for_tests(group.stream());
                    }
                }
                TokenTree::Group(group) if !std::mem::take(&mut skips_body) => {
                    self.walk(group.stream());
                }
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    if let Some(text) = string(&text).filter(|text| text.contains(' ')) {
                        self.0.push(text.to_owned());
                    }
                }
                TokenTree::Punct(mark) if mark.as_char() == ';' => skips_body = false,
                _ => {}
            }
        }
    }
}

/// Returns true for the content of `#[cfg(test)]`.
fn is_for_tests(attribute: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = attribute.into_iter().collect();
    matches!(&*tokens, [TokenTree::Ident(name), TokenTree::Group(of)]
        if *name == "cfg" && of.stream().to_string() == "test")
}

/// Returns the content of a string literal, with its escapes.
fn string(literal: &str) -> Option<&str> {
    let start = literal.find('"')?;
    literal[..start].chars().all(|c| c == 'r' || c == '#').then_some(())?;
    literal.get(start + 1..literal.rfind('"')?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_blocks_of_lines() {
        let source =
            "//! A file.\n\n    /// One\n    /// two\nstruct A; // no comment line\n// Three\n";
        let found = comments(source);
        assert_eq!(
            found,
            [(1, " A file.\n".into()), (3, " One\n two\n".into()), (6, " Three\n".into())]
        );
    }

    #[test]
    fn texts_outside_of_tests_are_found() {
        let source = "#[allow(x, reason = \"not this\")]\nfn f() { g(\"three four\"); h(b\"no bytes\"); }\n\
                      #[cfg(test)]\nmod tests { fn t() { g(\"five six\"); } }\n\
                      fn last() { g(\"seven eight\"); }";
        assert_eq!(Texts::of(source).unwrap().0, ["three four", "seven eight"]);
    }
}
