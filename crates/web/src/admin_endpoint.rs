//! Endpoints for administrators: the checks that all of them make, and the form of their answers.

use std::future::Future;
use std::sync::Arc;

use marmota_auth::{Auth, Identity};
use marmota_http::{Endpoint, Flow, IntoResponse, Request, Response, Status};
use marmota_model::{Error, ErrorKind};

use crate::api_error::ApiResult;
use crate::authentication::authenticate;

/// The maximum size of a body in bytes.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// Returns an endpoint for administrators. With accounts, others are refused (401, 403), with what
/// administrators may do there as the reason; without, everyone who reaches the server may use it, and
/// `route` gets no identity.
///
/// A page of another origin is refused, and a body has to be JSON of at most 64 KiB. Answers are
/// not stored by caches.
///
/// ```
/// use marmota_http::{Method, Response, Router, Status, TestRequest};
/// use marmota_web::admin_endpoint;
///
/// let uptime = admin_endpoint(None, "see how long the program has been up", |_, _| async {
///     Ok(Response::json_bytes(&b"{\"seconds\":7}"[..]))
/// });
/// let router = Router::new().on(Method::Get, "/api/-/uptime", uptime);
/// let answer = router.call(TestRequest::get("/api/-/uptime"))?;
/// assert_eq!((answer.status(), answer.text()), (Status::OK, "{\"seconds\":7}"));
/// assert_eq!(answer.header("Cache-Control"), Some("no-store"));
/// # Ok::<(), marmota_http::CallError>(())
/// ```
pub fn admin_endpoint<R>(
    auth: Option<&Auth>,
    may: &'static str,
    route: impl Fn(Request, Option<Arc<Identity>>) -> R + Send + Sync + 'static,
) -> Endpoint
where
    R: Future<Output = ApiResult<Response>> + 'static,
{
    let (auth, route) = (auth.cloned(), Arc::new(route));
    let endpoint = Endpoint::direct(move |request: &Request, _: &mut _| {
        let (auth, route, request) = (auth.clone(), Arc::clone(&route), request.clone());
        Flow::Later(Box::pin(async move {
            let answered = match admitted(auth.as_ref(), may, &request).await {
                Ok(caller) => route(request, caller).await,
                Err(error) => Err(error),
            };
            let response = answered.unwrap_or_else(IntoResponse::into_response);
            // Answers depend on the caller, and can contain a secret.
            response.with_header("Cache-Control", "no-store").unwrap_or_else(|error| {
                log::error!("{error:?}");
                Response::from_status(Status::INTERNAL_SERVER_ERROR)
            })
        }))
    });
    endpoint.body_bytes_max(BODY_BYTES_MAX)
}

/// Checks the origin of a request, the type of its body and its caller.
async fn admitted(
    auth: Option<&Auth>,
    may: &str,
    request: &Request,
) -> ApiResult<Option<Arc<Identity>>> {
    request.check_site()?;
    if !request.body().is_empty() {
        request.check_json()?;
    }
    let Some(auth) = auth else { return Ok(None) };
    match authenticate(auth, request).await? {
        Some(caller) if caller.is_admin() => Ok(Some(caller)),
        Some(_) => {
            let message = format!("only administrators may {may}");
            Err(Error::new(ErrorKind::Denied, message).into())
        }
        None => {
            let message = format!("only administrators may {may}: log in first, or send a token");
            Err(Error::new(ErrorKind::Unauthenticated, message).into())
        }
    }
}
