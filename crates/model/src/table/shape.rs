//! The names and kinds of a table's fields, which filters made with the table carry along.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::Schema;

/// The names and kinds of a table's fields: tables of the same shape have the
/// same fields at the same positions.
#[derive(Debug)]
pub(crate) struct TableShape {
    pub(crate) table: Box<str>,
    fields: Box<[Box<str>]>,
    pub(crate) hash: u64,
}

impl TableShape {
    pub(crate) fn of(schema: &Schema) -> Self {
        let fields = schema.fields.iter().map(|field| Box::from(&*field.name)).collect();
        Self { table: Box::from(&*schema.name), fields, hash: hash_of(schema) }
    }

    /// The name of the field at a position, for messages.
    pub(crate) fn field(&self, position: usize) -> &str {
        self.fields.get(position).map_or("?", |name| name)
    }
}

/// The hash of the names and kinds of a schema's fields.
pub(crate) fn hash_of(schema: &Schema) -> u64 {
    let mut hasher = DefaultHasher::new();
    schema.name.hash(&mut hasher);
    for field in schema.fields.iter() {
        (&*field.name, field.kind.name()).hash(&mut hasher);
    }
    hasher.finish()
}
