//! The tables of a running server, from its description at `GET /api`.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use marmota_model::{
    Collation, EnumStored, Error, ErrorKind, Field, KeyKind, Kind, LinkedTables, Literal, Relation,
    Result, Role, Schema, Table, Variant,
};
use serde::Deserialize;

/// The tables that a server describes, as far as a client needs them: without rules and indexes.
///
/// ```
/// use marmota_client::{ClientLanguage, DescribedTables, generate};
/// let tables = DescribedTables::parse(r#"{"tables":[{"name":"person","fields":[
///     {"name":"id","kind":"integer","nullable":false,"role":"key"},
///     {"name":"name","kind":"text","nullable":false}]}]}"#)?;
/// let files = generate(ClientLanguage::TypeScript, "people", tables.tables())?;
/// assert!(files.iter().any(|file| file.text.contains("interface PersonInsert")));
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub struct DescribedTables {
    tables: Vec<Arc<Table>>,
    /// Keeps the relations between the tables.
    _links: Arc<LinkedTables>,
}

#[derive(Deserialize)]
struct Description {
    tables: Vec<DescribedTable>,
}

#[derive(Deserialize)]
struct DescribedTable {
    name: String,
    fields: Vec<DescribedField>,
    /// The fields of a composite key.
    #[serde(default)]
    key_fields: Vec<String>,
    #[serde(default)]
    relations: Vec<DescribedRelation>,
    /// Present for audited tables.
    history: Option<String>,
}

#[derive(Deserialize)]
struct DescribedRelation {
    name: String,
    path: String,
}

#[derive(Deserialize)]
struct DescribedField {
    name: String,
    kind: String,
    nullable: bool,
    #[serde(default)]
    immutable: bool,
    readable: Option<bool>,
    updatable: Option<bool>,
    role: Option<String>,
    default: Option<serde_json::Value>,
    default_expression: Option<serde::de::IgnoredAny>,
    computed: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    values: Vec<String>,
    table: Option<String>,
    dimensions: Option<u32>,
}

impl DescribedTables {
    /// Reads the answer to `GET /api`. It describes what the caller may read and write: fields that may
    /// not be read are left out, and fields that may not be changed are immutable.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for another document, and for a kind of field that this version does
    /// not know.
    pub fn parse(document: &str) -> Result<Self> {
        let described: Description = serde_json::from_str(document).map_err(|error| {
            invalid(format!("this is not the description of the tables of a server: {error}"))
        })?;
        let keys: HashMap<&str, KeyKind> = described
            .tables
            .iter()
            .filter_map(|table| {
                let key = table.fields.iter().find(|field| field.role.as_deref() == Some("key"))?;
                Some((&*table.name, key_kind(&key.kind)))
            })
            .collect();
        let mut tables = Vec::with_capacity(described.tables.len());
        for table in &described.tables {
            tables.push((Arc::new(Table::new(schema(table, &keys)?)?), 0));
        }
        let listed = tables.iter().map(|(table, _)| Arc::clone(table)).collect();
        Ok(Self { tables: listed, _links: LinkedTables::of_views(tables) })
    }

    /// Returns the tables.
    #[must_use]
    pub fn tables(&self) -> &[Arc<Table>] {
        &self.tables
    }
}

impl fmt::Debug for DescribedTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.tables.iter().map(|table| table.name());
        f.debug_list().entries(names).finish()
    }
}

fn schema(table: &DescribedTable, keys: &HashMap<&str, KeyKind>) -> Result<Schema> {
    let mut fields = Vec::with_capacity(table.fields.len());
    for field in table.fields.iter().filter(|field| field.readable != Some(false)) {
        fields.push(of_field(&table.name, field, keys)?);
    }
    let relations = table.relations.iter();
    let relations = relations.map(|one| Relation::new(one.name.clone(), one.path.clone()));
    let place = |name: &String| fields.iter().position(|field: &Field| *field.name == **name);
    let key_fields: Vec<usize> = table.key_fields.iter().filter_map(place).collect();
    let mut schema = Schema::new(table.name.clone(), fields)
        .relations(relations.collect::<Vec<_>>())
        .audit(table.history.is_some());
    schema.key_fields = key_fields.into();
    Ok(schema)
}

