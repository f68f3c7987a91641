//! Checks the documents: their length, their words, and that the pages, anchors, files and identifiers
//! that they name exist. Every page of the guide is in its index and is compiled.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::markdown::Markdown;
use super::phrases::Phrases;
use crate::step::{Failure, root};

/// The maximum number of lines of a document.
const LINES_MAX: [(&str, usize); 2] = [("ARCHITECTURE.md", 250), ("README.md", 100)];

/// The maximum number of words in a sentence of the guide; 25 is the goal.
const SENTENCE_WORDS_MAX: usize = 30;

/// Code blocks of the guide that cannot be compiled there: the tests of a program, a feature that
/// is off by default, a crate that is not published.
const NOT_COMPILED: [(&str, usize); 3] = [
    ("docs/guide/01-getting-started.md", 1),
    ("docs/guide/10-server.md", 1),
    ("docs/guide/41-writing-an-engine.md", 1),
];

/// Names in the documents that systemd defines.
const FOREIGN: [&str; 3] = ["AmbientCapabilities", "CPUSchedulingPolicy", "StateDirectory"];

/// Where the guide's pages are compiled.
const COMPILED_BY: [&str; 2] = ["crates/marmota/src/guide.rs", "crates/mongo/src/lib.rs"];

/// Checks all documents.
pub(super) fn check(
    files: &[String],
    phrases: &Phrases,
    faults: &mut Vec<String>,
) -> Result<(), Failure> {
    for (file, lines_max) in LINES_MAX {
        let lines = fs::read_to_string(root().join(file))?.lines().count();
        if lines > lines_max {
            faults.push(format!("{file} has {lines} lines; {lines_max} is the maximum"));
        }
    }
    let names = names(files)?;
    let mut pages = BTreeMap::new();
    for file in files.iter().filter(|file| is_document(file)) {
        pages.insert(&**file, Markdown::parse(&fs::read_to_string(root().join(file))?));
    }
    for (file, page) in &pages {
        for (line, prose) in &page.prose {
            // The glossary's table lists avoided phrases as code, which is not prose.
            for phrase in phrases.find(prose) {
                faults.push(format!("{file}:{line}: avoid \"{phrase}\"; see docs/glossary.md"));
            }
        }
        if file.starts_with("docs/guide/") {
            for (line, words) in long_sentences(page) {
                faults.push(format!(
                    "{file}:{line}: a sentence of {words} words; {SENTENCE_WORDS_MAX} is the maximum"
                ));
            }
        }
        for (line, link) in &page.links {
            if let Some(why) = broken(file, link, &pages) {
                faults.push(format!("{file}:{line}: the link {link} {why}"));
            }
        }
        for (line, code) in page.code.iter().filter(|_| !file.starts_with("docs/design")) {
            if let Some(name) = unknown(code, files, &names) {
                faults.push(format!("{file}:{line}: `{code}` names {name}, which does not exist"));
            }
        }
    }
    check_changes(phrases, faults)?;
    check_guide(&pages, faults)
}

fn is_document(file: &str) -> bool {
    let is_root = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].contains(&file);
    is_root || file.starts_with("docs/") && file.ends_with(".md")
}

/// Returns the sentences that are too long, with their number of words. Inline code counts as one word.
fn long_sentences(page: &Markdown) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (line, prose) in &page.prose {
        let mut words = 0;
        for word in prose.split(' ') {
            words += usize::from(word == "|" || word.contains(char::is_alphanumeric));
            if word.trim_end_matches(')').ends_with(['.', '?', '!', ':', ';']) {
                found.extend((words > SENTENCE_WORDS_MAX).then_some((*line, words)));
                words = 0;
            }
        }
        found.extend((words > SENTENCE_WORDS_MAX).then_some((*line, words)));
    }
    found
}

/// Checks the unreleased part of the changelog.
fn check_changes(phrases: &Phrases, faults: &mut Vec<String>) -> Result<(), Failure> {
    let text = fs::read_to_string(root().join("CHANGELOG.md"))?;
    let mut unreleased = String::new();
    let mut headings = 0;
    for line in text.lines() {
        headings += usize::from(line.starts_with("## "));
        if headings > 1 {
            break;
        }
        unreleased.push_str(line);
        unreleased.push('\n');
    }
    for (line, prose) in Markdown::parse(&unreleased).prose {
        for phrase in phrases.find(&prose) {
            faults.push(format!("CHANGELOG.md:{line}: avoid \"{phrase}\"; see docs/glossary.md"));
        }
    }
    Ok(())
}

