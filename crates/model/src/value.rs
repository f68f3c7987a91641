//! The values of a row, the row itself, and how it is handed from one part of a program to another.
//!
//! A row is `&[ValueRef<'_>]`, with one value for each field of the schema, in its order. Text is
//! valid UTF-8: an engine checks it once when it reads it, so that no later code has to.
//!
//! | type | what it is for |
//! |---|---|
//! | [`ValueRef`] | a value that is lent: in rows, from engines to readers |
//! | [`Value`] | an owned value: in filters, records and defaults |
//! | [`File`] | the description of a file, which is JSON in a row |
//! | [`FieldSet`] | the fields that an operation reads or writes |
//! | [`RowSink`], [`RowSource`] | where rows go, and where they come from |
//! | [`GeoPoint`], [`GeoCircle`], [`GeoBox`] | places on the earth, in filters and orders |
//! | [`Scratch`] | memory for values that are made on the way |

mod borrowed;
mod comparison;
pub(crate) mod excerpt;
mod field_set;
mod file;
mod form;
mod geo;
pub(crate) mod json;
pub(crate) mod key_text;
mod owned;
mod row;
mod scratch;
pub(crate) mod vector;

pub use borrowed::ValueRef;
pub use comparison::{Comparison, Place};
pub use field_set::FieldSet;
pub use file::File;
pub use form::ValueForm;
pub use geo::{EARTH_RADIUS, GeoBox, GeoCircle, GeoPoint};
pub use key_text::key_text;
pub use owned::Value;
pub use row::{NoRows, RowSink, RowSource};
pub use scratch::Scratch;
pub use vector::{Metric, VECTOR_DIMENSIONS_MAX};
