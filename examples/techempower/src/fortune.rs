//! The page of fortunes: a template file, compiled in by askama, which
//! escapes what it shows.

use askama::Template;

/// One line of the page.
pub(crate) struct Line<'a> {
    pub(crate) id: i64,
    pub(crate) message: &'a str,
}

#[derive(Template)]
#[template(path = "fortunes.html")]
struct Page<'a> {
    fortunes: &'a [Line<'a>],
}

/// The line that each request adds, by the benchmark's rules.
const ADDED: Line<'static> = Line { id: 0, message: "Additional fortune added at request time." };

/// Adds the request's own fortune, sorts by message and writes the page.
pub(crate) fn write_page<'a>(
    mut fortunes: Vec<Line<'a>>,
    out: &mut Vec<u8>,
) -> std::io::Result<()> {
    fortunes.push(ADDED);
    fortunes.sort_unstable_by(|a, b| a.message.cmp(b.message));
    Page { fortunes: &fortunes }.write_into(out)
}
