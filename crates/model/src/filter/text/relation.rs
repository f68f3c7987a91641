//! Conditions on related rows: `assignee.name = 'x'`, `any(labels, name = 'bug')`,
//! `count(comment) > 3`.

use super::parser::Parser;
use crate::lexer::{Token, comparison};
use crate::{FilterExpr, Quantifier, RelatedFilter, RelationStep, ResolvedRelation, Result};

/// The functions on the rows of a relation.
#[derive(Clone, Copy)]
pub(super) enum Function {
    Any,
    None,
    Count,
}

impl Function {
    /// Returns the function with this name; names ignore case.
    pub(super) fn named(name: &str) -> Option<Self> {
        [("any", Self::Any), ("none", Self::None), ("count", Self::Count)]
            .into_iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, function)| function)
    }
}

impl Parser<'_, '_> {
    /// Parses a function after its name: `(relation [, filter])`, and for a count the comparison.
    pub(super) fn function(&mut self, function: Function, depth: usize) -> Result<FilterExpr> {
        self.cursor.expect("(")?;
        let path = self.path()?;
        let relation = self.table.relation(&path)?;
        let filter = match self.cursor.take(",") {
            true => self.on(&relation.target, |inner| inner.either(depth + 1))?,
            false => FilterExpr::ALL,
        };
        self.cursor.expect(")")?;
        let any = |filter| FilterExpr::after_steps(&relation.steps, filter);
        Ok(match function {
            Function::Any => any(filter),
            Function::None => FilterExpr::Not(Box::new(any(filter))),
            Function::Count => {
                let quantifier = self.number_test()?;
                return self.count(&relation, quantifier, filter);
            }
        })
    }

    /// Parses a condition on the row of a to-one relation after its name, which is followed by a
    /// dot.
    pub(super) fn through(&mut self, name: &str, depth: usize) -> Result<FilterExpr> {
        let mut name = name.to_owned();
        if self.cursor.take(":") {
            name = format!("{name}:{}", self.segment()?);
        }
        let relation = self.table.relation(&name)?;
        if !relation.to_one() {
            let message = format!("uses `{name}`, which has several rows; write any({name}, …)");
            return Err(self.cursor.error(&message));
        }
        self.cursor.expect(".")?;
        let inner = self.on(&relation.target, |inner| match inner.cursor.token()? {
            Token::Word(name) => inner.named(name, depth + 1),
            other => Err(inner.cursor.expected("a field", &other)),
        })?;
        Ok(FilterExpr::after_steps(&relation.steps, inner))
    }

    fn path(&mut self) -> Result<String> {
        let mut path = self.segment()?;
        loop {
            let separator = match (self.cursor.take("."), self.cursor.rest()) {
                (true, _) => '.',
                (false, rest) if rest.starts_with(':') => {
                    self.cursor.skip(1);
                    ':'
                }
                _ => return Ok(path),
            };
            path.push(separator);
            path.push_str(&self.segment()?);
        }
    }

    fn segment(&mut self) -> Result<String> {
        match self.cursor.token()? {
            Token::Word(name) => Ok(name.to_owned()),
            other => Err(self.cursor.expected("the name of a relation", &other)),
        }
    }

    fn number_test(&mut self) -> Result<Quantifier> {
        let token = self.cursor.token()?;
        let comparison = comparison(&token)
            .ok_or_else(|| self.cursor.expected("one of = != < <= > >=", &token))?;
        let token = self.cursor.token()?;
        match &token {
            Token::Number(digits) if let Ok(number) = digits.parse() => {
                Ok(Quantifier::Count { comparison, number })
            }
            token => Err(self.cursor.expected("a number of rows from 0 to 4294967295", token)),
        }
    }

    /// Returns the test of a number of rows. Only one step may lead to several rows: the number of
    /// rows after two such steps is not that of one table's rows that refer to another.
    fn count(
        &self,
        relation: &ResolvedRelation,
        quantifier: Quantifier,
        filter: FilterExpr,
    ) -> Result<FilterExpr> {
        let steps = &relation.steps;
        let last = steps.len() - 1;
        let at = steps.iter().position(|step| !step.to_one).unwrap_or(last);
        let (before, rest) = steps.split_at(at);
        let (step, after) = (rest[0].clone(), &rest[1..]);
        if !after.iter().all(|step| step.to_one) {
            let what = "counts the rows of a relation with two steps to several rows; count with \
                        one such step";
            return Err(self.cursor.error(what));
        }
        let filter = match (after, filter) {
            ([], filter) => filter,
            (after, filter) => FilterExpr::after_steps(after, filter),
        };
        let count = FilterExpr::Related(Box::new(RelatedFilter { step, quantifier, filter }));
        Ok(count_before(before, quantifier, count))
    }
}

