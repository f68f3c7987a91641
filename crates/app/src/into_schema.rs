//! From an application file to schemas.

use std::borrow::Cow;
use std::time::Duration;

use indexmap::IndexMap;
use marmota_model::text::excerpt;
use marmota_model::{
    CharacterClass, Collation, EnumStored, Field, File, Index, KeyKind, Kind, OnDelete, Relation,
    Role, Rule, Sanitizer, Schema, SearchLanguage, Table, Variant,
};

use crate::document::{
    AppDocument, ClassName, CollationName, FieldDetails, FieldDocument, KindName, LanguageName,
    LengthDocument, OnDeleteName, RangeDocument, RoleName, SanitizerName, StoredName,
    TableDocument,
};
use crate::fault::Fault;
use crate::scalar::Scalar;
use crate::webhook;

/// Returns the schemas of the tables, each of which is valid for itself.
pub(crate) fn schemas(document: &AppDocument) -> Result<Vec<Schema>, Fault> {
    let tables = &document.tables;
    let schemas: Result<Vec<Schema>, Fault> =
        tables.iter().map(|(name, table)| schema(name, table, tables)).collect();
    let schemas = schemas?;
    webhook::check(&document.webhooks, &schemas)?;
    Ok(schemas)
}

fn schema(
    name: &str,
    document: &TableDocument,
    tables: &IndexMap<String, TableDocument>,
) -> Result<Schema, Fault> {
    let mut fields = Vec::with_capacity(document.fields.len());
    let mut indexes = Vec::new();
    for (position, (field_name, FieldDocument(details))) in document.fields.iter().enumerate() {
        let field = field(field_name, details, tables).map_err(|(key, message)| {
            let path = ["tables", name, "fields", field_name];
            Fault::new(path.into_iter().chain(key), message)
        })?;
        fields.push(field);
        if details.index {
            indexes.push(Index::new(vec![position]));
        }
    }
    let key_fields = key_fields(name, document)?;
    if let Some(time) = &document.step_up
        && step_up_time(time).is_none()
    {
        let message = format!("the time {} must be such as 30s, 5m or 1h", excerpt(time));
        return Err(Fault::new(["tables", name, "step_up"], message));
    }
    for index in &document.indexes {
        let positions = index.fields.iter().map(|field| {
            document.fields.get_index_of(field).ok_or_else(|| {
                let message = format!("an index of `{name}` has the unknown field `{field}`");
                Fault::new(["tables", name, "indexes"], message)
            })
        });
        let fields = positions.collect::<Result<Vec<usize>, Fault>>()?;
        let filter = index.filter.clone().map(Cow::Owned);
        indexes.push(Index { fields: fields.into(), unique: index.unique, filter });
    }
    let relations = document
        .relations
        .iter()
        .map(|(relation, path)| Relation::new(relation.clone(), path.clone()))
        .collect();
    let mut schema = Schema::new(name.to_owned(), fields)
        .indexes(indexes)
        .relations(relations)
        .audit(document.audit)
        .search_language(
            document.search_language.map(|LanguageName::English| SearchLanguage::English),
        );
    schema.was = document.was.clone().map(Cow::Owned);
    schema.key_fields = key_fields.into();
    match Table::new(schema.clone()) {
        Ok(_) => Ok(schema),
        Err(error) => {
            let is_of_indexes = Table::new(schema.clone().indexes(Vec::new())).is_ok();
            let without_key = Schema { key_fields: Cow::Borrowed(&[]), ..schema.clone() };
            if !is_of_indexes && Table::new(without_key).is_ok() {
                let key = &schema.fields[schema.key].name;
                return Err(Fault::new(["tables", name, "fields", key, "of"], error.message()));
            }
            if is_of_indexes {
                return Err(Fault::new(["tables", name, "indexes"], error.message()));
            }
            let field = field_at_fault(&schema);
            let path = ["tables", name].into_iter();
            let path = path.chain(field.iter().flat_map(|field| ["fields", field]));
            Err(Fault::new(path, error.message()))
        }
    }
}

