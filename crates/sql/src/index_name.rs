//! The indexes of models, and their names.

use marmota_model::{Index, Table};

use crate::index_filter::canonical;
use crate::name::hash;

/// Returns the names of an index's columns.
#[must_use]
pub fn index_columns(table: &Table, index: &Index) -> Vec<String> {
    index.fields.iter().map(|&field| table.fields()[field].name.to_string()).collect()
}

/// Returns the indexes that a table needs in addition to its primary key, which is over the fields of
/// a composite key. The index of a reference to such a key is over the fields that it is computed of,
/// unless the key or another index begins with these.
#[must_use]
pub fn added_indexes(table: &Table) -> Vec<Index> {
    let is_of_key = |index: &Index| {
        index.unique && index.filter.is_none() && *index.fields == *table.key_fields()
    };
    let mut indexes = table.indexes();
    indexes.retain(|index| !is_of_key(index));
    if table.made_fields().is_empty() {
        return indexes;
    }
    let is_made = |index: &Index| index.fields.iter().any(|&field| table.is_made(field));
    let (made, mut indexes): (Vec<_>, Vec<_>) = indexes.into_iter().partition(is_made);
    for index in made {
        let columns = table.columns_of(index.fields[0]);
        let serves = |index: &Index| index.filter.is_none() && index.fields.starts_with(&columns);
        if !table.key_order().starts_with(&columns) && !indexes.iter().any(serves) {
            indexes.push(Index::new(columns));
        }
    }
    indexes
}

/// Returns the name of an index. Its colons prevent conflicts with other names. The name of a
/// partial index ends with a hash of its filter, so that an index with another filter is another one.
#[must_use]
pub fn index_name(table: &Table, index: &Index) -> String {
    let kind = if index.unique { "unique" } else { "index" };
    let name = format!("{kind}:{}:{}", table.name(), index_columns(table, index).join(","));
    match canonical(table, index) {
        None => name,
        Some(filter) => format!("{name}:{:016x}", hash(&filter)),
    }
}

/// Returns true for the index of a reference that the model does not name.
#[must_use]
pub fn is_implicit(table: &Table, index: &Index) -> bool {
    let is_named = |named: &Index| named.fields == index.fields && named.filter.is_none();
    !index.unique && index.filter.is_none() && !table.schema().indexes.iter().any(is_named)
}

/// Returns true if this is the name of an index that was created for a table with this name.
#[must_use]
pub fn is_ours(index: &str, table: &str) -> bool {
    ["unique", "index"].iter().any(|kind| index.starts_with(&format!("{kind}:{table}:")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_told_apart_by_table() {
        assert!(is_ours("unique:person:name", "person"));
        assert!(!is_ours("unique:persons:name", "person"));
        assert!(!is_ours("by_name", "person"));
    }
}
