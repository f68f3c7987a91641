//! Checks of values against fields: first the kind, then the rules. Rust callers, batches and REST
//! bodies share the code and the messages.

use regex::Regex;

use crate::text::{excerpt_of, literal_value};
use crate::{
    Collation, EnumStored, Error, Field, KeyKind, Kind, Result, Rule, Table, Value, ValueRef,
    Violation,
};

/// The short name of a broken rule, and its requirement.
pub(crate) type Broken = (&'static str, String);

/// A rule in compiled form.
#[derive(Debug)]
pub(crate) enum CompiledRule {
    /// The kind has requirements beyond the variant of [`ValueRef`].
    Kind {
        /// For a text field: texts of at most this many bytes cannot be too long.
        text_bytes_free: Option<usize>,
    },
    NotEmpty,
    Length {
        min: usize,
        max: usize,
    },
    Range {
        min: Option<Value>,
        max: Option<Value>,
    },
    Pattern {
        source: String,
        regex: Regex,
    },
    Email,
    Check {
        name: &'static str,
        check: fn(ValueRef<'_>) -> Result<(), String>,
    },
}

impl CompiledRule {
    /// Compiles the rules of a field; the error describes a rule that is invalid.
    pub(crate) fn of_field(field: &Field) -> Result<Vec<Self>, String> {
        let text_bytes_free = match field.kind {
            Kind::Text { chars_max: 0, .. } => Some(usize::MAX),
            Kind::Text { chars_max, .. } => Some(chars_max as usize),
            _ => None,
        };
        let mut rules = vec![Self::Kind { text_bytes_free }];
        for rule in field.rules.iter() {
            rules.push(match rule {
                Rule::NotEmpty => Self::NotEmpty,
                Rule::Length { min, max } if min <= max => {
                    Self::Length { min: *min as usize, max: *max as usize }
                }
                Rule::Length { min, max } => {
                    return Err(format!("length {min} to {max} fits none"));
                }
                Rule::Range { min, max } => {
                    let end = |end: &Option<crate::Literal>| {
                        end.as_ref().map(|literal| literal_value(field, literal)).transpose()
                    };
                    let (min, max) = (end(min)?, end(max)?);
                    if let (Some(min), Some(max)) = (&min, &max)
                        && min.as_ref().order(&max.as_ref()).is_gt()
                    {
                        let (min, max) = (excerpt_of(min.as_ref()), excerpt_of(max.as_ref()));
                        return Err(format!("range {min} to {max} fits none"));
                    }
                    Self::Range { min, max }
                }
                Rule::Pattern(source) => Self::Pattern {
                    regex: Regex::new(&format!("^(?:{source})$")).map_err(|e| e.to_string())?,
                    source: source.to_string(),
                },
                Rule::Email => Self::Email,
                Rule::Check { name, check } => Self::Check { name, check: *check },
            });
        }
        Ok(rules)
    }

    /// Returns true if a struct's field cannot break the rule, because its Rust type is as narrow
    /// as the kind.
    pub(crate) fn holds_by_type(&self, field: &Field) -> bool {
        let narrow = match field.kind {
            // u64 is wider than its kind; i64 needs no check.
            Kind::Int { min, max } => min != 0 || max != i64::MAX,
            Kind::Float | Kind::Text { .. } | Kind::Json => false,
            Kind::Reference { key, .. } => key != KeyKind::Text,
            _ => true,
        };
        matches!(self, Self::Kind { .. }) && narrow
    }

    /// Checks one value that is neither NULL nor absent.
    fn check(&self, field: &Field, value: ValueRef<'_>) -> Result<(), Broken> {
        match self {
            Self::Kind { .. } => check_kind(field, value),
            Self::NotEmpty => match value {
                ValueRef::Text(text) if text.trim().is_empty() => {
                    Err(("not_empty", "must not be empty".to_owned()))
                }
                ValueRef::Blob([]) => Err(("not_empty", "must not be empty".to_owned())),
                _ => Ok(()),
            },
            Self::Length { min, max } => check_length(value, *min, *max),
            Self::Range { min, max } => check_range(value, min.as_ref(), max.as_ref()),
            Self::Pattern { source, regex } => match value {
                ValueRef::Text(text) if !regex.is_match(text) => {
                    Err(("pattern", format!("must match the pattern {source}")))
                }
                _ => Ok(()),
            },
            Self::Email => match value {
                ValueRef::Text(text) if !email_address::EmailAddress::is_valid(text) => {
                    Err(("email", "must be an e-mail address such as ada@example.org".to_owned()))
                }
                _ => Ok(()),
            },
            Self::Check { name, check } => check(value).map_err(|message| (*name, message)),
        }
    }
}

fn check_length(value: ValueRef<'_>, min: usize, max: usize) -> Result<(), Broken> {
    let (length, unit) = match value {
        ValueRef::Text(text) => (text.chars().count(), "characters"),
        ValueRef::Blob(bytes) => (bytes.len(), "bytes"),
        _ => return Ok(()),
    };
    if (min..=max).contains(&length) {
        return Ok(());
    }
    Err(("length", format!("must have {min} to {max} {unit}, has {length}")))
}

fn check_range(
    value: ValueRef<'_>,
    min: Option<&Value>,
    max: Option<&Value>,
) -> Result<(), Broken> {
    let below = min.is_some_and(|min| value.order(&min.as_ref()).is_lt());
    let above = max.is_some_and(|max| value.order(&max.as_ref()).is_gt());
    if !below && !above {
        return Ok(());
    }
    let end = |end: &Value| excerpt_of(end.as_ref());
    Err((
        "range",
        match (min, max) {
            (Some(min), Some(max)) => format!("must be between {} and {}", end(min), end(max)),
            (Some(min), None) => format!("must be at least {}", end(min)),
            (_, max) => format!("must be at most {}", max.map(end).unwrap_or_default()),
        },
    ))
}

fn wrong_type(field: &Field) -> Broken {
    let what = match &field.kind {
        Kind::Bool => "true or false".to_owned(),
        Kind::Currency => "a number with at most four decimals".to_owned(),
        Kind::Date => "a date such as \"2026-11-21\"".to_owned(),
        Kind::Time => "a time such as \"17:05:00\"".to_owned(),
        Kind::Timestamp => "a timestamp such as \"2026-11-21T17:05:00Z\"".to_owned(),
        Kind::Enum { variants, .. } => {
            let names: Vec<String> = variants.iter().map(|v| format!("{:?}", v.name)).collect();
            format!("one of {}", names.join(", "))
        }
        Kind::Reference { table, .. } => format!("the key of a `{table}`"),
        kind => format!("of type {}", kind.name()),
    };
    ("type", format!("must be {what}"))
}

/// Checks that a value that is not absent fits the kind of its field.
pub(crate) fn check_kind(field: &Field, value: ValueRef<'_>) -> Result<(), Broken> {
    match (&field.kind, value) {
        (_, ValueRef::Null) if field.nullable => Ok(()),
        (_, ValueRef::Null) => Err(("required", "must not be null".to_owned())),
        (Kind::Int { min, max }, ValueRef::Int(number)) => {
            if number < *min || number > *max {
                return Err(("range", format!("must be between {min} and {max}")));
            }
            Ok(())
        }
        (Kind::Float, ValueRef::Float(number)) if !number.is_finite() => {
            Err(("range", "must be a finite number".to_owned()))
        }
        (Kind::Text { chars_max, .. }, ValueRef::Text(text)) => {
            let most = *chars_max as usize;
            // A text has at most as many characters as bytes: count only if that can matter.
            if most != 0 && text.len() > most && text.chars().count() > most {
                let length = text.chars().count();
                return Err(("max", format!("must have at most {most} characters, has {length}")));
            }
            if has_nul(text) {
                return Err(("type", "must not contain the character U+0000".to_owned()));
            }
            Ok(())
        }
        (Kind::Enum { variants, stored: EnumStored::Integer }, ValueRef::Int(number))
            if variants.iter().any(|variant| variant.number == number) =>
        {
            Ok(())
        }
        (Kind::Enum { variants, stored: EnumStored::Text }, ValueRef::Text(name))
            if variants.iter().any(|variant| variant.name == name) =>
        {
            Ok(())
        }
        (Kind::Bool, ValueRef::Bool(_))
        | (Kind::Float, ValueRef::Float(_))
        | (Kind::Currency, ValueRef::Currency(_))
        | (Kind::Blob, ValueRef::Blob(_))
        | (Kind::Json, ValueRef::Json(_))
        | (Kind::Date, ValueRef::Date(_))
        | (Kind::Time, ValueRef::Time(_))
        | (Kind::Timestamp, ValueRef::Timestamp(_))
        | (Kind::Uuid | Kind::Reference { key: KeyKind::Uuid, .. }, ValueRef::Uuid(_))
        | (Kind::Reference { key: KeyKind::Auto, .. }, ValueRef::Int(_))
        | (Kind::Reference { key: KeyKind::Text, .. }, ValueRef::Text(_)) => Ok(()),
        _ => Err(wrong_type(field)),
    }
}

/// Texts up to this length are searched inline: a call of a function that is selected at run time
/// costs more.
const TEXT_BYTES_FEW: usize = 32;

#[inline]
fn has_nul(text: &str) -> bool {
    if text.len() > TEXT_BYTES_FEW {
        return memchr::memchr(0, text.as_bytes()).is_some();
    }
    let bytes = text.as_bytes();
    let Some(last) = bytes.last_chunk::<8>() else { return bytes.contains(&0) };
    // The last word overlaps the previous one, which avoids a loop over the remainder.
    let (words, _) = bytes.as_chunks::<8>();
    has_zero_byte(u64::from_ne_bytes(*last))
        || words.iter().any(|&word| has_zero_byte(u64::from_ne_bytes(word)))
}

/// Returns true if one of the eight bytes is zero: only a zero byte borrows through the top bit of
/// a byte whose own top bit is clear.
const fn has_zero_byte(word: u64) -> bool {
    const LOW: u64 = u64::from_ne_bytes([1; 8]);
    word.wrapping_sub(LOW) & !word & (LOW << 7) != 0
}

impl Table {
    /// Checks the fields of `row` that are not `Absent`, and adds their faults to `violations`.
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
    pub fn validate(&self, row: &[ValueRef<'_>]) -> Result<()> {
        let mut violations = Vec::new();
        self.check(row, &mut violations);
        if violations.is_empty() { Ok(()) } else { Err(Error::invalid(violations)) }
    }
}

/// Returns the violation of `rule` by `value` in `field`.
#[must_use]
pub fn violation(
    field: &Field,
    value: ValueRef<'_>,
    rule: &str,
    message: impl Into<String>,
) -> Violation {
    Violation {
        field: field.name.to_string(),
        value: excerpt_of(value),
        rule: rule.to_owned(),
        message: message.into(),
    }
}

/// Returns true if two texts are equal under a collation.
#[must_use]
pub fn same_text(collation: Collation, a: &str, b: &str) -> bool {
    match collation {
        Collation::Binary => a == b,
        Collation::NoCase => a.eq_ignore_ascii_case(b),
    }
}