/// Returns the reason why a link is broken; `None` for a valid one, and for other sites.
fn broken(file: &str, link: &str, pages: &BTreeMap<&str, Markdown>) -> Option<&'static str> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let mut parts: Vec<&str> = file.split('/').collect();
    if !path.is_empty() {
        parts.pop();
        for part in path.split('/').filter(|part| !part.is_empty()) {
            match part {
                "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
    }
    let target = parts.join("/");
    if !root().join(&target).exists() {
        return Some("leads to no file");
    }
    let is_known = |page: &Markdown| page.anchors.contains(anchor);
    if !anchor.is_empty() && !pages.get(&*target).is_some_and(is_known) {
        return Some("leads to no heading");
    }
    None
}

/// Returns all words of the sources.
fn names(files: &[String]) -> Result<BTreeSet<String>, Failure> {
    let mut names: BTreeSet<String> = FOREIGN.iter().map(|&name| name.to_owned()).collect();
    let is_code = |file: &&String| file.ends_with(".rs") || file.ends_with(".pas");
    for file in files.iter().filter(|file| is_code(file) && !file.starts_with("xtask/")) {
        let text = fs::read_to_string(root().join(file)).unwrap_or_default();
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        for word in words {
            if !names.contains(word) {
                names.insert(word.to_owned());
            }
        }
    }
    Ok(names)
}

/// Returns the part of inline code that does not exist: a file of the repository, or a name in the
/// sources (`Store::open`, `RateLimit`).
fn unknown<'c>(code: &'c str, files: &[String], names: &BTreeSet<String>) -> Option<&'c str> {
    let folders = ["apps/", "crates/", "docs/", "examples/", "xtask/", "bench/"];
    let is_path = code.chars().all(|c| c.is_alphanumeric() || "/-_.".contains(c));
    // A program of the reader's has its own `src`.
    if is_path && !code.starts_with("src/") {
        if folders.iter().any(|folder| code.starts_with(folder)) {
            let known = files.iter().any(|file| file.starts_with(code));
            return (!known).then_some(code);
        }
        if code.ends_with(".rs") {
            // `http/worker.rs` and `http/src/worker.rs` mean `crates/http/src/worker.rs`.
            let short = code.replacen('/', "/src/", 1);
            let ends = [format!("/{code}"), format!("/{short}")];
            let known = files.iter().any(|file| ends.iter().any(|end| file.ends_with(end)));
            return (!known).then_some(code);
        }
    }
    let end = code.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    let path = code[..end.unwrap_or(code.len())].trim_end_matches(':');
    let humps = path
        .chars()
        .zip(path.chars().skip(1))
        .filter(|(a, b)| a.is_lowercase() && b.is_uppercase());
    if !path.contains("::") && (humps.count() == 0 || !path.starts_with(char::is_uppercase)) {
        return None;
    }
    path.split("::").find(|name| !name.is_empty() && !names.contains(*name))
}

/// Checks that each page is in the index once, as the site needs it, and is compiled with all its Rust code blocks.
fn check_guide(pages: &BTreeMap<&str, Markdown>, faults: &mut Vec<String>) -> Result<(), Failure> {
    let mut compiled = String::new();
    for file in COMPILED_BY {
        compiled.push_str(&fs::read_to_string(root().join(file))?);
    }
    let index = pages.get("docs/guide/README.md");
    for (file, page) in pages {
        let Some(name) = file.strip_prefix("docs/guide/").filter(|name| *name != "README.md")
        else {
            continue;
        };
        if !compiled.contains(&format!("/guide/{name}\")")) {
            faults.push(format!("{file} is not compiled: include it in {}", COMPILED_BY[0]));
        }
        let links = index.into_iter().flat_map(|index| &index.links);
        let count = links.filter(|(_, link)| link == name).count();
        if count != 1 {
            faults.push(format!("docs/guide/README.md lists {name} {count} times; list it once"));
        }
        let ignored =
            page.blocks.iter().filter(|(_, language)| language.contains("ignore")).count();
        let allowed = NOT_COMPILED.iter().find(|(known, _)| known == file).map_or(0, |(_, it)| *it);
        if ignored != allowed {
            faults.push(format!("{file}: {ignored} blocks are not compiled; {allowed} are known"));
        }
    }
    Ok(())
}
