//! A store: an engine with the models it keeps.

use std::any::TypeId;
use std::ops::Deref;
use std::sync::Arc;

use marmota_model::{Model, Result, Schema, Table};

use crate::engine::{Capability, Engine};
use crate::registry::Registry;
use crate::scope::{Scope, Shared};

/// Models in an engine. Cheap to clone; `Send + Sync`; derefs to the
/// [`Scope`] that has the verbs.
#[derive(Clone, Debug)]
pub struct Store(Arc<Scope>);

impl Deref for Store {
    type Target = Scope;

    fn deref(&self) -> &Scope {
        &self.0
    }
}

impl Store {
    /// Begins to open a store on an engine.
    #[must_use]
    pub fn builder(engine: impl Engine + 'static) -> StoreBuilder {
        StoreBuilder { engine: Box::new(engine), tables: Vec::new(), version: 0 }
    }

    /// What the engine is and can do.
    #[must_use]
    pub fn capability(&self) -> &Capability {
        self.shared.engine.capability()
    }

    /// Makes everything durable and lets go of files. Dropping the last clone
    /// does the same, but cannot say what went wrong.
    ///
    /// # Errors
    /// What could not be made durable.
    pub fn close(&self) -> Result<()> {
        self.shared.close()
    }
}

/// Collects a store's models.
pub struct StoreBuilder {
    engine: Box<dyn Engine>,
    tables: Vec<(Schema, Option<TypeId>)>,
    version: u32,
}

impl StoreBuilder {
    /// Keeps the model `M`.
    #[must_use]
    pub fn model<M: Model>(mut self) -> Self {
        self.tables.push((M::schema().clone(), Some(TypeId::of::<M>())));
        self
    }

    /// Keeps a model made at run time.
    #[must_use]
    pub fn schema(mut self, schema: Schema) -> Self {
        self.tables.push((schema, None));
        self
    }

    /// The version of the models as a whole: a database written by a program
    /// with a higher one is refused. 0 if never set.
    #[must_use]
    pub const fn schema_version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Opens the store: makes the tables, columns and indexes that are missing.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] for a schema that makes no sense,
    /// or a database that would lose data, with the way out.
    pub fn open(self) -> Result<Store> {
        let mut registry = Registry::default();
        for (schema, of) in self.tables {
            registry.add(Arc::new(Table::new(schema)?), of)?;
        }
        self.engine.prepare(&registry.by_dependency()?, self.version)?;
        let shared = Arc::new(Shared::new(self.engine, registry));
        Ok(Store(Arc::new(Scope::of_store(shared))))
    }
}
