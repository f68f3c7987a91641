//! The search index of a table: an FTS5 table maintained by triggers, and the conversion of
//! searches to FTS5 queries.
//!
//! The FTS5 table contains only words (`content=''`) and removes a row by its number alone
//! (`contentless_delete`). An FTS5 table over the rows themselves would need the old texts to
//! remove them; a row that is deleted without its trigger, as REPLACE does, would corrupt it. Here
//! it leaves an entry without a row. If keys are not integers, a second table numbers them.

use std::fmt::Write as _;

use marmota_model::{Error, ErrorKind, KeyKind, Result, Search, SearchLanguage, Table};
use marmota_sql::quoted;
use marmota_store::plan::{PlanStep, StepEffect, TableChange};

use crate::ffi::{Connection, Failure};
use crate::schema_objects::{SchemaObject, SchemaObjects};
use crate::sql_words::sql_type;

/// Returns the tokenizer of a table, which must match `marmota_model::Words`.
const fn tokenizer(language: Option<SearchLanguage>) -> &'static str {
    match language {
        None => "unicode61 remove_diacritics 2",
        Some(SearchLanguage::English) => "porter unicode61 remove_diacritics 2",
    }
}

/// Returns the name of a table's FTS5 table. The colon prevents conflicts with models.
pub(crate) fn index_name(table: &Table) -> String {
    format!("search:{}", table.name())
}

/// Returns the name of the table that numbers its keys.
pub(crate) fn keys_name(table: &Table) -> String {
    format!("search_keys:{}", table.name())
}

/// Returns the column of a field: not a reserved name of FTS5, and without the need for quotes.
fn column(table: &Table, field: usize) -> String {
    format!("_{}", table.fields()[field].name)
}

/// Returns the FTS5 query for a search. It contains only quoted words; the operators are added
/// here.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a text that is not a search.
pub(crate) fn match_text(table: &Table, field: Option<usize>, search: &Search) -> Result<String> {
    let terms = search.terms().map_err(|why| {
        Error::new(ErrorKind::Invalid, format!("the search {:?} {why}", search.text()))
    })?;
    let mut text = match field {
        Some(field) => format!("{{{}}} : ((", column(table, field)),
        None => "((".to_owned(),
    };
    let mut first = true;
    for term in terms.iter().filter(|term| !term.excluded) {
        if !std::mem::take(&mut first) {
            text.push_str(" AND ");
        }
        push_phrase(&mut text, &term.written, term.prefix);
    }
    text.push(')');
    for term in terms.iter().filter(|term| term.excluded) {
        text.push_str(" NOT ");
        push_phrase(&mut text, &term.written, term.prefix);
    }
    text.push(')');
    Ok(text)
}

fn push_phrase(text: &mut String, written: &str, prefix: bool) {
    let star = if prefix { "*" } else { "" };
    let _ = write!(text, "\"{}\"{star}", written.replace('"', "\"\""));
}

/// Returns everything that the file should have for a table's index: the name and the SQL of each
/// table and trigger, in the order of their creation.
fn wanted(table: &Table) -> Vec<(String, String)> {
    let fields: Vec<usize> = table.search_fields().collect();
    if fields.is_empty() {
        return Vec::new();
    }
    let (index, on) = (quoted(&index_name(table)), quoted(table.name()));
    let key = quoted(&table.fields()[table.key()].name);
    let columns: Vec<String> = fields.iter().map(|&field| column(table, field)).collect();
    let values: Vec<String> = fields
        .iter()
        .map(|&field| format!("new.{}", quoted(&table.fields()[field].name)))
        .collect();
    let (columns, values) = (columns.join(", "), values.join(", "));
    let mut made = vec![(
        index_name(table),
        format!(
            "CREATE VIRTUAL TABLE {index} USING fts5({columns}, content='', \
             contentless_delete=1, tokenize='{}')",
            tokenizer(table.schema().search_language)
        ),
    )];
    let keys = quoted(&keys_name(table));
    let numbered = |row: &str| match table.key_kind() {
        KeyKind::Auto => format!("{row}.{key}"),
        _ => format!("(SELECT number FROM {keys} WHERE key={row}.{key})"),
    };
    let (mut enter, mut leave) = (String::new(), String::new());
    if table.key_kind() != KeyKind::Auto {
        let kind = sql_type(&table.fields()[table.key()].kind);
        let collation = crate::sql_words::sql_collation(&table.fields()[table.key()]);
        let sql = format!(
            "CREATE TABLE {keys} (number INTEGER PRIMARY KEY, key {kind} NOT NULL UNIQUE{collation}) \
             STRICT"
        );
        made.push((keys_name(table), sql));
        enter = format!("INSERT OR IGNORE INTO {keys} (key) VALUES (new.{key}); ");
        leave = format!(" DELETE FROM {keys} WHERE key=old.{key};");
    }
    let remove = |row: &str| format!("DELETE FROM {index} WHERE rowid={};", numbered(row));
    let add =
        format!("INSERT INTO {index} (rowid, {columns}) VALUES ({}, {values});", numbered("new"));
    let names: Vec<String> = fields
        .iter()
        .chain([&table.key()])
        .map(|&field| quoted(&table.fields()[field].name))
        .collect();
    for (event, when, body) in [
        // The words of a replaced row still exist.
        ("insert", "AFTER INSERT".to_owned(), format!("{enter}{} {add}", remove("new"))),
        (
            "update",
            format!("AFTER UPDATE OF {}", names.join(", ")),
            format!("{}{leave} {enter}{} {add}", remove("old"), remove("new")),
        ),
        ("delete", "AFTER DELETE".to_owned(), format!("{}{leave}", remove("old"))),
    ] {
        let name = format!("search_{event}:{}", table.name());
        let sql = format!("CREATE TRIGGER {} {when} ON {on} BEGIN {body} END", quoted(&name));
        made.push((name, sql));
    }
    made
}

