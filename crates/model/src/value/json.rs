//! A value as JSON.

use crate::ValueRef;
use crate::scalar::digits::put_signed;

/// Returns true if the byte must be escaped in a string.
#[inline(always)]
pub(crate) const fn is_escaped(byte: u8) -> bool {
    (byte < b' ') | (byte == b'"') | (byte == b'\\')
}

/// Appends `"…"`, escaped as RFC 8259 requires.
///
/// `"`, `\\` and the control characters are escaped; other characters are UTF-8 as they are.
///
/// ```
/// use marmota_model::json::write_string;
/// let mut out = Vec::new();
/// write_string(&mut out, "say \"é\"\n");
/// assert_eq!(out, "\"say \\\"é\\\"\\n\"".as_bytes());
/// ```
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    // Most texts need no escaping; the compiler vectorizes this loop.
    if !bytes.iter().fold(false, |any, &byte| any | is_escaped(byte)) {
        out.extend_from_slice(bytes);
        return out.push(b'"');
    }
    let mut written = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if !is_escaped(byte) {
            continue;
        }
        out.extend_from_slice(&bytes[written..at]);
        written = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                let digits = [HEX[usize::from(control >> 4)], HEX[usize::from(control & 15)]];
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&digits);
            }
        }
    }
    out.extend_from_slice(&bytes[written..]);
    out.push(b'"');
}

fn write_quoted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    write(out);
    out.push(b'"');
}

/// Appends a value: bytes as base64url (RFC 4648, without padding), an absent value as `null`.
///
/// | value | JSON |
/// |---|---|
/// | NULL, absent, a float that is not finite | `null` |
/// | boolean, integer, float, currency | `true`, `7`, `2.5`, `12.5` |
/// | text, enum | `"Curie"` |
/// | bytes | `"AQID"` |
/// | JSON | its text, as it is |
/// | date, time, timestamp, UUID | their text form in quotes |
///
/// ```
/// use marmota_model::ValueRef;
/// use marmota_model::json::write_value;
/// let mut out = Vec::new();
/// for value in [ValueRef::Int(7), ValueRef::Blob(&[1, 2, 3]), ValueRef::Json("[1]")] {
///     write_value(&mut out, value);
///     out.push(b' ');
/// }
/// assert_eq!(out, br#"7 "AQID" [1] "#);
/// ```
pub fn write_value(out: &mut Vec<u8>, value: ValueRef<'_>) {
    match value {
        ValueRef::Absent | ValueRef::Null => out.extend_from_slice(b"null"),
        ValueRef::Bool(true) => out.extend_from_slice(b"true"),
        ValueRef::Bool(false) => out.extend_from_slice(b"false"),
        ValueRef::Int(number) => {
            let mut room = [0; 32];
            let length = put_signed(&mut room, number);
            out.extend_from_slice(&room[..length]);
        }
        ValueRef::Float(number) if number.is_finite() => {
            out.extend_from_slice(zmij::Buffer::new().format_finite(number).as_bytes());
        }
        ValueRef::Float(_) => out.extend_from_slice(b"null"),
        ValueRef::Currency(amount) => amount.write(out),
        ValueRef::Text(text) => write_string(out, text),
        ValueRef::Blob(bytes) => {
            use base64::Engine as _;
            let base64 = &base64::engine::general_purpose::URL_SAFE_NO_PAD;
            out.push(b'"');
            let start = out.len();
            out.resize(start + bytes.len().div_ceil(3) * 4, 0);
            // There is space for the padding too, which is not written.
            let written = base64.encode_slice(bytes, &mut out[start..]).unwrap_or(0);
            out.truncate(start + written);
            out.push(b'"');
        }
        ValueRef::Json(text) => out.extend_from_slice(text.as_bytes()),
        ValueRef::Date(day) => write_quoted(out, |out| day.write(out)),
        ValueRef::Time(time) => write_quoted(out, |out| time.write(out)),
        ValueRef::Timestamp(at) => write_quoted(out, |out| at.write(out)),
        ValueRef::Uuid(uuid) => write_quoted(out, |out| {
            let mut text = uuid::Uuid::encode_buffer();
            out.extend_from_slice(uuid.hyphenated().encode_lower(&mut text).as_bytes());
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn strings_are_what_serde_reads_back(text: String) {
            let mut out = Vec::new();
            write_string(&mut out, &text);
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }

        #[test]
        fn floats_are_read_back_exactly(number in proptest::num::f64::NORMAL) {
            let mut out = Vec::new();
            write_value(&mut out, ValueRef::Float(number));
            prop_assert_eq!(std::str::from_utf8(&out).unwrap().parse(), Ok(number));
        }
    }
}
