//! `/api/-/jobs`: the jobs of the store, with their queues, schedules and workers.
//!
//! ```text
//! GET /api/-/jobs?state=failed&limit=20      {"jobs":[{"id":"0190…","function":"send_mail",…}]}
//! GET /api/-/jobs/overview                   {"queues":[…],"schedules":[…],"workers":[…]}
//! POST /api/-/jobs/0190…/retry               the job
//! POST /api/-/jobs/0190…/cancel              the job; 409 if it has ended before
//! ```

use marmota_auth::Auth;
use marmota_http::{Method, Request, Response};
use marmota_jobs::{Cancellation, JobAdmin, JobId, JobQuery, JobRow, JobState};
use marmota_model::{Error, ErrorKind, Result, text};
use marmota_rest::{ApiError, ApiResult, admin_endpoint};
use marmota_store::Store;
use serde_json::{Value, json};

use super::AdminRoute;

/// The number of jobs in an answer: the default, and the maximum.
const JOBS: u64 = 100;
const JOBS_MAX: u64 = 1_000;
/// What callers must be permitted to do, for the error of a refusal.
const MAY: &str = "see and change jobs";

type Answer = std::pin::Pin<Box<dyn Future<Output = ApiResult<Value>>>>;

/// Returns the routes of the jobs of a store; with users, only administrators may call them.
pub(super) fn routes(auth: Option<&Auth>, store: &Store) -> [AdminRoute; 5] {
    let admin = JobAdmin::new(store);
    let endpoint = |route: fn(JobAdmin, Request) -> Answer| {
        let admin = admin.clone();
        admin_endpoint(auth, MAY, move |request, _| {
            let answer = route(admin.clone(), request);
            async move { Ok(Response::json_bytes(answer.await?.to_string().into_bytes())) }
        })
    };
    let (get, post) = (Method::Get, Method::Post);
    [
        AdminRoute::new(
            get,
            "/jobs",
            "Returns jobs, the last ones first",
            endpoint(|admin, request| Box::pin(list(admin, request))),
        )
        .query(&[
            ("queue", "Only jobs of this queue"),
            ("state", "Only jobs in this state"),
            ("limit", "The maximum number of jobs, at most 1000; 100 without it"),
        ]),
        AdminRoute::new(
            get,
            "/jobs/overview",
            "Returns queues, schedules and workers",
            endpoint(|admin, _| Box::pin(overview(admin))),
        ),
        AdminRoute::new(
            get,
            "/jobs/{job}",
            "Returns a job",
            endpoint(|admin, request| {
                Box::pin(async move { Ok(admin.get(id(&request)?).await?.to_json()) })
            }),
        ),
        AdminRoute::new(
            post,
            "/jobs/{job}/retry",
            "Executes a job again",
            endpoint(|admin, request| {
                Box::pin(async move { Ok(admin.retry(id(&request)?).await?.to_json()) })
            }),
        ),
        AdminRoute::new(
            post,
            "/jobs/{job}/cancel",
            "Cancels a job",
            endpoint(|admin, request| Box::pin(cancel(admin, request))),
        ),
    ]
}

/// Returns the job in the path of a request.
fn id(request: &Request) -> Result<JobId> {
    request.param("job").unwrap_or_default().parse()
}

async fn list(admin: JobAdmin, request: Request) -> ApiResult<Value> {
    let mut query = JobQuery::new().limit(JOBS);
    for (name, value) in request.query_params() {
        query = match &*name {
            "queue" => query.queue(&value),
            "state" => query.state(state(&value)?),
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=JOBS_MAX).contains(limit));
                query.limit(limit.ok_or_else(|| {
                    let value = text::excerpt(&value);
                    let message =
                        format!("`limit` is `{value}`; it must be between 1 and {JOBS_MAX}");
                    ApiError::bad_request(message)
                })?)
            }
            _ => {
                let name = text::excerpt(&name);
                let message =
                    format!("there is no parameter `{name}`; there are: queue, state, limit");
                return Err(ApiError::bad_request(message));
            }
        };
    }
    let jobs: Vec<Value> = admin.list(&query).await?.iter().map(JobRow::to_json).collect();
    Ok(json!({ "jobs": jobs }))
}

fn state(name: &str) -> ApiResult<JobState> {
    JobState::ALL.into_iter().find(|state| state.name() == name).ok_or_else(|| {
        let (name, names) = (text::excerpt(name), JobState::ALL.map(JobState::name).join(", "));
        ApiError::bad_request(format!("`state` is `{name}`; it must be one of {names}"))
    })
}

async fn overview(admin: JobAdmin) -> ApiResult<Value> {
    let schedules = admin.schedules().await?.into_iter().map(|row| {
        json!({
            "name": row.id,
            "pattern": row.pattern,
            "next_at": row.next_at.to_string(),
            "last_at": row.last_at.map(|at| at.to_string()),
        })
    });
    let workers = admin.workers().await?.into_iter().map(|row| {
        json!({
            "id": row.id.to_string(),
            "name": row.name,
            "started_at": row.started_at.to_string(),
            "until": row.until.to_string(),
        })
    });
    Ok(json!({
        "queues": admin.statistics().await?,
        "schedules": schedules.collect::<Vec<_>>(),
        "workers": workers.collect::<Vec<_>>(),
    }))
}

async fn cancel(admin: JobAdmin, request: Request) -> ApiResult<Value> {
    let id = id(&request)?;
    match admin.cancel(id).await? {
        Cancellation::Cancelled | Cancellation::Requested => Ok(admin.get(id).await?.to_json()),
        Cancellation::TooLate(state) => {
            let message = format!("the job {id} is {}: it has ended already", state.name());
            Err(Error::new(ErrorKind::Conflict, message).into())
        }
    }
}
