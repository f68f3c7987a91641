//! One request on its way: the caller, the parameters, the operation on the store, and the answer.

pub(crate) mod accept;
pub(crate) mod admission;
pub(crate) mod after;
pub(crate) mod answer;
#[cfg(feature = "auth")]
pub(crate) mod authenticator;
pub(crate) mod call;
pub(crate) mod pages;
pub(crate) mod params;
pub(crate) mod ranked;
pub(crate) mod request_context;
pub(crate) mod state;
pub(crate) mod submission;
