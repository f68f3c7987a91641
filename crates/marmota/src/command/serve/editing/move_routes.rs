//! Live moves: the database is replaced by one of another engine while the server runs.
//!
//! ```text
//! GET    /api/-/move            {"state":"following","primary":"sqlite:app.db","lag_commits":0,…}
//! POST   /api/-/move            {"to":"postgres://…","compare_reads":0.01}: fills the other database and follows
//! POST   /api/-/move/compare    compares all rows of both, in the background
//! POST   /api/-/move/flip       makes the other database the primary
//! DELETE /api/-/move            ends the pair; the primary stays the database of the server
//! ```
//!
//! Only administrators may do this. The main thread executes the requests (`live/moving.rs`).

use std::sync::mpsc::Sender;

use marmota_auth::Auth;
use marmota_http::{Endpoint, IntoResponse, Method, Request, Response, Router};
use marmota_model::{Error, ErrorKind, Result};
use marmota_rest::{ApiError, ApiResult, OpenApi};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{ServeEvent, administrator, pass};

/// The path of the move in the API.
pub(super) const PATH: &str = "/api/-/move";

/// What the main thread does with a live move.
#[derive(Debug)]
pub(crate) enum MoveAction {
    /// Returns the state.
    Status,
    /// Fills the database at this URL, and follows. Compares this share of the reads.
    Start(String, f64),
    /// Compares all rows.
    Compare,
    /// Changes the roles.
    Flip,
    /// Ends the pair.
    End,
}

/// A request to the main thread, and the place for the state of the move after it.
pub(crate) struct MoveRequest {
    pub(crate) action: MoveAction,
    /// Gets the state as the JSON of the answer, or the reason why nothing was done.
    pub(crate) reply: oneshot::Sender<Result<Value>>,
}

/// Returns the routes.
pub(crate) fn routes(auth: &Auth, events: &Sender<ServeEvent>) -> Router {
    let route =
        |router: Router, method, path: &str, read: fn(&Request) -> ApiResult<MoveAction>| {
            let (auth, events) = (auth.clone(), events.clone());
            let handle = move |request: Request| {
                let (auth, events) = (auth.clone(), events.clone());
                async move {
                    let done = answer(&auth, &events, &request, read).await;
                    done.unwrap_or_else(IntoResponse::into_response)
                }
            };
            // They are answered by the thread that replaces the routes.
            router.on(method, path, Endpoint::future(handle).outlives_routes())
        };
    let router = route(Router::new(), Method::Get, PATH, |_| Ok(MoveAction::Status));
    let router = route(router, Method::Post, PATH, start);
    let router = route(router, Method::Delete, PATH, |_| Ok(MoveAction::End));
    let router = route(router, Method::Post, "/api/-/move/compare", |_| Ok(MoveAction::Compare));
    route(router, Method::Post, "/api/-/move/flip", |_| Ok(MoveAction::Flip))
}

/// Reads the URL of the other database.
fn start(request: &Request) -> ApiResult<MoveAction> {
    let body: Value = serde_json::from_slice(request.body())
        .map_err(|error| ApiError::bad_request(format!("the body is not JSON: {error}")))?;
    let share = match &body["compare_reads"] {
        Value::Null => 0.0,
        share => share.as_f64().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| {
            ApiError::bad_request(format!("`compare_reads` is {share}: use a number from 0 to 1"))
        })?,
    };
    match body["to"].as_str() {
        Some(to) => Ok(MoveAction::Start(to.to_owned(), share)),
        None => {
            let message = "`to` is missing: send {\"to\":\"postgres://…\"}, the URL of the database \
                           to move to";
            Err(ApiError::bad_request(message))
        }
    }
}

/// Passes an administrator's request to the main thread, and waits for the state after it. The wait
/// occupies no thread: a flip answers when the routes are replaced.
async fn answer(
    auth: &Auth,
    events: &Sender<ServeEvent>,
    request: &Request,
    read: fn(&Request) -> ApiResult<MoveAction>,
) -> ApiResult {
    administrator(auth, request, "move the database").await?;
    let action = read(request)?;
    let status = pass(events, |reply| MoveRequest { action, reply }).await?;
    let internal = |error: marmota_http::HeaderError| Error::new(ErrorKind::Bug, error.to_string());
    let response = Response::json_bytes(status.to_string().into_bytes());
    Ok(response.with_header("Cache-Control", "no-store".to_owned()).map_err(internal)?)
}

/// Adds the operations to an OpenAPI document.
pub(crate) fn add_to(document: OpenApi) -> OpenApi {
    let nullable = |kind: &str| json!({ "type": [kind, "null"] });
    let status = json!({
        "type": "object",
        "required": ["state"],
        "properties": {
            "state": {
                "type": "string",
                "enum": ["none", "interrupted", "filling", "following", "failed"],
            },
            "primary": { "type": "string", "description": "The database of the server" },
            "secondary": nullable("string"),
            "table": nullable("string"),
            "rows": nullable("integer"),
            "rows_total": nullable("integer"),
            "lag_commits": nullable("integer"),
            "lag_ms": nullable("integer"),
            "applied_changes": nullable("integer"),
            "compared": nullable("object"),
            "compare_reads": { "type": "number", "description": "The share of compared reads" },
            "reads": nullable("object"),
            "flips": { "type": "integer" },
            "pause_ms": nullable("integer"),
            "error": nullable("string"),
        },
    });
    let operation = |id: &str, summary: &str| {
        let content = json!({ "application/json": { "schema": status } });
        json!({
            "operationId": id,
            "summary": summary,
            "description": "For administrators.",
            "tags": ["operations"],
            "responses": { "200": { "description": "The state of the move", "content": content } },
        })
    };
    let mut start = operation("move.start", "Fills another database, and follows");
    let body = json!({
        "type": "object",
        "required": ["to"],
        "properties": {
            "to": { "type": "string", "description": "The URL of the database" },
            "compare_reads": {
                "type": "number",
                "minimum": 0,
                "maximum": 1,
                "description": "The share of reads that are executed on both databases",
            },
        },
    });
    start["requestBody"] =
        json!({ "required": true, "content": { "application/json": { "schema": body } } });
    let compare = operation("move.compare", "Compares all rows of both databases");
    let flip = operation("move.flip", "Makes the other database the primary");
    document
        .operation(Method::Get, PATH, operation("move.get", "The state of a live move"))
        .operation(Method::Post, PATH, start)
        .operation(Method::Delete, PATH, operation("move.end", "Ends the pair of databases"))
        .operation(Method::Post, "/api/-/move/compare", compare)
        .operation(Method::Post, "/api/-/move/flip", flip)
}
