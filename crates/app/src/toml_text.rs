//! The text of an application file in TOML: positions of keys, layout, and changes that keep comments.

use std::ops::Range;

use toml_edit::{
    Array, ArrayOfTables, Document, DocumentMut, InlineTable, Item, Key, Table, TableLike, Value,
};

/// Returns the line and column of a byte, both from 1. A column counts characters.
pub(crate) fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// Returns where the value at a path of keys begins, or the deepest part of the path that exists.
pub(crate) fn start_of(text: &str, path: &[String]) -> Option<usize> {
    let document = Document::parse(text).ok()?;
    let mut item = document.as_item();
    let mut span: Option<Range<usize>> = None;
    for name in path {
        let entry = item.as_table_like().and_then(|table| table.get_key_value(name));
        let (key, value) = match (entry, name.parse::<usize>()) {
            (Some((key, value)), _) => (Some(key), value),
            (None, Ok(number)) => match item.get(number) {
                Some(value) => (None, value),
                None => break,
            },
            (None, Err(_)) => break,
        };
        // A table's own span can be that of its header; the key is where a reader looks.
        span = key.and_then(Key::span).or_else(|| value.span()).or(span);
        item = value;
    }
    span.map(|span| span.start)
}

/// Returns the keys from the root to the value that has a byte, as far as the text is TOML.
pub(crate) fn path_at(text: &str, byte: usize) -> Vec<String> {
    let mut path = Vec::new();
    if let Ok(document) = Document::parse(text) {
        find_byte(document.as_item(), byte, &mut path);
    }
    path
}

/// Adds the keys from an item to the part of it that has a byte. Returns false if no part has it.
fn find_byte(item: &Item, byte: usize, path: &mut Vec<String>) -> bool {
    let has = |span: Option<Range<usize>>| span.is_some_and(|span| span.contains(&byte));
    let tables = item.as_array_of_tables().map_or(0, ArrayOfTables::len);
    let rows = (0..tables).map(|number| (number.to_string(), None, item.get(number)));
    let entries = item.as_table_like().into_iter().flat_map(|table| {
        let keys = table.iter().map(|(name, _)| name);
        keys.map(|name| (name.to_owned(), table.key(name), table.get(name)))
    });
    for (name, key, value) in rows.chain(entries) {
        let Some(value) = value else { continue };
        path.push(name);
        if has(key.and_then(Key::span)) || find_byte(value, byte, path) || has(value.span()) {
            return true;
        }
        path.pop();
    }
    false
}

/// Returns a path of keys as a text: `groups.staff.grants[0].rule`.
pub(crate) fn keys(path: &[String]) -> String {
    let mut text = String::new();
    for name in path {
        match name.parse::<usize>() {
            Ok(number) => text.push_str(&format!("[{number}]")),
            Err(_) if text.is_empty() => text.push_str(name),
            Err(_) => {
                text.push('.');
                text.push_str(name);
            }
        }
    }
    text
}

/// Lays out a document: a section for each table and its fields, a line for each field.
pub(crate) fn laid_out(document: &DocumentMut) -> DocumentMut {
    let mut result = DocumentMut::new();
    for (name, item) in document.as_table() {
        let mut section = Table::new();
        section.set_implicit(true);
        for (entry, value) in item.as_table_like().into_iter().flat_map(TableLike::iter) {
            let entry_table = match name {
                "tables" => table_section(value),
                "webhooks" => webhook_section(value),
                _ => group_section(value),
            };
            section.insert(entry, Item::Table(entry_table));
        }
        result.insert(name, Item::Table(section));
    }
    result
}

/// Returns the section of a table: its keys, and its fields in a section of their own.
fn table_section(item: &Item) -> Table {
    let mut section = Table::new();
    let mut has_keys = false;
    for (key, value) in item.as_table_like().into_iter().flat_map(TableLike::iter) {
        if key == "fields" {
            let mut fields = Table::new();
            for (field, details) in value.as_table_like().into_iter().flat_map(TableLike::iter) {
                fields.insert(field, inline(details));
            }
            section.insert(key, Item::Table(fields));
        } else {
            has_keys = true;
            section.insert(key, inline(value));
        }
    }
    section.set_implicit(!has_keys);
    section
}

/// Returns the section of a group: a section for each grant.
fn group_section(item: &Item) -> Table {
    let mut section = Table::new();
    let grants = item.as_table_like().and_then(|group| group.get("grants"));
    let mut sections = ArrayOfTables::new();
    for grant in grants.and_then(Item::as_array).into_iter().flatten() {
        let mut table = Table::new();
        for (key, value) in grant.as_inline_table().into_iter().flat_map(InlineTable::iter) {
            table.insert(key, inline(&Item::Value(value.clone())));
        }
        sections.push(table);
    }
    section.set_implicit(!sections.is_empty());
    if !sections.is_empty() {
        section.insert("grants", Item::ArrayOfTables(sections));
    }
    section
}

/// Returns the section of a webhook: its keys.
fn webhook_section(item: &Item) -> Table {
    let mut section = Table::new();
    for (key, value) in item.as_table_like().into_iter().flat_map(TableLike::iter) {
        section.insert(key, inline(value));
    }
    section
}

