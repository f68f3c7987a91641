//! The resolution of relations between the tables of a store: from a path in a text to the fields
//! that join the rows.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock, Weak};

use super::prepared::Table;
use crate::schema::is_name;
use crate::value::excerpt::excerpt;
use crate::{Error, ErrorKind, Kind, Relation, Result};

/// The maximum number of steps from the rows that a filter selects to the rows that it tests.
pub const RELATION_STEPS_MAX: usize = 4;

/// One step from a row to related rows: those of `table` whose field `target` equals the row's
/// field `local`.
///
/// One of the two fields is a reference, the other one the key to which it refers.
///
/// ```
/// use marmota_model::RelationStep;
/// // From the rows of `issue` to the comments that refer to them by field number 1.
/// let comments = RelationStep { table: "comment".into(), local: 0, target: 1, to_one: false };
/// assert!(!comments.to_one);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RelationStep {
    /// The name of the related table.
    pub table: Cow<'static, str>,
    /// The position of the field in the table where the step begins.
    pub local: usize,
    /// The position of the field in the related table.
    pub target: usize,
    /// True if a row has at most one related row.
    pub to_one: bool,
}

/// A relation with its steps, from [`Table::relation`].
#[derive(Clone, Debug)]
pub struct ResolvedRelation {
    /// The steps, at least one and at most [`RELATION_STEPS_MAX`].
    pub steps: Vec<RelationStep>,
    /// The table of the last step.
    pub target: Arc<Table>,
}

impl ResolvedRelation {
    /// Returns true if a row has at most one related row.
    #[must_use]
    pub fn to_one(&self) -> bool {
        self.steps.iter().all(|step| step.to_one)
    }
}

/// The tables of a store, with which each of them finds the others.
#[derive(Debug)]
pub struct LinkedTables {
    /// Each table with the index of its database.
    tables: Vec<(Arc<Table>, usize)>,
}

impl LinkedTables {
    /// Links tables, each with the index of its database, and checks their named relations. The
    /// links last as long as the result.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use marmota_model::{Field, KeyKind, Kind, LinkedTables, Role, Schema, Table};
    /// let id = || Field::new("id", Kind::I64).role(Role::Key);
    /// let to_person = Kind::Reference { table: "person".into(), key: KeyKind::Auto };
    /// let person = Arc::new(Table::new(Schema::new("person", vec![id()]))?);
    /// let issue = Schema::new("issue", vec![id(), Field::new("assignee", to_person)]);
    /// let issue = Arc::new(Table::new(issue)?);
    /// let tables = [(Arc::clone(&person), 0), (Arc::clone(&issue), 0)];
    /// let links = LinkedTables::new(tables.into_iter().collect())?;
    /// assert!(issue.relation("assignee")?.to_one());
    /// assert!(!person.relation("issue")?.to_one());
    /// # drop(links);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the relation whose name or path is invalid.
    pub fn new(tables: Vec<(Arc<Table>, usize)>) -> Result<Arc<Self>> {
        let linked = Arc::new(Self { tables });
        for (table, _) in &linked.tables {
            // A table belongs to one store: a second set of links is not possible.
            let _ = table.links.set(Arc::downgrade(&linked));
        }
        for (table, _) in &linked.tables {
            table.check_relations()?;
        }
        Ok(linked)
    }

    /// Links the views of a caller ([`Table::view`]), each with the index of its database. Named
    /// relations that lead through fields without a name do not exist in them.
    #[must_use]
    pub fn of_views(tables: Vec<(Arc<Table>, usize)>) -> Arc<Self> {
        let linked = Arc::new(Self { tables });
        for (table, _) in &linked.tables {
            let _ = table.links.set(Arc::downgrade(&linked));
        }
        linked
    }

    fn find(&self, name: &str) -> Option<&(Arc<Table>, usize)> {
        self.tables.iter().find(|(table, _)| table.name() == name)
    }
}

impl Table {
    /// Resolves a relation of this table.
    ///
    /// A relation is a path of steps, separated by dots:
    ///
    /// | step | leads to |
    /// |---|---|
    /// | `assignee`, a reference field | the row to which it refers |
    /// | `labels`, a [named relation](crate::Relation) | the rows at the end of its path |
    /// | `comment`, a table with one reference to this one | the rows that refer to this row |
    /// | `comment:author`, a table and its reference field | the same, if the table has several references |
    ///
    /// Later steps begin at the table of the step before: `project.team`, `issue_label.label`. If
    /// a name is both a field and a table, it is the field.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an unknown or ambiguous step, with the possible ones; for more
    /// than [`RELATION_STEPS_MAX`] steps; and for a table that is not part of an open store.
    pub fn relation(&self, path: &str) -> Result<ResolvedRelation> {
        let links = self.links()?;
        let mut steps = Vec::new();
        let mut target = None;
        links.walk(self, path, path, 0, &mut steps, &mut target)?;
        let target = target.ok_or_else(|| self.no_relation(&links, path, path))?;
        Ok(ResolvedRelation { steps, target })
    }

