//! Prepared schemas: checked, with an index of names, JSON keys and compiled rules. A table is made
//! when a schema is registered; engines, REST and clients share it.

mod check;
mod compiled_rule;
mod composite_key;
mod evaluation;
mod expressions;
mod generated;
mod json_member;
mod prepare;
mod prepared;
mod reference;
mod relation;
mod sanitize;
mod shape;
mod view;

pub(crate) use json_member::JsonMember;
pub use prepared::Table;
pub use relation::{LinkedTables, RELATION_STEPS_MAX, RelationStep, ResolvedRelation};
pub(crate) use shape::{TableShape, hash_of};
pub use view::ViewFields;
