//! `cargo xtask site`: the documentation as pages with search, in `target/site/html`, and a check of all
//! links between them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::outsiders::tools;
use crate::step::{Failure, cargo, root, run};

const VERSION: &str = "0.5.4";

/// Where files outside of `docs` are.
const REPOSITORY: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main");

/// Renders the pages, and checks their links.
pub(crate) fn make() -> Result<(), Failure> {
    let program = tools().join("bin/mdbook");
    if !program.exists() {
        run(cargo()
            .args([
                "install",
                "--quiet",
                "--locked",
                "--no-default-features",
                "--features",
                "search",
            ])
            .args(["--version", VERSION, "--root"])
            .arg(tools())
            .arg("mdbook"))?;
    }
    let site = root().join("target/site");
    if site.exists() {
        fs::remove_dir_all(&site)?;
    }
    let docs = root().join("docs");
    copy(&docs, &site.join("src"), "](../")?;
    fs::rename(site.join("src/book.toml"), site.join("book.toml"))?;
    fs::write(site.join("src/index.md"), INDEX)?;
    fs::write(site.join("src/SUMMARY.md"), contents(&docs)?)?;
    let html = site.join("html");
    run(Command::new(program).args(["build", "--dest-dir"]).arg(&html).arg(&site))?;
    check_links(&html)
}

/// The first page.
const INDEX: &str = "\
# Marmota

Marmota is a Rust framework and a program for data services: tables, a REST API with live queries, accounts \
and rights, an administration in the browser, over SQLite, PostgreSQL, MariaDB, MongoDB or memory.

| to | begin with |
|---|---|
| make a service without Rust code | [Application files](guide/45-application-files.md), \
[Administration in a browser](guide/46-admin.md) |
| make a service in Rust | [Getting started](guide/01-getting-started.md), [Models](guide/02-models.md) |
| serve a database that exists | [Existing databases](guide/55-existing-databases.md) |
| call an API | [REST](guide/08-rest.md), [Clients](guide/48-clients.md) |
| operate a server | [Deployment](guide/31-deployment.md), [Settings](guide/51-settings.md), \
[Backup](guide/34-backup.md), [Metrics and logs](guide/35-metrics-and-logs.md) |
| compare Marmota | [Benchmarks](benchmarks.md) |
| change Marmota | [Design documents](design/index.md), [Glossary](glossary.md) |

[All pages of the guide](guide/index.md)
";

/// Copies a folder. Links to files outside of `docs` become links to the repository, and `README.md`
/// becomes `index.md`, which mdBook shows for a folder. `outside` is how such a link of a page in this
/// folder begins.
fn copy(from: &Path, to: &Path, outside: &str) -> Result<(), Failure> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (path, to) = {
            let entry = entry?;
            let name = entry.file_name();
            (entry.path(), to.join(if name == "README.md" { "index.md".into() } else { name }))
        };
        if path.is_dir() {
            copy(&path, &to, &format!("{outside}../"))?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let text = fs::read_to_string(&path)?;
            let text = text.replace(outside, &format!("]({REPOSITORY}/"));
            let text = text.replace("README.md)", "index.md)").replace("README.md#", "index.md#");
            fs::write(to, text)?;
        } else {
            fs::copy(path, to)?;
        }
    }
    Ok(())
}

/// Returns the table of contents: the lists of the guide and of the design documents.
fn contents(docs: &Path) -> Result<String, Failure> {
    let mut text = "# Summary\n\n[Marmota](index.md)\n[The guide](guide/index.md)\n".to_owned();
    for (folder, title) in [("guide", ""), ("contributing", "Contributing"), ("design", "Design")] {
        if !title.is_empty() {
            text.push_str(&format!("\n# {title}\n\n"));
        }
        if folder == "contributing" {
            for (file, title) in [("field-kind", "Add a field kind"), ("rest-route", "Add a route")]
            {
                text.push_str(&format!("- [{title}]({folder}/{file}.md)\n"));
            }
            continue;
        }
        if folder == "design" {
            text.push_str("- [Design documents](design/index.md)\n");
        }
        for line in fs::read_to_string(docs.join(folder).join("README.md"))?.lines() {
            if let Some(part) = line.strip_prefix("## ") {
                text.push_str(&format!("\n# {part}\n\n"));
            } else if let Some((title, file)) = entry(line) {
                text.push_str(&format!("- [{title}]({folder}/{file})\n"));
            }
        }
    }
    text.push_str("\n# Reference\n\n- [Benchmarks](benchmarks.md)\n- [Glossary](glossary.md)\n");
    Ok(text)
}

/// Returns the title and the file of an item of a list: `3. [CRUD](03-crud.md): insert` or
/// `- [003](003-submit-and-poll.md) Submit`.
fn entry(line: &str) -> Option<(String, &str)> {
    let (mark, rest) = line.split_once(" [")?;
    let is_number = mark.strip_suffix('.').is_some_and(|number| number.parse::<u32>().is_ok());
    if !is_number && mark != "-" {
        return None;
    }
    let (title, rest) = rest.split_once("](")?;
    let (file, rest) = rest.split_once(')')?;
    // A second link is a remark.
    let rest = rest.split(['[', ';']).next().unwrap_or_default();
    if !file.ends_with(".md") || file.contains('/') {
        return None;
    }
    Some((if is_number { title.to_owned() } else { format!("{title}{rest}") }, file))
}

/// Checks that each relative link of a page leads to a file, and to an element with its fragment.
fn check_links(html: &Path) -> Result<(), Failure> {
    let mut pages = Vec::new();
    list(html, &mut pages)?;
    let (mut count, mut faults) = (0, Vec::new());
    for page in &pages {
        let text = fs::read_to_string(page)?;
        for link in text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            let is_outside = link.contains(':') || link.starts_with('/');
            // The page for missing files has links from the root.
            if is_outside || page.ends_with("404.html") {
                continue;
            }
            count += 1;
            let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.clone(),
                file => page.parent().unwrap_or(html).join(file),
            };
            let is_there = target.is_file()
                && (fragment.is_empty()
                    || fs::read_to_string(&target)?.contains(&format!("id=\"{fragment}\"")));
            if !is_there {
                let page = page.strip_prefix(html).unwrap_or(page).display();
                faults.push(format!("{page}: {link} leads to nothing"));
            }
        }
    }
    if faults.is_empty() {
        println!("{} pages, {count} links: {}", pages.len(), html.display());
        return Ok(());
    }
    Err(Failure(faults.join("\n       ")))
}

/// Adds the pages below a folder.
fn list(folder: &Path, pages: &mut Vec<PathBuf>) -> Result<(), Failure> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "html") {
            pages.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::entry;

    #[test]
    fn items_of_lists_are_pages() {
        let page = entry("3. [CRUD](03-crud.md): insert, get");
        assert_eq!(page, Some(("CRUD".to_owned(), "03-crud.md")));
        let note = entry("- [003](003-submit.md) `submit`, then `poll`");
        assert_eq!(note, Some(("003 `submit`, then `poll`".to_owned(), "003-submit.md")));
        assert_eq!(entry("The meaning of the terms: [glossary](../glossary.md)."), None);
    }
}
