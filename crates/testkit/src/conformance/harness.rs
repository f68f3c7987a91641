//! The database under test, the models, and checks that promises share.

pub(crate) mod models;
pub(crate) mod refusal;
pub(crate) mod subject;
pub(crate) mod waiting;
