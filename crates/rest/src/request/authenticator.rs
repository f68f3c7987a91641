//! The store for the caller of a request: with the caller's rights.
//!
//! ```text
//! GET /api/person
//! Authorization: Bearer wrong
//!
//! HTTP/1.1 401 Unauthorized
//! Content-Type: application/problem+json
//!
//! {"type":"urn:marmota:error:unauthenticated",…,"status":401,…}
//! ```
//!
//! The token is in the header `Authorization` or in the cookie of a session. A token that was
//! validated a short time ago is known, and the request does not wait ([`StoreForCaller::ready`]).
//! Otherwise the login is read from the store.
//!
//! Passwords are hashed on two threads of their own ([`Authenticator::run`]), because a hash is
//! slow on purpose and would block the other requests of a server's thread.
//!
//! Requests that take long, such as uploads of lines, authenticate their caller again before each
//! operation ([`Reauthentication`]).

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use marmota_auth::{AccountChanges, Auth, Authenticating};
use marmota_http::Request;
use marmota_model::{Error, ErrorKind};
use marmota_store::Store;
use marmota_store::thread_pool::ThreadPool;
use marmota_web::{StoreForCaller, request_token, store_for_caller};

/// Authenticates incoming requests.
#[derive(Debug)]
pub(crate) struct Authenticator {
    pub(crate) auth: Auth,
    /// The threads that hash passwords, which takes some 20 ms of a processor each.
    threads: Arc<ThreadPool>,
    /// The threads that wait for providers, so that a slow one does not delay passwords.
    connecting: Arc<ThreadPool>,
}

impl Drop for Authenticator {
    fn drop(&mut self) {
        self.threads.dismiss();
        self.connecting.dismiss();
    }
}

impl Authenticator {
    /// The number of threads for slow requests of accounts. Two logins at a time leave the other
    /// processors to requests.
    const THREADS_MAX: usize = 2;
    /// The number of requests to providers at a time.
    const CONNECTING_MAX: usize = 8;
    /// The number of requests that may wait for these threads; further ones are answered 503.
    const WAITING_MAX: usize = 64;

    /// Creates the authenticator of an API. Its threads start with the first work, and end when it
    /// is dropped.
    pub(crate) fn new(auth: &Auth) -> Self {
        let threads = ThreadPool::new("marmota-auth", Self::THREADS_MAX);
        let connecting = ThreadPool::new("marmota-sign-in", Self::CONNECTING_MAX);
        Self {
            auth: auth.clone(),
            threads: Arc::new(threads.waiting_max(Self::WAITING_MAX)),
            connecting: Arc::new(connecting.waiting_max(Self::WAITING_MAX)),
        }
    }

    /// Executes slow work on the authenticator's threads.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] (503) if too many requests wait, [`ErrorKind::Bug`] if the work panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> marmota_model::Result<T> {
        Self::result_of(&self.threads, work).await
    }

    /// Executes work that waits for a provider, on threads of its own.
    ///
    /// # Errors
    /// As [`Authenticator::run`].
    pub(crate) async fn connect<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> marmota_model::Result<T> {
        Self::result_of(&self.connecting, work).await
    }

    async fn result_of<T: Send + 'static>(
        threads: &Arc<ThreadPool>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> marmota_model::Result<T> {
        match threads.result_of(work) {
            Some(result) => result.await,
            None => {
                Err(Error::new(ErrorKind::Busy, "too many logins are waiting; try again later"))
            }
        }
    }

    /// Returns the store with the rights of a request's caller.
    pub(crate) fn store_for(&self, request: &Request) -> StoreForCaller {
        store_for_caller(&self.auth, request)
    }
}

/// The token of a caller. A connection with several live queries shares it, because its client can
/// replace it.
pub(crate) type CallerToken = Rc<RefCell<Box<str>>>;

/// The caller of a long-running request, to be authenticated again.
#[derive(Debug)]
pub(crate) struct Reauthentication {
    auth: Auth,
    token: CallerToken,
    /// The authentication under way.
    current: Option<Authenticating>,
}

impl Reauthentication {
    /// Returns `None` for an anonymous caller, whose rights do not expire, and for a request
    /// without a valid token.
    pub(crate) fn of(authenticator: &Authenticator, request: &Request) -> Option<Self> {
        let token = request_token(request).ok()??;
        Some(Self::with_token(authenticator, Rc::new(RefCell::new(token.into()))))
    }

    /// Returns the caller with this token.
    pub(crate) fn with_token(authenticator: &Authenticator, token: CallerToken) -> Self {
        Self { auth: authenticator.auth.clone(), token, current: None }
    }

    /// Subscribes to changes of accounts, after which the caller has to be authenticated again.
    pub(crate) fn account_changes(&self) -> AccountChanges {
        self.auth.account_changes()
    }

    /// Returns the store with the current rights of the caller. The next call after the result
    /// authenticates again.
    ///
    /// # Errors
    /// 401 if the token is not valid any more.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<marmota_model::Result<Store>> {
        let Self { auth, token, current } = self;
        let current = current.get_or_insert_with(|| auth.authenticate(&token.borrow()));
        let caller = ready!(Pin::new(current).poll(context));
        self.current = None;
        Poll::Ready(caller.map(|caller| caller.store().clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, Mutex};
    use std::task::Waker;

    use marmota_web::ApiError;

    use super::*;

    #[test]
    fn what_is_one_too_many_is_refused_with_when_to_come_back() {
        let store = marmota_auth::models(Store::builder(marmota_memory::Memory::new()));
        let auth = Auth::new(&store.open().unwrap(), marmota_auth::Settings::default()).unwrap();
        let authenticator = Authenticator::new(&auth);
        let open = Arc::new((Mutex::new(false), Condvar::new()));
        let waiting = || {
            let open = Arc::clone(&open);
            Box::pin(authenticator.run(move || {
                let (is_open, opened) = &*open;
                let is_open = is_open.lock().unwrap();
                drop(opened.wait_while(is_open, |is_open| !*is_open).unwrap());
            }))
        };
        let mut done = Vec::new();
        let refused = loop {
            let mut one = waiting();
            match one.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => done.push(one),
                Poll::Ready(Ok(())) => panic!("the work has ended early"),
                Poll::Ready(Err(error)) => break ApiError::from(error),
            }
        };
        let most = Authenticator::THREADS_MAX + Authenticator::WAITING_MAX;
        assert!(done.len() <= most, "{}", done.len());
        assert_eq!(refused.status().code(), 503);
        assert_eq!(refused.document().header(), Some(("Retry-After", "1")));
        *open.0.lock().unwrap() = true;
        open.1.notify_all();
        for one in done {
            marmota_store::action::block_on(one).unwrap();
        }
    }

    #[test]
    fn a_panic_is_reported_to_the_caller() {
        let store = marmota_auth::models(Store::builder(marmota_memory::Memory::new()));
        let auth = Auth::new(&store.open().unwrap(), marmota_auth::Settings::default()).unwrap();
        let authenticator = Authenticator::new(&auth);
        let failed = marmota_store::action::block_on(authenticator.run(|| panic!("no memory")));
        assert_eq!(failed.map(|()| 0).unwrap_err().kind(), ErrorKind::Bug);
        assert_eq!(marmota_store::action::block_on(authenticator.run(|| 7)).unwrap(), 7);
    }
}
