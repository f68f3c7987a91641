//! From schemas to an application file.

use indexmap::IndexMap;
use marmota_model::{
    CharacterClass, Collation, EnumStored, Error, ErrorKind, Field, File, Kind, OnDelete, Result,
    Role, Rule, Sanitizer, Schema, SearchLanguage,
};

use crate::document::{
    ClassName, CollationName, CountDocument, FieldDetails, FieldDocument, IndexDocument, KindName,
    LanguageName, LengthDocument, OnDeleteName, RangeDocument, RoleName, SanitizerName, StoredName,
    TableDocument,
};
use crate::scalar::Scalar;

/// Returns the document of a schema.
///
/// # Errors
/// [`ErrorKind::Unsupported`] for rules that are Rust functions, and for an enum whose numbers are
/// not 0, 1, 2 and so on but are stored.
pub(crate) fn document(schema: &Schema) -> Result<TableDocument> {
    let mut fields = IndexMap::with_capacity(schema.fields.len());
    for field in schema.fields.iter() {
        let details = details(field).map_err(|what| {
            let message = format!(
                "`{}.{}` has {what}, which an application file cannot state",
                schema.name, field.name
            );
            Error::new(ErrorKind::Unsupported, message)
        })?;
        fields.insert(field.name.to_string(), FieldDocument(details));
    }
    if let Some((_, FieldDocument(key))) = fields.get_index_mut(schema.key) {
        let of = schema.key_fields.iter().filter_map(|&field| schema.fields.get(field));
        key.of = of.map(|field| field.name.to_string()).collect();
    }
    let mut indexes = Vec::new();
    for index in schema.indexes.iter() {
        match *index.fields {
            [field] if !index.unique && index.filter.is_none() => {
                if let Some((_, FieldDocument(details))) = fields.get_index_mut(field) {
                    details.index = true;
                }
            }
            _ => indexes.push(IndexDocument {
                fields: index
                    .fields
                    .iter()
                    .filter_map(|&field| Some(schema.fields.get(field)?.name.to_string()))
                    .collect(),
                unique: index.unique,
                filter: index.filter.as_deref().map(str::to_owned),
            }),
        }
    }
    let relations = schema
        .relations
        .iter()
        .map(|relation| (relation.name.to_string(), relation.path.to_string()))
        .collect();
    Ok(TableDocument {
        was: schema.was.as_deref().map(str::to_owned),
        audit: schema.audit,
        search_language: schema
            .search_language
            .map(|SearchLanguage::English| LanguageName::English),
        step_up: None,
        profile: false,
        indexes,
        relations,
        fields,
    })
}

/// Returns the document of a field; the error names what a file cannot state.
fn details(field: &Field) -> std::result::Result<FieldDetails, String> {
    let mut details = FieldDetails::new(KindName::Text);
    set_kind(&mut details, &field.kind)?;
    details.nullable = field.nullable;
    details.unique = field.unique;
    details.search = field.search;
    details.immutable = field.immutable;
    details.on_delete = match field.on_delete {
        OnDelete::Restrict => None,
        OnDelete::Cascade => Some(OnDeleteName::Cascade),
        OnDelete::SetNull => Some(OnDeleteName::SetNull),
    };
    details.was = field.was.as_deref().map(str::to_owned);
    details.default = field.default.as_ref().and_then(Scalar::of_literal);
    details.default_expression = field.default_expression.as_deref().map(str::to_owned);
    details.computed = field.computed.as_deref().map(str::to_owned);
    details.generated = field.generated.as_deref().map(|expression| match expression {
        "" => Scalar::Bool(true),
        expression => Scalar::Text(expression.to_owned()),
    });
    details.role = match field.role {
        Role::Plain => None,
        Role::Key => Some(RoleName::Key),
        Role::CreatedAt => Some(RoleName::CreatedAt),
        Role::UpdatedAt => Some(RoleName::UpdatedAt),
        Role::Version => Some(RoleName::Version),
    };
    details.sanitizers = field
        .sanitizers
        .iter()
        .map(|&one| sanitizer(one))
        .collect::<std::result::Result<_, _>>()?;
    field.rules.iter().try_for_each(|rule| add_rule(&mut details, rule))?;
    Ok(details)
}

