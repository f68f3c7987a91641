//! Whether a value fits its field's kind.

use crate::value::vector;
use crate::{EnumStored, Field, File, Kind, ValueRef};

/// The short name of a broken rule, and its requirement.
pub(crate) type Broken = (&'static str, String);

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
                return Err((
                    "max",
                    format!("must have at most {most} characters, but has {length}"),
                ));
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
        (Kind::Enum { .. }, _) => Err(wrong_type(field)),
        (Kind::File { .. }, ValueRef::Json(json)) if File::parse(json).is_none() => {
            Err(wrong_type(field))
        }
        (Kind::Vector { dimensions }, ValueRef::Blob(bytes))
            if !vector::has_dimensions(bytes, *dimensions)
                || !vector::numbers(bytes).all(f32::is_finite) =>
        {
            Err(wrong_type(field))
        }
        (kind, value) if value.form() == Some(kind.form()) => Ok(()),
        _ => Err(wrong_type(field)),
    }
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
        Kind::File { .. } => "the description of a file that was uploaded".to_owned(),
        Kind::Vector { dimensions } => format!("an array of {dimensions} finite numbers"),
        Kind::Reference { table, .. } => format!("the key of a `{table}`"),
        kind => format!("of type {}", kind.name()),
    };
    ("type", format!("must be {what}"))
}

/// Texts up to this length are searched inline: a call of a function that is selected at run time
/// costs more.
const TEXT_BYTES_FEW: usize = 32;

/// Whether a text has the character U+0000, which is not stored.
#[inline]
pub(crate) fn has_nul(text: &str) -> bool {
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
