//! `/api/-/webhooks`: the webhooks for administrators.
//!
//! | route | what it does |
//! |---|---|
//! | `GET /api/-/webhooks` | `{"webhooks":[…]}` |
//! | `GET`, `PUT`, `DELETE /api/-/webhooks/{name}` | a webhook, without its secret |
//! | `GET /api/-/webhooks/{name}/secret` | `{"secret":"whsec_…"}` |
//! | `POST /api/-/webhooks/{name}/enable`, `…/disable` | the webhook |
//! | `GET /api/-/webhooks/{name}/deliveries` | `{"deliveries":[…],"next":…}`; parameters `state`, `limit`, `before` |
//! | `POST /api/-/webhooks/{name}/replay` | sends `{"delivery":ID}` or `{"failed":true}` again |
//!
//! No table can have the name `-`.

mod description;

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;

use marmota_auth::Auth;
use marmota_http::{Method, Request, Response, Router, Status};
use marmota_model::{Error, ErrorKind, Result};
use marmota_web::{OpenApi, admin_endpoint};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::definition::Webhook;
use crate::models::{DeliveryRow, WebhookRow};
use crate::webhooks::{DeliveryQuery, Webhooks};

type Answer = Pin<Box<dyn Future<Output = Result<Reply>>>>;
type Route = fn(Webhooks, Request) -> Answer;

/// The result of a route: a document, or nothing.
type Reply = Option<Value>;

/// The routes: method, path, the last word of the `operationId`, and the function.
const ROUTES: [(Method, &str, &str, Route); 9] = [
    (Method::Get, "", "list", |all, request| Box::pin(list(all, request))),
    (Method::Get, "/{name}", "get", |all, request| Box::pin(get(all, request))),
    (Method::Put, "/{name}", "set", |all, request| Box::pin(put(all, request))),
    (Method::Delete, "/{name}", "remove", |all, request| Box::pin(remove(all, request))),
    (Method::Get, "/{name}/secret", "secret", |all, request| Box::pin(secret(all, request))),
    (Method::Post, "/{name}/enable", "enable", |all, request| Box::pin(enable(all, request))),
    (Method::Post, "/{name}/disable", "disable", |all, request| Box::pin(disable(all, request))),
    (Method::Get, "/{name}/deliveries", "deliveries", |all, request| {
        Box::pin(deliveries(all, request))
    }),
    (Method::Post, "/{name}/replay", "replay", |all, request| Box::pin(replay(all, request))),
];

impl Webhooks {
    /// Returns the routes of an API with the prefix `/api`: see [`Webhooks::router_at`].
    ///
    /// ```
    /// use marmota_http::{Status, TestRequest};
    /// use marmota_memory::Memory;
    /// use marmota_store::Store;
    /// use marmota_webhooks::Webhooks;
    ///
    /// let store = marmota_webhooks::models(Store::builder(Memory::new())).open()?;
    /// let router = Webhooks::new(&store).router(None);
    /// let answer = router.call(TestRequest::get("/api/-/webhooks"))?;
    /// assert_eq!((answer.status(), answer.text()), (Status::OK, r#"{"webhooks":[]}"#));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn router(&self, auth: Option<&Auth>) -> Router {
        self.router_at("/api", auth)
    }

    /// Returns the routes below `{prefix}/-/webhooks`. With accounts, administrators may use them
    /// (401, 403); without, everyone who reaches the server. A server with the routes of a store with
    /// accounts does not start without `auth`.
    #[must_use]
    pub fn router_at(&self, prefix: &str, auth: Option<&Auth>) -> Router {
        let at = |path: &str| format!("{}/-/webhooks{path}", prefix.trim_end_matches('/'));
        if auth.is_none()
            && let Err(error) = self.store().registry().check_anonymous()
        {
            return Router::new().refuse(&at(""), error.message());
        }
        ROUTES.into_iter().fold(Router::new(), |router, (method, path, _, route)| {
            let webhooks = self.clone();
            let endpoint = admin_endpoint(auth, "see and change webhooks", move |request, _| {
                let answered = route(webhooks.clone(), request);
                async move { Ok(response(answered.await?)) }
            });
            router.on(method, &at(path), endpoint)
        })
    }

    /// Returns the description of the routes of an API with this prefix for its OpenAPI document:
    /// `rest::Api::openapi`.
    ///
    /// ```
    /// let document = marmota_webhooks::Webhooks::open_api("/api").document();
    /// assert!(document["paths"]["/api/-/webhooks/{name}"]["put"].is_object());
    /// ```
    pub fn open_api(prefix: &str) -> OpenApi {
        let prefix = prefix.trim_end_matches('/');
        ROUTES.into_iter().fold(OpenApi::new(), |document, (method, path, id, _)| {
            let at = format!("{prefix}/-/webhooks{path}");
            document.operation(method, &at, description::operation(id, path))
        })
    }
}

