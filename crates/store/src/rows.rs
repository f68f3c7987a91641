//! Tables and rows, as all engines and layers use them: the tables of a store, rows before a write,
//! filters on rows, copies, and the errors for rows.

pub mod history;
pub mod predicate;
pub mod prepare;
pub mod refusal;
pub mod registry;
pub mod row_buffer;
pub mod tables;
