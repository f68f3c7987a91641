//! Checks the values of rows against the rules of their table.

use super::compiled_rule::CompiledRule;
use super::prepared::Table;
use crate::schema::{has_nul, violation};
use crate::{Error, Result, ValueRef, Violation};

impl Table {
    /// Checks the fields of `row` that are not `Absent`, and adds their faults to `violations`.
    ///
    /// There is at most one violation for each field: the first rule that it breaks.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT),
    /// #     Field::new("born", Kind::Date).nullable(true)]))?;
    /// use marmota_model::ValueRef;
    /// let mut violations = Vec::new();
    /// table.check(&[ValueRef::Absent, ValueRef::Null, ValueRef::Int(7)], &mut violations);
    /// let found: Vec<_> = violations.iter().map(|one| (&*one.field, &*one.rule)).collect();
    /// assert_eq!(found, [("name", "required"), ("born", "type")]);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn check(&self, row: &[ValueRef<'_>], violations: &mut Vec<Violation>) {
        self.check_rules(self.rules(), row, violations);
    }

    /// As [`Table::check`] for a row written by a struct: rules that the struct's types guarantee
    /// are not checked again.
    pub fn check_typed(&self, row: &[ValueRef<'_>], violations: &mut Vec<Violation>) {
        self.check_rules(self.typed_rules(), row, violations);
    }

    fn check_rules<'t>(
        &self,
        rules: impl Iterator<Item = &'t (usize, CompiledRule)>,
        row: &[ValueRef<'_>],
        violations: &mut Vec<Violation>,
    ) {
        let mut refused = usize::MAX;
        for (position, rule) in rules {
            if let (CompiledRule::Kind { text_bytes_free: Some(free) }, ValueRef::Text(text)) =
                (rule, &row[*position])
                && text.len() <= *free
                && !has_nul(text)
            {
                // The case of nearly every text in nearly every row. It is read in place: a copy
                // would wait for the store of its bytes.
                continue;
            }
            let value = row[*position];
            if value.is_absent() || *position == refused {
                continue;
            }
            if value.is_null() && !matches!(rule, CompiledRule::Kind { .. }) {
                continue;
            }
            let field = &self.fields()[*position];
            if let Err((rule, message)) = rule.check(field, value) {
                violations.push(violation(field, value, rule, message));
                // One violation per field: later rules would repeat it.
                refused = *position;
            }
        }
    }

    /// As [`Table::check`], as a result.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] with a violation for each field at fault.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT),
    /// #     Field::new("born", Kind::Date).nullable(true)]))?;
    /// use marmota_model::ValueRef;
    /// let born = ValueRef::Date("1815-12-10".parse().unwrap());
    /// assert!(table.validate(&[ValueRef::Absent, ValueRef::Text("Ada"), born]).is_ok());
    /// assert!(table.validate(&[ValueRef::Absent, ValueRef::Int(1), born]).is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn validate(&self, row: &[ValueRef<'_>]) -> Result<()> {
        let mut violations = Vec::new();
        self.check(row, &mut violations);
        if violations.is_empty() { Ok(()) } else { Err(Error::invalid(violations)) }
    }
}
