//! The tables of a store. They are fixed when it is opened, so that a lookup takes no lock.

use std::any::{TypeId, type_name};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, LinkedTables, Model, Result, Table};

use crate::rows::cascades::Cascades;

/// The registered tables.
///
/// It is made by the builder of a store and immutable afterwards.
/// [`Store::registry`](crate::Store::registry) returns it.
///
/// ```
/// use marmota_memory::Memory;
/// use marmota_model::{Field, Kind, Role, Schema};
/// use marmota_store::Store;
///
/// let city = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
/// let store = Store::builder(Memory::new()).schema(city).open()?;
/// assert_eq!(store.registry().table("city")?.name(), "city");
/// let error = store.registry().table("town").unwrap_err();
/// assert!(error.message().contains("city"), "the message has the existing names");
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// In the order of registration.
    tables: Vec<Arc<Table>>,
    /// The same tables by name.
    by_name: HashMap<String, Arc<Table>>,
    /// The tables of models that are Rust types; a schema made at run time has no type.
    by_type: HashMap<TypeId, Arc<Table>, BuildHasherDefault<TypeIdHasher>>,
    /// The index of each table's database, in a store with several.
    databases: HashMap<String, usize>,
    /// The links between the tables, by which relations are resolved.
    links: Option<Arc<LinkedTables>>,
    /// What deletes do to the rows that refer to the deleted ones.
    cascades: Arc<Cascades>,
}

/// A hasher that returns a `TypeId` as it is: it already is a hash, and hashing it again would cost
/// time in every typed operation.
#[derive(Clone, Copy, Debug, Default)]
struct TypeIdHasher(u64);

impl Hasher for TypeIdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 ^= u64::from_ne_bytes(word);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 ^= word;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Registry {
    /// Returns every table, in the order of registration.
    #[must_use]
    pub fn tables(&self) -> &[Arc<Table>] {
        &self.tables
    }

    /// Returns the table called `name`.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] with the names of the existing tables.
    pub fn table(&self, name: &str) -> Result<&Arc<Table>> {
        self.by_name.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.tables.iter().map(|table| table.name()).collect();
            let name = marmota_model::text::excerpt(name);
            let message = format!("there is no table `{name}`; there are: {}", names.join(", "));
            Error::new(ErrorKind::NotFound, message)
        })
    }

    /// Returns the table called `name`, if it is registered.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Table>> {
        self.by_name.get(name)
    }

    /// Returns the table of the model `M`.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; the message explains how to register the model.
    pub fn of<M: Model>(&self) -> Result<&Arc<Table>> {
        self.by_type.get(&TypeId::of::<M>()).ok_or_else(|| {
            let name = type_name::<M>().rsplit("::").next().unwrap_or_default();
            let message = format!(
                "the model `{name}` is not registered; add `.model::<{name}>()` where the store is \
                 opened"
            );
            Error::new(ErrorKind::NotFound, message)
        })
    }

    /// Sets the database of each table, in a store with several.
    pub(crate) fn set_databases(&mut self, databases: impl Iterator<Item = (String, usize)>) {
        self.databases = databases.collect();
    }

    /// Returns the index of a table's database.
    ///
    /// Default: 0, the first database.
    pub(crate) fn database_of(&self, table: &Table) -> usize {
        self.databases.get(table.name()).copied().unwrap_or(0)
    }

    /// Links the tables, so that relations between them can be resolved, and checks their named
    /// relations; makes the plans of deletes. The links last as long as this registry and its clones.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the relation that is invalid.
    pub(crate) fn link(&mut self, home: impl Fn(&str) -> usize) -> Result<()> {
        let tables = self.tables.iter().map(|table| (Arc::clone(table), home(table.name())));
        self.links = Some(LinkedTables::new(tables.collect())?);
        self.cascades = Arc::new(Cascades::new(&self.by_dependency()?));
        Ok(())
    }

    /// Returns what deletes do to the rows that refer to the deleted ones.
    pub(crate) fn cascades(&self) -> &Cascades {
        &self.cascades
    }

    /// Returns true if a table is audited.
    pub(crate) fn is_audited(&self) -> bool {
        self.tables.iter().any(|table| table.schema().audit)
    }

    /// Adds a table; `of` is the type of its model, if it has one.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if there is a table of this name.
    pub(crate) fn add(&mut self, table: Arc<Table>, of: Option<TypeId>) -> Result<()> {
        if self.by_name.contains_key(table.name()) {
            let message = format!("two models have the table `{}`; rename one", table.name());
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        self.by_name.insert(table.name().to_owned(), Arc::clone(&table));
        if let Some(of) = of {
            self.by_type.insert(of, Arc::clone(&table));
        }
        self.tables.push(table);
        Ok(())
    }

    /// Returns the tables, each after the tables that it refers to. Tables that refer to each other
    /// in a circle keep the order of registration.
    ///
    /// Engines create tables in this order, and backups and transfers insert rows in it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a reference to a table that is not registered.
    pub(crate) fn by_dependency(&self) -> Result<Vec<Arc<Table>>> {
        use marmota_model::Kind;
        let mut ordered: Vec<Arc<Table>> = Vec::with_capacity(self.tables.len());
        let mut rest: Vec<&Arc<Table>> = self.tables.iter().collect();
        while !rest.is_empty() {
            let ready = |table: &Arc<Table>| {
                table.fields().iter().all(|field| match &field.kind {
                    Kind::Reference { table: to, .. } => {
                        to == table.name() || ordered.iter().any(|done| done.name() == to)
                    }
                    _ => true,
                })
            };
            let next = rest.iter().position(|table| ready(table)).unwrap_or(0);
            ordered.push(Arc::clone(rest.remove(next)));
        }
        for table in &self.tables {
            for (position, field) in table.fields().iter().enumerate() {
                if let Kind::Reference { table: to, key } = &field.kind {
                    let known = self.by_name.get(&**to);
                    let misfit = known.and_then(|known| table.misfit_of_reference(position, known));
                    if let Some(why) = misfit {
                        let message = format!(
                            "field `{}` of `{}` refers to `{to}`, {why}",
                            field.name,
                            table.name()
                        );
                        return Err(Error::new(ErrorKind::Invalid, message));
                    }
                    if known.is_none_or(|known| known.key_kind() != *key) {
                        return Err(Error::new(
                            ErrorKind::Invalid,
                            format!(
                                "field `{}` of `{}` refers to `{to}`, which is not registered or \
                                 has another kind of key",
                                field.name,
                                table.name()
                            ),
                        ));
                    }
                }
            }
        }
        Ok(ordered)
    }
}
