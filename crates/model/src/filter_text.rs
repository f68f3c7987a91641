//! The text form of filters and orders, as used in URLs.
//!
//! ```text
//! filter  = and { ("or" | "||") and }
//! and     = not { ("and" | "&&") not }
//! not     = ("not" | "!") not | "(" filter ")" | field test
//!         | "@" string                     any field has these words
//! field   = name | name path                a path inside a JSON field
//! path    = ("." (name | string) | "[" number "]") …
//! test    = ("=" | "!=" | "<" | "<=" | ">" | ">=") value
//!         | "~" string                     has the text in it
//!         | "^" string                     begins with the text
//!         | "@" string                     has these words
//!         | ["not"] "in" "(" value {"," value} ")"
//!         | "exists"                       behind a path: it is there, be it null
//! value   = number | 'string' | "string" | true | false | null
//! order   = ["-"] field {"," ["-"] field}
//! ```
//! A quote in a string is doubled or escaped with a backslash.
//!
//! A rule is a filter whose values may be those of the caller:
//! ```text
//! value   = … | "@user.id" | "@user.name"
//! in      = … "in" "@user.groups"
//! ```

use crate::json::{JsonCondition, JsonPath, JsonTest};
use crate::rule::violation;
use crate::{
    Comparison, Error, ErrorKind, FILTER_DEPTH_MAX, Filter, FilterExpr, Kind, Order, Place, Result,
    Scratch, Search, SortKey, Table, Value, ValueRef,
};

/// Parses a filter on the rows of `table`.
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
    let expr = Parser { table, text, at: 0, caller: None }.whole()?;
    Ok(Filter::of_checked(table, expr))
}

/// The authenticated caller, for the values of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The value of `@user.id` as text; compared as the field's kind.
    pub id: String,
    /// `@user.name`.
    pub name: String,
    /// `@user.groups`, by name.
    pub groups: Vec<String>,
}

/// Returns true if a rule uses values of the caller.
#[must_use]
pub fn asks_for_caller(table: &Table, text: &str) -> bool {
    parse_filter(table, text).is_err() && parse_rule(table, text, &Caller::sample()).is_ok()
}

/// Parses a rule on the rows of `table`: a filter that may compare with `@user.id`, `@user.name`
/// and, with `in`, `@user.groups`.
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
    let expr = Parser { table, text, at: 0, caller: Some(caller) }.whole()?;
    Ok(Filter::of_checked(table, expr))
}

impl Caller {
    /// Returns a caller with which every rule can be parsed, to check its syntax.
    #[must_use]
    pub fn sample() -> Self {
        Self { id: "1".to_owned(), name: "x".to_owned(), groups: Vec::new() }
    }
}

/// Parses an order by fields of `table`.
///
/// # Errors
/// [`ErrorKind::Invalid`] with the name that is not a field.
pub fn parse_order(table: &Table, text: &str) -> Result<Vec<Order>> {
    let mut order: Vec<SortKey> = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
        let (name, descending) = match part.strip_prefix('-') {
            Some(name) => (name, true),
            None => (part.strip_prefix('+').unwrap_or(part), false),
        };
        let field = table.position(name)?;
        if table.fields()[field].kind == Kind::Blob {
            let message = "a blob gives no order; sort by another field";
            return Err(Error::invalid(vec![violation(
                &table.fields()[field],
                ValueRef::Null,
                "order",
                message,
            )]));
        }
        if order.iter().any(|by| by.field == field) {
            let message = format!("`order` names `{name}` twice");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        order.push(SortKey { field, descending });
    }
    Ok(order.into_iter().map(|key| Order::of_checked(table, key)).collect())
}