    /// Returns true if a step of this table begins with the name, other than a reference field.
    pub(crate) fn has_relation(&self, name: &str) -> bool {
        let Ok(links) = self.links() else { return false };
        links.named(self, name).is_some()
            || links
                .find(name)
                .is_some_and(|(child, _)| child.references_to(self.name()).next().is_some())
    }

    /// Returns another table of the same store.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the store does not have the table.
    pub fn related(&self, name: &str) -> Result<Arc<Self>> {
        let links = self.links()?;
        links.find(name).map(|(table, _)| Arc::clone(table)).ok_or_else(|| {
            let name = excerpt(name);
            let message = format!(
                "a relation of `{}` leads to `{name}`, which is not a table of the store",
                self.name()
            );
            Error::new(ErrorKind::Invalid, message)
        })
    }

    /// Returns the table of a step that begins at this table.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the step is not one from a reference to its key, or from a key to
    /// a reference to it, in this store; and if the related table is in another database.
    pub fn step_target(&self, step: &RelationStep) -> Result<Arc<Self>> {
        let links = self.links()?;
        let target = self.related(&step.table)?;
        let home = |name: &str| links.find(name).map(|&(_, database)| database);
        if home(self.name()) != home(target.name()) {
            let message = format!(
                "a filter on `{}` uses a relation to `{}`, which is in another database; filter \
                 each table in a read of its own",
                self.name(),
                target.name()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let refers = |from: &Self, field: usize, to: &Self, key: usize| {
            let kind = from.fields().get(field).map(|field| &field.kind);
            let fits = matches!(kind, Some(Kind::Reference { table, .. }) if *table == to.name());
            fits && key == to.key()
        };
        let forwards = refers(self, step.local, &target, step.target);
        let backwards = refers(&target, step.target, self, step.local);
        let to_one = forwards || (backwards && target.fields()[step.target].unique);
        if (forwards || backwards) && to_one == step.to_one {
            return Ok(target);
        }
        let message = format!(
            "a filter on `{}` joins its field number {} with field number {} of `{}`, which is not \
             a reference to the other's key",
            self.name(),
            step.local,
            step.target,
            target.name()
        );
        Err(Error::new(ErrorKind::Invalid, message))
    }

    fn links(&self) -> Result<Arc<LinkedTables>> {
        self.links.get().and_then(Weak::upgrade).ok_or_else(|| {
            let message = format!(
                "`{}` has no relations here: relations need the table of an open store \
                 (`store.registry().table(…)`)",
                self.name()
            );
            Error::new(ErrorKind::Invalid, message)
        })
    }

    /// Checks the names and paths of the schema's relations.
    fn check_relations(&self) -> Result<()> {
        let refuse = |name: &str, why: &str| {
            let message = format!("relation `{}` of model `{}`: {why}", excerpt(name), self.name());
            Err(Error::new(ErrorKind::Invalid, message))
        };
        let relations = &self.schema().relations;
        for (position, relation) in relations.iter().enumerate() {
            let name = &*relation.name;
            let is_same = |other: &str| other.eq_ignore_ascii_case(name);
            if !is_name(name) {
                let why = "a name must have 1 to 63 ASCII letters, digits or `_`, and must not \
                           start with a digit";
                return refuse(name, why);
            }
            if self.fields().iter().any(|field| is_same(&field.name)) {
                return refuse(name, "a field of the model has this name");
            }
            if relations[..position].iter().any(|other| is_same(&other.name)) {
                return refuse(name, "two relations have this name");
            }
            if let Err(error) = self.relation(name) {
                return refuse(name, error.message());
            }
        }
        Ok(())
    }

    /// Returns the error for a step that this table does not have.
    #[cold]
    fn no_relation(&self, links: &LinkedTables, step: &str, path: &str) -> Error {
        let mut possible: Vec<String> = Vec::new();
        for (at, field) in self.fields().iter().enumerate() {
            if matches!(field.kind, Kind::Reference { .. }) && self.is_readable(at) {
                possible.push(field.name.to_string());
            }
        }
        let named = self.schema().relations.iter();
        let named = named.filter(|one| links.named(self, &one.name).is_some());
        possible.extend(named.map(|one| one.name.to_string()));
        for (child, _) in &links.tables {
            let fields: Vec<usize> = child.references_to(self.name()).collect();
            match fields[..] {
                [] => {}
                [_] => possible.push(child.name().to_owned()),
                _ => possible.extend(fields.iter().map(|&field| child.qualified(field))),
            }
        }
        let possible = match possible.is_empty() {
            true => "it has no relations".to_owned(),
            false => format!("it has {}", possible.join(", ")),
        };
        let (step, path) = (excerpt(step), excerpt(path));
        let place = if step == path { String::new() } else { format!(" (in `{path}`)") };
        let message = format!("`{}` has no relation `{step}`{place}; {possible}", self.name());
        Error::new(ErrorKind::Invalid, message)
    }

    /// Returns the fields that refer to rows of `table`.
    fn references_to(&self, table: &str) -> impl Iterator<Item = usize> {
        let fields = self.fields().iter().enumerate();
        fields
            .filter(move |(at, field)| {
                matches!(&field.kind, Kind::Reference { table: to, .. } if to == table)
                    && self.is_readable(*at)
            })
            .map(|(position, _)| position)
    }

    /// Returns `table:field`.
    fn qualified(&self, field: usize) -> String {
        format!("{}:{}", self.name(), self.fields()[field].name)
    }
}

impl LinkedTables {
    /// Adds the steps of `path`, which begins at `from`. `whole` is the path of the caller, for
    /// errors; `depth` is the number of named relations around this path.
    fn walk(
        &self,
        from: &Table,
        path: &str,
        whole: &str,
        depth: usize,
        steps: &mut Vec<RelationStep>,
        target: &mut Option<Arc<Table>>,
    ) -> Result<()> {
        for segment in path.split('.') {
            let at = target.clone();
            let at = at.as_deref().unwrap_or(from);
            if let Some(relation) = self.named(at, segment) {
                if depth == RELATION_STEPS_MAX {
                    return Err(too_long(from, whole));
                }
                let (mut inner, mut end) = (Vec::new(), None);
                self.walk(at, &relation.path, whole, depth + 1, &mut inner, &mut end)?;
                steps.append(&mut inner);
                *target = end;
            } else {
                let (step, table) = self.step(at, segment, whole)?;
                steps.push(step);
                *target = Some(table);
            }
            if steps.len() > RELATION_STEPS_MAX {
                return Err(too_long(from, whole));
            }
        }
        Ok(())
    }

    /// Returns the named relation of a table. A view does not have one whose path uses a field
    /// without a name.
    fn named<'t>(&self, at: &'t Table, name: &str) -> Option<&'t Relation> {
        let relation = at.schema().relations.iter().find(|relation| relation.name == name)?;
        let is_usable = !at.is_view() || {
            let (mut steps, mut end) = (Vec::new(), None);
            self.walk(at, &relation.path, name, 1, &mut steps, &mut end).is_ok()
        };
        is_usable.then_some(relation)
    }

