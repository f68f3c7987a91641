//! Finds the live queries that a change can concern.
//!
//! A query whose filter has a condition `field = value` in a conjunction is found by the value that
//! the field has before or after the change. All other queries of a table are checked for each
//! change of it.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap};
use marmota_model::{Collation, Table, Value};

use super::definition::LiveDefinition;
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
    /// The queries that depend on rows of related tables.
    related: Vec<Arc<SharedQuery>>,
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

/// The value that a field has in all rows of a query.
#[derive(Clone, Copy, Debug)]
struct FixedValue {
    field: usize,
    collation: Collation,
    hash: u64,
}

impl TableQueries {
    /// Returns the queries with a fixed value of a field.
    fn of_field(&mut self, FixedValue { field, collation, .. }: FixedValue) -> &mut FieldQueries {
        let at = self.by_value.iter().position(|known| known.field == field);
        let at = at.unwrap_or_else(|| {
            self.by_value.push(FieldQueries { field, collation, queries: HashMap::new() });
            self.by_value.len() - 1
        });
        &mut self.by_value[at]
    }
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

    /// Returns the queries that depend on rows of related tables.
    pub(crate) fn related(&self) -> impl Iterator<Item = &Arc<SharedQuery>> {
        self.related.iter()
    }

    /// Adds a query.
    pub(crate) fn add(&mut self, query: Arc<SharedQuery>) {
        if query.definition.is_related() {
            self.related.push(Arc::clone(&query));
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let fixed = self.fixed_value(&query.definition);
        let queries = self.tables.entry(address(&query.definition.table)).or_default();
        match fixed {
            None => queries.all.push(slot),
            Some(fixed) => {
                queries.of_field(fixed).queries.entry(fixed.hash).or_default().push(slot);
            }
        }
        self.slots[slot] = Some(query);
    }

    /// Removes a query, if it has it.
    pub(crate) fn remove(&mut self, query: &Arc<SharedQuery>) {
        self.related.retain(|known| !Arc::ptr_eq(known, query));
        let (table, fixed) =
            (address(&query.definition.table), self.fixed_value(&query.definition));
        let Some(queries) = self.tables.get_mut(&table) else { return };
        let slots = &mut self.slots;
        let mut take = |list: &mut Vec<usize>| {
            let is_it =
                |slot: &usize| slots[*slot].as_ref().is_some_and(|known| Arc::ptr_eq(known, query));
            let slot = list.swap_remove(list.iter().position(is_it)?);
            slots[slot] = None;
            Some(slot)
        };
        let slot = match fixed {
            None => take(&mut queries.all),
            Some(fixed) => {
                let of_field = &mut queries.of_field(fixed).queries;
                let slot = of_field.get_mut(&fixed.hash).and_then(&mut take);
                if of_field.get(&fixed.hash).is_some_and(Vec::is_empty) {
                    of_field.remove(&fixed.hash);
                }
                slot
            }
        };
        self.free.extend(slot);
        queries.by_value.retain(|field| !field.queries.is_empty());
        if queries.all.is_empty() && queries.by_value.is_empty() {
            self.tables.remove(&table);
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

    fn fixed_value(&self, definition: &LiveDefinition) -> Option<FixedValue> {
        let (field, value) = definition.fixed_value()?;
        let collation = definition.table.fields()[field].kind.collation();
        Some(FixedValue { field, collation, hash: self.hash(collation, value)? })
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

#[cfg(test)]
mod tests {
    use marmota_model::{Comparison, Field, FieldSet, FilterExpr, Kind, Role, RowQuery, Schema};

    use super::*;
    use crate::contract::change::ChangeKind;
    use crate::verbs::live::exact_read::ExactRead;
    use crate::verbs::live::window::LiveWindow;

    fn table() -> Arc<Table> {
        let name = Kind::Text { chars_max: 0, collation: Collation::NoCase };
        let key = Field::new("id", Kind::I64).role(Role::Key);
        let fields = vec![key, Field::new("name", name), Field::new("size", Kind::Float)];
        Arc::new(Table::new(Schema::new("thing", fields)).unwrap())
    }

    fn query(table: &Arc<Table>, field: usize, value: Value) -> Arc<SharedQuery> {
        let comparison = Comparison::Equal;
        let fixed = FilterExpr::Compare { field, comparison, value };
        let other = FilterExpr::Not(Box::new(FilterExpr::IsNull { field: 0 }));
        // As rights combine a filter with that of a query.
        let filter = FilterExpr::And(vec![other.clone(), FilterExpr::And(vec![other, fixed])]);
        let query = RowQuery { filter: Some(filter), ..RowQuery::new() };
        let definition = LiveDefinition::of_query(Arc::clone(table), query, false);
        let window = LiveWindow::new(&definition, Vec::new(), None);
        Arc::new(SharedQuery::new(definition, 1, ExactRead { number: 1, window }))
    }

    fn concerned(
        index: &QueryIndex,
        table: &Arc<Table>,
        before: Value,
        after: Value,
    ) -> Vec<usize> {
        let row = |name| Some(vec![Value::Int(1), name, Value::Float(1.0)]);
        let change = Change {
            table: Arc::clone(table),
            kind: ChangeKind::Update,
            before: row(before),
            after: row(after),
            changed: FieldSet::EMPTY,
            actor: None,
        };
        let mut slots = Vec::new();
        index.each_concerned(&change, |slot| slots.push(slot));
        slots.sort_unstable();
        slots
    }

    #[test]
    fn queries_are_found_by_the_values_before_and_after() {
        let (table, other) = (table(), table());
        let mut index = QueryIndex::default();
        let text = |text: &str| Value::Text(text.to_owned());
        let queries = ["a", "B", "c"].map(|name| query(&table, 1, text(name)));
        queries.iter().for_each(|query| index.add(Arc::clone(query)));
        // Equality of floats is not that of their bytes.
        index.add(query(&table, 2, Value::Float(0.0)));
        assert_eq!(concerned(&index, &table, text("A"), text("b")), [0, 1, 3]);
        assert_eq!(concerned(&index, &table, text("b"), text("B")), [1, 3]);
        assert_eq!(concerned(&index, &table, text("z"), Value::Null), [3]);
        assert!(concerned(&index, &other, text("a"), text("b")).is_empty());
        index.remove(&queries[1]);
        assert_eq!(concerned(&index, &table, text("A"), text("b")), [0, 3]);
        index.add(query(&table, 1, text("d")));
        assert_eq!(concerned(&index, &table, text("d"), text("b")), [1, 3]);
        let all: Vec<_> = index.queries().cloned().collect();
        all.iter().for_each(|query| index.remove(query));
        assert!(index.is_empty() && index.tables.is_empty());
    }
}
