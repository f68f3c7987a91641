//! The text form of filters and orders, as used in URLs, rights and on the command line.
//!
//! ```text
//! filter  = and { ("or" | "||") and }
//! and     = not { ("and" | "&&") not }
//! not     = ("not" | "!") not | "(" filter ")" | field test | "@" string | related | place
//! field   = { step-to-one "." } name [ path ]
//! related = ("any" | "none") "(" rows ")" | "count" "(" rows ")" compare number
//! place   = "near" "(" name "," name "," number "," number "," number ")"
//!         | "within" "(" name "," name "," number "," number "," number "," number ")"
//! rows    = relation [ "," filter ]
//! relation = name [ ":" name ] { "." name [ ":" name ] }
//! path    = step { step }
//! step    = "." (name | string) | "[" number "]"
//! test    = ("=" | "!=" | "<" | "<=" | ">" | ">=") value
//!         | ("~" | "^" | "@") string
//!         | ["not"] "in" ( "(" value {"," value} ")" | "@user.groups" )
//!         | "exists"
//! value   = number | string | word | "true" | "false" | "null" | "@user.id" | "@user.name"
//! order   = by {"," by}
//! by      = ["-" | "+"] { reference "." } name
//! ```
//!
//! The tables of [`parse_filter`] explain each form with an example.

mod geo;
mod inside;
mod parser;
mod relation;
mod value;

use parser::Parser;

use super::related_field::parse_path;
use crate::lexer::Caller;
use crate::schema::violation;
use crate::value::excerpt::excerpt;
use crate::{Error, ErrorKind, Field, Filter, Kind, Order, Result, SortKey, Table, ValueRef};

/// Parses a filter on the rows of `table`.
///
/// # Conditions
/// | condition | selects rows where | example |
/// |---|---|---|
/// | `field = value` | the field is the value | `name = 'Curie'` |
/// | `field != value` | the field has another value | `state != 'done'` |
/// | `<` `<=` `>` `>=` | the field is less or more | `born >= 1815-12-10` |
/// | `field = null`, `field != null` | the field is NULL, or is not | `died = null` |
/// | `field in (value, …)` | the field is one of the values | `id in (1, 2, 3)` |
/// | `field not in (value, …)` | the field is another value | `state not in ('new', 'open')` |
/// | `field ~ 'text'` | the text contains it, in any case of A to Z | `name ~ 'cur'` |
/// | `field ^ 'text'` | the text starts with it, in any case of A to Z | `name ^ 'mar'` |
/// | `field @ 'words'` | the field has the words ([`Search`](crate::Search)) | `body @ 'marmot -dog'` |
/// | `@ 'words'` | the searchable fields, taken together, have the words | `@ 'alpine mead*'` |
/// | `field.path …` | the value at a path in a JSON field | `options.tags[0] = 'red'` |
/// | `near(lat, lon, latitude, longitude, radius)` | the point of two float fields is in a circle; the radius is in metres | `near(lat, lon, 48.1, 11.5, 5000)` |
/// | `within(lat, lon, south, west, north, east)` | the point is in a box | `within(lat, lon, 43.5, 5, 48.5, 16.5)` |
/// | `field.path exists` | the path exists, also if its value is null | `options.'unit price' exists` |
///
/// # Combinations
/// | | meaning | binds |
/// |---|---|---|
/// | `not a`, `!a` | a is false | closest |
/// | `a and b`, `a && b` | both are true | |
/// | `a or b`, `a \|\| b` | at least one is true | loosest |
/// | `( … )` | first what is inside | |
///
/// A comparison with NULL is neither true nor false: `died > 1900` and `not died > 1900` both leave
/// out rows whose `died` is NULL.
///
/// # Values
/// | kind | written | example |
/// |---|---|---|
/// | boolean, integer, float, currency | without quotes | `true`, `-7`, `2.5`, `12.50` |
/// | text, enum, UUID | in single or double quotes | `'O''Brien'`, `"O'Brien"` |
/// | date, time, timestamp | with or without quotes | `2026-11-21`, `'17:05:00'` |
/// | reference | as the key of the other table | `author = 7` |
///
/// A quote in a text is doubled or escaped with a backslash. Names of fields are case-sensitive; the
/// words `and`, `or`, `not`, `in` and `exists` are not.
///
/// # Limits
/// [`FILTER_DEPTH_MAX`](crate::FILTER_DEPTH_MAX), [`FILTER_TERMS_MAX`](crate::FILTER_TERMS_MAX) and
/// [`FILTER_BYTES_MAX`](crate::FILTER_BYTES_MAX).
///
/// # Errors
/// [`ErrorKind::Invalid`] with the position of the syntax error, or with the field and the value
/// that do not fit.
///
/// ```
/// # use marmota_model::{parse_filter, Field, FilterExpr, Kind, Role, Schema, Table};
/// # let table = Table::new(Schema::new("person", vec![
/// #     Field::new("id", Kind::I64).role(Role::Key),
/// #     Field::new("last_name", Kind::TEXT),
/// #     Field::new("died", Kind::I64).nullable(true)]))?;
/// let filter = parse_filter(&table, "last_name ~ 'cur' and (died = null or died > 1930)")?;
/// assert!(matches!(filter.into_expr_for(&table)?, FilterExpr::And(_)));
/// assert!(parse_filter(&table, "lastname = 'x'").is_err());
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub fn parse_filter(table: &Table, text: &str) -> Result<Filter> {
    let expr = Parser::new(table, text, None).whole()?;
    Ok(Filter::of_checked(table, expr))
}

