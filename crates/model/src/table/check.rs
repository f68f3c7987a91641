//! Checks the values of rows against the rules of their table.

use super::Table;
use crate::rule::{CompiledRule, violation};
use crate::schema::has_nul;
use crate::{Error, Result, ValueRef, Violation};

impl Table {
    /// Checks the fields of `row` that are there (`Absent` ones are skipped)
    /// and adds what is wrong to `violations`.
    pub fn check(&self, row: &[ValueRef<'_>], violations: &mut Vec<Violation>) {
        self.check_rules(self.rules(), row, violations);
    }

    /// [`Table::check`] for a row that a struct wrote: what the struct's types
    /// hold by themselves is not looked at again.
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
                // Nearly every text of nearly every row. Looked at where it
                // lies: copied, it would wait for its bytes to be written.
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
                // One complaint a field: the rules behind it would repeat it.
                refused = *position;
            }
        }
    }

    /// [`Table::check`] as a result.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] with a violation for each field at fault.
    pub fn validate(&self, row: &[ValueRef<'_>]) -> Result<()> {
        let mut violations = Vec::new();
        self.check(row, &mut violations);
        if violations.is_empty() { Ok(()) } else { Err(Error::invalid(violations)) }
    }
}
