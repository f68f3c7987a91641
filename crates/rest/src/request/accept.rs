//! The media types that a client accepts (`Accept`; RFC 9110, 12.5.1).
//!
//! Each endpoint has an [`Offer`]. [`check`] refuses a request that accepts none of the offered
//! types, and [`list_format`] selects the format of a list:
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
//! | `application/json; profile=columns` | JSON, with arrays of values as rows | JSON |
//! | `text/event-stream` | events | 406 |
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
    /// JSON, or NDJSON: batches, which choose by the type of their body.
    JsonOrLines,
    /// JSON, NDJSON or events: lists, which choose by [`list_format`].
    List,
    /// Bytes of a type that only their writer knows, so any `Accept` is satisfied.
    Any,
}

/// The format of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListFormat {
    /// A page, as a JSON document.
    Page,
    /// All rows, as lines of JSON.
    Lines,
    /// A page and its changes, as server-sent events.
    Events,
}

/// The media type of server-sent events.
pub(crate) const EVENTS: &str = "text/event-stream";

/// What a header accepts of one type.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Acceptance {
    /// The weight from 0 to 1; 0 if no range matches.
    weight: f32,
    /// The specificity of the range with this weight.
    exactness: u8,
    /// The place at which the type is named, not only matched by a wildcard.
    named_at: Option<usize>,
    /// The range has `profile=columns`.
    in_columns: bool,
}

/// What a header accepts of the supported types.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Acceptances {
    json: Acceptance,
    lines: Acceptance,
    /// Wildcards do not count: a client that does not know the type cannot read it.
    events: Acceptance,
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
    let Acceptances { json, lines, events } = acceptances(header);
    let is_accepted = json.weight > 0.0
        || matches!(offer, Offer::JsonOrLines | Offer::List) && lines.weight > 0.0
        || offer == Offer::List && events.weight > 0.0;
    if is_accepted {
        return Ok(());
    }
    let offered = match offer {
        Offer::JsonOrLines => "application/json or application/x-ndjson",
        Offer::List => "application/json, application/x-ndjson or text/event-stream",
        Offer::Json | Offer::Any => JSON,
    };
    let message = format!(
        "`Accept: {}` does not allow the available formats; send `Accept: {offered}`, or no \
         `Accept`",
        marmota_model::text::excerpt(header)
    );
    Err(ApiError::from(Error::new(ErrorKind::Invalid, message)).with_status(Status::NOT_ACCEPTABLE))
}

/// Returns the format that the client prefers for a list. Lines and events have to be named: they
/// are selected if their weight is greater than that of JSON, or the same and they are named before
/// it.
///
/// A wildcard never selects lines: `*/*` is the default of most clients, which expect a page.
pub(crate) fn list_format(request: &Request) -> ListFormat {
    let Some(header) = request.header_text("accept") else { return ListFormat::Page };
    let Acceptances { json, lines, events } = acceptances(header);
    let mut best = (ListFormat::Page, json);
    for (format, other) in [(ListFormat::Lines, lines), (ListFormat::Events, events)] {
        let is_earlier = match (other.named_at, best.1.named_at) {
            (Some(other), Some(best)) => other < best,
            (other, _) => other.is_some(),
        };
        let is_preferred =
            other.weight > best.1.weight || (other.weight >= best.1.weight && is_earlier);
        if other.named_at.is_some() && other.weight > 0.0 && is_preferred {
            best = (format, other);
        }
    }
    best.0
}

/// Returns true if the client prefers pages whose rows are arrays of values, after a list of the
/// columns: it names `application/json; profile=columns`, with no lower weight than another JSON.
pub(crate) fn prefers_columns(request: &Request) -> bool {
    let header = request.header_text("accept");
    header.is_some_and(|header| acceptances(header).json.in_columns)
}

/// Refuses the form of [`prefers_columns`] for an answer whose rows are no plain rows of a table.
///
/// # Errors
/// 406 if the client prefers it.
pub(crate) fn refuse_columns(request: &Request, answer: &str) -> ApiResult<()> {
    if !prefers_columns(request) {
        return Ok(());
    }
    let message = format!(
        "{answer} is not available with `profile=columns`; send `Accept: application/json`"
    );
    Err(ApiError::from(Error::new(ErrorKind::Invalid, message)).with_status(Status::NOT_ACCEPTABLE))
}

/// Returns what a header accepts. For each type the most specific matching range counts.
///
/// The order of specificity is a named type, `application/*`, `*/*`; of a type that is named again,
/// the higher weight counts. Parameters other than `q` and `profile=columns` are ignored, and a `q` that is not a number counts as 1, so that a sloppy client gets an answer.
/// Elements without a slash are skipped.
fn acceptances(header: &str) -> Acceptances {
    let none = Acceptance { weight: 0.0, exactness: 0, named_at: None, in_columns: false };
    let (mut json, mut lines, mut events) = (none, none, none);
    let mut is_empty = true;
    for (place, part) in header.split(',').enumerate() {
        let mut parameters = part.split(';').map(str::trim);
        let range = parameters.next().unwrap_or_default();
        if !range.contains('/') {
            continue;
        }
        is_empty = false;
        let mut named = parameters.filter_map(|parameter| parameter.split_once('='));
        let in_columns = named.clone().any(|(name, value)| {
            let is_profile = name.trim().eq_ignore_ascii_case("profile");
            is_profile && value.trim().trim_matches('"').eq_ignore_ascii_case("columns")
        });
        let weight = named
            .find(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
            .and_then(|(_, value)| value.trim().parse::<f32>().ok())
            .unwrap_or(1.0);
        let wildcard = match range {
            "*/*" => 1,
            range if range.eq_ignore_ascii_case("application/*") => 2,
            _ => 0,
        };
        for (best, is_named, wildcard) in [
            (&mut json, range.eq_ignore_ascii_case(JSON), wildcard),
            (&mut lines, ndjson::is_name(range), wildcard),
            (&mut events, range.eq_ignore_ascii_case(EVENTS), 0),
        ] {
            let exactness = if is_named { 3 } else { wildcard };
            let is_better = exactness == 3 && best.exactness == 3 && weight > best.weight;
            if exactness > best.exactness || is_better {
                (best.exactness, best.weight) = (exactness, weight);
                best.in_columns = in_columns && is_named && weight > 0.0;
            }
            if is_named {
                best.named_at.get_or_insert(place);
            }
        }
    }
    if is_empty {
        // A header without types accepts everything.
        (json.weight, lines.weight) = (1.0, 1.0);
    }
    Acceptances { json, lines, events }
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
            let accepted = acceptances(header);
            assert_eq!((accepted.json.weight, accepted.lines.weight), (json, lines), "{header}");
            assert_eq!(accepted.events.weight, 0.0, "{header}");
        }
    }

    #[test]
    fn columns_have_to_be_preferred() {
        for (header, in_columns) in [
            ("application/json", false),
            ("application/json; profile=columns", true),
            ("Application/JSON;Profile=\"Columns\"; q=0.5, */*;q=0.1", true),
            ("application/json, application/json;profile=columns", false),
            ("application/json;q=0.5, application/json;profile=columns", true),
            ("application/json;profile=columns;q=0", false),
            ("application/json;profile=rows", false),
            ("application/x-ndjson;profile=columns, application/json;q=0.5", false),
            ("*/*;profile=columns", false),
        ] {
            assert_eq!(acceptances(header).json.in_columns, in_columns, "{header}");
        }
    }
}
