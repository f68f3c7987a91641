//! The model of Marmota: schemas, values and rows, which all other crates share.
//!
//! A [`Schema`] describes a model as plain data; a [`Table`] is its prepared form; a row is
//! `&[ValueRef]`, borrowed from where its values are stored. Typed models ([`Model`], by
//! `#[derive(Model)]`) and run-time ones ([`Record`]) are two interfaces to the same rows. [`json`]
//! converts rows to JSON and back, without a struct in between.
//!
//! This crate has no dependency on engines, sockets or files.
#![forbid(unsafe_code)]

mod error;
mod filter;
pub mod json;
pub mod model;
pub mod rule;
mod scalar;
mod schema;
mod search;
mod table;
pub mod text;
mod value;

pub use error::{Error, ErrorKind, Result, VIOLATIONS_MAX, Violation};
pub use filter::{
    Caller, FILTER_BYTES_MAX, FILTER_DEPTH_MAX, FILTER_TERMS_MAX, Filter, FilterExpr, Member,
    Order, RowQuery, SortKey, asks_for_caller, parse_filter, parse_order, parse_rule,
};
pub use model::{
    Blob, Column, Comparable, FieldValue, Json, Key, Model, Record, Records, Ref, misfit,
    read_field,
};
pub use scalar::{Currency, CurrencyError, Date, Time, TimeError, Timestamp};
pub use schema::{
    Collation, EnumStored, Field, Index, KeyKind, Kind, Literal, Role, Rule, Schema, ValueForm,
    Variant,
};
pub use search::{SEARCH_BYTES_MAX, SEARCH_TERMS_MAX, Search, SearchTerm, Words};
pub use table::Table;
pub use uuid::Uuid;
pub use value::{
    Comparison, FieldSet, NoRows, Place, RowSink, RowSource, Scratch, Value, ValueRef,
};
