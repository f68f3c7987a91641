//! The derives, through what they implement: schemas, rows, columns, and the
//! errors of what they refuse.

// A helper of a test may panic as the test may.
#![allow(clippy::unwrap_used)]

mod column;
mod compile;
mod enumeration;
mod lint;
mod person;
mod row;
mod schema;
