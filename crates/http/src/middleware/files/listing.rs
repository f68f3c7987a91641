//! A folder as an HTML page, with a link for each entry; see
//! [`Files::listed`](crate::Files::listed). The page needs no script and no style, and all names
//! are escaped.

use rustix::fd::OwnedFd;
use rustix::fs::{Dir, FileType};

use crate::message::response::Response;

/// Maximum number of names on a page; further names are only counted.
const NAMES_MAX: usize = 10_000;

/// Returns a page with the entries of a folder in order, without hidden ones and those that are not
/// UTF-8. `None` if the folder cannot be read.
pub(super) fn page(folder: OwnedFd, path: &str) -> Option<Response> {
    let (mut names, mut left) = (Vec::new(), 0);
    for entry in Dir::new(folder).ok()? {
        let Ok(entry) = entry else { continue };
        let Ok(name) = entry.file_name().to_str() else { continue };
        if name.starts_with('.') {
            continue;
        }
        if names.len() == NAMES_MAX {
            left += 1;
            continue;
        }
        let slash = if entry.file_type() == FileType::Directory { "/" } else { "" };
        names.push(format!("{name}{slash}"));
    }
    names.sort_unstable();
    let title = escape(path);
    let mut page = format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<h1>{title}</h1>\n<ul>\n"
    );
    page.push_str("<li><a href=\"../\">../</a></li>\n");
    for name in &names {
        page.push_str(&format!("<li><a href=\"{}\">{}</a></li>\n", link(name), escape(name)));
    }
    page.push_str("</ul>\n");
    if left > 0 {
        page.push_str(&format!("<p>and {left} more</p>\n"));
    }
    Some(Response::html(page))
}

/// Returns the name as a relative link. Only unreserved characters (RFC 3986, 2.3) and `/` stay
/// unescaped; `./` at the beginning keeps a colon in a name from being read as a scheme.
fn link(name: &str) -> String {
    let mut link = String::from("./");
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                link.push(byte as char);
            }
            _ => link.push_str(&format!("%{byte:02X}")),
        }
    }
    link
}

/// Escapes text for HTML.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}
