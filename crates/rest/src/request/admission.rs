//! Decides on requests before their bodies are read: authenticates the caller, and checks the right
//! to use the method.
//!
//! A caller without rights cannot make the server receive a large body, because the answer follows
//! the head:
//!
//! ```text
//! POST /api/person HTTP/1.1
//! Content-Length: 104857600
//!
//! HTTP/1.1 401 Unauthorized
//! Content-Type: application/problem+json
//! ```
//!
//! | request | right |
//! |---|---|
//! | `POST /api/{table}` | insert |
//! | `PUT /api/{table}/{id}` | insert or update, because it can create the row |
//! | `PATCH`, `POST …/increment` | update |

use marmota_http::{Admission, IntoResponse, Method, Request};
use marmota_store::Store;
use marmota_store::rights::Right;
use marmota_web::ApiResult;

use crate::request::state::{ApiSource, Found};

/// The store for a request whose caller was authenticated before its body was read. It is an
/// extension of the request, and saves the endpoint a second authentication.
pub(crate) struct CallerStore(pub(crate) Store);

/// Decides on a request with a body before any of it is read: authenticates the caller, and checks
/// that the caller has one of the rights that the method requires.
///
/// The decision is only on the table as a whole. A grant with a rule on rows is checked again when
/// the row is known, and the verb's own check still applies to requests without a body.
///
/// Returns [`Admission::Refused`] with the problem document: 400 and 404 for a tenant or a table,
/// 401 for the caller, 403 for a missing right.
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

/// Checks the right to the table in the path, if it has one, and attaches the store to the request,
/// for its handler. Batches have no table in the path: the rights of each operation are checked
/// when it is executed.
///
/// # Errors
/// 404 if the caller may not see the table, 403 if a right is missing.
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
