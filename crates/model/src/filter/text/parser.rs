//! The parser of filters: a function for each rule of the grammar.

use super::geo::Area;
use super::inside::inside;
use super::relation::Function;
use super::value::{value, value_of};
use crate::lexer::{Caller, Cursor, Token, comparison};
use crate::{Comparison, FILTER_DEPTH_MAX, FilterExpr, Kind, Place, Result, Search, Table, Value};

/// A parser of one filter on the rows of a table.
pub(super) struct Parser<'a, 't> {
    pub(super) table: &'t Table,
    pub(super) cursor: Cursor<'a, 't>,
}

impl<'a, 't> Parser<'a, 't> {
    /// Creates a parser. Values of a caller are errors if `caller` is `None`.
    pub(super) const fn new(table: &'t Table, text: &'a str, caller: Option<&'t Caller>) -> Self {
        Self { table, cursor: Cursor::new("filter", text, caller) }
    }

    /// Parses the whole text.
    pub(super) fn whole(&mut self) -> Result<FilterExpr> {
        let filter = self.either(0)?;
        match self.cursor.token()? {
            Token::End => {
                filter.check(self.table)?;
                Ok(filter)
            }
            other => Err(self.cursor.expected("the end, `and` or `or`", &other)),
        }
    }

    pub(super) fn either(&mut self, depth: usize) -> Result<FilterExpr> {
        let mut filter = self.both(depth)?;
        while self.cursor.take_word("or") || self.cursor.take("||") {
            filter = filter.or(self.both(depth)?);
        }
        Ok(filter)
    }

    fn both(&mut self, depth: usize) -> Result<FilterExpr> {
        let mut filter = self.single(depth)?;
        while self.cursor.take_word("and") || self.cursor.take("&&") {
            filter = filter.and(self.single(depth)?);
        }
        Ok(filter)
    }

    fn single(&mut self, depth: usize) -> Result<FilterExpr> {
        if depth > FILTER_DEPTH_MAX {
            return Err(self.cursor.error("nests too deep"));
        }
        if self.cursor.take_word("not")
            || (!self.cursor.rest().starts_with("!=") && self.cursor.take("!"))
        {
            return Ok(FilterExpr::Not(Box::new(self.single(depth + 1)?)));
        }
        if self.cursor.take("(") {
            let filter = self.either(depth + 1)?;
            self.cursor.expect(")")?;
            return Ok(filter);
        }
        match self.cursor.token()? {
            Token::Symbol("@") => self.search(None),
            Token::Word(name) => self.named(name, depth),
            other => Err(self.cursor.expected("a field", &other)),
        }
    }

    /// Parses a condition that begins with a name.
    pub(super) fn named(&mut self, name: &str, depth: usize) -> Result<FilterExpr> {
        if depth > FILTER_DEPTH_MAX {
            return Err(self.cursor.error("nests too deep"));
        }
        let rest = self.cursor.rest();
        if rest.starts_with('(') {
            if let Some(function) = Function::named(name) {
                return self.function(function, depth);
            }
            if let Some(area) = Area::named(name) {
                return self.in_area(area);
            }
        }
        let is_path = rest.starts_with('.');
        match self.table.find(name) {
            Some(field)
                if is_path && matches!(self.table.fields()[field].kind, Kind::Reference { .. }) =>
            {
                self.through(name, depth)
            }
            Some(field) if rest.starts_with(['.', '[']) => {
                inside(&mut self.cursor, self.table, field)
            }
            Some(field) => self.test(field),
            None if (is_path || rest.starts_with(':')) && self.table.has_relation(name) => {
                self.through(name, depth)
            }
            None => self.table.position(name).and_then(|field| self.test(field)),
        }
    }

    /// Parses a part of the filter that is on the rows of another table.
    pub(super) fn on<T>(
        &mut self,
        table: &Table,
        parse: impl FnOnce(&mut Parser<'a, '_>) -> Result<T>,
    ) -> Result<T> {
        let mut inner = Parser { table, cursor: self.cursor };
        let parsed = parse(&mut inner)?;
        let place = inner.cursor.place();
        self.cursor.move_to(place);
        Ok(parsed)
    }

    fn test(&mut self, field: usize) -> Result<FilterExpr> {
        let token = self.cursor.token()?;
        let comparison = match &token {
            Token::Symbol("~") => return self.matches(field, Place::Anywhere),
            Token::Symbol("^") => return self.matches(field, Place::Start),
            Token::Symbol("@") => return self.search(Some(field)),
            Token::Word(word) if word.eq_ignore_ascii_case("in") => return self.list(field),
            Token::Word(word)
                if word.eq_ignore_ascii_case("not") && self.cursor.take_word("in") =>
            {
                return Ok(FilterExpr::Not(Box::new(self.list(field)?)));
            }
            token => comparison(token)
                .ok_or_else(|| self.cursor.expected("one of = != < <= > >= ~ ^ @ in", token))?,
        };
        let value = value(&mut self.cursor, &self.table.fields()[field])?;
        match (comparison, value) {
            (Comparison::Equal, Value::Null) => Ok(FilterExpr::IsNull { field }),
            (Comparison::NotEqual, Value::Null) => {
                Ok(FilterExpr::Not(Box::new(FilterExpr::IsNull { field })))
            }
            (_, Value::Null) => Err(self.cursor.error("null has no order; use = or !=")),
            (comparison, value) => Ok(FilterExpr::Compare { field, comparison, value }),
        }
    }

    fn matches(&mut self, field: usize, place: Place) -> Result<FilterExpr> {
        if !matches!(self.table.fields()[field].kind, Kind::Text { .. }) {
            return Err(self.cursor.error("~ and ^ are only for text fields"));
        }
        match self.cursor.token()? {
            Token::Text(text) => Ok(FilterExpr::Match { field, place, text }),
            other => Err(self.cursor.expected("a quoted text", &other)),
        }
    }

    fn search(&mut self, field: Option<usize>) -> Result<FilterExpr> {
        match self.cursor.token()? {
            Token::Text(text) => {
                Ok(FilterExpr::Search { field, search: Box::new(Search::new(&text)) })
            }
            other => Err(self.cursor.expected("a quoted text", &other)),
        }
    }

    fn list(&mut self, field: usize) -> Result<FilterExpr> {
        let what = &self.table.fields()[field];
        let values = match self.cursor.groups() {
            Some(groups) => {
                let value =
                    |group: &String| value_of(&self.cursor, what, &Token::OfCaller(group.clone()));
                groups.iter().map(value).collect::<Result<_>>()?
            }
            None => self.cursor.values(|cursor| value(cursor, what))?,
        };
        Ok(FilterExpr::In { field, values })
    }
}
