//! The extractors of the store with the caller's rights, and of a transaction on it.

use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;

use marmota_http::extract::FromRequestLater;
use marmota_http::{IntoResponse, Request, Response};
use marmota_store::Store;

use super::state::{CallerState, caller_store};
use crate::api_error::{ApiError, ApiResult};

/// The store with the rights of the caller, as an argument of a handler. Writes are made in the
/// caller's name. It derefs to [`Store`].
///
/// A caller who must log in is answered 401. A request of a page of another site is answered 403
/// ([`Request::check_site`]).
///
/// ```
/// # use marmota_memory::Memory;
/// use marmota_http::{Router, TestRequest};
/// use marmota_store::Store;
/// use marmota_web::extract::CallerStore;
///
/// async fn tables(store: CallerStore) -> String {
///     store.registry().tables().len().to_string()
/// }
///
/// let store = Store::builder(Memory::new()).open()?;
/// let router = Router::with_state(store).get("/tables", tables).router();
/// assert_eq!(router.call(TestRequest::get("/tables"))?.text(), "0");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct CallerStore(pub Store);

impl Deref for CallerStore {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.0
    }
}

impl<S: CallerState> FromRequestLater<S> for CallerStore {
    async fn from_request_later(request: Request, state: S) -> Result<Self, Response> {
        caller_store(request, state).await.map(Self).map_err(ApiError::into_response)
    }
}

/// A transaction of the store with the rights of the caller ([`CallerStore`]), as an argument of a
/// handler. It derefs to the [`Store`] whose operations run in it.
///
/// It begins before the handler is called. If the handler's answer is a success or a redirection
/// (2xx, 3xx), it is committed before the answer is sent; if the commit fails, the answer is the
/// error. Otherwise, and if the handler panics or its client disconnects, it is rolled back.
///
/// It waits for other transactions while the handler waits, so await nothing else in the handler. A
/// handler has at most one `Transaction`. The body of a streamed answer is produced after the
/// commit. A conflict with another transaction is answered 409; the handler is not called again.
///
/// ```
/// # use marmota_derive::Model;
/// # use marmota_memory::Memory;
/// # use marmota_store::Store;
/// # #[derive(Clone, Debug, Model)]
/// # struct City { id: i64, name: String }
/// use marmota_http::{Router, Status, TestRequest};
/// use marmota_web::ApiError;
/// use marmota_web::extract::Transaction;
///
/// async fn found(tx: Transaction) -> Result<Status, ApiError> {
///     tx.insert(&City { id: 0, name: "Bourges".to_owned() }).await?;
///     Ok(Status::CREATED)
/// }
///
/// async fn refuse(tx: Transaction) -> Result<Status, ApiError> {
///     tx.insert(&City { id: 0, name: "Atlantis".to_owned() }).await?;
///     Err(ApiError::bad_request("this city does not exist"))
/// }
///
/// let store = Store::builder(Memory::new()).model::<City>().open()?;
/// let router = Router::with_state(store.clone()).post("/found", found).post("/refuse", refuse);
/// let router = router.router();
/// router.call(TestRequest::post("/refuse"))?;
/// assert_eq!(store.count::<City>().run()?, 0);
/// router.call(TestRequest::post("/found"))?;
/// assert_eq!(store.count::<City>().run()?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Transaction {
    /// The handle of the handler; other handles do not end the transaction.
    store: Store,
    /// The transaction, until the handler has answered.
    open: Rc<RefCell<Option<marmota_store::Transaction>>>,
}

impl Transaction {
    /// Calls `hook` once the transaction is committed, as
    /// [`marmota_store::Transaction::after_commit`] does.
    ///
    /// ```
    /// # use marmota_web::extract::Transaction;
    /// async fn order(tx: Transaction) {
    ///     tx.after_commit(|| println!("send a mail"));
    /// }
    /// # let _ = order;
    /// ```
    pub fn after_commit(&self, hook: impl FnOnce() + Send + 'static) {
        if let Some(open) = &*self.open.borrow() {
            open.after_commit(hook);
        }
    }
}

impl Deref for Transaction {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

/// Begins the transaction, which ends with the request's answer.
async fn begin<S: CallerState>(request: Request, state: S) -> ApiResult<Transaction> {
    let store = caller_store(request.clone(), state).await?;
    let open = store.begin().await?;
    let transaction =
        Transaction { store: (*open).clone(), open: Rc::new(RefCell::new(Some(open))) };
    let open = Rc::clone(&transaction.open);
    request.before_answer(|answer| end(open, answer));
    Ok(transaction)
}

/// Commits or rolls back, and returns the answer to the request.
async fn end(open: Rc<RefCell<Option<marmota_store::Transaction>>>, answer: Response) -> Response {
    let Some(open) = open.take() else { return answer };
    match answer.status().code() {
        200..400 => match open.commit().await {
            Ok(()) => answer,
            Err(error) => ApiError::from(error).into_response(),
        },
        _ => {
            // A transaction that is dropped is rolled back as well.
            if let Err(error) = open.rollback().await {
                log::warn!("a transaction was not rolled back: {error}");
            }
            answer
        }
    }
}

impl<S: CallerState> FromRequestLater<S> for Transaction {
    async fn from_request_later(request: Request, state: S) -> Result<Self, Response> {
        begin(request, state).await.map_err(ApiError::into_response)
    }
}
