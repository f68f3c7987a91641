//! Rules in compiled form, and their checks of values: first the kind, then the rules. Rust callers,
//! batches and REST bodies share the code and the messages.

use std::net::IpAddr;

use regex::Regex;

use crate::schema::row_name;
use crate::schema::text::literal_value;
use crate::schema::{Broken, check_kind};
use crate::value::excerpt::excerpt_of;
use crate::{CharacterClass, Field, KeyKind, Kind, Result, Rule, Value, ValueRef};

/// A rule in compiled form.
#[derive(Clone, Debug)]
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
    Url,
    Ip,
    Count {
        class: CharacterClass,
        min: usize,
        max: usize,
    },
    /// The text names a row for one of these references, which are computed of it.
    AnyReference {
        references: Vec<Field>,
    },
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
                    return Err(format!(
                        "the length {min} to {max} is empty: `min` is above `max`"
                    ));
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
                        return Err(format!(
                            "the range {min} to {max} is empty: `min` is above `max`"
                        ));
                    }
                    Self::Range { min, max }
                }
                Rule::Pattern(source) => Self::Pattern {
                    regex: Regex::new(&format!("^(?:{source})$")).map_err(|e| e.to_string())?,
                    source: source.to_string(),
                },
                Rule::Email => Self::Email,
                Rule::Url => Self::Url,
                Rule::Ip => Self::Ip,
                Rule::Count { min, max, .. } if min > max => {
                    return Err(format!("the count {min} to {max} is empty: `min` is above `max`"));
                }
                Rule::Count { class, min, max } => {
                    Self::Count { class: *class, min: *min as usize, max: *max as usize }
                }
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
            Kind::Float
            | Kind::Text { .. }
            | Kind::Json
            | Kind::File { .. }
            | Kind::Vector { .. } => false,
            Kind::Reference { key, .. } => key != KeyKind::Text,
            _ => true,
        };
        matches!(self, Self::Kind { .. }) && narrow
    }

    /// Checks one value that is neither NULL nor absent.
    pub(crate) fn check(&self, field: &Field, value: ValueRef<'_>) -> Result<(), Broken> {
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
            Self::Url => match value {
                ValueRef::Text(text) if !is_web_url(text) => {
                    Err(("url", "must be a URL such as https://example.org/page".to_owned()))
                }
                _ => Ok(()),
            },
            Self::Ip => match value {
                ValueRef::Text(text) if text.parse::<IpAddr>().is_err() => {
                    Err(("ip", "must be an IP address such as 192.0.2.1 or 2001:db8::1".to_owned()))
                }
                _ => Ok(()),
            },
            Self::Count { class, min, max } => check_count(value, *class, *min, *max),
            Self::AnyReference { references } => match value {
                ValueRef::Text(text) => {
                    row_name::check(references, text).map_err(|message| ("reference", message))
                }
                _ => Ok(()),
            },
            Self::Check { name, check } => check(value).map_err(|message| (*name, message)),
        }
    }
}

/// Returns true for an absolute URL of the web with a host.
fn is_web_url(text: &str) -> bool {
    let Ok(url) = fluent_uri::Uri::parse(text) else { return false };
    let scheme = url.scheme().as_str();
    let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    is_web && url.authority().is_some_and(|authority| !authority.host().is_empty())
}

fn check_count(
    value: ValueRef<'_>,
    class: CharacterClass,
    min: usize,
    max: usize,
) -> Result<(), Broken> {
    let ValueRef::Text(text) = value else { return Ok(()) };
    let count = text.chars().filter(|c| class.has(*c)).count();
    let (bound, least) = match count {
        _ if count < min => (min, "at least"),
        _ if count > max => (max, "at most"),
        _ => return Ok(()),
    };
    let (one, several) = class.nouns();
    let noun = if bound == 1 { one } else { several };
    Err(("count", format!("must have {least} {bound} {noun}, but has {count}")))
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
    Err(("length", format!("must have {min} to {max} {unit}, but has {length}")))
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
