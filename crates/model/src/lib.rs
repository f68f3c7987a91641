//! The model of Marmota: schemas, values and rows, which all other crates share.
//!
//! A [`Schema`] describes a model as plain data; a [`Table`] is its prepared form; a row is
//! `&[ValueRef]`, borrowed from where its values are stored. Typed models ([`Model`], by
//! `#[derive(Model)]`) and run-time ones ([`Record`]) are two interfaces to the same rows. [`json`]
//! converts rows to JSON and back, without a struct in between.
//!
//! This crate has no dependency on engines, sockets or files.
#![forbid(unsafe_code)]

mod comparison;
mod currency;
mod digits;
mod error;
mod field_set;
mod field_value;
mod filter;
mod filter_column;
mod filter_text;
mod form;
pub mod json;
mod model;
mod record;
mod row;
pub mod rule;
mod schema;
mod scratch;
mod search;
mod stored;
mod table;
pub mod text;
mod time;
mod typed_filter;
mod value;

pub use comparison::{Comparison, Place};
pub use currency::{Currency, CurrencyError};
pub use error::{Error, ErrorKind, Result, VIOLATIONS_MAX, Violation};
pub use field_set::FieldSet;
pub use field_value::{Blob, Json, Ref};
pub use filter::{
    FILTER_BYTES_MAX, FILTER_DEPTH_MAX, FILTER_TERMS_MAX, FilterExpr, Query, SortKey,
};
pub use filter_column::Member;
pub use filter_text::{Caller, asks_for_caller, parse_filter, parse_order, parse_rule};
pub use form::Form;
pub use model::{Column, Comparable, FieldValue, Key, Model, misfit, read_field};
pub use record::{Record, Records};
pub use row::{NoRows, RowSink, RowSource};
pub use schema::{
    Collation, EnumStored, Field, Index, KeyKind, Kind, Literal, Role, Rule, Schema, Variant,
};
pub use scratch::Scratch;
pub use search::{SEARCH_BYTES_MAX, SEARCH_TERMS_MAX, Search, SearchTerm, Words};
pub use table::Table;
pub use time::{Date, Time, TimeError, Timestamp};
pub use typed_filter::{Filter, Order};
pub use uuid::Uuid;
pub use value::{Value, ValueRef};