/// Returns true if a rule uses values of the caller.
///
/// ```
/// # use marmota_model::{asks_for_caller, Field, Kind, Role, Schema, Table};
/// # let table = Table::new(Schema::new("note", vec![
/// #     Field::new("id", Kind::I64).role(Role::Key),
/// #     Field::new("owner", Kind::I64)]))?;
/// assert!(asks_for_caller(&table, "owner = @user.id"));
/// assert!(!asks_for_caller(&table, "owner = 7"));
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[must_use]
pub fn asks_for_caller(table: &Table, text: &str) -> bool {
    parse_filter(table, text).is_err() && parse_rule(table, text, &Caller::sample()).is_ok()
}

/// Parses a rule on the rows of `table`: a filter that may compare with `@user.id`, `@user.name`
/// and, with `in`, `@user.groups`.
///
/// | value | is | example |
/// |---|---|---|
/// | `@user.id` | the caller's key, as the field's kind | `owner = @user.id` |
/// | `@user.name` | the caller's name | `author = @user.name` |
/// | `in @user.groups` | one of the caller's groups, by name | `team in @user.groups` |
///
/// # Errors
/// As [`parse_filter`].
///
/// ```
/// # use marmota_model::{parse_filter, parse_rule, Caller, Field, Kind, Role, Schema, Table};
/// # let table = Table::new(Schema::new("note", vec![
/// #     Field::new("id", Kind::I64).role(Role::Key),
/// #     Field::new("owner", Kind::I64),
/// #     Field::new("team", Kind::TEXT)]))?;
/// let ann = Caller { id: "7".into(), name: "ann".into(), groups: vec!["staff".into()] };
/// let rule = parse_rule(&table, "owner = @user.id or team in @user.groups", &ann)?;
/// assert_eq!(rule, parse_filter(&table, "owner = 7 or team in ('staff')")?);
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub fn parse_rule(table: &Table, text: &str, caller: &Caller) -> Result<Filter> {
    let expr = Parser::new(table, text, Some(caller)).whole()?;
    Ok(Filter::of_checked(table, expr))
}

