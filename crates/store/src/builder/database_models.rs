//! The models of one database.

use std::any::TypeId;

use marmota_model::{Model, Schema};

/// A collection of the models of one of a store's databases; see
/// [`StoreBuilder::database`](crate::StoreBuilder::database).
#[derive(Default)]
pub struct DatabaseModels(pub(super) Vec<(Schema, Option<TypeId>)>);

impl DatabaseModels {
    /// Adds the model `M`.
    #[must_use]
    pub fn model<M: Model>(mut self) -> Self {
        self.0.push((M::schema().clone(), Some(TypeId::of::<M>())));
        self
    }

    /// Adds a model made at run time.
    #[must_use]
    pub fn schema(mut self, schema: Schema) -> Self {
        self.0.push((schema, None));
        self
    }
}
