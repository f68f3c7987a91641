//! Promises about the rows of one table: fields, keys, and single writes.

pub mod composite_keys;
pub mod composite_references;
pub mod computed_fields;
pub mod conflicts;
pub mod default_expressions;
pub mod fields;
pub mod immutable;
pub mod keys;
pub mod on_delete;
pub mod partial_indexes;
pub mod references;
pub mod sanitizers;
pub mod unique;
pub mod versions;
pub mod writes;