/// Parses an order by fields of `table`: names separated by commas, each with `-` in front for
/// descending order. A path such as `assignee.name` leads through references to a field of a
/// related row.
///
/// # Errors
/// [`ErrorKind::Invalid`] with the name that is not a field, is named twice, or is a blob; and for
/// a path through a relation that is not a reference.
///
/// ```
/// # use marmota_model::{parse_order, Field, Kind, Role, Schema, Table};
/// # let table = Table::new(Schema::new("person", vec![
/// #     Field::new("id", Kind::I64).role(Role::Key),
/// #     Field::new("name", Kind::TEXT),
/// #     Field::new("born", Kind::I64)]))?;
/// let order = parse_order(&table, "-born, name")?;
/// assert!(order[0].clone().into_key_for(&table)?.descending);
/// assert!(parse_order(&table, "age").is_err());
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub fn parse_order(table: &Table, text: &str) -> Result<Vec<Order>> {
    let mut order: Vec<Order> = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
        let (name, descending) = match part.strip_prefix('-') {
            Some(name) => (name, true),
            None => (part.strip_prefix('+').unwrap_or(part), false),
        };
        let by = match name.rsplit_once('.') {
            None => {
                let field = table.position(name)?;
                check_sortable(&table.fields()[field])?;
                Order::of_checked(table, SortKey { field, descending })
            }
            Some((path, name)) => {
                let (steps, target, field) = parse_path(table, path, name)?;
                check_sortable(&target.fields()[field])?;
                Order::checked_through(table, Order::through(steps, field, descending))
            }
        };
        if order.iter().any(|other| other.has_same_field(&by)) {
            let message = format!("`order` names `{}` twice", excerpt(name));
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        order.push(by);
    }
    Ok(order)
}

