//! The description of a model as plain data, made at compile time by `#[derive(Model)]` or at run
//! time by a program. SQL, JSON and routes are generated from it alone.

mod collation;
mod field;
mod form;
mod kind;
mod kind_check;
mod rule;
mod stored;
mod table_schema;
pub(crate) mod text;
mod violation;

pub use collation::{Collation, same_text};
pub use field::{Field, Role};
pub use form::ValueForm;
pub use kind::{EnumStored, KeyKind, Kind, Variant};
pub(crate) use kind_check::{Broken, check_kind, has_nul};
pub use rule::{Literal, Rule};
pub use table_schema::{Index, Schema};
pub use violation::violation;
