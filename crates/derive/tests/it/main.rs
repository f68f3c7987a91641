//! Tests of the derives by what they implement: schemas, rows, columns, and the errors for invalid
//! attributes.

#![allow(clippy::unwrap_used)]

mod column;
mod compile;
mod enumeration;
mod in_function;
mod lint;
mod paths;
mod person;
mod relation;
mod row;
mod schema;
