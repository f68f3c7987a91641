//! Columns with a smaller range than their field, in tables that another program created. Reading
//! loses nothing, and the server refuses a value that does not fit; the error then names the field,
//! the value and the limit of the column.

use std::fmt;

use marmota_model::{Kind, Table, ValueRef, Violation};

use crate::statement::sql_words::quoted;

/// The limit of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Integers with this number of bytes.
    Integer(u8),
    /// Texts with this number of characters.
    Chars(u32),
    /// Numbers with this number of digits before the decimal point.
    Digits(u32),
}

impl Limit {
    /// Returns the limit of a column with this declared type, or `None` for types without further
    /// limits than their field's.
    pub(crate) fn of(declared: &str) -> Option<Self> {
        let (name, modifiers) = declared.split_once('(').unwrap_or((declared, ""));
        let mut numbers = modifiers.trim_end_matches(')').split(',').map(str::parse::<u32>);
        let mut number = || numbers.next().and_then(std::result::Result::ok);
        match name {
            "smallint" => Some(Self::Integer(2)),
            "integer" => Some(Self::Integer(4)),
            "bigint" => Some(Self::Integer(8)),
            "character varying" => number().map(Self::Chars),
            "numeric" => {
                let (precision, scale) = (number()?, number().unwrap_or(0));
                Some(Self::Digits(precision.saturating_sub(scale)))
            }
            _ => None,
        }
    }

    /// Returns true if some values of this kind do not fit.
    pub(crate) fn is_narrower_than(self, kind: &Kind) -> bool {
        match (self, kind) {
            (Self::Integer(bytes), Kind::Int { min, max }) => {
                let (least, most) = Self::integers(bytes);
                *min < least || *max > most
            }
            (Self::Integer(bytes), _) => bytes < 8,
            (Self::Chars(most), Kind::Text { chars_max, .. }) => {
                *chars_max == 0 || *chars_max > most
            }
            (Self::Chars(_), _) => true,
            // The largest currency value has 15.
            (Self::Digits(most), _) => most < 15,
        }
    }

    /// Returns the smallest and the largest integer.
    const fn integers(bytes: u8) -> (i64, i64) {
        let max = i64::MAX >> (64 - 8 * bytes as u32);
        (-max - 1, max)
    }

    pub(crate) fn takes(self, value: ValueRef<'_>) -> bool {
        match (self, value) {
            (Self::Integer(bytes), ValueRef::Int(number)) => {
                let (min, max) = Self::integers(bytes);
                (min..=max).contains(&number)
            }
            (Self::Chars(most), ValueRef::Text(text)) => text.chars().count() <= most as usize,
            (Self::Digits(most), ValueRef::Currency(amount)) => {
                let whole = amount.scaled().unsigned_abs() / 10_000;
                10_u64.checked_pow(most).is_none_or(|end| whole < end)
            }
            _ => true,
        }
    }

    const fn rule(self) -> &'static str {
        match self {
            Self::Chars(_) => "max",
            _ => "range",
        }
    }

    /// Returns the column type that fits all values of the field.
    const fn wider(self) -> &'static str {
        match self {
            Self::Integer(_) => "bigint",
            Self::Chars(_) => "text",
            Self::Digits(_) => "numeric(19,4)",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Integer(bytes) => {
                let (min, max) = Self::integers(bytes);
                write!(f, "must be between {min} and {max}")
            }
            Self::Chars(most) => write!(f, "must have at most {most} characters"),
            Self::Digits(most) => write!(
                f,
                "must have at most {most} digits before the decimal \
                                             point"
            ),
        }
    }
}

/// Returns the violation for a value beyond the limit of its column.
pub(crate) fn violation(
    table: &Table,
    position: usize,
    value: ValueRef<'_>,
    limit: Limit,
) -> Violation {
    let field = &table.fields()[position];
    let message = format!(
        "{limit}, the limit of the column in the database; ALTER TABLE {} ALTER COLUMN {} TYPE {} \
         raises the limit",
        quoted(table.name()),
        quoted(&field.name),
        limit.wider()
    );
    marmota_model::rule::violation(field, value, limit.rule(), message)
}

/// Returns the violation for a value with more decimals than its column.
pub(crate) fn too_exact(
    table: &Table,
    position: usize,
    value: ValueRef<'_>,
    decimals: u32,
) -> Violation {
    let field = &table.fields()[position];
    let message = format!(
        "must have at most {decimals} decimals, the limit of the column in the database; ALTER TABLE \
         {} ALTER COLUMN {} TYPE numeric(19,4) raises the limit",
        quoted(table.name()),
        quoted(&field.name)
    );
    marmota_model::rule::violation(field, value, "decimals", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use marmota_model::Currency;

    #[test]
    fn columns_say_what_they_take() {
        let limit = |declared| Limit::of(declared).unwrap();
        for (declared, fits, beyond) in [
            ("smallint", 32_767, 32_768),
            ("smallint", -32_768, -32_769),
            ("integer", i64::from(i32::MIN), i64::from(i32::MIN) - 1),
        ] {
            assert!(limit(declared).takes(ValueRef::Int(fits)), "{declared}");
            assert!(!limit(declared).takes(ValueRef::Int(beyond)), "{declared}");
        }
        assert!(limit("bigint").takes(ValueRef::Int(i64::MIN)));
        assert!(limit("character varying(2)").takes(ValueRef::Text("éé")));
        assert!(!limit("character varying(2)").takes(ValueRef::Text("abc")));
        let amount = |scaled| ValueRef::Currency(Currency::from_scaled(scaled));
        assert!(limit("numeric(6,4)").takes(amount(-999_999)));
        assert!(!limit("numeric(6,4)").takes(amount(1_000_000)));
        assert_eq!(Limit::of("numeric"), None);
        assert_eq!((Limit::of("text"), Limit::of("character varying")), (None, None));
    }
}
