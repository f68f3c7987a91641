//! Documents about the API: OpenAPI, and the schema of a table.

pub(crate) mod open_api;
pub(crate) mod schema_document;
