//! Changes of the application file by the API, while the program serves:
//!
//! ```text
//! GET /api/-/app                          the file as JSON, with an entity tag
//! PUT /api/-/app?dry_run=true             what another file would change in the database
//! PUT /api/-/app                          changes the database, the file and the routes
//!     If-Match: "9f3b…"                   the entity tag of the file that was edited
//!     ?allow_loss=true&drop=note.color    allows steps that lose values
//!
//! {"applied":true,"steps":[{"text":"add column note.color","effect":"safe",…}]}
//! ```
//!
//! Only administrators may do this. The handlers pass each request to the main thread, which has all
//! that a change replaces (`live.rs`), and wait for its answer. `sql_console.rs` has the route for SQL, `move_routes.rs` those for
//! live moves, `description.rs` the operations for OpenAPI documents.

pub(super) mod description;
pub(super) mod move_routes;
pub(super) mod sql_console;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::mpsc::Sender;

use marmota_auth::{Auth, Identity};
use marmota_http::{
    Endpoint, IntoResponse, Method, Request, Response, Router, ServerError, Status,
};
use marmota_model::{Error, ErrorKind, Result};
use marmota_rest::{ApiError, ApiResult, authenticate};
use marmota_store::plan::{Destructive, Plan, PlanStep, StepEffect};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use self::move_routes::MoveRequest;

/// The path of the file in the API.
const PATH: &str = "/api/-/app";
/// The maximum size of a file in bytes, as for files on the disk.
const BODY_BYTES_MAX: usize = 4 << 20;

/// A request to the main thread.
pub(super) enum AppRequest {
    /// Reads the file.
    Read(oneshot::Sender<Result<AppText>>),
    /// Changes the file, or shows what that would do.
    Change(AppChange, oneshot::Sender<Result<AppChanged>>),
}

/// An event for the main thread.
pub(super) enum ServeEvent {
    /// A request that concerns the application file.
    App(AppRequest),
    /// A request that concerns a live move.
    Move(MoveRequest),
    /// The other database of a live move is filled, or could not be.
    Filled(Result<()>),
    /// The server has ended.
    Ended(std::result::Result<(), ServerError>),
}

impl From<AppRequest> for ServeEvent {
    fn from(request: AppRequest) -> Self {
        Self::App(request)
    }
}

impl From<MoveRequest> for ServeEvent {
    fn from(request: MoveRequest) -> Self {
        Self::Move(request)
    }
}

/// The content of the file.
pub(super) struct AppText {
    /// The tables and groups, as JSON.
    pub(super) json: String,
    pub(super) tag: String,
}

/// A change of the file.
pub(super) struct AppChange {
    /// The new content, as JSON.
    pub(super) json: String,
    /// The entity tag of the content that was edited.
    pub(super) tag: String,
    /// The name of the administrator.
    pub(super) by: String,
    /// The steps that may lose values.
    pub(super) destructive: Destructive,
    /// Show the steps, and do nothing.
    pub(super) is_dry_run: bool,
}

/// The result of a change.
pub(super) struct AppChanged {
    /// The steps of the database, as JSON.
    pub(super) steps: Value,
    /// Why the change would be refused; only of a dry run.
    pub(super) refusal: Option<String>,
    /// The change was made.
    pub(super) is_applied: bool,
    /// The entity tag of the file now.
    pub(super) tag: String,
}

