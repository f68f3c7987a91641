//! Promises about reads: filters, pages, and search.

pub mod any_references;
pub mod filters;
pub mod grouping;
pub mod json_paths;
pub mod pages;
pub mod places;
pub mod ranking;
pub mod related;
pub mod related_groups;
pub mod related_orders;
pub mod relations;
pub mod search;
pub mod streams;
pub mod vectors;
