//! The document of a page: its JSON, and the URL of the next page.
//!
//! ```text
//! {"rows":[{"name":"Emmy Noether"}],"next":"/api/person?limit=1&after=WyJB…","count":2}
//! {"columns":["name"],"rows":[["Emmy Noether"]],"next":"/api/person?limit=1&after=WyJB…","count":2}
//! ```

use marmota_http::QueryParams;
use marmota_model::{FieldSet, Table, json};

/// The begin of a document; the rows follow, with commas between.
pub(crate) const BEGIN: &[u8] = b"{\"rows\":[";

/// Appends the begin of a document whose rows are arrays: the names of their columns.
pub(crate) fn begin_columns(body: &mut Vec<u8>, table: &Table, fields: FieldSet) {
    body.extend_from_slice(b"{\"columns\":[");
    for (place, position) in fields.iter().enumerate() {
        if place > 0 {
            body.push(b',');
        }
        json::write_string(body, &table.fields()[position].name);
    }
    // The first byte of the usual begin is there already.
    body.extend_from_slice(b"],");
    body.extend_from_slice(&BEGIN[1..]);
}

/// Appends the end of a document after its rows: the URL of the next page, if one follows, the number
/// of all rows, if it was requested, and other members, each with a comma in front.
pub(crate) fn write_end(
    body: &mut Vec<u8>,
    next: Option<&str>,
    count: Option<u64>,
    members: &[u8],
) {
    body.extend_from_slice(b"],\"next\":");
    write_next(body, next);
    if let Some(count) = count {
        body.extend_from_slice(b",\"count\":");
        body.extend_from_slice(count.to_string().as_bytes());
    }
    body.extend_from_slice(members);
    body.push(b'}');
}

/// Appends the value of `next`.
pub(crate) fn write_next(body: &mut Vec<u8>, next: Option<&str>) {
    match next {
        Some(url) => json::write_string(body, url),
        None => body.extend_from_slice(b"null"),
    }
}

/// Returns the URL of a page with another cursor. All other parameters keep their order and their
/// encoding, so that the client can compare them with those that it sent.
pub(crate) fn next_url(path: &str, query: &str, cursor: &str) -> String {
    let mut url = String::with_capacity(path.len() + query.len() + cursor.len() + 8);
    push_safe(&mut url, path);
    url.push('?');
    for pair in query.split('&') {
        let is_after = QueryParams::new(pair).next().is_none_or(|(name, _)| name == "after");
        if !is_after {
            push_safe(&mut url, pair);
            url.push('&');
        }
    }
    url.push_str("after=");
    url.push_str(cursor);
    url
}

/// Appends a part of a target, and encodes the characters that would end a link in a header and
/// that lax clients send unencoded. A percent sign is copied, because the part is encoded already.
fn push_safe(url: &mut String, part: &str) {
    for c in part.chars() {
        match c {
            '<' => url.push_str("%3C"),
            '>' => url.push_str("%3E"),
            '"' => url.push_str("%22"),
            '\\' => url.push_str("%5C"),
            c => url.push(c),
        }
    }
}
