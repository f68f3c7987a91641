//! The derives, through what they implement: schemas, rows, columns, and the
//! errors of what they refuse.

mod column;
mod compile;
mod enumeration;
mod lint;
mod person;
mod row;
mod schema;
