//! The routes of file fields: the bytes of files, apart from the rows that describe them.
//!
//! | route | file |
//! |---|---|
//! | `GET`, `HEAD /api/{table}/{id}/{field}` | `download.rs` |
//! | `PUT /api/{table}/{id}/{field}` | `upload.rs` |
//! | `DELETE /api/{table}/{id}/{field}` | `delete.rs` |
//! | `POST /api/{table}/{id}/{field}/signed-url`, and reads with a signature | `signed_url.rs` |
//! | `/api/{table}/{id}/{field}/uploads` | `resumable.rs` |
//! | `POST /api/{table}` with a form | `form.rs` |

pub(crate) mod delete;
pub(crate) mod disposition;
pub(crate) mod download;
pub(crate) mod field;
pub(crate) mod form;
pub(crate) mod resumable;
pub(crate) mod routes;
pub(crate) mod signed_url;
pub(crate) mod upload;
