//! Named relations of a model.

use std::borrow::Cow;

/// A name for a path from the rows of a model to rows of other models, for filters:
/// `any(labels, name = 'bug')`.
///
/// A field of kind [`Reference`](crate::Kind::Reference) is a relation without being listed, and so
/// is each table with such a field that refers to this model. A named relation shortens a path of
/// several steps, such as the two steps through the table of a many-to-many relation.
///
/// The path is checked when the store is opened. [`Table::relation`](crate::Table::relation)
/// explains its steps.
///
/// ```
/// use marmota_model::{Field, Kind, Relation, Role, Schema};
/// let issue = Schema::new("issue", vec![Field::new("id", Kind::I64).role(Role::Key)])
///     .relations(vec![Relation::new("labels", "issue_label.label")]);
/// assert_eq!(issue.relations[0].path, "issue_label.label");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// The name, which no field and no other relation of the model has.
    pub name: Cow<'static, str>,
    /// The steps, separated by dots.
    pub path: Cow<'static, str>,
}

impl Relation {
    /// Creates a relation from its name and path.
    ///
    /// ```
    /// use marmota_model::Relation;
    /// let team = Relation::new("team", "project.team");
    /// assert_eq!(team.name, "team");
    /// ```
    #[must_use]
    pub fn new(name: impl Into<Cow<'static, str>>, path: impl Into<Cow<'static, str>>) -> Self {
        Self { name: name.into(), path: path.into() }
    }
}
