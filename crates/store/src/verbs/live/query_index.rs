//! Finds the live queries that a change can concern.
//!
//! A query whose filter has a condition `field = value` in a conjunction is found by the value that
//! the field has before or after the change. All other queries of a table are checked for each
//! change of it.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap};
use marmota_model::{Collation, Table, Value};

use super::shared_query::SharedQuery;
use crate::contract::change::Change;

/// The live queries of a store, by their tables and fixed values. A query is known by its slot.
#[derive(Debug, Default)]
pub(crate) struct QueryIndex {
    slots: Vec<Option<Arc<SharedQuery>>>,
    free: Vec<usize>,
    /// By the address of the table.
    tables: HashMap<usize, TableQueries>,
    hasher: DefaultHashBuilder,
}

/// The live queries of one table, as slots.
#[derive(Debug, Default)]
struct TableQueries {
    /// The queries without a fixed value.
    all: Vec<usize>,
    /// For each field with fixed values, the queries by the hash of the value.
    by_value: Vec<FieldQueries>,
}

#[derive(Debug)]
struct FieldQueries {
    field: usize,
    collation: Collation,
    queries: HashMap<u64, Vec<usize>>,
}

fn address(table: &Arc<Table>) -> usize {
    Arc::as_ptr(table) as usize
}

impl QueryIndex {
    /// Returns true if it has no query.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.len() == self.free.len()
    }

    /// Returns all queries.
    pub(crate) fn queries(&self) -> impl Iterator<Item = &Arc<SharedQuery>> {
        self.slots.iter().flatten()
    }

    /// Returns the query in a slot.
    pub(crate) fn get(&self, slot: usize) -> Option<&Arc<SharedQuery>> {
        self.slots.get(slot)?.as_ref()
    }

    /// Adds a query.
    pub(crate) fn add(&mut self, query: Arc<SharedQuery>) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots_of(&query).push(slot);
        self.slots[slot] = Some(query);
    }

    /// Removes a query, if it has it.
    pub(crate) fn remove(&mut self, query: &Arc<SharedQuery>) {
        let is_it = |slot: &Option<Arc<SharedQuery>>| {
            slot.as_ref().is_some_and(|known| Arc::ptr_eq(known, query))
        };
        let slots = self.slots_of(query).clone();
        let Some(slot) = slots.into_iter().find(|&slot| is_it(&self.slots[slot])) else { return };
        self.slots_of(query).retain(|&known| known != slot);
        self.slots[slot] = None;
        self.free.push(slot);
        let table = address(&query.definition.table);
        if let Some(queries) = self.tables.get_mut(&table) {
            for field in &mut queries.by_value {
                field.queries.retain(|_, slots| !slots.is_empty());
            }
            queries.by_value.retain(|field| !field.queries.is_empty());
            if queries.all.is_empty() && queries.by_value.is_empty() {
                self.tables.remove(&table);
            }
        }
    }

    /// Calls `with` for each query that a change can concern, at least once.
    pub(crate) fn each_concerned(&self, change: &Change, mut with: impl FnMut(usize)) {
        let Some(queries) = self.tables.get(&address(&change.table)) else { return };
        queries.all.iter().for_each(|&slot| with(slot));
        for FieldQueries { field, collation, queries } in &queries.by_value {
            let hash = |row: &Option<Vec<Value>>| {
                row.as_ref().and_then(|row| self.hash(*collation, &row[*field]))
            };
            let (before, after) = (hash(&change.before), hash(&change.after));
            let hashes = before.into_iter().chain(after.filter(|_| before != after));
            hashes.filter_map(|hash| queries.get(&hash)).flatten().for_each(|&slot| with(slot));
        }
    }

    /// Returns the list of slots that a query belongs to.
    fn slots_of(&mut self, query: &SharedQuery) -> &mut Vec<usize> {
        let definition = &query.definition;
        let fixed = definition.fixed_value().and_then(|(field, value)| {
            let collation = definition.table.fields()[field].kind.collation();
            Some((field, collation, self.hash(collation, value)?))
        });
        let queries = self.tables.entry(address(&definition.table)).or_default();
        let Some((field, collation, hash)) = fixed else { return &mut queries.all };
        let at = queries.by_value.iter().position(|known| known.field == field);
        let at = at.unwrap_or_else(|| {
            queries.by_value.push(FieldQueries { field, collation, queries: HashMap::new() });
            queries.by_value.len() - 1
        });
        queries.by_value[at].queries.entry(hash).or_default()
    }

    /// Returns the same number for values that are equal in this collation; `None` for a kind whose
    /// equality is not that of its bytes.
    fn hash(&self, collation: Collation, value: &Value) -> Option<u64> {
        Some(match (collation, value) {
            (Collation::NoCase, Value::Text(text)) => {
                self.hasher.hash_one(text.to_ascii_lowercase())
            }
            (Collation::Binary, Value::Text(text)) => self.hasher.hash_one(text),
            (_, Value::Bool(value)) => self.hasher.hash_one(value),
            (_, Value::Int(value)) => self.hasher.hash_one(value),
            (_, Value::Currency(value)) => self.hasher.hash_one(value.scaled()),
            (_, Value::Date(value)) => self.hasher.hash_one(value.days()),
            (_, Value::Timestamp(value)) => self.hasher.hash_one(value.micros()),
            (_, Value::Uuid(value)) => self.hasher.hash_one(value.as_bytes()),
            _ => return None,
        })
    }
}
