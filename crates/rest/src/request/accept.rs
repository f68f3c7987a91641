//! The media types that a client accepts (`Accept`; RFC 9110, 12.5.1).
//!
//! Each endpoint has an [`Offer`]. [`check`] refuses a request that accepts none of the offered
//! types, and [`prefers_lines`] selects NDJSON for lists:
//!
//! ```text
//! GET /api/person HTTP/1.1
//! Accept: application/x-ndjson, application/json;q=0.5
//!
//! HTTP/1.1 200 OK
//! Content-Type: application/x-ndjson
//! ```
//!
//! | `Accept` | list | other routes |
//! |---|---|---|
//! | missing, `*/*`, `application/*` | JSON | JSON |
//! | `application/json` | JSON | JSON |
//! | `application/x-ndjson` | lines | 406; batches: lines or JSON, as their body |
//! | `application/x-ndjson;q=0.5, application/json` | JSON | JSON |
//! | `text/html` | 406 | 406 |

use marmota_http::{Request, Status};
use marmota_model::{Error, ErrorKind};
use marmota_web::{ApiError, ApiResult};

use crate::protocol::ndjson;
use crate::request::answer::JSON;

/// The media types that a route can return. Errors are always problem documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// JSON only: rows, documents, and all writes except batches.
    Json,
    /// JSON, or NDJSON: lists and batches. Lists choose by [`prefers_lines`], batches by the type
    /// of their body.
    JsonOrLines,
    /// Bytes of a type that only their writer knows, so any `Accept` is satisfied.
    Any,
}

/// The weights of the supported types, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Weights {
    /// The weight of `application/json`; 0 if no range matches it.
    json: f32,
    /// The weight of the NDJSON types; 0 if no range matches them.
    lines: f32,
    /// True if lines are named explicitly, not only by a wildcard.
    names_lines: bool,
    /// True if JSON is named, and before lines if those are named, too.
    names_json_first: bool,
}

/// Checks that the client accepts a type that the route offers.
///
/// A request without `Accept` accepts every type, as does one whose header names no media range.
/// Endpoints check before they call the handler, so a write whose answer is unacceptable is not
/// executed.
///
/// # Errors
/// 406 with the offered types. The document itself is `application/problem+json` in any case: RFC
/// 9110 permits an error in a type that was not accepted, and a client needs the reason.
pub(crate) fn check(request: &Request, offer: Offer) -> ApiResult<()> {
    let Some(header) = request.header_text("accept").filter(|_| offer != Offer::Any) else {
        return Ok(());
    };
    let weights = weights(header);
    if weights.json > 0.0 || (offer == Offer::JsonOrLines && weights.lines > 0.0) {
        return Ok(());
    }
    let offered = match offer {
        Offer::JsonOrLines => "application/json or application/x-ndjson",
        Offer::Json | Offer::Any => JSON,
    };
    let message = format!(
        "`Accept: {}` does not allow the available formats; send `Accept: {offered}`, or no \
         `Accept`",
        marmota_model::text::excerpt(header)
    );
    Err(ApiError::from(Error::new(ErrorKind::Invalid, message)).with_status(Status::NOT_ACCEPTABLE))
}

/// Returns true if the client prefers lines: they are named explicitly, with a higher weight than
/// JSON, or with the same weight and before it.
///
/// A wildcard never selects lines: `*/*` is the default of most clients, which expect a page.
pub(crate) fn prefers_lines(request: &Request) -> bool {
    let Some(header) = request.header_text("accept") else { return false };
    let Weights { json, lines, names_lines, names_json_first } = weights(header);
    names_lines && lines > 0.0 && (lines > json || (lines == json && !names_json_first))
}

/// Returns the weights in a header. For each type the most specific matching range counts.
///
/// The order of specificity is a named type, `application/*`, `*/*`. Parameters other than `q` are
/// ignored, and a `q` that is not a number counts as 1, so that a sloppy client gets an answer.
/// Elements without a slash are skipped.
fn weights(header: &str) -> Weights {
    // The specificity of the matching range, and its weight.
    let (mut json, mut lines) = ((0, 0.0), (0, 0.0));
    let (mut names_lines, mut names_json_first, mut is_empty) = (false, false, true);
    for part in header.split(',') {
        let mut parameters = part.split(';').map(str::trim);
        let range = parameters.next().unwrap_or_default();
        if !range.contains('/') {
            continue;
        }
        is_empty = false;
        let weight = parameters
            .filter_map(|parameter| parameter.split_once('='))
            .find(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
            .and_then(|(_, value)| value.trim().parse::<f32>().ok())
            .unwrap_or(1.0);
        let is_json = range.eq_ignore_ascii_case(JSON);
        let is_lines = ndjson::is_name(range);
        names_json_first |= is_json && !names_lines;
        names_lines |= is_lines;
        let wildcard = match range {
            "*/*" => 1,
            range if range.eq_ignore_ascii_case("application/*") => 2,
            _ => 0,
        };
        for (best, is_named) in [(&mut json, is_json), (&mut lines, is_lines)] {
            let exactness = if is_named { 3 } else { wildcard };
            if exactness > best.0 {
                *best = (exactness, weight);
            }
        }
    }
    match is_empty {
        // A header without types accepts everything.
        true => Weights { json: 1.0, lines: 1.0, names_lines, names_json_first },
        false => Weights { json: json.1, lines: lines.1, names_lines, names_json_first },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_weights() {
        for (header, json, lines) in [
            ("", 1.0, 1.0),
            ("*/*", 1.0, 1.0),
            ("application/json", 1.0, 0.0),
            ("Application/JSON; charset=utf-8; q=0.5", 0.5, 0.0),
            ("application/*;q=0.2, */*", 0.2, 0.2),
            ("*/*, application/json;q=0", 0.0, 1.0),
            ("application/jsonl, */*;q=0.1", 0.1, 1.0),
            ("application/xml, text/*", 0.0, 0.0),
            ("application/json;q=x", 1.0, 0.0),
            ("q=1, , ;", 1.0, 1.0),
        ] {
            let weights = weights(header);
            assert_eq!((weights.json, weights.lines), (json, lines), "{header}");
        }
    }
}
