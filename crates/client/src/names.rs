//! Names of the generated items.

/// The name of an application in the forms that clients need.
pub(crate) struct Application {
    /// `web_shop`
    pub(crate) snake: String,
    /// `WebShop`
    pub(crate) class: String,
}

impl Application {
    /// Splits a name at all characters other than ASCII letters and digits. `None` if no letter
    /// begins the result.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let words = name.split(|letter: char| !letter.is_ascii_alphanumeric());
        let words: Vec<String> =
            words.filter(|word| !word.is_empty()).map(str::to_ascii_lowercase).collect();
        let snake = words.join("_");
        let begins = snake.starts_with(|first: char| first.is_ascii_alphabetic());
        begins.then(|| Self { class: pascal(&snake), snake })
    }

    /// `web-shop-client`
    pub(crate) fn package(&self) -> String {
        format!("{}-client", self.snake.replace('_', "-"))
    }
}

/// Returns the name of a type: `issue_label` is `IssueLabel`.
pub(crate) fn pascal(name: &str) -> String {
    let mut out = String::new();
    for word in name.split('_') {
        let mut letters = word.chars();
        out.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        out.push_str(letters.as_str());
    }
    out
}

/// Returns true if a name is written without quotes as a member, in both languages.
pub(crate) fn is_identifier(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Returns a text as a literal, which is the same in JavaScript and Python: control characters,
/// quotes and backslashes are escaped.
pub(crate) fn literal(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}') => {
                out.push_str(&format!("\\u{:04x}", letter as u32));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// Returns literals with a separator, or `nothing` if there are no names.
pub(crate) fn literals<'a>(
    names: impl IntoIterator<Item = &'a str>,
    separator: &str,
    nothing: &str,
) -> String {
    let all: Vec<String> = names.into_iter().map(literal).collect();
    if all.is_empty() { nothing.to_owned() } else { all.join(separator) }
}
