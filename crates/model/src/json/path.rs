//! A place inside a JSON value: `address.city`, `tags[0]`, `"first name"[2].x`.

use std::fmt;

use crate::value::excerpt::{excerpt, unquote};

/// The maximum number of bytes in the text of a path.
pub const JSON_PATH_BYTES_MAX: usize = 1_000;
/// The maximum number of steps in a path.
pub const JSON_PATH_STEPS_MAX: usize = 32;

/// One step into a JSON value.
///
/// ```
/// use marmota_model::json::{JsonPath, JsonStep};
/// let path = JsonPath::new("tags[0]");
/// let steps = [JsonStep::Member("tags".into()), JsonStep::Element(0)];
/// assert_eq!(path.steps(), Ok(&steps[..]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum JsonStep {
    /// The member of an object with this name.
    Member(String),
    /// The element of an array at this index, starting at 0.
    Element(u32),
}

/// A place inside a JSON value.
///
/// Members follow dots, elements are in brackets. A name with characters other than letters, digits
/// and `_` is quoted. An invalid text is stored with its error, which the check of a filter
/// reports.
///
/// ```
/// use marmota_model::json::{JsonPath, JsonStep};
/// let path = JsonPath::new("lines[2].'unit price'");
/// let steps = path.steps().unwrap();
/// assert_eq!(steps[1], JsonStep::Element(2));
/// assert_eq!(steps[2], JsonStep::Member("unit price".into()));
/// assert!(JsonPath::new("lines[").steps().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JsonPath {
    text: Box<str>,
    steps: Result<Box<[JsonStep]>, String>,
}

impl JsonPath {
    /// Parses a path.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let steps = match read(text) {
            Ok((_, taken)) if !text[taken..].trim_end().is_empty() => {
                Err(format!("has {:?}, expected `.` or `[`", excerpt(text[taken..].trim_start())))
            }
            Ok((steps, _)) if steps.is_empty() => {
                Err("is empty; write a path such as `address.city`".to_owned())
            }
            Ok((steps, _)) => Ok(steps.into()),
            Err(why) => Err(why),
        };
        Self { text: text.into(), steps }
    }

    /// Parses the path at the start of a text, which begins with `.` or `[`. Also returns its
    /// number of bytes.
    pub(crate) fn at_start(text: &str) -> Result<(Self, usize), String> {
        let (steps, taken) = read(text)?;
        let text = text[..taken].trim();
        let text = text.strip_prefix('.').unwrap_or(text).into();
        Ok((Self { text, steps: Ok(steps.into()) }, taken))
    }

    /// Returns the steps from the outside in.
    ///
    /// # Errors
    /// The fault of the text.
    ///
    /// ```
    /// use marmota_model::json::JsonPath;
    /// assert_eq!(JsonPath::new("address.city").steps().map(<[_]>::len), Ok(2));
    /// assert_eq!(JsonPath::new("tags[0").steps(), Err("has a `[` without its `]`"));
    /// ```
    pub fn steps(&self) -> Result<&[JsonStep], &str> {
        match &self.steps {
            Ok(steps) => Ok(steps),
            Err(why) => Err(why),
        }
    }
}

impl From<&str> for JsonPath {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Parses the steps at the start of a text. Also returns their number of bytes. The dot of the
/// first member may be omitted.
fn read(text: &str) -> Result<(Vec<JsonStep>, usize), String> {
    let mut steps = Vec::new();
    let mut at = 0;
    loop {
        let rest = text[at..].trim_start();
        let start = text.len() - rest.len();
        let step = if let Some(inside) = rest.strip_prefix('[') {
            let end = inside.find(']').ok_or("has a `[` without its `]`")?;
            let number = inside[..end].trim();
            let element = number.parse().map_err(|_| {
                let number = excerpt(number);
                format!(
                    "has {number:?} in brackets; write the index of an element, counted from \
                         0: `tags[0]`"
                )
            })?;
            at = start + 1 + end + 1;
            JsonStep::Element(element)
        } else if let Some(name) = rest.strip_prefix('.') {
            let (name, taken) = member(name)?;
            at = start + 1 + taken;
            JsonStep::Member(name)
        } else if steps.is_empty() && !rest.is_empty() {
            let (name, taken) = member(rest)?;
            at = start + taken;
            JsonStep::Member(name)
        } else {
            return Ok((steps, at));
        };
        steps.push(step);
        if steps.len() > JSON_PATH_STEPS_MAX || at > JSON_PATH_BYTES_MAX {
            return Err(format!(
                "has more than {JSON_PATH_STEPS_MAX} steps or {JSON_PATH_BYTES_MAX} bytes"
            ));
        }
    }
}

/// Parses a member's name, plain or quoted. Also returns its number of bytes.
fn member(text: &str) -> Result<(String, usize), String> {
    let start = text.len() - text.trim_start().len();
    let name = &text[start..];
    if name.starts_with(['\'', '"']) {
        let (name, taken) = unquote(name).ok_or("has a name without its closing quote")?;
        return Ok((name, start + taken));
    }
    let plain = |c: char| c.is_alphanumeric() || c == '_';
    let length = name.find(|c| !plain(c)).unwrap_or(name.len());
    if length == 0 {
        let found = name.chars().next().map_or("its end".to_owned(), |c| format!("{c:?}"));
        return Err(format!(
            "has {found}, expected the name of a member; a name with characters other than \
             letters, digits and `_` must be quoted"
        ));
    }
    Ok((name[..length].to_owned(), start + length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn says_what_is_wrong() {
        for (text, part) in [
            ("", "is empty"),
            ("a.", "its end"),
            ("a..b", "'.'"),
            ("a b", "\"b\""),
            ("a[x]", "counted from 0"),
            ("a[-1]", "counted from 0"),
            ("a[1", "without its `]`"),
            ("a.'b", "closing quote"),
            ("a-b", "\"-b\""),
        ] {
            let why = JsonPath::new(text).steps().unwrap_err().to_owned();
            assert!(why.contains(part), "{text}: {why}");
        }
        assert!(JsonPath::new(&"a.".repeat(40)).steps().is_err());
        assert!(JsonPath::new(&"a".repeat(1001)).steps().is_err());
    }

    proptest! {
        #[test]
        fn any_name_can_be_quoted(name: String, element: u32) {
            let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
            prop_assume!(quoted.len() < 900);
            let path = JsonPath::new(&format!("x[{element}] . \"{quoted}\""));
            let steps = path.steps().unwrap();
            prop_assert_eq!(&steps[1], &JsonStep::Element(element));
            prop_assert_eq!(&steps[2], &JsonStep::Member(name));
        }

        #[test]
        fn never_panics(text in "[a.\\[\\]'\"0-9 \\\\é]{0,20}") {
            let _ = JsonPath::new(&text);
        }
    }
}