#[derive(Clone, Debug, PartialEq)]
enum Token<'a> {
    End,
    Word(&'a str),
    Number(&'a str),
    Text(String),
    /// A value of the caller.
    OfCaller(String),
    Symbol(&'static str),
}

/// Longer symbols come first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 15] =
    ["&&", "||", "!=", "<=", ">=", "==", "=", "<", ">", "~", "^", "@", "(", ")", ","];

struct Parser<'a, 't> {
    table: &'t Table,
    text: &'a str,
    at: usize,
    /// `None` if values of a caller are not allowed.
    caller: Option<&'t Caller>,
}

impl<'a> Parser<'a, '_> {
    fn whole(&mut self) -> Result<FilterExpr> {
        let filter = self.either(0)?;
        match self.token()? {
            Token::End => {
                filter.check(self.table)?;
                Ok(filter)
            }
            other => Err(self.expected("the end, `and` or `or`", &other)),
        }
    }

    fn either(&mut self, depth: usize) -> Result<FilterExpr> {
        let mut filter = self.both(depth)?;
        while self.take_word("or") || self.take("||") {
            filter = filter.or(self.both(depth)?);
        }
        Ok(filter)
    }

    fn both(&mut self, depth: usize) -> Result<FilterExpr> {
        let mut filter = self.single(depth)?;
        while self.take_word("and") || self.take("&&") {
            filter = filter.and(self.single(depth)?);
        }
        Ok(filter)
    }

    fn single(&mut self, depth: usize) -> Result<FilterExpr> {
        if depth > FILTER_DEPTH_MAX {
            return Err(self.error("nests too deep"));
        }
        if self.take_word("not") || (!self.rest().starts_with("!=") && self.take("!")) {
            return Ok(FilterExpr::Not(Box::new(self.single(depth + 1)?)));
        }
        if self.take("(") {
            let filter = self.either(depth + 1)?;
            self.expect(")")?;
            return Ok(filter);
        }
        match self.token()? {
            Token::Symbol("@") => self.search(None),
            Token::Word(name) => {
                let field = self.table.position(name)?;
                let rest = self.rest();
                if rest.starts_with(['.', '[']) {
                    return self.inside(field, rest);
                }
                self.test(field)
            }
            other => Err(self.expected("a field", &other)),
        }
    }

    fn test(&mut self, field: usize) -> Result<FilterExpr> {
        let token = self.token()?;
        let comparison = match &token {
            Token::Symbol("~") => return self.matches(field, Place::Anywhere),
            Token::Symbol("^") => return self.matches(field, Place::Start),
            Token::Symbol("@") => return self.search(Some(field)),
            Token::Word(word) if word.eq_ignore_ascii_case("in") => return self.list(field),
            Token::Word(word) if word.eq_ignore_ascii_case("not") && self.take_word("in") => {
                return Ok(FilterExpr::Not(Box::new(self.list(field)?)));
            }
            token => comparison(token)
                .ok_or_else(|| self.expected("one of = != < <= > >= ~ ^ @ in", token))?,
        };
        let value = self.value(field)?;
        match (comparison, value) {
            (Comparison::Equal, Value::Null) => Ok(FilterExpr::IsNull { field }),
            (Comparison::NotEqual, Value::Null) => {
                Ok(FilterExpr::Not(Box::new(FilterExpr::IsNull { field })))
            }
            (_, Value::Null) => Err(self.error("null has no order; compare it by = or !=")),
            (comparison, value) => Ok(FilterExpr::Compare { field, comparison, value }),
        }
    }

    fn matches(&mut self, field: usize, place: Place) -> Result<FilterExpr> {
        if !matches!(self.table.fields()[field].kind, Kind::Text { .. }) {
            return Err(self.error("~ and ^ are for text fields"));
        }
        match self.token()? {
            Token::Text(text) => Ok(FilterExpr::Match { field, place, text }),
            other => Err(self.expected("a quoted text", &other)),
        }
    }

    fn search(&mut self, field: Option<usize>) -> Result<FilterExpr> {
        match self.token()? {
            Token::Text(text) => {
                Ok(FilterExpr::Search { field, search: Box::new(Search::new(&text)) })
            }
            other => Err(self.expected("a quoted text", &other)),
        }
    }

    fn list(&mut self, field: usize) -> Result<FilterExpr> {
        let values = match self.groups() {
            Some(groups) => {
                let value = |group: &String| self.value_of(field, &Token::OfCaller(group.clone()));
                groups.iter().map(value).collect::<Result<_>>()?
            }
            None => self.values(|parser| parser.value(field))?,
        };
        Ok(FilterExpr::In { field, values })
    }

    /// Returns the caller's groups if the next token names them.
    fn groups(&mut self) -> Option<Vec<String>> {
        let caller = self.caller?;
        self.take("@user.groups").then(|| caller.groups.clone())
    }

    /// Returns the next token, or the caller's value for which it stands.
    fn value_token(&mut self) -> Result<Token<'a>> {
        if let Some(caller) = self.caller {
            for (name, value) in [("@user.id", &caller.id), ("@user.name", &caller.name)] {
                if self.take(name) {
                    return Ok(Token::OfCaller(value.clone()));
                }
            }
        }
        self.token()
    }

    fn values(&mut self, mut value: impl FnMut(&mut Self) -> Result<Value>) -> Result<Vec<Value>> {
        self.expect("(")?;
        let mut values = Vec::new();
        loop {
            match value(self)? {
                Value::Null => return Err(self.error("null is in no list; use `= null`")),
                value => values.push(value),
            }
            if !self.take(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(values)
    }

    /// Parses a test of the value at a path inside a JSON field.
    fn inside(&mut self, field: usize, path: &str) -> Result<FilterExpr> {
        let what = &self.table.fields()[field];
        if what.kind != Kind::Json {
            let kind = what.kind.name();
            let message = format!("is a {kind} field; only JSON fields have paths");
            return Err(Error::invalid(vec![violation(what, ValueRef::Null, "path", message)]));
        }
        let (path, taken) = JsonPath::at_start(path)
            .map_err(|why| self.error(&format!("has a path of `{}` that {why}", what.name)))?;
        self.at += taken;
        let (test, is_not) = self.inside_test()?;
        let filter =
            FilterExpr::Inside { field, condition: Box::new(JsonCondition { path, test }) };
        Ok(if is_not { FilterExpr::Not(Box::new(filter)) } else { filter })
    }

    /// Parses a test of a JSON value. Also returns true if the test is negated.
    fn inside_test(&mut self) -> Result<(JsonTest, bool)> {
        let token = self.token()?;
        let comparison = match &token {
            Token::Symbol("~") => return self.inside_match(Place::Anywhere),
            Token::Symbol("^") => return self.inside_match(Place::Start),
            Token::Word(word) if word.eq_ignore_ascii_case("exists") => {
                return Ok((JsonTest::Exists, false));
            }
            Token::Word(word) if word.eq_ignore_ascii_case("in") => {
                return Ok((self.inside_list()?, false));
            }
            Token::Word(word) if word.eq_ignore_ascii_case("not") && self.take_word("in") => {
                return Ok((self.inside_list()?, true));
            }
            token => comparison(token)
                .ok_or_else(|| self.expected("one of = != < <= > >= ~ ^ in exists", token))?,
        };
        match (comparison, self.inside_value()?) {
            (Comparison::Equal, Value::Null) => Ok((JsonTest::IsNull, false)),
            (Comparison::NotEqual, Value::Null) => Ok((JsonTest::IsNull, true)),
            (_, Value::Null) => Err(self.error("null has no order; compare it by = or !=")),
            (comparison, value) => Ok((JsonTest::Compare(comparison, value), false)),
        }
    }

    fn inside_match(&mut self, place: Place) -> Result<(JsonTest, bool)> {
        match self.token()? {
            Token::Text(text) => Ok((JsonTest::Match(place, text), false)),
            other => Err(self.expected("a quoted text", &other)),
        }
    }

    fn inside_list(&mut self) -> Result<JsonTest> {
        match self.groups() {
            Some(groups) => Ok(JsonTest::In(groups.into_iter().map(Value::Text).collect())),
            None => self.values(Self::inside_value).map(JsonTest::In),
        }
    }

    fn inside_value(&mut self) -> Result<Value> {
        let token = self.value_token()?;
        let value = match &token {
            Token::Word("null") => Some(Value::Null),
            Token::Word("true") => Some(Value::Bool(true)),
            Token::Word("false") => Some(Value::Bool(false)),
            Token::Text(text) | Token::OfCaller(text) => Some(Value::Text(text.clone())),
            Token::Number(number) => match (number.parse(), number.parse::<f64>()) {
                (Ok(whole), _) => Some(Value::Int(whole)),
                (_, Ok(number)) if number.is_finite() => Some(Value::Float(number)),
                _ => None,
            },
            _ => None,
        };
        value.ok_or_else(|| self.expected("a number, a quoted text, true, false or null", &token))
    }

    fn value(&mut self, position: usize) -> Result<Value> {
        let token = self.value_token()?;
        self.value_of(position, &token)
    }

    fn value_of(&self, position: usize, token: &Token<'a>) -> Result<Value> {
        let field = &self.table.fields()[position];
        let text = match token {
            Token::Word("null") => return Ok(Value::Null),
            Token::Word(word @ ("true" | "false")) if field.kind == Kind::Bool => word,
            Token::Number(number) if !matches!(field.kind, Kind::Text { .. }) => number,
            Token::Text(text) | Token::OfCaller(text) if field.kind == Kind::Json => {
                let mut json = Vec::new();
                crate::json::write_string(&mut json, text);
                return Ok(Value::Json(String::from_utf8_lossy(&json).into_owned()));
            }
            Token::Text(text) if is_bare_kind(&field.kind) => {
                let message = format!("{} is written without quotes", field.kind.name());
                let value = ValueRef::Text(text);
                return Err(Error::invalid(vec![violation(field, value, "type", message)]));
            }
            Token::Text(text) | Token::OfCaller(text) => text.as_str(),
            Token::Word(word) | Token::Number(word) => word,
            Token::End | Token::Symbol(_) => return Err(self.expected("a value", token)),
        };
        // A bare word or number is not a text: `name = 7` is more often a mistake.
        let bare = matches!(token, Token::Word(_) | Token::Number(_));
        let read = match field.kind {
            Kind::Text { .. } if bare => Err("a quoted text"),
            _ => crate::text::parse(&field.kind, text),
        };
        read.map(|value| value.to_value()).map_err(|what| {
            let scratch = Scratch::new();
            let value = ValueRef::Text(scratch.text(text));
            let message = format!("the filter compares it with what is not {what}");
            Error::invalid(vec![violation(field, value, "type", message)])
        })
    }

    fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = self.rest().starts_with(symbol);
        if found {
            self.at += symbol.len();
        }
        found
    }

    fn take_word(&mut self, word: &str) -> bool {
        let rest = self.rest();
        let found = rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
            && !rest[word.len()..].starts_with(is_word);
        if found {
            self.at += word.len();
        }
        found
    }

    fn expect(&mut self, symbol: &'static str) -> Result<()> {
        if self.take(symbol) {
            return Ok(());
        }
        let found = self.token()?;
        Err(self.expected(symbol, &found))
    }

    fn token(&mut self) -> Result<Token<'a>> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(Token::End) };
        if first == '\'' || first == '"' {
            let (text, taken) = crate::text::unquote(rest)
                .ok_or_else(|| self.error("has a text without its closing quote"))?;
            self.at += taken;
            return Ok(Token::Text(text));
        }
        if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            self.at += symbol.len();
            return Ok(Token::Symbol(symbol));
        }
        let number = first.is_ascii_digit() || first == '-' || first == '+';
        let part = |c: char| is_word(c) || (number && matches!(c, '.' | '-' | '+' | ':'));
        let length = rest.find(|c| !part(c)).unwrap_or(rest.len());
        if length == 0 {
            return Err(self.error(&format!("does not know {first:?}")));
        }
        self.at += length;
        let word = &rest[..length];
        Ok(if number { Token::Number(word) } else { Token::Word(word) })
    }

    #[cold]
    fn expected(&self, what: &str, found: &Token<'_>) -> Error {
        let found = match found {
            Token::End => "the end".to_owned(),
            Token::Word(text) | Token::Number(text) => format!("`{text}`"),
            Token::Text(text) | Token::OfCaller(text) => format!("{text:?}"),
            Token::Symbol(symbol) => format!("`{symbol}`"),
        };
        self.error(&format!("has {found} where {what} should be"))
    }

    #[cold]
    fn error(&self, what: &str) -> Error {
        let at = self.text[..self.at].chars().count();
        let text = crate::text::excerpt(self.text);
        let message = format!("the filter {text:?} {what}, before character {}", at + 1);
        Error::new(ErrorKind::Invalid, message)
    }
}