/// Creates the index of a table if a part of it is missing or was made for other fields, and fills
/// it from the rows. Normally the plan has already done this; but a recreated table has lost its
/// triggers.
pub(crate) fn prepare(
    connection: &mut Connection,
    objects: &mut SchemaObjects,
    table: &Table,
) -> Result<(), Failure> {
    drop_renamed(connection, objects, table)?;
    let Some(step) = step(connection, objects, table)? else { return Ok(()) };
    objects.forget();
    step.statements.iter().try_for_each(|sql| connection.execute(sql))
}

/// Returns the step that creates the index of a table, or `None` if the index is up to date. Parts
/// of an outdated index are dropped at once: its triggers would make earlier steps fail.
pub(crate) fn step(
    connection: &mut Connection,
    objects: &mut SchemaObjects,
    table: &Table,
) -> Result<Option<PlanStep>, Failure> {
    let wanted = wanted(table);
    let names = ["search", "search_keys", "search_insert", "search_update", "search_delete"]
        .map(|start| format!("{start}:{}", table.name()));
    let there = objects.read(connection)?.named(&names);
    let has = |(name, sql): &(String, String)| {
        there.iter().any(|one| one.name == *name && one.sql == *sql)
    };
    if there.len() == wanted.len() && wanted.iter().all(has) {
        return Ok(None);
    }
    objects.forget();
    let mut statements = Vec::new();
    // Triggers first, since they write to the tables.
    for of_triggers in [true, false] {
        for SchemaObject { name, kind, .. } in &there {
            if (kind == "trigger") == of_triggers {
                let what = if of_triggers { "TRIGGER" } else { "TABLE" };
                let sql = format!("DROP {what} IF EXISTS {}", quoted(name));
                connection.execute(&sql)?;
                statements.push(sql);
            }
        }
    }
    let change = TableChange::search_of(table);
    if !wanted.is_empty() {
        statements.extend(wanted.into_iter().map(|(_, sql)| sql));
        statements.extend(filling(table));
    }
    Ok(Some(PlanStep {
        table: table.name().to_owned(),
        change,
        effect: StepEffect::Safe,
        statements,
    }))
}

/// Drops the index that the table had under another name; its triggers were kept by the rename.
fn drop_renamed(
    connection: &mut Connection,
    objects: &mut SchemaObjects,
    table: &Table,
) -> Result<(), Failure> {
    let triggers = objects.read(connection)?.triggers_of(table.name());
    let triggers: Vec<String> = triggers
        .filter(|name| name.starts_with("search_") && name.contains(':'))
        .map(str::to_owned)
        .collect();
    for trigger in &triggers {
        let Some((_, of)) = trigger.split_once(':').filter(|(_, of)| *of != table.name()) else {
            continue;
        };
        objects.forget();
        connection.execute(&format!("DROP TRIGGER {}", quoted(trigger)))?;
        for kind in ["search", "search_keys"] {
            let name = quoted(&format!("{kind}:{of}"));
            connection.execute(&format!("DROP TABLE IF EXISTS {name}"))?;
        }
    }
    Ok(())
}

