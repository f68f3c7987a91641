//! The description of a model as plain data, made at compile time by `#[derive(Model)]` or at run
//! time by a program. SQL, JSON and routes are generated from it alone.
//!
//! A schema made at run time; `#[derive(Model)]` makes the same data at compile time:
//!
//! ```
//! use marmota_model::{Collation, Field, Kind, Role, Rule, Schema, Table};
//!
//! let name = Kind::Text { chars_max: 40, collation: Collation::NoCase };
//! let schema = Schema::new("person", vec![
//!     Field::new("id", Kind::I64).role(Role::Key),
//!     Field::new("name", name).rules(vec![Rule::NotEmpty]).search(true),
//!     Field::new("born", Kind::Date).nullable(true),
//!     Field::new("changed", Kind::Timestamp).role(Role::UpdatedAt),
//! ]);
//! let table = Table::new(schema)?;
//! assert_eq!(table.position("born")?, 2);
//! # Ok::<(), marmota_model::Error>(())
//! ```

mod collation;
mod field;
mod form;
mod kind;
mod kind_check;
mod on_delete;
mod relation;
pub(crate) mod row_name;
mod rule;
mod sanitizer;
mod stored;
mod table_schema;
pub(crate) mod text;
mod violation;

pub use collation::{Collation, same_text};
pub use field::{Field, Role};
pub use kind::{EnumStored, KeyKind, Kind, Variant};
pub(crate) use kind_check::{Broken, check_kind, has_nul};
pub use on_delete::OnDelete;
pub use relation::Relation;
pub use rule::{CharacterClass, Literal, Rule};
pub use sanitizer::Sanitizer;
pub(crate) use table_schema::is_name;
pub use table_schema::{Index, Schema};
pub use violation::violation;
