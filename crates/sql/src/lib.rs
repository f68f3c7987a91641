//! Code that all SQL engines share: names, the tree of a filter, the steps that change a table to fit
//! a model, and the servers in a URL.
//!
//! Parts that differ between databases (types, constants, text matching, the catalogue) are in the
//! crates of the engines.
#![forbid(unsafe_code)]

mod filter;
mod group;
mod index_condition;
mod index_filter;
mod index_name;
mod name;
mod servers;
mod steps;

pub use filter::{
    ShapeBuffer, SqlWriter, each_condition, filter_sql, near_sql, near_values, negated_made,
    shape_filter, shape_order, sign, where_sql,
};
pub use group::{groups_sql, list_each_sql, shape_groups};
pub use index_condition::condition_of;
pub use index_filter::{existing_filter, has_same_filter, index_filter_sql};
pub use index_name::{added_indexes, index_columns, index_name, is_implicit, is_ours};
pub use name::{bounded, on_delete, on_delete_of, quoted};
pub use servers::{LastServer, TargetServer, percent_decoded, split_servers};
pub use steps::TableSteps;