/// Returns the statements that index the existing rows.
fn filling(table: &Table) -> Vec<String> {
    let (index, on) = (quoted(&index_name(table)), quoted(table.name()));
    let key = quoted(&table.fields()[table.key()].name);
    let fields = || table.search_fields();
    let columns: Vec<String> = fields().map(|field| column(table, field)).collect();
    let values: Vec<String> =
        fields().map(|field| format!("{on}.{}", quoted(&table.fields()[field].name))).collect();
    let (columns, values) = (columns.join(", "), values.join(", "));
    if table.key_kind() == KeyKind::Auto {
        return vec![format!(
            "INSERT INTO {index} (rowid, {columns}) SELECT {on}.{key}, {values} FROM {on}"
        )];
    }
    let keys = quoted(&keys_name(table));
    vec![
        format!("INSERT INTO {keys} (key) SELECT {key} FROM {on}"),
        format!(
            "INSERT INTO {index} (rowid, {columns}) SELECT {keys}.number, {values} \
             FROM {keys} JOIN {on} ON {on}.{key}={keys}.key"
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql_words::sql_literal;
    use marmota_model::Words;
    use proptest::prelude::*;

    /// Returns the words of texts with SQLite's tokenizer of a language.
    fn words_of_sqlite(language: Option<SearchLanguage>, text: &str) -> Vec<String> {
        let mut connection = Connection::open_memory().unwrap();
        let sql = format!(
            "CREATE VIRTUAL TABLE t USING fts5(x, tokenize='{}'); \
             CREATE VIRTUAL TABLE v USING fts5vocab(t, instance); INSERT INTO t(x) VALUES ({})",
            tokenizer(language),
            sql_literal(marmota_model::ValueRef::Text(text))
        );
        connection.execute(&sql).unwrap();
        let mut found = Vec::new();
        let sql = "SELECT term FROM v ORDER BY \"offset\"";
        connection
            .query(sql, |row| found.push(String::from_utf8_lossy(row.at(0).bytes()).into_owned()))
            .unwrap();
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Stems are those of SQLite, for every sequence of the suffixes that Porter's rules name.
        #[test]
        fn stems_are_those_of_sqlite(words in proptest::collection::vec(
            "([a-zß]{0,3}|[bcdfglmnprstvw][aeiouy]){1,4}(ational|tional|enci|izer|logi|logy|bli|bly|ably|alli|entli|eli|ousli|ization|ator|alism|iveness|fulness|aliti|biliti|icate|ative|alize|iciti|ical|ful|ness|al|ance|er|ic|able|ement|ment|ent|ion|sion|ou|ism|ate|iti|ous|ive|ize|eed|ed|ing|ies|sses|s|es|y|e|ll|le)?(s|ed|ing|ly|y)?", 1..200)) {
            let text = words.join(" ");
            let language = Some(SearchLanguage::English);
            let mut ours = Words::in_language(language);
            ours.take(&text);
            let ours: Vec<&str> = ours.iter().collect();
            prop_assert_eq!(words_of_sqlite(language, &text), ours);
        }
    }

    /// Checks every character with SQLite, between letters and before them: the memory engine uses
    /// `Words`, and must find the same.
    #[test]
    fn words_are_those_of_sqlite() {
        let mut connection = Connection::open_memory().unwrap();
        // Releases of SQLite differ on these two, which no text should contain.
        let is_settled = |c: &char| !matches!(c, '\u{fffe}' | '\u{ffff}');
        let all: Vec<char> = ('\u{1}'..=char::MAX).filter(is_settled).collect();
        let text = |chunk: &[char]| -> String {
            chunk.iter().flat_map(|&c| ['q', c, 'q', ' ', c, 'q', ' ']).collect()
        };
        connection
            .execute(&format!(
                "CREATE VIRTUAL TABLE t USING fts5(x, tokenize='{}'); \
                 CREATE VIRTUAL TABLE v USING fts5vocab(t, instance)",
                tokenizer(None)
            ))
            .unwrap();
        for (number, chunk) in all.chunks(1 << 16).enumerate() {
            let literal = sql_literal(marmota_model::ValueRef::Text(&text(chunk)));
            let sql = format!("INSERT INTO t(rowid, x) VALUES ({number}, {literal})");
            connection.execute(&sql).unwrap();
            let mut found = Vec::new();
            let sql = format!("SELECT \"offset\", term FROM v WHERE doc={number}");
            connection
                .query(&sql, |row| {
                    let term = String::from_utf8_lossy(row.at(1).bytes()).into_owned();
                    found.push((row.at(0).int(), term));
                })
                .unwrap();
            found.sort_unstable();
            let mut words = Words::default();
            words.take(&text(chunk));
            let found: Vec<&str> = found.iter().map(|(_, term)| &**term).collect();
            let ours: Vec<&str> = words.iter().collect();
            let first = found.iter().zip(&ours).position(|(theirs, ours)| theirs != ours);
            assert_eq!(first, None, "{number}: {:?}", first.map(|at| (found[at], ours[at])));
            assert_eq!(found.len(), ours.len(), "{number}");
        }
    }
}