/// Returns the entity tag of a file with this text.
pub(super) fn tag_of(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

/// Returns the steps of a plan as JSON.
pub(super) fn steps_of(plan: &Plan, destructive: &Destructive) -> Value {
    let step = |step: &PlanStep| {
        let (effect, note) = match &step.effect {
            StepEffect::Safe => ("safe", None),
            StepEffect::Destructive { what, way_out, needed } => {
                let effect = if *needed { "needs_loss" } else { "optional_loss" };
                (effect, Some(format!("{what}; {way_out}")))
            }
            StepEffect::Refused(why) => ("refused", Some(why.clone())),
        };
        json!({
            "text": step.to_string(),
            "table": step.table,
            "column": step.column(),
            "effect": effect,
            "note": note,
            "statements": step.statements,
            "is_done": plan.to_do(destructive).any(|done| done == step),
        })
    };
    plan.steps.iter().map(step).collect()
}

/// Returns the routes.
pub(super) fn routes(auth: &Auth, events: &Sender<ServeEvent>) -> Router {
    let reading = {
        let (auth, events) = (auth.clone(), events.clone());
        move |request: Request| {
            let (auth, events) = (auth.clone(), events.clone());
            async move {
                read(&auth, &events, request).await.unwrap_or_else(IntoResponse::into_response)
            }
        }
    };
    let changing = {
        let (auth, events) = (auth.clone(), events.clone());
        move |request: Request| {
            let (auth, events) = (auth.clone(), events.clone());
            async move {
                change(&auth, &events, request).await.unwrap_or_else(IntoResponse::into_response)
            }
        }
    };
    // Both are answered by the thread that replaces the routes.
    let change = Endpoint::future(changing).body_bytes_max(BODY_BYTES_MAX).outlives_routes();
    Router::new().on(Method::Get, PATH, Endpoint::future(reading).outlives_routes()).on(
        Method::Put,
        PATH,
        change,
    )
}

/// `GET`: returns the file as JSON.
async fn read(auth: &Auth, events: &Sender<ServeEvent>, request: Request) -> ApiResult {
    administrator(auth, &request, "read and change the application").await?;
    let file = pass(events, AppRequest::Read).await?;
    let response = Response::json_bytes(file.json.into_bytes());
    tagged(response, &file.tag)
}

/// `PUT`: changes the file and the database.
async fn change(auth: &Auth, events: &Sender<ServeEvent>, request: Request) -> ApiResult {
    let caller = administrator(auth, &request, "read and change the application").await?;
    let json = std::str::from_utf8(request.body())
        .map_err(|_| ApiError::bad_request("the body is not UTF-8"))?
        .to_owned();
    let Some(tag) = request.header_text("if-match").map(str::to_owned) else {
        let message = "`If-Match` is missing: send the `ETag` of the file that you have edited, \
                       from `GET /api/-/app`";
        return Err(ApiError::bad_request(message).with_status(Status::PRECONDITION_REQUIRED));
    };
    let (mut destructive, mut is_dry_run) = (Destructive::default(), false);
    for (name, value) in request.query_params() {
        match (&*name, &*value) {
            ("dry_run", "true" | "false") => is_dry_run = value == "true",
            ("allow_loss", "true" | "false") => destructive.needed = value == "true",
            ("drop", column) if column.contains('.') => destructive.columns.push(column.to_owned()),
            ("drop", column) => {
                let message = format!("`drop` is `{column}`; it must name a table.column");
                return Err(ApiError::bad_request(message));
            }
            (name @ ("dry_run" | "allow_loss"), value) => {
                let message = format!("`{name}` is `{value}`; it must be true or false");
                return Err(ApiError::bad_request(message));
            }
            (name, _) => {
                let message =
                    format!("there is no parameter `{name}`; there are: dry_run, allow_loss, drop");
                return Err(ApiError::bad_request(message));
            }
        }
    }
    let by = caller.caller().name.clone();
    let change = AppChange { json, tag, by, destructive, is_dry_run };
    let changed = pass(events, |reply| AppRequest::Change(change, reply)).await?;
    let body = json!({
        "applied": changed.is_applied,
        "refusal": changed.refusal,
        "steps": changed.steps,
    });
    tagged(Response::json_bytes(body.to_string().into_bytes()), &changed.tag)
}

/// Returns the caller, who has to be an administrator.
async fn administrator(
    auth: &Auth,
    request: &Request,
    what: &str,
) -> ApiResult<std::sync::Arc<Identity>> {
    let Some(caller) = authenticate(auth, request).await? else {
        let message = format!("only administrators may {what}: log in first");
        return Err(Error::new(ErrorKind::Unauthenticated, message).into());
    };
    match caller.is_admin() {
        true => Ok(caller),
        false => Err(Error::new(ErrorKind::Denied, "only administrators may do this").into()),
    }
}

/// Passes a request to the main thread, and waits for its answer.
async fn pass<T, R: Into<ServeEvent>>(
    events: &Sender<ServeEvent>,
    request: impl FnOnce(oneshot::Sender<Result<T>>) -> R,
) -> ApiResult<T> {
    let closing = || Error::new(ErrorKind::Closed, "the server is shutting down");
    let (reply, answer) = oneshot::channel();
    events.send(request(reply).into()).map_err(|_| closing())?;
    Ok(answer.await.map_err(|_| closing())??)
}

/// Adds an entity tag to an answer, which is not stored by caches.
fn tagged(response: Response, tag: &str) -> ApiResult {
    let internal = |error: marmota_http::HeaderError| Error::new(ErrorKind::Bug, error.to_string());
    let response = response.with_header("ETag", tag.to_owned()).map_err(internal)?;
    Ok(response.with_header("Cache-Control", "no-store".to_owned()).map_err(internal)?)
}