/// Returns the positions of the fields of a composite key.
fn key_fields(name: &str, document: &TableDocument) -> Result<Vec<usize>, Fault> {
    let mut positions = Vec::new();
    for (field, FieldDocument(details)) in &document.fields {
        let fault = |message: String| Fault::new(["tables", name, "fields", field, "of"], message);
        if !details.of.is_empty() && details.role != Some(RoleName::Key) {
            return Err(fault("`of` is for the field with `role = \"key\"`".to_owned()));
        }
        for part in &details.of {
            let position = document.fields.get_index_of(part);
            positions.push(position.ok_or_else(|| {
                fault(format!("the key of `{name}` has the unknown field `{}`", excerpt(part)))
            })?);
        }
    }
    Ok(positions)
}

/// Returns the time of a text such as `5m`, at most a year; `None` for another text.
pub(crate) fn step_up_time(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    let number: u64 =
        number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())??;
    let seconds = number.checked_mul(seconds)?;
    (1..=365 * 24 * 3600).contains(&seconds).then(|| Duration::from_secs(seconds))
}

/// Returns the name of the field that makes a schema invalid: next to the key alone, or by its
/// expression next to the other fields.
fn field_at_fault(schema: &Schema) -> Option<String> {
    let key = schema.fields.get(schema.key)?.clone();
    let is_faulty = |field: &&Field| {
        let field = without_expression(field);
        let fields = match field.role {
            Role::Key => vec![field],
            _ => vec![key.clone(), field],
        };
        Table::new(Schema::new("one", fields)).is_err()
    };
    let has_faulty_expression = |field: &&Field| {
        let others = schema.fields.iter().map(|other| match other.name == field.name {
            true => other.clone(),
            false => without_expression(other),
        });
        let others = others.collect();
        let has_expression = field.default_expression.is_some() || field.is_computed();
        has_expression && Table::new(Schema::new("one", others)).is_err()
    };
    let mut fields = schema.fields.iter();
    let field = fields.find(is_faulty).or_else(|| schema.fields.iter().find(has_faulty_expression));
    field.map(|field| field.name.to_string())
}

fn without_expression(field: &Field) -> Field {
    Field { default_expression: None, computed: None, generated: None, ..field.clone() }
}

