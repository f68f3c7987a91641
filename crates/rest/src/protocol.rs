//! What requests and answers consist of: bodies, keys, cursors, entity tags and lines of JSON. Nothing
//! here knows a store or a caller.

pub(crate) mod body;
pub(crate) mod cursor;
pub(crate) mod etag;
pub(crate) mod key;
pub(crate) mod ndjson;
pub(crate) mod refusal;
pub(crate) mod scratch_buffer;
