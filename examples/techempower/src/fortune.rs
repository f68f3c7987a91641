//! The page of fortunes, whose templates escape the values: one that askama compiles into the
//! program, and the same one in Mustache.

use std::sync::OnceLock;

use askama::Template;

/// A row of the page.
#[derive(ramhorns::Content)]
pub(crate) struct Line<'a> {
    pub(crate) id: i64,
    pub(crate) message: &'a str,
}

#[derive(Template, ramhorns::Content)]
#[template(path = "fortunes.html")]
struct Page<'a> {
    fortunes: &'a [Line<'a>],
}

/// The Mustache template, if the program was started to use it.
static MUSTACHE: OnceLock<ramhorns::Template<'static>> = OnceLock::new();

/// Selects the Mustache template for all pages.
pub(crate) fn use_mustache() -> Result<(), ramhorns::Error> {
    let template = ramhorns::Template::new(include_str!("../templates/fortunes.mustache"))?;
    MUSTACHE.get_or_init(|| template);
    Ok(())
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
    let page = Page { fortunes: &fortunes };
    match MUSTACHE.get() {
        Some(template) => template.render_to_writer(out, &page).map_err(std::io::Error::other),
        None => page.write_into(out),
    }
}
