//! Search in a table's searchable fields: a generated column of words with an index, and the
//! conversion of searches to conditions on it.
//!
//! The words are those of `marmota_model::Words`, made by SQL functions, so that rows of other
//! programs are found too. The column has each word prefixed with the number of its field. If that
//! is not sufficient (a phrase, a long word, a text so long that its words are omitted), the texts
//! are checked.
//!
//! In a table with a language, words are stems by PostgreSQL's dictionary of Porter's algorithm.

use std::fmt::Write as _;

use marmota_model::{Search, SearchLanguage, SearchTerm, Table, Words};

use crate::statement::sql_words::{bounded, quoted};
use crate::statement::sql_writer::Sql;
use crate::wire::value::{self, PgType};

/// The name of PostgreSQL's dictionary of English stems.
const ENGLISH_STEMS: &str = "marmota_english_stem_1";

/// Returns the function that converts a text to its words, with a space between them.
const fn words_function(language: Option<SearchLanguage>) -> &'static str {
    match language {
        None => "marmota_words_1",
        Some(SearchLanguage::English) => "marmota_words_english_1",
    }
}

/// Returns the function that converts a field's text to the words of the column.
const fn lexemes_function(language: Option<SearchLanguage>) -> &'static str {
    match language {
        None => "marmota_search_1",
        Some(SearchLanguage::English) => "marmota_search_english_1",
    }
}

/// The most characters of a word in the column. PostgreSQL's limit is 2,046 bytes.
const WORD_CHARS_MAX: usize = 500;
/// The most bytes of a row's words in the column; PostgreSQL's limit is a megabyte, including the
/// field prefixes.
const ROW_BYTES_MAX: usize = 200_000;

/// The prefix of the names of such columns. The colon prevents conflicts with fields.
pub(crate) const COLUMN_START: &str = "search:";

/// Returns the search column of a table, or `None` if it has no searchable field.
pub(crate) fn column_name(table: &Table) -> Option<String> {
    let names: Vec<&str> =
        table.search_fields().map(|field| &*table.fields()[field].name).collect();
    let language = table.schema().search_language;
    let language = language.map(|language| format!("{}:", language.name())).unwrap_or_default();
    let name = || bounded(&format!("{COLUMN_START}{language}{}", names.join(",")));
    (!names.is_empty()).then(name)
}

/// Returns the SQL that adds the column and its index.
pub(crate) fn add_column(table: &Table, column: &str) -> String {
    let (on, column) = (quoted(table.name()), quoted(column));
    let most = ROW_BYTES_MAX / table.search_fields().count().max(1);
    let lexemes = lexemes_function(table.schema().search_language);
    let words: Vec<String> = table
        .search_fields()
        .enumerate()
        .map(|(number, field)| {
            format!("{lexemes}('{number}',{most},{})", quoted(&table.fields()[field].name))
        })
        .collect();
    format!(
        "ALTER TABLE {on} ADD COLUMN {column} tsvector GENERATED ALWAYS AS ({}) STORED; \
         CREATE INDEX ON {on} USING gin ({column})",
        words.join("||")
    )
}

/// Returns SQL that is true if the functions exist.
pub(crate) fn has_functions(language: Option<SearchLanguage>) -> String {
    format!("SELECT (to_regproc('{}') IS NOT NULL)::int", lexemes_function(language))
}

/// Returns the SQL that creates the functions of a language, after those of words as written.
///
/// `marmota_model` has the variant of SQLite, which differs in two suffixes: `possibly` has the stem
/// of `possible`, and `apology` that of `apologize`. Words with other letters than those of ASCII
/// are kept, since PostgreSQL would change their case by other tables.
pub(crate) fn make_functions_of(language: SearchLanguage) -> String {
    let SearchLanguage::English = language;
    let (words, stems) = (words_function(None), words_function(Some(language)));
    // A consonant after a vowel, as `y` is one after a consonant, and then one of the suffixes.
    let start = "((?:[aeiou]|[^aeiou ]y)[^aeiou ][^ ]*)";
    let end = "(?:y|i|ies)(?![^ ])";
    format!(
        "CREATE TEXT SEARCH DICTIONARY {ENGLISH_STEMS} \
         (TEMPLATE=pg_catalog.snowball,LANGUAGE=porter); \
         CREATE FUNCTION {stems}(t text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN \
         array_to_string(ARRAY(SELECT CASE WHEN char_length(word)>2 AND octet_length(word)<65 \
         AND octet_length(word)=char_length(word) \
         THEN (ts_lexize('{ENGLISH_STEMS}',word))[1] ELSE word END \
         FROM unnest(string_to_array(nullif(regexp_replace(regexp_replace({words}(t) COLLATE \"C\",\
         '{start}bl{end}','\\1ble','g'),'{start}log{end}','\\1log','g'),''),' ')) \
         WITH ORDINALITY AS one(word,place) ORDER BY place),' '); {}",
        lexemes_sql(Some(language))
    )
}

