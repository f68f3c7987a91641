//! Plain English in the sources: how many phrases that the glossary avoids doc comments and texts
//! of a crate have. Both numbers may only fall.

use std::collections::BTreeMap;
use std::fs;
use std::str::FromStr as _;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::markdown::Markdown;
use super::phrases::Phrases;
use crate::step::{Failure, root};

/// How many phrases a crate has in doc comments, and in texts such as errors.
const KNOWN: [(&str, usize, usize); 19] = [
    ("apps/marmota", 0, 0),
    ("crates/auth", 0, 0),
    ("crates/collections", 0, 0),
    ("crates/columns", 0, 0),
    ("crates/derive", 0, 0),
    ("crates/http", 220, 0),
    ("crates/marmota", 0, 0),
    ("crates/memory", 0, 0),
    ("crates/model", 0, 0),
    ("crates/mongo", 0, 0),
    ("crates/postgres", 0, 0),
    ("crates/remote", 0, 0),
    ("crates/rest", 0, 0),
    ("crates/rpc", 0, 0),
    ("crates/service", 0, 0),
    ("crates/sql", 0, 0),
    ("crates/sqlite", 0, 0),
    ("crates/store", 0, 0),
    ("crates/testkit", 0, 0),
];

/// A number that has fallen by more than this is to be lowered here.
const SLACK: usize = 10;

/// The words of a source file.
#[derive(Debug, Default)]
struct Texts {
    docs: String,
    texts: Vec<String>,
}

/// Adds a fault for each crate whose numbers have grown, or have fallen without being lowered.
pub(super) fn check(
    files: &[String],
    phrases: &Phrases,
    faults: &mut Vec<String>,
) -> Result<(), Failure> {
    let mut found: BTreeMap<&str, [Vec<String>; 2]> = BTreeMap::new();
    for file in files {
        let Some((name, module)) = file.split_once("/src/") else { continue };
        let is_known = name.starts_with("crates/") || name.starts_with("apps/");
        if !is_known || !module.ends_with(".rs") || module.ends_with("tests.rs") {
            continue;
        }
        let Ok(source) = fs::read_to_string(root().join(file)) else { continue };
        let Ok(texts) = Texts::of(&source) else {
            faults.push(format!("{file} cannot be read as Rust"));
            continue;
        };
        let [docs, messages] = found.entry(name).or_default();
        let add = |found: &mut Vec<String>, text: &str| {
            for (_, block) in Markdown::parse(text).prose {
                found.extend(phrases.find(&block).iter().map(|it| format!("{file}: `{it}`")));
            }
        };
        add(docs, &texts.docs);
        texts.texts.iter().for_each(|text| add(messages, text));
    }
    for (name, [docs, messages]) in found {
        let known = KNOWN.iter().find(|(known, ..)| *known == name);
        let (docs_known, messages_known) = known.map_or((0, 0), |(_, docs, texts)| (*docs, *texts));
        compare(name, "doc comments", &docs, docs_known, faults);
        compare(name, "texts", &messages, messages_known, faults);
    }
    Ok(())
}

fn compare(name: &str, place: &str, found: &[String], known: usize, faults: &mut Vec<String>) {
    let count = found.len();
    if count > known {
        let last: Vec<&str> = found.iter().take(20).map(|found| &**found).collect();
        faults.push(format!(
            "{name}: {place} have {count} phrases of the glossary's \"words to avoid\", {known} are \
             known; rewrite the new ones, among: {}",
            last.join(", ")
        ));
    } else if count + SLACK < known {
        faults.push(format!(
            "{name}: {place} have {count} phrases to avoid: lower the number {known} in \
             xtask/src/tidy/prose.rs"
        ));
    }
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
                        skips_body |= self.attribute(group.stream());
                    }
                }
                TokenTree::Group(group) => {
                    // The body of what is for tests only.
                    let is_for_tests = std::mem::take(&mut skips_body);
                    if is_for_tests {
                        continue;
                    }
                    self.walk(group.stream());
                }
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    if let Some(text) = string(&text).filter(|text| text.contains(' ')) {
                        self.texts.push(text.to_owned());
                    }
                }
                TokenTree::Punct(mark) if mark.as_char() == ';' => skips_body = false,
                _ => {}
            }
        }
    }

    /// Takes a doc comment; true for `#[cfg(test)]`.
    fn attribute(&mut self, tokens: TokenStream) -> bool {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        match &*tokens {
            [TokenTree::Ident(name), TokenTree::Punct(_), TokenTree::Literal(text)]
                if *name == "doc" =>
            {
                let text = text.to_string();
                let line = string(&text).unwrap_or_default();
                self.docs.push_str(line.strip_prefix(' ').unwrap_or(line));
                self.docs.push('\n');
                false
            }
            [TokenTree::Ident(name), TokenTree::Group(of)] if *name == "cfg" => {
                of.stream().to_string() == "test"
            }
            _ => false,
        }
    }
}

/// The text of a string literal, with its escapes.
fn string(literal: &str) -> Option<&str> {
    let start = literal.find('"')?;
    literal[..start].chars().all(|c| c == 'r' || c == '#').then_some(())?;
    literal.get(start + 1..literal.rfind('"')?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docs_and_texts_are_found() {
        let source = "//! A file.\n/// One\n/// two\n#[allow(x, reason = \"not this\")]\nfn f() { g(\"three \
                      four\"); h(b\"no bytes\"); }\n#[cfg(test)]\nmod tests { fn t() { g(\"five six\"); } }\n\
                      fn last() { g(\"seven eight\"); }";
        let texts = Texts::of(source).unwrap();
        assert_eq!(texts.docs, "A file.\nOne\ntwo\n");
        assert_eq!(texts.texts, ["three four", "seven eight"]);
    }
}
