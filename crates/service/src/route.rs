//! Services as routes of the HTTP server.

use std::sync::Arc;

use marmota_http::{
    Endpoint, Flow, IntoResponse, Method, Request, Response, ResponseWriter, Router, Status,
};
use marmota_rest::ApiError;

use crate::arguments::Arguments;
use crate::call::Origin;
use crate::carried::{self, PATH};
use crate::contract::Contract;
use crate::dispatch::Answer;
use crate::json_rpc::Exchange;
use crate::services::{Services, Settings, Target};

impl Settings {
    /// Who makes a request.
    pub(crate) fn origin_of(&self, request: &Request) -> Result<Origin, ApiError> {
        let Some(auth) = &self.auth else { return Ok(self.origin()) };
        Ok(self.origin_by(auth, marmota_rest::known(auth, request)?)?)
    }
}

impl Services {
    /// The routes, at `/api`: see [`Services::router_at`].
    #[must_use]
    pub fn router(&self) -> Router {
        self.router_at("/api")
    }

    /// The routes, beside REST or without it:
    ///
    /// | route | answer |
    /// |---|---|
    /// | `POST /api/calculator/add` with `{"a":1,"b":2}` or `[1,2]` | `{"result":3}` |
    /// | `GET /api/sum?a=1&b=2`, or `POST` as above | a `#[method]`'s, the same |
    /// | `GET /api/calculator` | the contract |
    /// | `POST /api/-/rpc` | JSON-RPC 2.0: methods `calculator.add` and `sum`, batches |
    /// | `GET /api/-/services` | a WebSocket with the same, a text each message; clients of Marmota's |
    #[must_use]
    pub fn router_at(&self, prefix: &str) -> Router {
        let prefix = prefix.trim_end_matches('/');
        let mut router = Router::new();
        for hosted in &self.0.hosted {
            let root = format!("{prefix}/{}", hosted.contract.name);
            let at = |method| Target { hosted: Arc::clone(hosted), method };
            if hosted.is_method {
                router = router.on(Method::Get, &root, self.endpoint(at(0))).on(
                    Method::Post,
                    &root,
                    self.endpoint(at(0)),
                );
                continue;
            }
            router = router.on(Method::Get, &root, document(hosted.contract));
            for (method, described) in hosted.contract.methods.iter().enumerate() {
                let path = format!("{root}/{}", described.name);
                router = router.on(Method::Post, &path, self.endpoint(at(method)));
            }
        }
        router.on(Method::Post, &format!("{prefix}/-/rpc"), self.json_rpc()).on(
            Method::Get,
            &format!("{prefix}{PATH}"),
            carried::endpoint(&self.0),
        )
    }

    fn json_rpc(&self) -> Endpoint {
        let settings = Arc::clone(&self.0);
        let endpoint = Endpoint::direct(move |request: &Request, out| {
            let origin = match settings.origin_of(request) {
                Ok(origin) => origin,
                Err(error) => {
                    out.respond(error.into_response());
                    return Flow::Done;
                }
            };
            let exchange = Exchange::begin(&settings, &origin, request.body());
            Flow::Later(Box::pin(async move {
                let answer = exchange.answer().await;
                answer.map_or(Response::new(Status::NO_CONTENT), Response::json_bytes)
            }))
        });
        endpoint.with_runtime().body_bytes_max(self.0.body_bytes_max)
    }

    fn endpoint(&self, target: Target) -> Endpoint {
        let settings = Arc::clone(&self.0);
        let name: Arc<str> = target.name().into();
        let endpoint = Endpoint::direct(move |request: &Request, out| {
            let begun = begin(&settings, &target, request);
            answer(begun, &name, out)
        });
        endpoint.with_runtime().body_bytes_max(self.0.body_bytes_max)
    }
}

/// The contract, which anybody may read.
fn document(contract: &'static Contract) -> Endpoint {
    Endpoint::direct(move |_: &Request, out: &mut ResponseWriter<'_>| {
        // Texts alone: they can be written.
        let json = serde_json::to_vec(contract).unwrap_or_default();
        out.respond(Response::json_bytes(json));
        Flow::Done
    })
}

fn begin(settings: &Settings, target: &Target, request: &Request) -> Result<Answer, ApiError> {
    let origin = settings.origin_of(request)?;
    let (contract, method) = (target.hosted.contract, target.method);
    let arguments = match request.method() {
        Method::Get | Method::Head => Arguments::of_query(contract, method, request.query_params()),
        _ => Arguments::of_json(contract, method, request.body())?,
    };
    Ok(target.call(origin, arguments)?)
}

fn answer(begun: Result<Answer, ApiError>, name: &Arc<str>, out: &mut ResponseWriter<'_>) -> Flow {
    match begun {
        Ok(answer) => {
            let name = Arc::clone(name);
            Flow::Later(Box::pin(async move {
                match answer.await {
                    Ok(result) => wrapped(&result),
                    Err(error) => refusal(error.into(), &name),
                }
            }))
        }
        Err(error) => {
            out.respond(refusal(error, name));
            Flow::Done
        }
    }
}

fn wrapped(result: &[u8]) -> Response {
    Response::json_bytes([b"{\"result\":".as_slice(), result, b"}"].concat())
}

fn refusal(error: ApiError, name: &str) -> Response {
    error.about(name).into_response()
}