fn set_kind(details: &mut FieldDetails, kind: &Kind) -> std::result::Result<(), String> {
    details.kind = match kind {
        Kind::Bool => KindName::Boolean,
        Kind::Int { min, max } => {
            details.min = (*min != i64::MIN).then_some(*min);
            details.max = (*max != i64::MAX).then_some(*max);
            KindName::Integer
        }
        Kind::Float => KindName::Float,
        Kind::Currency => KindName::Currency,
        Kind::Text { chars_max, collation } => {
            details.max = (*chars_max != 0).then_some(i64::from(*chars_max));
            details.collate = (*collation == Collation::NoCase).then_some(CollationName::NoCase);
            KindName::Text
        }
        Kind::Blob => KindName::Blob,
        Kind::Json => KindName::Json,
        Kind::Date => KindName::Date,
        Kind::Time => KindName::Time,
        Kind::Timestamp => KindName::Timestamp,
        Kind::Uuid => KindName::Uuid,
        Kind::Vector { dimensions } => {
            details.dimensions = Some(*dimensions);
            KindName::Vector
        }
        Kind::Enum { variants, stored } => {
            if *stored == EnumStored::Integer {
                if (0..).zip(variants.iter()).any(|(number, variant)| variant.number != number) {
                    return Err("an enum with numbers of its own".to_owned());
                }
                details.stored = Some(StoredName::Integer);
            }
            details.values = Some(variants.iter().map(|one| one.name.to_string()).collect());
            KindName::Enum
        }
        Kind::Reference { table, .. } => {
            details.table = Some(table.to_string());
            KindName::Reference
        }
        Kind::File { bytes_max, types } => {
            details.bytes_max = (*bytes_max != File::BYTES_MAX).then_some(*bytes_max);
            details.types = types.iter().map(ToString::to_string).collect();
            KindName::File
        }
        other => return Err(format!("the kind {}", other.name())),
    };
    Ok(())
}

fn add_rule(details: &mut FieldDetails, rule: &Rule) -> std::result::Result<(), String> {
    let end = |max: u32| (max != u32::MAX).then_some(max);
    let is_repeated = match rule {
        Rule::NotEmpty => std::mem::replace(&mut details.not_empty, true),
        Rule::Email => std::mem::replace(&mut details.email, true),
        Rule::Url => std::mem::replace(&mut details.url, true),
        Rule::Ip => std::mem::replace(&mut details.ip, true),
        Rule::Length { min, max } => {
            details.length.replace(LengthDocument { min: *min, max: end(*max) }).is_some()
        }
        Rule::Range { min, max } => {
            let scalar = |end: &Option<_>| end.as_ref().and_then(Scalar::of_literal);
            details.range.replace(RangeDocument { min: scalar(min), max: scalar(max) }).is_some()
        }
        Rule::Pattern(pattern) => details.pattern.replace(pattern.to_string()).is_some(),
        Rule::Count { class: counted, min, max } => {
            details.count.push(CountDocument {
                class: class(*counted)?,
                min: *min,
                max: end(*max),
            });
            false
        }
        Rule::Check { name, .. } => return Err(format!("the rule `{name}`, a Rust function")),
        _ => return Err("a rule that is newer than this file format".to_owned()),
    };
    if is_repeated {
        return Err("the same rule twice".to_owned());
    }
    Ok(())
}

fn sanitizer(sanitizer: Sanitizer) -> std::result::Result<SanitizerName, String> {
    Ok(match sanitizer {
        Sanitizer::Trim => SanitizerName::Trim,
        Sanitizer::CollapseSpaces => SanitizerName::CollapseSpaces,
        Sanitizer::Lower => SanitizerName::Lower,
        Sanitizer::Upper => SanitizerName::Upper,
        other => return Err(format!("the sanitizer {}", other.name())),
    })
}

fn class(class: CharacterClass) -> std::result::Result<ClassName, String> {
    Ok(match class {
        CharacterClass::Letters => ClassName::Letters,
        CharacterClass::Lower => ClassName::Lower,
        CharacterClass::Upper => ClassName::Upper,
        CharacterClass::Digits => ClassName::Digits,
        CharacterClass::Punctuation => ClassName::Punctuation,
        CharacterClass::Spaces => ClassName::Spaces,
        other => return Err(format!("the class {}", other.name())),
    })
}
