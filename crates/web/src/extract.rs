//! Arguments of handlers that act for the caller of a request: [`CallerStore`], [`Transaction`] and,
//! with the feature `auth`, `Caller`.
//!
//! They need a state with a store ([`CallerState`]): a [`Store`](marmota_store::Store), an `Auth`,
//! or a type of your program. With accounts, a caller without a valid token is answered 401, and
//! every operation is checked against the caller's rights. Without accounts, all callers use the
//! store of the state.
//!
//! ```
//! # use marmota_derive::Model;
//! # use marmota_memory::Memory;
//! use marmota_http::extract::{Json, Path};
//! use marmota_http::{Router, Status, TestRequest};
//! use marmota_store::Store;
//! use marmota_web::ApiError;
//! use marmota_web::extract::{CallerStore, Transaction};
//!
//! #[derive(Clone, Debug, Model)]
//! struct Account {
//!     id: i64,
//!     #[model(range(min = 0))]
//!     cents: i64,
//! }
//!
//! /// Moves money. If one of the accounts is missing or has too little, nothing is changed.
//! async fn pay(
//!     tx: Transaction,
//!     Path((from, to)): Path<(i64, i64)>,
//!     Json(cents): Json<i64>,
//! ) -> Result<(), ApiError> {
//!     tx.increment(Account::CENTS, to, cents).await?;
//!     tx.increment(Account::CENTS, from, -cents).await?;
//!     Ok(())
//! }
//!
//! async fn cents(store: CallerStore, Path(id): Path<i64>) -> Result<Json<i64>, ApiError> {
//!     Ok(Json(store.get::<Account>(id).await?.cents))
//! }
//!
//! let store = Store::builder(Memory::new()).model::<Account>().open()?;
//! store.insert_many(&[Account { id: 0, cents: 5 }, Account { id: 0, cents: 0 }]).run()?;
//! let router = Router::with_state(store)
//!     .post("/pay/{from}/{to}", pay)
//!     .get("/cents/{id}", cents)
//!     .router();
//! let refused = router.call(TestRequest::post("/pay/1/2").json(&7))?;
//! assert_eq!(refused.status(), Status::UNPROCESSABLE_CONTENT);
//! assert_eq!(router.call(TestRequest::get("/cents/2"))?.text(), "0");
//! assert_eq!(router.call(TestRequest::post("/pay/1/2").json(&3))?.status(), Status::NO_CONTENT);
//! assert_eq!(router.call(TestRequest::get("/cents/2"))?.text(), "3");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "auth")]
mod caller;
#[cfg(feature = "schemars")]
mod describe;
mod state;
mod store;

#[cfg(feature = "auth")]
pub use caller::Caller;
pub use state::CallerState;
pub use store::{CallerStore, Transaction};