/// Returns the SQL that creates the functions for words as written.
pub(crate) fn make_functions() -> String {
    let mut separators = String::new();
    for range in Words::separators() {
        let _ = write!(separators, "\\U{:08x}-\\U{:08x}", range.start(), range.end());
    }
    // `translate` searches its list for each character, so the most frequent ones come first. The
    // characters to be removed follow those to be replaced.
    let plain = "abcdefghijklmnopqrstuvwxyz 0123456789";
    let (mut from, mut to) = (plain.to_owned(), plain.to_owned());
    for (letter, folded) in Words::folds() {
        from.push(letter);
        to.push(folded);
    }
    from.extend(Words::marks().flatten().filter_map(char::from_u32));
    let (words, lexemes) = (words_function(None), lexemes_sql(None));
    format!(
        "CREATE FUNCTION {words}(t text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN \
         btrim(CASE WHEN octet_length(t)=char_length(t) \
         THEN regexp_replace(lower(t COLLATE \"C\"),'[^a-z0-9]+',' ','g') \
         ELSE regexp_replace(translate(t,'{from}','{to}') COLLATE \"C\",'[{separators}]+',' ','g') \
         END); {lexemes}"
    )
}

fn lexemes_sql(language: Option<SearchLanguage>) -> String {
    let (function, words_of) = (lexemes_function(language), words_function(language));
    let lexemes = format!(
        "array_to_tsvector(ARRAY(SELECT field||':'||left(word,{WORD_CHARS_MAX}) \
         FROM unnest(string_to_array(nullif(words,''),' ')) word))"
    );
    format!(
        "CREATE FUNCTION {function}(field text,most integer,t text) RETURNS tsvector \
         LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN \
         (SELECT CASE WHEN octet_length(words)>most THEN array_to_tsvector(ARRAY[field||':']) \
         ELSE {lexemes} END FROM (SELECT {words_of}(coalesce(t,'')) AS words OFFSET 0) w)"
    )
}

/// Returns the numbers and positions of the fields that are searched.
fn searched(table: &Table, field: Option<usize>) -> Vec<(usize, usize)> {
    let fields = table.search_fields().enumerate();
    fields.filter(|(_, position)| field.is_none_or(|field| field == *position)).collect()
}

/// Returns true if the column is not sufficient to check a term.
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
    let words = words_function(table.schema().search_language);
    out.push(&format!("({column} @@ ")).parameter(PgType::Text.oid()).push("::tsquery AND (");
    if !terms.iter().any(is_beyond_column) {
        let left_out: Vec<String> =
            fields.iter().map(|(number, _)| format!("''{number}:''")).collect();
        out.push(&format!("NOT {column} @@ '{}'::tsquery OR ", left_out.join("|")));
    }
    for (at, term) in terms.iter().enumerate() {
        out.push(if at == 0 { "" } else { " AND " });
        out.push(if term.excluded { "NOT (" } else { "(" });
        out.types.push(PgType::Text.oid());
        let needle = out.types.len();
        for (at, (_, position)) in fields.iter().enumerate() {
            let text = quoted(&table.fields()[*position].name);
            out.push(if at == 0 { "" } else { " OR " });
            out.push(&format!("strpos(' '||{words}(coalesce({text},''))||' ',${needle})>0"));
        }
        out.push(")");
    }
    out.push("))");
}

/// Appends a search's values. Returns their number.
pub(crate) fn put(out: &mut Vec<u8>, table: &Table, field: Option<usize>, search: &Search) -> u16 {
    let (terms, language) = (terms(search), table.schema().search_language);
    let mut put_text = |text: &str| {
        // Every text is valid for PostgreSQL.
        let _ = value::put(out, PgType::Text, marmota_model::ValueRef::Text(text));
    };
    put_text(&query(&searched(table, field), terms, language));
    for term in terms {
        let end = if term.prefix { "" } else { " " };
        put_text(&format!(" {}{end}", stored_words(term, language).join(" ")));
    }
    1 + terms.len() as u16
}

/// Returns the words of a term as the functions make them.
fn stored_words(term: &SearchTerm, language: Option<SearchLanguage>) -> Vec<&str> {
    let stems = term.words_in(language).iter();
    let pairs = term.words.iter().zip(stems);
    pairs.map(|(word, stem)| if word.is_ascii() { &**stem } else { &**word }).collect()
}

/// Returns the query for the column. It selects at least the matching rows.
fn query(
    fields: &[(usize, usize)],
    terms: &[SearchTerm],
    language: Option<SearchLanguage>,
) -> String {
    let asked = terms.iter().filter(|term| !term.excluded || !is_beyond_column(term));
    let all: Vec<String> = asked
        .map(|term| {
            let in_fields: Vec<String> =
                fields.iter().map(|(number, _)| within(*number, term, language)).collect();
            format!("{}({})", if term.excluded { "!" } else { "" }, in_fields.join("|"))
        })
        .collect();
    let mut query = format!("({})", all.join("&"));
    for (number, _) in fields {
        let _ = write!(query, "|'{number}:'");
    }
    query
}

/// Returns a term as a query for one field.
fn within(field: usize, term: &SearchTerm, language: Option<SearchLanguage>) -> String {
    let last = term.words.len() - 1;
    let words: Vec<String> = stored_words(term, language)
        .into_iter()
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
            query(&[(0, 3), (1, 5)], terms(&search), None),
            "((('0:alpine')|('1:alpine'))&!(('0:dog')|('1:dog'))\
             &(('0:the'&'0:mea':*)|('1:the'&'1:mea':*)))|'0:'|'1:'"
        );
    }
}
