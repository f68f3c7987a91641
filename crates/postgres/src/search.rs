//! The words of a table's searchable fields: a column that the database works
//! out of each row, with an index, and a search as a condition on it.
//!
//! The words are those of `marmota_model::Words`, made by functions in SQL, so
//! that rows of other programs are found too. The column has each word behind
//! the number of its field. Where that does not say enough (a phrase, a long
//! word, a text so long that its words are left out) the texts are looked at.

use std::fmt::Write as _;

use marmota_model::{Search, SearchTerm, Table, Words};

use crate::column::quoted;
use crate::prepare::bounded;
use crate::shape::Sql;
use crate::wire::value::{self, Form};

/// Makes a text its words, each behind a space.
const WORDS: &str = "marmota_words_1";
/// Makes a field's text the words of the column.
const LEXEMES: &str = "marmota_search_1";
/// So much of a word is in the column. PostgreSQL takes 2,046 bytes.
const WORD_CHARS_MAX: usize = 500;
/// The words of a row that are in the column have no more bytes than this
/// together; PostgreSQL takes a megabyte, with what marks their fields.
const ROW_BYTES_MAX: usize = 200_000;

/// What begins the names of such columns. The colon keeps them from being
/// fields.
pub(crate) const COLUMN_START: &str = "search:";

/// The column of a table's words; none if it has no searchable field.
pub(crate) fn column_name(table: &Table) -> Option<String> {
    let names: Vec<&str> =
        table.search_fields().map(|field| &*table.fields()[field].name).collect();
    (!names.is_empty()).then(|| bounded(&format!("{COLUMN_START}{}", names.join(","))))
}

/// The SQL that adds the column and its index.
pub(crate) fn add_column(table: &Table, column: &str) -> String {
    let (on, column) = (quoted(table.name()), quoted(column));
    let most = ROW_BYTES_MAX / table.search_fields().count().max(1);
    let words: Vec<String> = table
        .search_fields()
        .enumerate()
        .map(|(number, field)| {
            format!("{LEXEMES}('{number}',{most},{})", quoted(&table.fields()[field].name))
        })
        .collect();
    format!(
        "ALTER TABLE {on} ADD COLUMN {column} tsvector GENERATED ALWAYS AS ({}) STORED; \
         CREATE INDEX ON {on} USING gin ({column})",
        words.join("||")
    )
}

/// True, in SQL, if the functions are there.
pub(crate) fn has_functions() -> String {
    format!("SELECT (to_regproc('{LEXEMES}') IS NOT NULL)::int")
}

/// The SQL that makes the functions.
pub(crate) fn make_functions() -> String {
    let mut separators = String::new();
    for range in Words::separators() {
        let _ = write!(separators, "\\U{:08x}-\\U{:08x}", range.start(), range.end());
    }
    // `translate` goes through its list for each character: the most frequent
    // come first. Behind those that are replaced stand those that are left out.
    let plain = "abcdefghijklmnopqrstuvwxyz 0123456789";
    let (mut from, mut to) = (plain.to_owned(), plain.to_owned());
    for (letter, folded) in Words::folds() {
        from.push(letter);
        to.push(folded);
    }
    from.extend(Words::marks().flatten().filter_map(char::from_u32));
    let lexemes = format!(
        "array_to_tsvector(ARRAY(SELECT field||':'||left(word,{WORD_CHARS_MAX}) \
         FROM unnest(string_to_array(nullif(words,''),' ')) word))"
    );
    format!(
        "CREATE FUNCTION {WORDS}(t text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN \
         btrim(CASE WHEN octet_length(t)=char_length(t) \
         THEN regexp_replace(lower(t COLLATE \"C\"),'[^a-z0-9]+',' ','g') \
         ELSE regexp_replace(translate(t,'{from}','{to}') COLLATE \"C\",'[{separators}]+',' ','g') \
         END); \
         CREATE FUNCTION {LEXEMES}(field text,most integer,t text) RETURNS tsvector \
         LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN \
         (SELECT CASE WHEN octet_length(words)>most THEN array_to_tsvector(ARRAY[field||':']) \
         ELSE {lexemes} END FROM (SELECT {WORDS}(coalesce(t,'')) AS words OFFSET 0) w)"
    )
}

/// The numbers and positions of the fields that a search is in.
fn searched(table: &Table, field: Option<usize>) -> Vec<(usize, usize)> {
    let fields = table.search_fields().enumerate();
    fields.filter(|(_, position)| field.is_none_or(|field| field == *position)).collect()
}