    /// Returns the step that a segment without a named relation means.
    fn step(&self, at: &Table, segment: &str, whole: &str) -> Result<(RelationStep, Arc<Table>)> {
        let unknown = || at.no_relation(self, segment, whole);
        if let Some(local) = at.find(segment)
            && let Kind::Reference { table, .. } = &at.fields()[local].kind
        {
            let (target, _) = self.find(table).ok_or_else(unknown)?;
            let key = target.key();
            let step = RelationStep { table: table.clone(), local, target: key, to_one: true };
            return Ok((step, Arc::clone(target)));
        }
        let (name, field) = match segment.split_once(':') {
            Some((name, field)) => (name, Some(field)),
            None => (segment, None),
        };
        let (child, _) = self.find(name).ok_or_else(unknown)?;
        let mut references = child.references_to(at.name());
        let target = match field {
            Some(field) => references.find(|&position| child.fields()[position].name == field),
            None => references.next(),
        };
        let target = target.ok_or_else(unknown)?;
        if field.is_none() && references.next().is_some() {
            let names: Vec<String> =
                child.references_to(at.name()).map(|field| child.qualified(field)).collect();
            let message = format!(
                "the relation `{name}` of `{}` is ambiguous, since `{name}` has several references \
                 to it; write {}",
                at.name(),
                names.join(" or ")
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let to_one = child.fields()[target].unique;
        let table = Cow::Owned(name.to_owned());
        Ok((RelationStep { table, local: at.key(), target, to_one }, Arc::clone(child)))
    }
}

#[cold]
fn too_long(from: &Table, path: &str) -> Error {
    let message = format!(
        "the relation `{}` of `{}` has more than {RELATION_STEPS_MAX} steps, or leads back to \
         itself; use a shorter path",
        excerpt(path),
        from.name()
    );
    Error::new(ErrorKind::Invalid, message)
}

/// The link from a table to the other tables of its store.
pub(super) type Links = OnceLock<Weak<LinkedTables>>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Field, KeyKind, Relation, Role, Schema};

