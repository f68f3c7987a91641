//! The values of the caller in a rule.

/// The authenticated caller, for the values of a rule.
///
/// ```
/// use marmota_model::Caller;
/// let ann = Caller { id: "7".into(), name: "ann".into(), groups: vec!["staff".into()] };
/// assert_eq!(ann.groups, ["staff"]);
/// ```
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
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT).search(true),
    /// #     Field::new("died", Kind::I64).nullable(true)]))?;
    /// use marmota_model::{Caller, parse_rule};
    /// assert!(parse_rule(&table, "name = @user.name", &Caller::sample()).is_ok());
    /// assert!(parse_rule(&table, "name == @user.name", &Caller::sample()).is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn sample() -> Self {
        Self { id: "1".to_owned(), name: "x".to_owned(), groups: Vec::new() }
    }
}