fn of_field(table: &str, field: &DescribedField, keys: &HashMap<&str, KeyKind>) -> Result<Field> {
    let role = match field.role.as_deref() {
        Some("key") => Role::Key,
        Some("created_at") => Role::CreatedAt,
        Some("updated_at") => Role::UpdatedAt,
        Some("version") => Role::Version,
        _ => Role::Plain,
    };
    let is_fixed = role == Role::Plain && (field.immutable || field.updatable == Some(false));
    let out = Field::named(field.name.clone().into(), kind(table, field, keys)?)
        .nullable(field.nullable)
        .immutable(is_fixed)
        .role(role);
    // The server evaluates the expression, which may use fields that the caller does not see.
    let out = match field.default_expression {
        Some(_) if role == Role::Plain => out.default_expression("null"),
        _ => out,
    };
    if field.computed.is_some() && role == Role::Plain {
        return Ok(out.immutable(false).computed("null"));
    }
    let default = field.default.as_ref().and_then(|value| literal(&out.kind, value));
    Ok(match default.filter(|_| role == Role::Plain) {
        Some(default) => out.default(default),
        None => out,
    })
}

fn kind(table: &str, field: &DescribedField, keys: &HashMap<&str, KeyKind>) -> Result<Kind> {
    Ok(match &*field.kind {
        "boolean" => Kind::Bool,
        "integer" => Kind::I64,
        "float" => Kind::Float,
        "currency" => Kind::Currency,
        "text" => Kind::Text { chars_max: 0, collation: Collation::Binary },
        "blob" => Kind::Blob,
        "json" => Kind::Json,
        "date" => Kind::Date,
        "time" => Kind::Time,
        "timestamp" => Kind::Timestamp,
        "uuid" => Kind::Uuid,
        "enum" => {
            let named = field.values.iter().zip(0..);
            let variant =
                |(name, number): (&String, i64)| Variant { name: name.clone().into(), number };
            let variants: Vec<Variant> = named.map(variant).collect();
            Kind::Enum { variants: variants.into(), stored: EnumStored::Text }
        }
        "reference" => {
            let to = field.table.clone().unwrap_or_default();
            // A table that the caller may not read is one of accounts, with integers as keys.
            let key = keys.get(&*to).copied().unwrap_or(KeyKind::Auto);
            Kind::Reference { table: to.into(), key }
        }
        "file" => Kind::File { bytes_max: u64::MAX, types: Vec::new().into() },
        "vector" => Kind::Vector { dimensions: field.dimensions.unwrap_or(1) },
        other => {
            let message = format!(
                "the field `{}` of `{table}` has the kind `{other}`, which this version does not know: \
                 use the program of the server's version",
                field.name
            );
            return Err(invalid(message));
        }
    })
}

fn key_kind(kind: &str) -> KeyKind {
    match kind {
        "uuid" => KeyKind::Uuid,
        "text" => KeyKind::Text,
        _ => KeyKind::Auto,
    }
}

/// Returns a default as a constant; `None` for one that the kind does not have.
fn literal(kind: &Kind, value: &serde_json::Value) -> Option<Literal> {
    Some(match kind {
        Kind::Bool => Literal::Bool(value.as_bool()?),
        Kind::Int { .. } => Literal::Int(value.as_i64()?),
        Kind::Float => Literal::Float(value.as_f64()?),
        Kind::Currency => Literal::Currency(value.to_string().parse().ok()?),
        Kind::Json => Literal::Text(value.to_string().into()),
        _ => Literal::Text(value.as_str()?.to_owned().into()),
    })
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientLanguage, generate};

    #[test]
    fn a_computed_reference_is_read_and_not_written() {
        let document = r#"{"tables":[{"name":"seat","key_fields":["room","number"],"fields":[
            {"name":"room","kind":"text","nullable":false,"immutable":true},
            {"name":"number","kind":"integer","nullable":false,"immutable":true},
            {"name":"key","kind":"text","nullable":false,"role":"key"}]},
            {"name":"ticket","fields":[
            {"name":"id","kind":"integer","nullable":false,"role":"key"},
            {"name":"number","kind":"integer","nullable":true},
            {"name":"seat","kind":"reference","table":"seat","nullable":true,
             "computed":"key(room, number)"}]}]}"#;
        let tables = DescribedTables::parse(document).unwrap();
        let files = generate(ClientLanguage::TypeScript, "theater", tables.tables()).unwrap();
        let text: String = files.iter().map(|file| &*file.text).collect();
        let of = |name: &str| {
            let start = text.find(&format!("export interface {name} {{")).unwrap();
            text[start..].split_once("\n}").unwrap().0.to_owned()
        };
        assert!(of("Ticket").contains("seat: string | null"), "{}", of("Ticket"));
        assert!(!of("TicketInsert").contains("seat"), "{}", of("TicketInsert"));
        assert!(of("TicketTypes").contains("references: {}"), "{}", of("TicketTypes"));
        assert!(of("SeatTypes").contains("referring: {}"), "{}", of("SeatTypes"));
        assert!(of("SeatTypes").contains("ticket: m.Many<TicketTypes>"), "{}", of("SeatTypes"));
    }
}