    fn schema(name: &'static str, references: &[(&'static str, &'static str)]) -> Schema {
        let to = |table: &'static str| Kind::Reference { table: table.into(), key: KeyKind::Auto };
        let mut fields = vec![Field::new("id", Kind::I64).role(Role::Key)];
        fields.extend(references.iter().map(|&(name, table)| Field::new(name, to(table))));
        Schema::new(name, fields)
    }

    fn linked(relations: Vec<Relation>) -> Result<(Arc<LinkedTables>, Vec<Arc<Table>>)> {
        let schemas = [
            schema("person", &[("boss", "person")]),
            schema("issue", &[("assignee", "person")]).relations(relations),
            schema("label", &[]),
            schema("issue_label", &[("issue", "issue"), ("label", "label")]),
            schema("comment", &[("issue", "issue"), ("author", "person"), ("reviewer", "person")]),
        ];
        let tables: Result<Vec<Arc<Table>>> =
            schemas.into_iter().map(|schema| Table::new(schema).map(Arc::new)).collect();
        let tables = tables?;
        let all = tables.iter().map(|table| (Arc::clone(table), 0)).collect();
        Ok((LinkedTables::new(all)?, tables))
    }

    #[test]
    fn paths_lead_to_tables() {
        let (_links, tables) = linked(vec![Relation::new("labels", "issue_label.label")]).unwrap();
        for (from, path, to, steps, to_one) in [
            (1, "assignee", "person", 1, true),
            (1, "assignee.boss.boss", "person", 3, true),
            (1, "labels", "label", 2, false),
            (1, "comment", "comment", 1, false),
            (1, "comment.author", "person", 2, false),
            (0, "comment:author", "comment", 1, false),
            (0, "issue.labels", "label", 3, false),
            (0, "boss", "person", 1, true),
            (0, "person:boss", "person", 1, false),
        ] {
            let relation = tables[from].relation(path).unwrap();
            assert_eq!(relation.target.name(), to, "{path}");
            assert_eq!((relation.steps.len(), relation.to_one()), (steps, to_one), "{path}");
            let mut at = Arc::clone(&tables[from]);
            for step in &relation.steps {
                at = at.step_target(step).unwrap();
            }
            assert_eq!(at.name(), to);
        }
    }

    #[test]
    fn errors_list_what_is_possible() {
        let (links, tables) = linked(vec![]).unwrap();
        for (from, path, part) in [
            (1, "labels", "it has assignee, issue_label, comment"),
            (
                0,
                "comment",
                "ambiguous, since `comment` has several references to it; write \
                            comment:author or comment:reviewer",
            ),
            (0, "comment:issue", "comment:author, comment:reviewer"),
            (1, "assignee.name", "`person` has no relation `name` (in `assignee.name`)"),
            (0, "boss.boss.boss.boss.boss", "more than 4 steps"),
            (0, "", "no relation ``"),
        ] {
            let error = tables[from].relation(path).unwrap_err();
            assert!(error.message().contains(part), "{path}: {error}");
        }
        drop(links);
        assert!(tables[1].relation("assignee").unwrap_err().message().contains("open store"));
    }

    #[test]
    fn named_relations_are_checked() {
        for (name, path, part) in [
            ("assignee", "comment", "a field of the model has this name"),
            ("a b", "comment", "a name must have"),
            ("labels", "issue_label.lable", "no relation `lable`"),
            ("x", "x", "leads back to itself"),
        ] {
            let error = linked(vec![Relation::new(name, path)]).unwrap_err();
            assert!(error.message().contains(part), "{name}: {error}");
        }
        let twice = vec![Relation::new("a", "comment"), Relation::new("A", "comment")];
        assert!(linked(twice).unwrap_err().message().contains("two relations"));
    }
}
