//! The interfaces of programs to rows: structs with `#[derive(Model)]`, and records of a schema that
//! is made at run time.

mod blob;
mod column;
mod field_value;
mod json_field;
mod key;
mod model_trait;
mod record;
mod reference;

pub use blob::Blob;
pub use column::{Column, Comparable};
pub use field_value::FieldValue;
pub use json_field::Json;
pub use key::Key;
pub use model_trait::{Model, misfit, read_field};
pub use record::{Record, Records};
pub use reference::Ref;
