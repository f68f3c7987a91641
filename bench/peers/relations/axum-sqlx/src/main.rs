//! The newest issues with assignees, labels and last comments by axum, sqlx and serde: one statement
//! for each relation, and the rows put together by hand. Arguments: `--port N URL`.

use std::collections::HashMap;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use sqlx::FromRow;
use sqlx::postgres::{PgPool, PgPoolOptions};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CONNECTIONS: u32 = 16;

#[derive(FromRow)]
struct IssueRow {
    id: i64,
    title: String,
    state: String,
    estimate: i64,
    assignee: Option<i64>,
}

#[derive(Serialize)]
struct Issue {
    id: i64,
    title: String,
    state: String,
    estimate: i64,
    assignee: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expand: Option<Related>,
}

#[derive(Default, Serialize)]
struct Related {
    assignee: Option<Name>,
    labels: Vec<Name>,
    comment: Vec<Comment>,
}

#[derive(Clone, Serialize)]
struct Name {
    name: String,
}

#[derive(FromRow)]
struct PersonRow {
    id: i64,
    name: String,
}

#[derive(FromRow)]
struct LabelRow {
    issue: i64,
    name: String,
}

#[derive(FromRow, Serialize)]
struct Comment {
    id: i64,
    issue: i64,
    author: i64,
    body: String,
}

#[derive(Serialize)]
struct Page {
    rows: Vec<Issue>,
    next: Option<i64>,
}

#[derive(Deserialize)]
struct Range {
    limit: Option<i64>,
}

type Failure = (StatusCode, String);

fn failed(error: sqlx::Error) -> Failure {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut port, mut url) = (8080, String::new());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--port" => port = arguments.next().ok_or("--port needs a number")?.parse()?,
            _ => url = argument,
        }
    }
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(&url).await?;
    let routes = Router::new().route("/issues", get(plain)).route("/expanded", get(expanded));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    Ok(axum::serve(listener, routes.with_state(pool)).await?)
}

async fn issues(pool: &PgPool, range: &Range) -> Result<Vec<Issue>, Failure> {
    let sql = "SELECT id, title, state, estimate, assignee FROM issue ORDER BY id DESC LIMIT $1";
    let limit = range.limit.unwrap_or(100).clamp(1, 1000);
    let rows: Vec<IssueRow> =
        sqlx::query_as(sql).bind(limit).fetch_all(pool).await.map_err(failed)?;
    let issue = |row: IssueRow| Issue {
        id: row.id,
        title: row.title,
        state: row.state,
        estimate: row.estimate,
        assignee: row.assignee,
        expand: None,
    };
    Ok(rows.into_iter().map(issue).collect())
}

fn page(rows: Vec<Issue>) -> Json<Page> {
    let next = rows.last().map(|row| row.id);
    Json(Page { rows, next })
}

async fn plain(
    State(pool): State<PgPool>,
    Query(range): Query<Range>,
) -> Result<Json<Page>, Failure> {
    Ok(page(issues(&pool, &range).await?))
}

async fn expanded(
    State(pool): State<PgPool>,
    Query(range): Query<Range>,
) -> Result<Json<Page>, Failure> {
    let mut rows = issues(&pool, &range).await?;
    let keys: Vec<i64> = rows.iter().map(|row| row.id).collect();
    let mut people: Vec<i64> = rows.iter().filter_map(|row| row.assignee).collect();
    people.sort_unstable();
    people.dedup();
    let sql = "SELECT id, name FROM person WHERE id = ANY($1)";
    let people: Vec<PersonRow> =
        sqlx::query_as(sql).bind(&people).fetch_all(&pool).await.map_err(failed)?;
    let people: HashMap<i64, Name> =
        people.into_iter().map(|row| (row.id, Name { name: row.name })).collect();
    let sql = "SELECT l.issue, label.name FROM issue_label l JOIN label ON label.id = l.label \
               WHERE l.issue = ANY($1) ORDER BY l.issue, label.id";
    let labels: Vec<LabelRow> =
        sqlx::query_as(sql).bind(&keys).fetch_all(&pool).await.map_err(failed)?;
    let sql = "SELECT c.id, c.issue, c.author, c.body FROM unnest($1::bigint[]) AS k(issue) \
               CROSS JOIN LATERAL (SELECT * FROM comment WHERE comment.issue = k.issue \
               ORDER BY id DESC LIMIT 3) c ORDER BY c.issue, c.id DESC";
    let comments: Vec<Comment> =
        sqlx::query_as(sql).bind(&keys).fetch_all(&pool).await.map_err(failed)?;
    let places: HashMap<i64, usize> = keys.iter().enumerate().map(|(at, &key)| (key, at)).collect();
    for row in &mut rows {
        let assignee = row.assignee.and_then(|key| people.get(&key).cloned());
        row.expand = Some(Related { assignee, ..Related::default() });
    }
    for label in labels {
        if let Some(related) = rows[places[&label.issue]].expand.as_mut() {
            related.labels.push(Name { name: label.name });
        }
    }
    for comment in comments {
        if let Some(related) = rows[places[&comment.issue]].expand.as_mut() {
            related.comment.push(comment);
        }
    }
    Ok(page(rows))
}