/// An error of a field: the key that is wrong, if it is a single one, and the message.
type FieldFault = (Option<&'static str>, String);

fn field(
    name: &str,
    details: &FieldDetails,
    tables: &IndexMap<String, TableDocument>,
) -> Result<Field, FieldFault> {
    refuse_foreign_keys(details)?;
    let mut field = Field::named(name.to_owned().into(), kind(details, tables)?)
        .nullable(details.nullable)
        .unique(details.unique)
        .search(details.search)
        .immutable(details.immutable)
        .on_delete(details.on_delete.map_or(OnDelete::Restrict, on_delete))
        .role(details.role.map_or(Role::Plain, role))
        .sanitizers(details.sanitizers.iter().map(|&name| sanitizer(name)).collect::<Vec<_>>())
        .rules(rules(details));
    field.was = details.was.clone().map(Cow::Owned);
    field.default = details.default.clone().map(Scalar::into_literal);
    field.default_expression = details.default_expression.clone().map(Cow::Owned);
    field.computed = details.computed.clone().map(Cow::Owned);
    field.generated = generated(details.generated.as_ref())?.map(Cow::Owned);
    Ok(field)
}

/// Returns the SQL expression of a generated column; it is empty for one that the database has.
fn generated(given: Option<&Scalar>) -> Result<Option<String>, FieldFault> {
    match given {
        None | Some(Scalar::Bool(false)) => Ok(None),
        Some(Scalar::Bool(true)) => Ok(Some(String::new())),
        Some(Scalar::Text(expression)) if !expression.trim().is_empty() => {
            Ok(Some(expression.clone()))
        }
        Some(_) => {
            let message = "write an SQL expression, or `true` for a generated column that the \
                           database has";
            Err((Some("generated"), message.to_owned()))
        }
    }
}

/// Refuses keys that do not apply to the kind: they would have no effect.
fn refuse_foreign_keys(details: &FieldDetails) -> Result<(), FieldFault> {
    use KindName::{Enum, File, Integer, Reference, Text, Vector};
    let is = |kinds: &[KindName]| kinds.contains(&details.kind);
    let foreign = [
        ("table", details.table.is_some() && !is(&[Reference]), "reference"),
        ("on_delete", details.on_delete.is_some() && !is(&[Reference]), "reference"),
        ("values", details.values.is_some() && !is(&[Enum]), "enum"),
        ("stored", details.stored.is_some() && !is(&[Enum]), "enum"),
        ("min", details.min.is_some() && !is(&[Integer]), "integer"),
        ("max", details.max.is_some() && !is(&[Integer, Text]), "integer or text"),
        ("collate", details.collate.is_some() && !is(&[Text]), "text"),
        ("dimensions", details.dimensions.is_some() && !is(&[Vector]), "vector"),
        ("bytes_max", details.bytes_max.is_some() && !is(&[File]), "file"),
        ("types", !details.types.is_empty() && !is(&[File]), "file"),
    ];
    match foreign.into_iter().find(|(_, is_foreign, _)| *is_foreign) {
        None => Ok(()),
        Some((key, _, kinds)) => {
            let hint = match key {
                "min" | "max" => "; for other kinds use `range = { min = …, max = … }`",
                _ => "",
            };
            let message = format!("`{key}` is for fields of kind {kinds}{hint}");
            Err((Some(key), message))
        }
    }
}

fn kind(
    details: &FieldDetails,
    tables: &IndexMap<String, TableDocument>,
) -> Result<Kind, FieldFault> {
    Ok(match details.kind {
        KindName::Boolean => Kind::Bool,
        KindName::Integer => {
            let (min, max) = (details.min.unwrap_or(i64::MIN), details.max.unwrap_or(i64::MAX));
            if min > max {
                return Err((Some("min"), format!("`min` {min} is greater than `max` {max}")));
            }
            Kind::Int { min, max }
        }
        KindName::Float => Kind::Float,
        KindName::Currency => Kind::Currency,
        KindName::Text => {
            let max = details.max.unwrap_or(0);
            let chars_max = u32::try_from(max).map_err(|_| {
                (
                    Some("max"),
                    format!("`max` {max} is not a number of characters: 1 to {}", u32::MAX),
                )
            })?;
            let collation = match details.collate {
                Some(CollationName::NoCase) => Collation::NoCase,
                Some(CollationName::Binary) | None => Collation::Binary,
            };
            Kind::Text { chars_max, collation }
        }
        KindName::Blob => Kind::Blob,
        KindName::Json => Kind::Json,
        KindName::Date => Kind::Date,
        KindName::Time => Kind::Time,
        KindName::Timestamp => Kind::Timestamp,
        KindName::Uuid => Kind::Uuid,
        KindName::Vector => match details.dimensions {
            Some(dimensions) => Kind::Vector { dimensions },
            None => {
                let message = "a vector needs `dimensions`, the number of its floats";
                return Err((Some("dimensions"), message.to_owned()));
            }
        },
        KindName::Enum => enumeration(details)?,
        KindName::Reference => reference(details, tables)?,
        KindName::File => {
            let types: Vec<Cow<'static, str>> =
                details.types.iter().cloned().map(Cow::Owned).collect();
            Kind::File {
                bytes_max: details.bytes_max.unwrap_or(File::BYTES_MAX),
                types: types.into(),
            }
        }
    })
}

fn enumeration(details: &FieldDetails) -> Result<Kind, FieldFault> {
    let values = details.values.as_deref().unwrap_or_default();
    if values.is_empty() {
        let message = "an enum needs its names: `values = [\"open\", \"closed\"]`";
        return Err((Some("values"), message.to_owned()));
    }
    // The numbers begin at 0, as those of `#[derive(ModelEnum)]` do.
    let variants: Vec<Variant> = (0..)
        .zip(values)
        .map(|(number, name)| Variant { name: Cow::Owned(name.clone()), number })
        .collect();
    let stored = match details.stored {
        Some(StoredName::Integer) => EnumStored::Integer,
        Some(StoredName::Text) | None => EnumStored::Text,
    };
    Ok(Kind::Enum { variants: variants.into(), stored })
}

fn reference(
    details: &FieldDetails,
    tables: &IndexMap<String, TableDocument>,
) -> Result<Kind, FieldFault> {
    let Some(name) = &details.table else {
        return Err((Some("table"), "a reference needs `table`, the name of a table".to_owned()));
    };
    let Some(table) = tables.get(name) else {
        let names: Vec<&str> = tables.keys().map(String::as_str).collect();
        let message = format!("there is no table `{name}`; there are: {}", names.join(", "));
        return Err((Some("table"), message));
    };
    let key = table.fields.values().find(|field| field.0.role == Some(RoleName::Key));
    let key = match key.map(|field| field.0.kind) {
        Some(KindName::Integer) => KeyKind::Auto,
        Some(KindName::Uuid) => KeyKind::Uuid,
        Some(KindName::Text) => KeyKind::Text,
        _ => {
            let message = format!(
                "the table `{name}` has no key: one of its fields needs `role = \"key\"` and the \
                 kind integer, uuid or text"
            );
            return Err((Some("table"), message));
        }
    };
    Ok(Kind::Reference { table: Cow::Owned(name.clone()), key })
}

fn rules(details: &FieldDetails) -> Vec<Rule> {
    let flags = [
        (details.not_empty, Rule::NotEmpty),
        (details.email, Rule::Email),
        (details.url, Rule::Url),
        (details.ip, Rule::Ip),
    ];
    let mut rules: Vec<Rule> =
        flags.into_iter().filter_map(|(is_set, rule)| is_set.then_some(rule)).collect();
    if let Some(LengthDocument { min, max }) = details.length {
        rules.push(Rule::Length { min, max: max.unwrap_or(u32::MAX) });
    }
    if let Some(RangeDocument { min, max }) = details.range.clone() {
        let end = |scalar: Option<Scalar>| scalar.map(Scalar::into_literal);
        rules.push(Rule::Range { min: end(min), max: end(max) });
    }
    if let Some(pattern) = &details.pattern {
        rules.push(Rule::Pattern(Cow::Owned(pattern.clone())));
    }
    rules.extend(details.count.iter().map(|count| Rule::Count {
        class: class(count.class),
        min: count.min,
        max: count.max.unwrap_or(u32::MAX),
    }));
    rules
}

const fn role(name: RoleName) -> Role {
    match name {
        RoleName::Key => Role::Key,
        RoleName::CreatedAt => Role::CreatedAt,
        RoleName::UpdatedAt => Role::UpdatedAt,
        RoleName::Version => Role::Version,
    }
}

const fn on_delete(name: OnDeleteName) -> OnDelete {
    match name {
        OnDeleteName::Restrict => OnDelete::Restrict,
        OnDeleteName::Cascade => OnDelete::Cascade,
        OnDeleteName::SetNull => OnDelete::SetNull,
    }
}

const fn sanitizer(name: SanitizerName) -> Sanitizer {
    match name {
        SanitizerName::Trim => Sanitizer::Trim,
        SanitizerName::CollapseSpaces => Sanitizer::CollapseSpaces,
        SanitizerName::Lower => Sanitizer::Lower,
        SanitizerName::Upper => Sanitizer::Upper,
    }
}

const fn class(name: ClassName) -> CharacterClass {
    match name {
        ClassName::Letters => CharacterClass::Letters,
        ClassName::Lower => CharacterClass::Lower,
        ClassName::Upper => CharacterClass::Upper,
        ClassName::Digits => CharacterClass::Digits,
        ClassName::Punctuation => CharacterClass::Punctuation,
        ClassName::Spaces => CharacterClass::Spaces,
    }
}
