//! The layout of rows: the word of each field in the fixed part of a row, and the bit that marks it
//! as NULL. It is computed once from the schema.
//!
//! A row's fixed part is a sequence of bits (NULLs and booleans), followed by one 64-bit word for
//! each field (two for a UUID, none for a boolean). Values of variable size are stored in the row's
//! page; the word has their position.

use marmota_model::rule::violation;
use marmota_model::{Collation, Error, Field, Result, Table, ValueForm, ValueRef};
use marmota_store::predicate::FieldColumn;

/// The NULL bit of a field that is never NULL.
pub(crate) const NEVER_NULL: u16 = u16::MAX;

/// The place of one field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) form: ValueForm,
    pub(crate) collation: Collation,
    /// The word; for a boolean, the bit.
    pub(crate) place: u16,
    /// The bit that is set if the field is NULL, or [`NEVER_NULL`].
    pub(crate) null: u16,
    /// The index of the field in its table.
    pub(crate) field: u16,
}

/// The places of all fields.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) columns: Box<[Column]>,
    /// The number of words in the fixed part of one row.
    pub(crate) row_words: usize,
    /// The fields whose values are stored outside the fixed part.
    pub(crate) loose: Box<[usize]>,
}

impl Layout {
    pub(crate) fn new(table: &Table) -> Self {
        let fields = table.fields();
        let bits = fields.iter().filter(|field| field.nullable).count()
            + fields.iter().filter(|field| field.kind.form() == ValueForm::Bool).count();
        let mut word = bits.div_ceil(64);
        let mut bit = 0;
        let mut take_bit = || {
            bit += 1;
            bit - 1
        };
        let columns: Box<[Column]> = fields
            .iter()
            .zip(0..)
            .map(|(field, number)| {
                let form = field.kind.form();
                let null = if field.nullable { take_bit() } else { NEVER_NULL };
                let place = match form {
                    ValueForm::Bool => take_bit(),
                    ValueForm::Uuid => {
                        word += 2;
                        (word - 2) as u16
                    }
                    _ => {
                        word += 1;
                        (word - 1) as u16
                    }
                };
                Column { form, collation: field.kind.collation(), place, null, field: number }
            })
            .collect();
        let loose = (0..columns.len()).filter(|&field| columns[field].is_loose()).collect();
        Self { columns, row_words: word.max(1), loose }
    }
}

impl Column {
    /// Returns true if its values are stored outside the fixed part.
    pub(crate) const fn is_loose(&self) -> bool {
        matches!(self.form, ValueForm::Text | ValueForm::Json | ValueForm::Blob)
    }
}

impl FieldColumn for Column {
    #[inline]
    fn field(&self) -> usize {
        self.field.into()
    }

    #[inline]
    fn form(&self) -> ValueForm {
        self.form
    }

    #[inline]
    fn collation(&self) -> Collation {
        self.collation
    }
}

/// The error for a value that a field cannot store.
#[cold]
pub(crate) fn misfit(field: &Field, value: ValueRef<'_>) -> Error {
    let (rule, message) = if value.is_null() || value.is_absent() {
        ("required", "must not be null".to_owned())
    } else {
        ("type", format!("must be of type {}", field.kind.name()))
    };
    Error::invalid(vec![violation(field, value, rule, message)])
}

/// Returns true if a value that is not NULL has the column's form.
#[inline]
pub(crate) const fn fits(column: &Column, value: ValueRef<'_>) -> bool {
    match (column.form, value) {
        // NaN has no place in an order.
        (ValueForm::Float, ValueRef::Float(value)) => !value.is_nan(),
        (ValueForm::Bool, ValueRef::Bool(_))
        | (ValueForm::Int, ValueRef::Int(_))
        | (ValueForm::Currency, ValueRef::Currency(_))
        | (ValueForm::Text, ValueRef::Text(_))
        | (ValueForm::Json, ValueRef::Json(_))
        | (ValueForm::Blob, ValueRef::Blob(_))
        | (ValueForm::Date, ValueRef::Date(_))
        | (ValueForm::Time, ValueRef::Time(_))
        | (ValueForm::Timestamp, ValueRef::Timestamp(_))
        | (ValueForm::Uuid, ValueRef::Uuid(_)) => true,
        _ => false,
    }
}

/// Checks that a field can store a value; the store has checked the rules.
#[inline]
pub(crate) fn check(column: &Column, field: &Field, value: ValueRef<'_>) -> Result<()> {
    if fits(column, value) || value.is_null() && column.null != NEVER_NULL {
        Ok(())
    } else {
        Err(misfit(field, value))
    }
}
