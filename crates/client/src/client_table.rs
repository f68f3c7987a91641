//! The tables as both languages need them: types of rows, and relations with their names.

use std::collections::HashSet;
use std::sync::Arc;

use marmota_model::{Field, KeyKind, Kind, Role, Table};

use crate::names::pascal;

/// A table of the client.
pub(crate) struct ClientTable {
    pub(crate) table: Arc<Table>,
    /// The name of the type of its rows.
    pub(crate) type_name: String,
    pub(crate) relations: Vec<ClientRelation>,
}

/// A relation that filters and `expand` can name.
pub(crate) struct ClientRelation {
    /// The name in the API: `category`, `note`, `link:from_category`.
    pub(crate) name: String,
    /// The name of the type of the related rows.
    pub(crate) target: String,
    /// The name of the related table.
    pub(crate) table: String,
    /// True if a row has at most one related row.
    pub(crate) to_one: bool,
    /// The reference field of the related table, if it refers to the row.
    pub(crate) back: Option<String>,
}

/// Whether a field is in the body of a write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Required,
    Optional,
    Absent,
}

/// Describes all tables.
pub(crate) fn all(tables: &[Arc<Table>]) -> Vec<ClientTable> {
    let type_names = type_names(tables);
    let relations = |table: &Arc<Table>| {
        let mut names: Vec<String> = Vec::new();
        for field in table.fields() {
            if matches!(field.kind, Kind::Reference { .. }) {
                names.push(field.name.to_string());
            }
        }
        names.extend(table.schema().relations.iter().map(|relation| relation.name.to_string()));
        for child in tables {
            let references: Vec<&Field> = child
                .fields()
                .iter()
                .filter(|field| matches!(&field.kind, Kind::Reference { table: to, .. } if *to == table.name()))
                .collect();
            match &*references {
                [_] => names.push(child.name().to_owned()),
                several => names
                    .extend(several.iter().map(|field| format!("{}:{}", child.name(), field.name))),
            }
        }
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        let resolved = names.into_iter().filter_map(|name| {
            let relation = table.relation(&name).ok()?;
            let target = tables.iter().position(|one| one.name() == relation.target.name())?;
            let back = match &*relation.steps {
                [step] if step.local == table.key() && table.find(&name).is_none() => {
                    let field = &relation.target.fields()[step.target];
                    // The values of a computed reference are written, not the reference.
                    field.computed.is_none().then(|| field.name.to_string())
                }
                _ => None,
            };
            // Rows are written through tables, not through relations with a name of their own.
            let is_named = table.schema().relations.iter().any(|relation| relation.name == name);
            Some(ClientRelation {
                back: back.filter(|_| !is_named),
                to_one: relation.to_one(),
                target: type_names[target].clone(),
                table: tables[target].name().to_owned(),
                name,
            })
        });
        resolved.collect()
    };
    let described = tables.iter().zip(&type_names).map(|(table, type_name)| ClientTable {
        table: Arc::clone(table),
        type_name: type_name.clone(),
        relations: relations(table),
    });
    described.collect()
}

/// Returns a name for the type of each table. Other types begin with it, so a name that another
/// table has already taken, such as `ProductInsert`, is followed by `_`.
fn type_names(tables: &[Arc<Table>]) -> Vec<String> {
    const SUFFIXES: [&str; 14] = [
        "",
        "Insert",
        "Patch",
        "Types",
        "Part",
        "Columns",
        "Expand",
        "BatchInsert",
        "Nested",
        "NestedInsert",
        "NestedWrites",
        "Keys",
        "Group",
        "Field",
    ];
    let mut taken: HashSet<String> = HashSet::new();
    let name = |table: &Arc<Table>| {
        let mut name = pascal(table.name());
        while SUFFIXES.iter().any(|suffix| taken.contains(&format!("{name}{suffix}"))) {
            name.push('_');
        }
        taken.extend(SUFFIXES.iter().map(|suffix| format!("{name}{suffix}")));
        name
    };
    tables.iter().map(name).collect()
}

impl ClientTable {
    /// Returns the fields of an insert.
    pub(crate) fn insert(&self) -> impl Iterator<Item = (&Field, Presence)> {
        self.table.fields().iter().enumerate().map(|(at, field)| {
            let presence = match field.role {
                Role::CreatedAt | Role::UpdatedAt | Role::Version => Presence::Absent,
                Role::Key if self.table.has_composite_key() => Presence::Absent,
                Role::Key if self.table.key_kind() == KeyKind::Text => Presence::Required,
                Role::Key => Presence::Optional,
                Role::Plain if field.computed.is_some() => Presence::Absent,
                Role::Plain
                    if field.nullable
                        || self.table.default(at).is_some()
                        || self.table.has_default_expression(at) =>
                {
                    Presence::Optional
                }
                Role::Plain => Presence::Required,
            };
            (field, presence)
        })
    }

    /// Returns the fields of a patch, all of which are optional.
    pub(crate) fn patch(&self) -> impl Iterator<Item = &Field> {
        let fields = self.table.fields().iter();
        fields.filter(|field| {
            field.role == Role::Plain && !field.immutable && field.computed.is_none()
        })
    }

    /// Returns the names of the fields for which a test is true.
    pub(crate) fn names(&self, test: impl Fn(&Field) -> bool) -> Vec<&str> {
        let fields = self.table.fields().iter().filter(|field| test(field));
        fields.map(|field| &*field.name).collect()
    }

    /// Returns the relations whose rows refer to a row of this table, each with its reference field.
    pub(crate) fn referring(&self) -> impl Iterator<Item = (&ClientRelation, &str)> {
        self.relations.iter().filter_map(|relation| Some((relation, relation.back.as_deref()?)))
    }

    /// Returns each reference field that is written, with the table to which it refers.
    pub(crate) fn references(&self) -> impl Iterator<Item = (&Field, &str)> {
        let fields = self.table.fields().iter().filter(|field| field.computed.is_none());
        fields.filter_map(|field| match &field.kind {
            Kind::Reference { table, .. } => Some((field, &**table)),
            _ => None,
        })
    }
}

/// Returns true for fields by which rows are ordered.
pub(crate) fn is_ordered(field: &Field) -> bool {
    !matches!(field.kind, Kind::Blob | Kind::Json | Kind::File { .. } | Kind::Vector { .. })
}

/// Returns true for fields that can be incremented.
pub(crate) fn is_number(field: &Field) -> bool {
    field.role == Role::Plain && matches!(field.kind, Kind::Int { .. } | Kind::Currency)
}

/// Returns true for fields by which rows are grouped.
pub(crate) fn is_grouped(field: &Field) -> bool {
    is_ordered(field) && field.kind != Kind::Float
}

/// Returns true for fields with a sum and a mean.
pub(crate) fn is_summed(field: &Field) -> bool {
    matches!(field.kind, Kind::Int { .. } | Kind::Float | Kind::Currency)
}

/// Returns true for fields with a lowest and a highest value.
pub(crate) fn is_ranged(field: &Field) -> bool {
    let is_text = matches!(field.kind, Kind::Text { .. });
    is_summed(field) || is_text || matches!(field.kind, Kind::Date | Kind::Time | Kind::Timestamp)
}

pub(crate) fn is_file(field: &Field) -> bool {
    matches!(field.kind, Kind::File { .. })
}

pub(crate) fn is_blob(field: &Field) -> bool {
    field.kind == Kind::Blob
}
