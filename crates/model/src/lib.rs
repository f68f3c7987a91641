//! The model of Marmota: schemas, values and rows, which all other crates share.
//!
//! A [`Schema`] describes a model as plain data; a [`Table`] is its prepared form; a row is
//! `&[ValueRef]`, borrowed from where its values are stored. Typed models ([`Model`], by
//! `#[derive(Model)]`) and run-time ones ([`Record`]) are two interfaces to the same rows. [`json`]
//! converts rows to JSON and back, without a struct in between.
//!
//! This crate has no dependency on engines, sockets or files.
//!
//! # Overview
//! | to | use |
//! |---|---|
//! | describe a table | [`Schema`], [`Field`], [`Kind`], [`Rule`], [`Index`] |
//! | check rows against it | [`Table`], [`Table::validate`] |
//! | use structs as rows | [`Model`], [`FieldValue`], [`Column`], [`Blob`], [`File`], [`Json`], [`Ref`], [`Vector`] |
//! | use rows of a schema made at run time | [`Record`] |
//! | handle values | [`Value`], [`ValueRef`], [`Currency`], [`Date`], [`Time`], [`Timestamp`] |
//! | group rows | [`GroupQuery`], [`AggregateFunction`] |
//! | select rows | [`Filter`], [`Order`], [`parse_filter`], [`parse_order`], [`Search`] |
//! | convert rows | [`json`], [`text`], [`binary`] |
//! | report errors | [`Error`], [`ErrorKind`], [`Violation`] |
//!
//! ```
//! use std::sync::Arc;
//! use marmota_model::{Field, Kind, Record, Role, Schema, Table, json, parse_filter};
//!
//! let table = Arc::new(Table::new(Schema::new("city", vec![
//!     Field::new("id", Kind::I64).role(Role::Key),
//!     Field::new("name", Kind::Text { chars_max: 60, collation: Default::default() }),
//!     Field::new("people", Kind::Int { min: 0, max: i64::MAX }).nullable(true),
//! ]))?);
//!
//! let mut city = Record::new(Arc::clone(&table));
//! city.set("name", "Bourges")?;
//! city.set("people", 64_000_i64)?;
//! assert!(city.set("people", -1_i64).is_err());
//!
//! let mut out = Vec::new();
//! json::write_row(&mut out, &table, table.all(), &city.as_row());
//! assert_eq!(out, br#"{"name":"Bourges","people":64000}"#);
//!
//! let filter = parse_filter(&table, "people > 50000 and name ^ 'b'")?;
//! # Ok::<(), marmota_model::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod binary;
mod error;
mod expression;
mod filter;
pub mod json;
mod lexer;
pub mod model;
pub mod rule;
mod scalar;
mod schema;
mod search;
mod table;
pub mod text;
mod value;

pub use error::{Error, ErrorKind, Result, VIOLATIONS_MAX, Violation};
pub use expression::{
    EXPRESSION_BYTES_MAX, EXPRESSION_DEPTH_MAX, EXPRESSION_TERMS_MAX, ExpressionContext,
};
pub use filter::{
    AggregateColumn, AggregateFunction, ColumnPath, FILTER_BYTES_MAX, FILTER_DEPTH_MAX,
    FILTER_TERMS_MAX, Filter, FilterExpr, GROUP_AGGREGATES_MAX, GROUP_FIELDS_MAX, GroupQuery,
    Member, Order, Quantifier, RANKED_ROWS_MAX, RELATED_FIELDS_MAX, RankPlace, RankedQuery,
    RankedSearch, Ranker, Ranking, Reference, RelatedField, RelatedFieldStep, RelatedFilter,
    RowQuery, SortKey, asks_for_caller, parse_filter, parse_order, parse_ranking, parse_rule,
};
pub use lexer::Caller;
pub use model::{
    Blob, Column, Comparable, Coordinate, FieldValue, Json, Key, Model, Record, Records, Ref,
    Vector, VectorField, misfit, read_field,
};
pub use scalar::{Currency, CurrencyError, Date, Time, TimeError, Timestamp};
pub use schema::{
    CharacterClass, Collation, EnumStored, Field, Index, KeyKind, Kind, Literal, OnDelete,
    Relation, Role, Rule, Sanitizer, Schema, Variant,
};
pub use search::{
    SEARCH_BYTES_MAX, SEARCH_TERMS_MAX, Search, SearchLanguage, SearchTerm, Snippet, Words,
};
pub use table::{
    LinkedTables, RELATION_STEPS_MAX, RelationStep, ResolvedRelation, Table, ViewFields,
};
pub use uuid::Uuid;
pub use value::{
    Comparison, EARTH_RADIUS, FieldSet, File, GeoBox, GeoCircle, GeoPoint, Metric, NoRows, Place,
    RowSink, RowSource, Scratch, VECTOR_DIMENSIONS_MAX, Value, ValueForm, ValueRef, key_text,
};
