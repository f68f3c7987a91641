//! The interfaces of programs to rows: structs with `#[derive(Model)]`, and records of a schema that
//! is made at run time.
//!
//! | | a struct | a record |
//! |---|---|---|
//! | made by | `#[derive(Model)]` | [`Record::new`] of a table |
//! | fields are known | at compile time | at run time |
//! | a field | `person.name` | `record.value("name")?` |
//! | a filter | `Person::NAME.eq("Ada")` | `parse_filter(&table, "name = 'Ada'")?` |

mod blob;
mod column;
mod field_value;
mod file_field;
mod json_field;
mod key;
mod model_trait;
mod record;
mod reference;
mod vector_field;

pub use blob::Blob;
pub use column::{Column, Comparable, Coordinate};
pub use field_value::FieldValue;
pub use json_field::Json;
pub use key::Key;
pub use model_trait::{Model, misfit, read_field};
pub use record::{Record, Records};
pub use reference::Ref;
pub use vector_field::{Vector, VectorField};
