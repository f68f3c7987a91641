//! The page of fortunes, from a template that askama compiles into the program and that escapes its
//! values.

use askama::Template;

/// A row of the page.
pub(crate) struct Line<'a> {
    pub(crate) id: i64,
    pub(crate) message: &'a str,
}

#[derive(Template)]
#[template(path = "fortunes.html")]
struct Page<'a> {
    fortunes: &'a [Line<'a>],
}

/// The row that is added to each request, as the benchmark requires.
const ADDED: Line<'static> = Line { id: 0, message: "Additional fortune added at request time." };

/// Adds the additional fortune, sorts by message and writes the page.
pub(crate) fn write_page<'a>(
    mut fortunes: Vec<Line<'a>>,
    out: &mut Vec<u8>,
) -> std::io::Result<()> {
    fortunes.push(ADDED);
    fortunes.sort_unstable_by(|a, b| a.message.cmp(b.message));
    Page { fortunes: &fortunes }.write_into(out)
}