/// True if the column does not tell whether a term is there.
fn is_beyond_column(term: &SearchTerm) -> bool {
    term.words.len() != 1 || term.words[0].chars().count() >= WORD_CHARS_MAX
}

fn terms(search: &Search) -> &[SearchTerm] {
    search.terms().unwrap_or_default()
}

/// Adds a search to a shape.
pub(crate) fn shape(shape: &mut Vec<u8>, field: Option<usize>, search: &Search) {
    let terms = terms(search);
    let field = field.map_or(u8::MAX, |field| field as u8);
    shape.extend([10, field, terms.len() as u8]);
    shape.push(u8::from(terms.iter().any(is_beyond_column)));
    shape.extend(terms.iter().map(|term| u8::from(term.excluded)));
}

/// Writes a search as SQL.
pub(crate) fn sql(out: &mut Sql, table: &Table, field: Option<usize>, search: &Search) {
    let (Some(column), terms) = (column_name(table), terms(search)) else {
        out.push("false");
        return;
    };
    let column = quoted(&column);
    let fields = searched(table, field);
    out.push(&format!("({column} @@ ")).parameter(Form::Text.oid()).push("::tsquery AND (");
    if !terms.iter().any(is_beyond_column) {
        let left_out: Vec<String> =
            fields.iter().map(|(number, _)| format!("''{number}:''")).collect();
        out.push(&format!("NOT {column} @@ '{}'::tsquery OR ", left_out.join("|")));
    }
    for (at, term) in terms.iter().enumerate() {
        out.push(if at == 0 { "" } else { " AND " });
        out.push(if term.excluded { "NOT (" } else { "(" });
        out.types.push(Form::Text.oid());
        let needle = out.types.len();
        for (at, (_, position)) in fields.iter().enumerate() {
            let text = quoted(&table.fields()[*position].name);
            out.push(if at == 0 { "" } else { " OR " });
            out.push(&format!("strpos(' '||{WORDS}(coalesce({text},''))||' ',${needle})>0"));
        }
        out.push(")");
    }
    out.push("))");
}

/// Appends a search's values; gives how many.
pub(crate) fn put(out: &mut Vec<u8>, table: &Table, field: Option<usize>, search: &Search) -> u16 {
    let terms = terms(search);
    let mut put_text = |text: &str| {
        // A text always is one of PostgreSQL's.
        let _ = value::put(out, Form::Text, marmota_model::ValueRef::Text(text));
    };
    put_text(&query(&searched(table, field), terms));
    for term in terms {
        let end = if term.prefix { "" } else { " " };
        put_text(&format!(" {}{end}", term.words.join(" ")));
    }
    1 + terms.len() as u16
}

/// What the column is asked: for no less than the rows that are sought.
fn query(fields: &[(usize, usize)], terms: &[SearchTerm]) -> String {
    let asked = terms.iter().filter(|term| !term.excluded || !is_beyond_column(term));
    let all: Vec<String> = asked
        .map(|term| {
            let in_fields: Vec<String> =
                fields.iter().map(|(number, _)| within(*number, term)).collect();
            format!("{}({})", if term.excluded { "!" } else { "" }, in_fields.join("|"))
        })
        .collect();
    let mut query = format!("({})", all.join("&"));
    for (number, _) in fields {
        let _ = write!(query, "|'{number}:'");
    }
    query
}

/// A term as what is asked of one field.
fn within(field: usize, term: &SearchTerm) -> String {
    let last = term.words.len() - 1;
    let words: Vec<String> = term
        .words
        .iter()
        .enumerate()
        .map(|(place, word)| {
            let word: String = word.chars().take(WORD_CHARS_MAX).collect();
            let word = word.replace('\\', "\\\\").replace('\'', "''");
            format!("'{field}:{word}'{}", if term.prefix && place == last { ":*" } else { "" })
        })
        .collect();
    format!("({})", words.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_column_is_asked_for_no_less_than_is_sought() {
        let search = Search::new("alpine -dog \"the mea*\" -\"a b\"");
        assert_eq!(
            query(&[(0, 3), (1, 5)], terms(&search)),
            "((('0:alpine')|('1:alpine'))&!(('0:dog')|('1:dog'))\
             &(('0:the'&'0:mea':*)|('1:the'&'1:mea':*)))|'0:'|'1:'"
        );
    }
}
