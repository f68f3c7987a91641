//! Batches, and rows as lines of JSON (NDJSON) in bounded memory.

pub(crate) mod batch;
pub(crate) mod batch_lines;
pub(crate) mod batch_operation;
pub(crate) mod effects;
pub(crate) mod insert_lines;
pub(crate) mod line_chunks;
pub(crate) mod linked;
pub(crate) mod nested;
mod nested_body;
pub(crate) mod row_lines;
