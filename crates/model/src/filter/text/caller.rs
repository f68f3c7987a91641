//! The values of the caller in a rule.

/// The authenticated caller, for the values of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The value of `@user.id` as text; compared as the field's kind.
    pub id: String,
    /// `@user.name`.
    pub name: String,
    /// `@user.groups`, by name.
    pub groups: Vec<String>,
}

impl Caller {
    /// Returns a caller with which every rule can be parsed, to check its syntax.
    #[must_use]
    pub fn sample() -> Self {
        Self { id: "1".to_owned(), name: "x".to_owned(), groups: Vec::new() }
    }
}