fn response(reply: Reply) -> Response {
    match reply {
        Some(document) => Response::json_bytes(document.to_string().into_bytes()),
        None => Response::from_status(Status::NO_CONTENT),
    }
}

fn name(request: &Request) -> Cow<'_, str> {
    request.param("name").unwrap_or_default()
}

/// Parses a body, and refuses unknown members.
fn read<T: serde::de::DeserializeOwned>(request: &Request) -> Result<T> {
    serde_json::from_slice(request.body())
        .map_err(|error| Error::new(ErrorKind::Invalid, format!("the body is not valid: {error}")))
}

async fn list(webhooks: Webhooks, _: Request) -> Result<Reply> {
    let all: Vec<Value> = webhooks.list().await?.iter().map(WebhookRow::to_json).collect();
    Ok(Some(json!({ "webhooks": all })))
}

async fn get(webhooks: Webhooks, request: Request) -> Result<Reply> {
    Ok(Some(webhooks.get(&name(&request)).await?.to_json()))
}

async fn put(webhooks: Webhooks, request: Request) -> Result<Reply> {
    let mut webhook: Webhook = read(&request)?;
    webhook.name = name(&request).into_owned();
    Ok(Some(webhooks.set(&webhook).await?.to_json()))
}

async fn remove(webhooks: Webhooks, request: Request) -> Result<Reply> {
    webhooks.remove(&name(&request)).await?;
    Ok(None)
}

async fn secret(webhooks: Webhooks, request: Request) -> Result<Reply> {
    Ok(Some(json!({ "secret": webhooks.secret(&name(&request)).await? })))
}

async fn enable(webhooks: Webhooks, request: Request) -> Result<Reply> {
    Ok(Some(webhooks.enable(&name(&request)).await?.to_json()))
}

async fn disable(webhooks: Webhooks, request: Request) -> Result<Reply> {
    Ok(Some(webhooks.disable(&name(&request)).await?.to_json()))
}

async fn deliveries(webhooks: Webhooks, request: Request) -> Result<Reply> {
    let mut query = DeliveryQuery::new();
    if let Some(state) = request.query_param("state") {
        query = query.state(state.parse()?);
    }
    if let Some(before) = request.query_param("before") {
        query = query.before(number("before", &before)?);
    }
    if let Some(limit) = request.query_param("limit") {
        query = query.limit(number("limit", &limit)?.unsigned_abs());
    }
    let rows = webhooks.deliveries(&name(&request), query).await?;
    let next = match query.is_full(rows.len()) {
        true => rows.last().map(|row| row.id),
        false => None,
    };
    let rows: Vec<Value> = rows.iter().map(DeliveryRow::to_json).collect();
    Ok(Some(json!({ "deliveries": rows, "next": next })))
}

fn number(parameter: &str, text: &str) -> Result<i64> {
    text.parse().map_err(|_| {
        let text = marmota_model::text::excerpt(text);
        Error::new(ErrorKind::Invalid, format!("`{parameter}` is `{text}`; it must be a number"))
    })
}

async fn replay(webhooks: Webhooks, request: Request) -> Result<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Replay {
        delivery: Option<i64>,
        #[serde(default)]
        failed: bool,
    }
    let name = name(&request);
    let count = match read(&request)? {
        Replay { delivery: Some(delivery), failed: false } => {
            webhooks.replay(&name, delivery).await?;
            1
        }
        Replay { delivery: None, failed: true } => webhooks.replay_failed(&name).await?,
        Replay { .. } => {
            let message = "the body must have either `delivery`, a number, or `failed`, true";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
    };
    Ok(Some(json!({ "replayed": count })))
}
