//! Decides on requests before their bodies are read: authenticates the caller, and checks the right
//! to use the method.

use marmota_http::{Admission, IntoResponse, Method, Request};
use marmota_store::Store;
use marmota_store::rights::Right;
use marmota_web::ApiResult;

use crate::request::state::{ApiSource, Found};

/// The store for a request whose caller was authenticated before its body was read.
pub(crate) struct CallerStore(pub(crate) Store);

/// Decides on a request with a body before any of it is read: authenticates the caller, and checks
/// that the caller has one of the rights that the method requires.
pub(crate) fn admit(source: &ApiSource, request: &Request) -> Admission {
    let found = match source.state(request) {
        Ok(api) => match api.store_for(request) {
            Ok(Found::Now(store)) => Ok(store.into_owned()),
            #[cfg(feature = "auth")]
            Ok(Found::Later(finding)) => {
                let request = request.clone();
                return Admission::Later(Box::pin(async move {
                    let store = finding.await.map_err(IntoResponse::into_response)?;
                    keep_caller(store, &request).map_err(IntoResponse::into_response)
                }));
            }
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    match found.and_then(|store| keep_caller(store, request)) {
        Ok(()) => Admission::Granted,
        Err(error) => Admission::Refused(error.into_response()),
    }
}

/// Attaches the store to the request, for its handler.
fn keep_caller(store: Store, request: &Request) -> ApiResult<()> {
    if let Some(name) = request.param("table") {
        let table = store.exposed_table(&name)?;
        match request.method() {
            Method::Post if request.param("id").is_none() => {
                store.check_right(Right::Insert, table)?;
            }
            // A PUT also inserts if clients provide keys.
            Method::Put if store.check_right(Right::Insert, table).is_ok() => {}
            Method::Post | Method::Put | Method::Patch => {
                store.check_right(Right::Update, table)?;
            }
            _ => {}
        }
    }
    // No other value is attached, so this cannot fail.
    let _ = request.set_extension(CallerStore(store));
    Ok(())
}
