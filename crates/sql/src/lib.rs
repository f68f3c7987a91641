//! What engines that speak SQL share, whichever they are: names, the tree of a
//! filter, and the steps by which a table becomes the one that a model needs.
//!
//! What differs from one database to the next (types, constants, how a text is
//! matched, what the catalogue tells) stays in the engine's crate.
#![forbid(unsafe_code)]

mod filter;
mod name;
mod steps;

pub use filter::{
    Shape, Writer, each_condition, filter_sql, shape_filter, shape_order, sign, where_sql,
};
pub use name::{index_columns, index_name, is_ours, quoted};
pub use steps::TableSteps;
