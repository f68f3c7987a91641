//! Services as routes of the HTTP server.

use std::sync::Arc;

use marmota_http::{
    Endpoint, Flow, IntoResponse, Method, Request, Response, ResponseWriter, Router, Status,
};
use marmota_web::ApiError;

use crate::call::CallOrigin;
use crate::call::arguments::{Arguments, Streams};
use crate::contract::Contract;
use crate::peer::PATH;
use crate::services::json_rpc::Exchange;
use crate::services::origin::OriginOf;
use crate::services::{Services, Settings, Target};
use crate::transfer::{Answer, Reply, TransferForm};

mod body;
mod connections;
mod json_type;
mod open_api;

use body::Upload;

impl Services {
    /// Returns the routes under `/api`: see [`Services::router_at`].
    #[must_use]
    pub fn router(&self) -> Router {
        self.router_at("/api")
    }

    /// Returns the routes, which can be combined with those of REST ([`Services::open_api`]
    /// describes them):
    ///
    /// | route | answer |
    /// |---|---|
    /// | `POST /api/calculator/add` with `{"a":1,"b":2}` or `[1,2]` | `{"result":3}` |
    /// | `GET /api/sum?a=1&b=2`, or `POST` as above | the same, for a `#[method]` |
    /// | `GET /api/calculator` | the contract |
    /// | `POST /api/files/put?name=a` with bytes, or `POST /api/files/sum` with lines of JSON | the same, for a method that takes a stream |
    /// | `POST /api/files/get` with `{"name":"a"}` | for a method that returns a stream: its bytes (`application/octet-stream`), or its items as lines of JSON (`application/x-ndjson`) |
    /// | `POST /api/-/rpc` | JSON-RPC 2.0: methods `calculator.add` and `sum`, batches |
    /// | `GET /api/-/services` | a WebSocket with the same, one text frame per message; also used by clients of Marmota |
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
            connections::endpoint(&self.0),
        )
    }

    fn json_rpc(&self) -> Endpoint {
        let settings = Arc::clone(&self.0);
        let endpoint = Endpoint::direct(move |request: &Request, out| {
            let origin = settings.origin_of(request);
            let origin = match origin.and_then(|origin| {
                request.check_json()?;
                Ok(origin)
            }) {
                Ok(origin) => origin,
                Err(error) => {
                    out.respond(error.into_response());
                    return Flow::Done;
                }
            };
            let exchange = match origin {
                OriginOf::Now(origin) => Exchange::begin(&settings, &origin, request.body()),
                OriginOf::Later(knowing) => {
                    let (settings, request) = (Arc::clone(&settings), request.clone());
                    return Flow::Later(Box::pin(async move {
                        match settings.origin_later(knowing).await {
                            Ok(origin) => {
                                let begun = Exchange::begin(&settings, &origin, request.body());
                                exchanged(begun).await
                            }
                            Err(error) => error.into_response(),
                        }
                    }));
                }
            };
            Flow::Later(Box::pin(exchanged(exchange)))
        });
        endpoint.with_runtime().body_bytes_max(self.0.body_bytes_max)
    }

    fn endpoint(&self, target: Target) -> Endpoint {
        let settings = Arc::clone(&self.0);
        let name: Arc<str> = target.name().into();
        let body = target.described().and_then(body::of_method);
        let form = target.described().map_or(TransferForm::Value, |method| method.result_form);
        let endpoint = Endpoint::direct(move |request: &Request, out| {
            let origin = match settings.origin_of(request) {
                Ok(OriginOf::Now(origin)) => Ok(origin),
                Ok(OriginOf::Later(knowing)) => {
                    let (settings, target) = (Arc::clone(&settings), target.clone());
                    let (request, name) = (request.clone(), Arc::clone(&name));
                    return Flow::Later(Box::pin(async move {
                        let origin = settings.origin_later(knowing).await;
                        let begun = origin
                            .and_then(|origin| begin(&settings, &target, &request, body, origin));
                        match begun {
                            Ok(begun) => answered(begun, name, form).await,
                            Err(error) => refusal(error, &name),
                        }
                    }));
                }
                Err(error) => Err(error),
            };
            match origin.and_then(|origin| begin(&settings, &target, request, body, origin)) {
                Ok(begun) => Flow::Later(Box::pin(answered(begun, Arc::clone(&name), form))),
                Err(error) => {
                    out.respond(refusal(error, &name));
                    Flow::Done
                }
            }
        });
        let endpoint = endpoint.with_runtime().body_bytes_max(self.0.body_bytes_max);
        match body {
            // The body of an unauthorized request is not read.
            Some(form) => {
                endpoint.streamed_when(body::bytes_max(form, &self.0.limits), body::is_streamed)
            }
            None => endpoint,
        }
    }
}

/// Returns the endpoint of the contract, which is public.
fn document(contract: &'static Contract) -> Endpoint {
    Endpoint::direct(move |request: &Request, out: &mut ResponseWriter<'_>| {
        if let Err(refused) = request.check_site() {
            out.respond(refused.into_response());
            return Flow::Done;
        }
        // The contract holds only strings: serializing cannot fail.
        let json = serde_json::to_vec(contract).unwrap_or_default();
        out.respond(Response::json_bytes(json));
        Flow::Done
    })
}

fn begin(
    settings: &Settings,
    target: &Target,
    request: &Request,
    body: Option<TransferForm>,
    origin: CallOrigin,
) -> Result<(Answer, Option<Upload>), ApiError> {
    let (contract, method) = (target.hosted.contract, target.method);
    let of_query = || Arguments::of_query(contract, method, request.query_params());
    let (arguments, streams, upload) = match request.method() {
        Method::Get | Method::Head => (of_query(), Streams::None, None),
        _ if body.is_some() && body::is_streamed(request) => {
            let (upload, pieces) = Upload::new(request.reader());
            (of_query(), Streams::Body(Some(pieces)), Some(upload))
        }
        _ => {
            request.check_json()?;
            (Arguments::of_json(contract, method, request.body())?, Streams::None, None)
        }
    };
    let arguments = arguments.with_streams(streams, settings.limits);
    Ok((target.call(origin, arguments)?, upload))
}

async fn exchanged(exchange: Exchange) -> Response {
    let answer = exchange.answer().await;
    answer.map_or(Response::new(Status::NO_CONTENT), Response::json_bytes)
}

async fn answered(
    (mut answer, mut upload): (Answer, Option<Upload>),
    name: Arc<str>,
    form: TransferForm,
) -> Response {
    let answered = std::future::poll_fn(|context| {
        if let Some(upload) = &mut upload {
            upload.go_on(context);
        }
        answer.as_mut().poll(context)
    });
    let answered = match answered.await {
        Ok(Reply::Value(result)) => Ok(wrapped(&result)),
        Ok(Reply::Stream(pieces)) => body::answer(pieces, form, upload, Arc::clone(&name)).await,
        Err(error) => Err(error),
    };
    answered.unwrap_or_else(|error| refusal(error.into(), &name))
}

fn wrapped(result: &[u8]) -> Response {
    Response::json_bytes([b"{\"result\":".as_slice(), result, b"}"].concat())
}

fn refusal(error: ApiError, name: &str) -> Response {
    error.about(name).into_response()
}