fn comparison(token: &Token<'_>) -> Option<Comparison> {
    Some(match token {
        Token::Symbol("=") => Comparison::Equal,
        Token::Symbol("!=") => Comparison::NotEqual,
        Token::Symbol("<") => Comparison::Less,
        Token::Symbol("<=") => Comparison::LessOrEqual,
        Token::Symbol(">") => Comparison::Greater,
        Token::Symbol(">=") => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

/// Returns true for kinds whose values are numbers or booleans in JSON.
const fn is_bare_kind(kind: &Kind) -> bool {
    use crate::KeyKind;
    matches!(
        kind,
        Kind::Bool
            | Kind::Int { .. }
            | Kind::Float
            | Kind::Currency
            | Kind::Reference { key: KeyKind::Auto, .. }
    )
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Field, Role, Schema};
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
            ("id == 1", "has `==` where one of = != <"),
            ("id > '18'", "without quotes"),
            ("died in (1, '2')", "without quotes"),
            ("id = 'x'", "field `id`"),
            ("nme = 'x'", "field `nme`"),
            ("name = x", "quoted text"),
            ("name = 'x", "closing quote"),
            ("(id = 1", "where ) should"),
            ("id < null", "null has no order"),
            ("id ~ '1'", "text fields"),
            ("born = '2026-02-30'", "a date such as"),
            ("id.x = 1", "only JSON fields"),
            ("options. = 1", "member's name"),
            ("options[x] = 1", "counted from 0"),
            ("options.a = x", "a number, a quoted text"),
            ("options.a < null", "null has no order"),
            ("options.a in (null)", "null is in no list"),
            ("options.a", "exists"),
            ("id @ 'x'", "cannot be searched"),
            ("name @ x", "a quoted text"),
            ("@ '-x'", "no word to look for"),
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