/// Returns a value on one line.
fn inline(item: &Item) -> Item {
    let mut value = item.clone().into_value().unwrap_or_else(|_| Value::from(false));
    unadorned(&mut value);
    Item::Value(value)
}

/// Removes white space and comments around a value and the parts of it, for the default layout.
fn unadorned(value: &mut Value) {
    value.decor_mut().clear();
    match value {
        Value::Array(array) => array.iter_mut().for_each(unadorned),
        Value::InlineTable(table) => {
            table.fmt();
            table.iter_mut().for_each(|(_, value)| unadorned(value));
        }
        _ => {}
    }
}

/// Changes `old` so that it has the content of `new`, and keeps the text of what is equal: comments,
/// order and layout. `known` has the content of `old` in the form of `new`, if it is valid.
pub(crate) fn merge(old: &mut Table, known: Option<&Table>, new: &Table) {
    let known = known.map(|known| known as &dyn TableLike);
    merge_at(&mut Vec::new(), old, known, new);
}

/// Merges the tables at a path of keys. Returns true if keys were added or removed.
fn merge_at<'k>(
    path: &mut Vec<&'k str>,
    old: &mut dyn TableLike,
    known: Option<&dyn TableLike>,
    new: &'k dyn TableLike,
) -> bool {
    let removed: Vec<String> = old
        .iter()
        .filter(|(key, _)| new.get(key).is_none())
        .map(|(key, _)| key.to_owned())
        .collect();
    for key in &removed {
        old.remove(key);
    }
    let mut is_changed = !removed.is_empty();
    for (key, new_item) in new.iter() {
        let Some(old_item) = old.get_mut(key) else {
            old.insert(key, new_item.clone());
            is_changed = true;
            continue;
        };
        let known_item = known.and_then(|known| known.get(key));
        let is_same = known_item.is_some_and(|known_item| is_equal(known_item, new_item));
        match new_item.as_table_like() {
            // Below `tables` the order may differ even so.
            _ if is_same
                && !(key == "tables" || path.first() == Some(&"tables") && path.len() < 3) => {}
            Some(new_table) if old_item.is_table_like() => {
                path.push(key);
                let known_table = known_item.and_then(Item::as_table_like);
                if let Some(old_table) = old_item.as_table_like_mut()
                    && merge_at(path, old_table, known_table, new_table)
                    && path.len() > 3
                {
                    old_table.fmt();
                }
                path.pop();
            }
            _ if is_equal(old_item, new_item) => {}
            _ => replace(old_item, new_item),
        }
    }
    // The order of tables and of fields has a meaning; that of other keys has none.
    if matches!(**path, ["tables"] | ["tables", _, "fields"]) {
        reorder(old, new);
    }
    is_changed
}

/// Replaces a value, and keeps the comment after it.
fn replace(old: &mut Item, new: &Item) {
    let decor = old.as_value().map(|value| value.decor().clone());
    *old = new.clone();
    if let (Some(value), Some(decor)) = (old.as_value_mut(), decor) {
        *value.decor_mut() = decor;
    }
}

/// Gives the keys of `old` the order of `new`, if it differs.
fn reorder(old: &mut dyn TableLike, new: &dyn TableLike) {
    let order: Vec<&str> = new.iter().map(|(key, _)| key).collect();
    if old.iter().map(|(key, _)| key).eq(order.iter().copied()) {
        return;
    }
    let mut items = Vec::with_capacity(order.len());
    for key in order {
        let decor = old.key(key).map(|key| key.leaf_decor().clone());
        if let Some(item) = old.remove(key) {
            items.push((key.to_owned(), decor, item));
        }
    }
    for (key, decor, item) in items {
        old.insert(&key, item);
        if let (Some(mut key), Some(decor)) = (old.key_mut(&key), decor) {
            *key.leaf_decor_mut() = decor;
        }
    }
}

/// Returns true if two items have the same content, in any layout.
fn is_equal(a: &Item, b: &Item) -> bool {
    match (a.as_table_like(), b.as_table_like()) {
        (Some(a), Some(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_equal(a, b)))
        }
        (None, None) => match (entries(a), entries(b)) {
            (Some(a), Some(b)) => {
                a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| is_equal(a, b))
            }
            (None, None) => same_scalar(a, b),
            _ => false,
        },
        _ => false,
    }
}

/// Returns the entries of an array, or of an array of tables.
fn entries(item: &Item) -> Option<Vec<Item>> {
    match item {
        Item::ArrayOfTables(tables) => Some(tables.iter().cloned().map(Item::Table).collect()),
        Item::Value(Value::Array(array)) => {
            Some(Array::iter(array).cloned().map(Item::Value).collect())
        }
        _ => None,
    }
}

fn same_scalar(a: &Item, b: &Item) -> bool {
    match (a.as_value(), b.as_value()) {
        (Some(Value::String(a)), Some(Value::String(b))) => a.value() == b.value(),
        (Some(Value::Integer(a)), Some(Value::Integer(b))) => a.value() == b.value(),
        (Some(Value::Float(a)), Some(Value::Float(b))) => a.value() == b.value(),
        (Some(Value::Boolean(a)), Some(Value::Boolean(b))) => a.value() == b.value(),
        _ => false,
    }
}
