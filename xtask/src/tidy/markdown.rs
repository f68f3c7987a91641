//! Parses a Markdown page into its prose without code, its inline code, links, headings and code
//! blocks, each with its line.

use std::collections::BTreeSet;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// A page's parts. Lines count from 1.
#[derive(Debug, Default)]
pub(super) struct Markdown {
    /// The text of each block, in lower-case words separated by single spaces; code is left out.
    pub(super) prose: Vec<(usize, String)>,
    /// Inline code.
    pub(super) code: Vec<(usize, String)>,
    /// The targets of links.
    pub(super) links: Vec<(usize, String)>,
    /// The language of each code block: `rust,no_run`.
    pub(super) blocks: Vec<(usize, String)>,
    /// The anchors of headings.
    pub(super) anchors: BTreeSet<String>,
    /// The rows of tables: the inline code of each cell.
    pub(super) rows: Vec<Vec<Vec<String>>>,
}

impl Markdown {
    /// Parses a page.
    pub(super) fn parse(text: &str) -> Self {
        let mut page = Self::default();
        let (mut prose, mut start, mut heading) = (String::new(), 0, None::<String>);
        let mut in_block = false;
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            let line = text[..range.start].matches('\n').count() + 1;
            match event {
                Event::Start(Tag::CodeBlock(kind)) => {
                    in_block = true;
                    if let CodeBlockKind::Fenced(language) = kind {
                        page.blocks.push((line, language.into_string()));
                    }
                }
                Event::End(TagEnd::CodeBlock) => in_block = false,
                Event::Start(Tag::Link { dest_url, .. }) => {
                    page.links.push((line, dest_url.into_string()));
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::Start(Tag::TableHead | Tag::TableRow) => page.rows.push(Vec::new()),
                Event::Start(Tag::TableCell) => {
                    if let Some(row) = page.rows.last_mut() {
                        row.push(Vec::new());
                    }
                }
                Event::Text(words) if !in_block => {
                    if prose.is_empty() {
                        start = line;
                    }
                    prose.push_str(&words.to_lowercase());
                    if let Some(heading) = &mut heading {
                        heading.push_str(&words);
                    }
                }
                Event::Code(code) => {
                    // Phrases do not span code.
                    prose.push_str(" | ");
                    if let Some(heading) = &mut heading {
                        heading.push_str(&code);
                    }
                    if let Some(cell) = page.rows.last_mut().and_then(|row| row.last_mut()) {
                        cell.push(code.to_string());
                    }
                    page.code.push((line, code.into_string()));
                }
                Event::SoftBreak | Event::HardBreak => prose.push(' '),
                Event::End(
                    TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::Item | TagEnd::TableCell,
                ) => {
                    if let Some(heading) = heading.take() {
                        page.anchors.insert(anchor(&heading));
                    }
                    page.end_block(&mut prose, start);
                }
                _ => {}
            }
        }
        page.end_block(&mut prose, start);
        page
    }

    fn end_block(&mut self, prose: &mut String, start: usize) {
        let words: Vec<&str> = prose.split_whitespace().collect();
        if !words.is_empty() {
            self.prose.push((start, words.join(" ")));
        }
        prose.clear();
    }
}

/// Returns the anchor of a heading, by GitHub's rules.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_without_code() {
        let page =
            Markdown::parse("# A `b` c\nOne\ntwo `three` [four](five.md#six).\n```rust\nx\n```\n");
        assert_eq!(page.prose[1], (2, "one two | four.".to_owned()));
        assert_eq!(page.code, [(1, "b".to_owned()), (3, "three".to_owned())]);
        assert_eq!(page.links, [(3, "five.md#six".to_owned())]);
        assert_eq!(page.blocks, [(4, "rust".to_owned())]);
        assert!(page.anchors.contains("a-b-c"), "{:?}", page.anchors);
    }
}