/// Returns the condition that a row after these to-one steps satisfies a count. A missing row has
/// no related rows.
fn count_before(steps: &[RelationStep], quantifier: Quantifier, count: FilterExpr) -> FilterExpr {
    if steps.is_empty() {
        return count;
    }
    match quantifier.holds(0) {
        false => FilterExpr::after_steps(steps, count),
        true => {
            let other = FilterExpr::after_steps(steps, FilterExpr::Not(Box::new(count)));
            FilterExpr::Not(Box::new(other))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use crate::{
        Caller, Field, FilterExpr, KeyKind, Kind, LinkedTables, Relation, Role, Schema, Table,
        parse_filter, parse_rule,
    };

    fn linked() -> (Arc<LinkedTables>, Arc<Table>) {
        let to = |table: &'static str| Kind::Reference { table: table.into(), key: KeyKind::Auto };
        let id = || Field::new("id", Kind::I64).role(Role::Key);
        let person = vec![id(), Field::new("name", Kind::TEXT), Field::new("boss", to("person"))];
        let issue = vec![
            id(),
            Field::new("count", Kind::I64),
            Field::new("json", Kind::Json),
            Field::new("owner", to("person")),
        ];
        let comment =
            vec![id(), Field::new("issue", to("issue")), Field::new("author", to("person"))];
        let schemas = [
            Schema::new("person", person),
            Schema::new("issue", issue).relations(vec![Relation::new("people", "comment.author")]),
            Schema::new("comment", comment),
        ];
        let tables = schemas.map(|schema| Arc::new(Table::new(schema).unwrap()));
        let issue = Arc::clone(&tables[1]);
        let tables = tables.into_iter().map(|table| (table, 0)).collect();
        (LinkedTables::new(tables).unwrap(), issue)
    }

    fn expr(text: &str) -> FilterExpr {
        let (_links, issue) = linked();
        parse_filter(&issue, text).unwrap().into_expr_for(&issue).unwrap()
    }

    #[test]
    fn forms_of_one_condition_are_equal() {
        for (one, other) in [
            ("owner.name = 'x'", "any(owner, name = 'x')"),
            ("owner . boss.name = 'x'", "any(owner.boss, name = 'x')"),
            ("none(people)", "not ANY( people )"),
            ("any(comment)", "any(comment:issue)"),
            ("any(people, name = 'x')", "any(comment, author.name = 'x')"),
            ("count(people) > 1", "count(comment, any(author)) > 1"),
        ] {
            assert_eq!(expr(one), expr(other), "{one}");
        }
    }

    #[test]
    fn words_and_paths_keep_their_meaning() {
        assert!(matches!(expr("count > 3"), FilterExpr::Compare { field: 1, .. }));
        assert!(matches!(expr("count in (1)"), FilterExpr::In { .. }));
        assert!(matches!(expr("json.any.count = 3"), FilterExpr::Inside { .. }));
        assert!(matches!(expr("owner = 3"), FilterExpr::Compare { field: 3, .. }));
    }

    #[test]
    fn callers_are_known_in_nested_conditions() {
        let (_links, issue) = linked();
        let rule = "any(people, boss = @user.id and name in @user.groups)";
        assert!(parse_rule(&issue, rule, &Caller::sample()).is_ok());
        assert!(parse_filter(&issue, rule).is_err());
        assert!(crate::asks_for_caller(&issue, rule));
    }

    proptest! {
        #[test]
        fn never_panics(
            words in proptest::collection::vec(
                proptest::sample::select(vec![
                    "any(", "none(", "count(", "people", "comment", "owner", "boss", "name",
                    "author", "issue", ".", ":", ",", "(", ")", "=", ">", "'x'", "1", "and", "not",
                    "json", "[0]", "in", "null", " ",
                ]),
                0..24,
            )
        ) {
            let (_links, issue) = linked();
            let text = words.concat();
            if let Ok(filter) = parse_filter(&issue, &text) {
                prop_assert!(filter.into_expr_for(&issue).is_ok());
            }
        }
    }
}
