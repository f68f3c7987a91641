//! The description of a file, which a row holds as JSON.

use serde::{Deserialize, Serialize};

use crate::{Timestamp, Uuid};

/// The description of a stored file: the value of a file field.
///
/// The bytes are in a storage of files (the crate `marmota-files`), under the `id`. The storage
/// makes the description when the bytes are on the disk. A row holds it as JSON:
///
/// ```
/// use marmota_model::{FieldValue, File, Scratch, Timestamp, Uuid, ValueRef};
/// let file = File {
///     id: Uuid::from_u128(7),
///     name: "marmot.jpg".to_owned(),
///     content_type: "image/jpeg".to_owned(),
///     bytes: 48_213,
///     sha256: "0".repeat(64),
///     created: Timestamp::from_micros(0)?,
/// };
/// let scratch = Scratch::new();
/// let ValueRef::Json(json) = file.to_row(&scratch) else { panic!() };
/// assert!(json.contains(r#""name":"marmot.jpg","type":"image/jpeg","bytes":48213"#));
/// assert_eq!(File::from_row(ValueRef::Json(json)), Some(file));
/// # Ok::<(), marmota_model::TimeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The random name of the bytes in the storage.
    pub id: Uuid,
    /// The name that the client gave; any text. It is never used as a path.
    pub name: String,
    /// The media type, from the first bytes of the file if they determine it.
    #[serde(rename = "type")]
    pub content_type: String,
    /// The number of bytes.
    pub bytes: u64,
    /// The SHA-256 digest of the bytes, in 64 hexadecimal digits.
    pub sha256: String,
    /// The time at which the bytes were stored.
    pub created: Timestamp,
}

impl File {
    /// The default limit of the size of a file: 100 MB.
    pub const BYTES_MAX: u64 = 100_000_000;

    /// Parses the JSON form; `None` for any other text.
    ///
    /// ```
    /// use marmota_model::File;
    /// assert_eq!(File::parse(r#"{"name":"a.txt"}"#), None);
    /// ```
    #[must_use]
    pub fn parse(json: &str) -> Option<Self> {
        let file: Self = serde_json::from_str(json).ok()?;
        let is_digest = file.sha256.len() == 64
            && file.sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (is_digest && !file.name.contains('\0') && Self::is_media_type(&file.content_type))
            .then_some(file)
    }

    /// Returns true for a media type in lower case without parameters, such as `image/png`.
    ///
    /// ```
    /// use marmota_model::File;
    /// assert!(File::is_media_type("image/png"));
    /// assert!(!File::is_media_type("text/plain; charset=utf-8"));
    /// ```
    #[must_use]
    pub fn is_media_type(text: &str) -> bool {
        let is_token = |part: &str| {
            let is_allowed = |byte: u8| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$&-^_.+".contains(&byte)
            };
            !part.is_empty() && part.bytes().all(is_allowed)
        };
        text.len() <= 127
            && text.split_once('/').is_some_and(|(kind, sub)| is_token(kind) && is_token(sub))
    }

    /// Returns the JSON form.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Its members are texts and numbers, which always have a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_descriptions_are_files() {
        let good = r#"{"id":"00000000-0000-0000-0000-000000000007","name":"../a\n","type":"image/png","bytes":1,"sha256":"D","created":"2026-11-26T10:00:00Z"}"#;
        let good = good.replace("\"D\"", &format!("\"{}\"", "a".repeat(64)));
        assert_eq!(File::parse(&good).unwrap().name, "../a\n");
        assert_eq!(File::parse(&File::parse(&good).unwrap().to_json()), File::parse(&good));
        for (from, to) in [
            ("image/png", "image"),
            ("image/png", "Image/png"),
            ("image/png", "image/png\\r\\nX: y"),
            ("\"bytes\":1", "\"bytes\":-1"),
            ("\"bytes\":1,", ""),
            ("\"bytes\":1", "\"bytes\":1,\"url\":\"x\""),
            ("aaaa\"", "aaaA\""),
            ("aaaa\"", "aaa\""),
            ("../a", "\\u0000"),
        ] {
            assert_eq!(File::parse(&good.replace(from, to)), None, "{from} {to}");
        }
    }
}