fn check_sortable(field: &Field) -> Result<()> {
    if !matches!(field.kind, Kind::Blob | Kind::Vector { .. }) {
        return Ok(());
    }
    let name = field.kind.name();
    let message = format!("a {name} field cannot be sorted by; sort by another field");
    Err(Error::invalid(vec![violation(field, ValueRef::Null, "order", message)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{JsonCondition, JsonPath, JsonTest};
    use crate::{Comparison, FilterExpr, Place, Role, Schema, Value};
    use proptest::prelude::*;

    fn table() -> Table {
        let fields = vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("name", Kind::TEXT).search(true),
            Field::new("died", Kind::I64).nullable(true),
            Field::new("born", Kind::Date),
            Field::new("options", Kind::Json).nullable(true),
            Field::new("wakes", Kind::Time),
            Field::new("seen", Kind::Timestamp),
        ];
        Table::new(Schema::new("person", fields)).unwrap()
    }

    fn expr(text: &str) -> FilterExpr {
        parse_filter(&table(), text).unwrap().into_expr_for(&table()).unwrap()
    }

    #[test]
    fn and_binds_closer_than_or() {
        let filter = expr("id=1 or id=2 and not died=null");
        let FilterExpr::Or(parts) = filter else { panic!("{filter:?}") };
        assert!(
            matches!(&parts[1], FilterExpr::And(both) if matches!(both[1], FilterExpr::Not(_)))
        );
    }

    #[test]
    fn quotes_are_taken_literally() {
        let filter = expr(r#"name = 'O''Brien \\ "x"'"#);
        let FilterExpr::Compare { value, .. } = filter else { panic!() };
        assert_eq!(value, Value::from(r#"O'Brien \ "x""#));
    }

    #[test]
    fn dates_and_times_need_no_quotes() {
        for (field, text) in [
            ("born", "1815-12-10"),
            ("wakes", "07:30:00"),
            ("wakes", "07:30:00.25"),
            ("seen", "2026-11-23T09:00:00Z"),
            ("seen", "2026-11-23T09:00:00.5+02:00"),
        ] {
            for (before, after) in [("", ""), ("(", ")"), ("not ", " and id = 1")] {
                let bare = expr(&format!("{before}{field} >= {text}{after}"));
                assert_eq!(bare, expr(&format!("{before}{field} >= '{text}'{after}")), "{text}");
            }
        }
        let error = parse_filter(&table(), "born > 1815-13-10").unwrap_err();
        assert_eq!(error.violations()[0].field, "born");
    }

    #[test]
    fn paths_lead_into_json() {
        for (text, path, test) in [
            (
                "options.address.city = 'Bourges'",
                "address.city",
                JsonTest::Compare(Comparison::Equal, Value::from("Bourges")),
            ),
            ("options.tags[0]~'x'", "tags[0]", JsonTest::Match(Place::Anywhere, "x".into())),
            (
                "options.'a b' >= 1.5",
                "'a b'",
                JsonTest::Compare(Comparison::GreaterOrEqual, Value::Float(1.5)),
            ),
            (
                "options[3] in (true, 7, 'x')",
                "[3]",
                JsonTest::In(vec![Value::Bool(true), Value::Int(7), Value::from("x")]),
            ),
            ("options.a=null", "a", JsonTest::IsNull),
            ("options.a exists", "a", JsonTest::Exists),
        ] {
            let condition = Box::new(JsonCondition { path: JsonPath::new(path), test });
            assert_eq!(expr(text), FilterExpr::Inside { field: 4, condition });
        }
        let FilterExpr::And(both) = expr("options.a not in (1) and not options.b exists") else {
            panic!()
        };
        assert!(matches!(both[..], [FilterExpr::Not(_), FilterExpr::Not(_)]));
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, part) in [
            ("", "a field"),
            ("id", "one of ="),
            ("id =", "a value"),
            ("id = 1 id", "the end"),
            ("id == 1", "has `==`, expected one of = != <"),
            ("id > '18'", "without quotes"),
            ("died in (1, '2')", "without quotes"),
            ("id = 'x'", "field `id`"),
            ("nme = 'x'", "field `nme`"),
            ("name = x", "quoted text"),
            ("name = 'x", "closing quote"),
            ("(id = 1", "expected `)`"),
            ("id < null", "null has no order"),
            ("id ~ '1'", "text fields"),
            ("born = '2026-02-30'", "a date such as"),
            ("id.x = 1", "only JSON fields"),
            ("options. = 1", "the name of a member"),
            ("options[x] = 1", "counted from 0"),
            ("options.a = x", "a number, a quoted text"),
            ("options.a < null", "null has no order"),
            ("options.a in (null)", "a list cannot contain null"),
            ("options.a", "exists"),
            ("id @ 'x'", "cannot be searched"),
            ("name @ x", "a quoted text"),
            ("@ '-x'", "no word to search for"),
            ("id = 1; drop table person", "';'"),
        ] {
            let error = parse_filter(&table(), text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
        let deep = format!("{}id=1{}", "(".repeat(5000), ")".repeat(5000));
        assert!(parse_filter(&table(), &deep).is_err());
    }

    #[test]
    fn rules_take_values_of_who_calls() {
        let caller = Caller {
            id: "7".to_owned(),
            name: "o' or 1=1 or name='".to_owned(),
            groups: vec!["a".to_owned(), "b".to_owned()],
        };
        let equal =
            |field, value| FilterExpr::Compare { field, comparison: Comparison::Equal, value };
        for (rule, filter) in [
            ("id = @user.id", equal(0, Value::Int(7))),
            ("name = @user.id", equal(1, Value::from("7"))),
            ("name = @user.name", equal(1, Value::Text(caller.name.clone()))),
            (
                "name in @user.groups",
                FilterExpr::In { field: 1, values: vec![Value::from("a"), Value::from("b")] },
            ),
        ] {
            let read = parse_rule(&table(), rule, &caller).unwrap();
            assert_eq!(read.into_expr_for(&table()).unwrap(), filter);
            assert!(parse_filter(&table(), rule).is_err(), "{rule}");
            assert!(asks_for_caller(&table(), rule), "{rule}");
        }
        let inside = parse_rule(&table(), "options.team in @user.groups", &caller).unwrap();
        assert!(matches!(inside.into_expr_for(&table()), Ok(FilterExpr::Inside { .. })));
        assert!(parse_rule(&table(), "id = @user.shoe", &caller).is_err());
        assert!(!asks_for_caller(&table(), "name @ 'user'"));
    }

    proptest! {
        #[test]
        fn never_panics(text in "[a-z0-9'\"\\\\()!=<>~^&| ,.\\[\\]-]{0,60}") {
            let _ = parse_filter(&table(), &text);
            let _ = parse_order(&table(), &text);
        }

        #[test]
        fn any_text_can_be_quoted(text: String) {
            let quoted = text.replace('\\', "\\\\").replace('\'', "''");
            let filter = expr(&format!("name = '{quoted}'"));
            let wanted = FilterExpr::Compare {
                field: 1, comparison: Comparison::Equal, value: Value::Text(text),
            };
            prop_assert_eq!(filter, wanted);
        }
    }
}
