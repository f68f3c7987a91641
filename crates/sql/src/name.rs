//! Names in SQL, and the names of indexes of models.

use marmota_model::{Index, OnDelete, Table};

use crate::index_filter::canonical;

/// Returns a quoted name.
#[must_use]
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The shortest limit of a name, that of PostgreSQL: it truncates longer names.
const NAME_BYTES_MAX: usize = 63;

/// Returns a name within the limit of database servers: the end of a longer one is replaced by a
/// hash.
#[must_use]
pub fn bounded(name: &str) -> String {
    if name.len() <= NAME_BYTES_MAX {
        return name.to_owned();
    }
    let hash = hash(name);
    let mut end = NAME_BYTES_MAX - 17;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}~{hash:016x}", &name[..end])
}

/// Returns the FNV-1a hash of a text, which is the same in every build.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns the names of an index's columns.
#[must_use]
pub fn index_columns(table: &Table, index: &Index) -> Vec<String> {
    index.fields.iter().map(|&field| table.fields()[field].name.to_string()).collect()
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

/// Returns the action of a reference as SQL, to follow `REFERENCES …`; empty for the default.
#[must_use]
pub const fn on_delete(action: OnDelete) -> &'static str {
    match action {
        OnDelete::Restrict => "",
        OnDelete::Cascade => " ON DELETE CASCADE",
        OnDelete::SetNull => " ON DELETE SET NULL",
    }
}

/// Returns the action that a database reports as `CASCADE` or `SET NULL`; [`OnDelete::Restrict`] for
/// any other.
#[must_use]
pub fn on_delete_of(action: &str) -> OnDelete {
    match action {
        _ if action.eq_ignore_ascii_case("CASCADE") => OnDelete::Cascade,
        _ if action.eq_ignore_ascii_case("SET NULL") => OnDelete::SetNull,
        _ => OnDelete::Restrict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        assert_eq!(quoted("plain"), "\"plain\"");
        assert_eq!(quoted("a\"; DROP"), "\"a\"\"; DROP\"");
    }

    #[test]
    fn long_names_stay_apart() {
        let name = |end: &str| bounded(&format!("{}{end}", "é".repeat(40)));
        assert!(name("a") != name("b") && name("a").len() <= NAME_BYTES_MAX);
        assert_eq!(bounded("unique:t:a"), "unique:t:a");
    }

    #[test]
    fn indexes_are_told_apart_by_table() {
        assert!(is_ours("unique:person:name", "person"));
        assert!(!is_ours("unique:persons:name", "person"));
        assert!(!is_ours("by_name", "person"));
    }
}
