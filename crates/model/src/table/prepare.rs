//! Checks a schema and prepares it.

use std::collections::HashMap;
use std::sync::Arc;

use super::compiled_rule::CompiledRule;
use super::composite_key;
use super::expressions::Expressions;
use super::prepared::Table;
use super::reference::made_texts::MadeTexts;
use super::reference::row_texts::RowTexts;
use super::{JsonMember, TableShape};
use crate::schema::is_name;
use crate::schema::text::literal_value;
use crate::{
    Currency, Date, Error, ErrorKind, Field, FieldSet, KeyKind, Kind, OnDelete, Result, Role,
    Sanitizer, Schema, Time, Timestamp, Uuid, VECTOR_DIMENSIONS_MAX, Value, ValueForm,
};

impl Table {
    /// Checks a schema, except for the filters of its indexes, and prepares it.
    pub(crate) fn with_unchecked_filters(schema: Schema) -> Result<Self> {
        check_names(&schema)?;
        let key_kind = check_key(&schema)?;
        composite_key::check(&schema).map_err(|(field, why)| refuse(&schema, field, why))?;
        Self::prepare(schema, key_kind)
    }

    /// Prepares the description of rows that are computed. They have no key: their first field is
    /// not one, but counts as it where a position is needed.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an invalid or repeated name.
    pub(crate) fn of_results(schema: Schema) -> Result<Self> {
        check_names(&schema)?;
        Self::prepare(schema, KeyKind::Auto)
    }

    fn prepare(mut schema: Schema, key_kind: KeyKind) -> Result<Self> {
        for &field in &*schema.key_fields {
            if !schema.fields[field].immutable {
                schema.fields.to_mut()[field].immutable = true;
            }
        }
        let role = |role: Role| schema.fields.iter().position(|field| field.role == role);
        let (created_at, updated_at, version) =
            (role(Role::CreatedAt), role(Role::UpdatedAt), role(Role::Version));
        let expressions = Expressions::of(&schema)?;
        let made = MadeTexts::of(&schema, &expressions)
            .map_err(|(field, why)| refuse(&schema, Some(&schema.fields[field]), why))?;
        let row_texts = RowTexts::of(&schema, &expressions)
            .map_err(|(field, why)| refuse(&schema, Some(&schema.fields[field]), why))?;
        let mut table = Self {
            positions: HashMap::new(),
            json_members: Vec::with_capacity(schema.fields.len()),
            rules: Vec::new(),
            typed_rules: Vec::new(),
            defaults: Vec::with_capacity(schema.fields.len()),
            expressions: Arc::new(expressions),
            made,
            row_texts,
            key_kind,
            all: FieldSet::first(schema.fields.len()),
            read_by_default: FieldSet::EMPTY,
            immutable: FieldSet::EMPTY,
            sanitized: Vec::new(),
            created_at,
            updated_at,
            version,
            shape: Arc::new(TableShape::of(&schema)),
            links: super::relation::Links::default(),
            index_filters: None,
            view: None,
            schema,
        };
        table.prepare_fields()?;
        if table.schema.search_language.is_some() && !table.schema.fields.iter().any(|f| f.search) {
            let why = "it has a search language, but no searched field: add `search` to a field";
            return Err(refuse(&table.schema, None, why));
        }
        table.check_indexes()?;
        Ok(table)
    }

    /// Returns the value that stands for one that is not known yet: NULL for a field that may be NULL,
    /// otherwise an empty text or zero; absent for other kinds.
    #[must_use]
    pub fn placeholder(&self, position: usize) -> Value {
        let field = &self.schema.fields[position];
        match field.nullable {
            true => Value::Null,
            false => placeholder(&field.kind).unwrap_or_default(),
        }
    }

    fn prepare_fields(&mut self) -> Result<()> {
        for (position, field) in self.schema.fields.iter().enumerate() {
            self.positions.insert(field.name.to_string(), position);
            self.json_members.push(JsonMember::of(field));
            check_role(&self.schema, field)?;
            if field.search && !matches!(field.kind, Kind::Text { .. }) {
                let kind = field.kind.name();
                let why = format!("only text fields can be searched, and this field is {kind}");
                return Err(refuse(&self.schema, Some(field), &why));
            }
            if let Err(why) = check_on_delete(field) {
                return Err(refuse(&self.schema, Some(field), why));
            }
            if let Kind::Vector { dimensions } = field.kind {
                if dimensions == 0 || dimensions > VECTOR_DIMENSIONS_MAX {
                    let why = format!("a vector has 1 to {VECTOR_DIMENSIONS_MAX} dimensions");
                    return Err(refuse(&self.schema, Some(field), &why));
                }
                if field.unique || field.role != Role::Plain {
                    let why = "a vector can neither be unique nor have a role";
                    return Err(refuse(&self.schema, Some(field), why));
                }
            }
            if field.immutable {
                if field.role != Role::Plain {
                    let why = "a field with a role cannot be immutable: the key and `created_at` \
                               never change, and other roles change with each write";
                    return Err(refuse(&self.schema, Some(field), why));
                }
                self.immutable = self.immutable.with(position);
            }
            if !field.sanitizers.is_empty() {
                check_sanitizers(field).map_err(|why| refuse(&self.schema, Some(field), why))?;
                self.sanitized.push(position);
            }
            if field.kind != Kind::Blob {
                self.read_by_default = self.read_by_default.with(position);
            }
            let default = match &field.default {
                None if field.computed.is_some() && !field.nullable => placeholder(&field.kind),
                None => None,
                Some(literal) => Some(literal_value(field, literal).map_err(|why| {
                    refuse(&self.schema, Some(field), &format!("the default is {why}"))
                })?),
            };
            self.defaults.push(default);
            let mut rules = CompiledRule::of_field(field)
                .map_err(|why| refuse(&self.schema, Some(field), &why))?;
            let targets: Vec<Field> = self.references_of_text(position).cloned().collect();
            if !targets.is_empty() {
                rules.push(CompiledRule::AnyReference { references: targets });
            }
            for rule in rules {
                if !rule.holds_by_type(field) {
                    self.typed_rules.push(self.rules.len());
                }
                self.rules.push((position, rule));
            }
        }
        Ok(())
    }

    fn check_indexes(&self) -> Result<()> {
        for index in self.schema.indexes.iter() {
            let known = index.fields.iter().all(|&field| field < self.schema.fields.len());
            let is_vector =
                |&field: &usize| matches!(self.schema.fields[field].kind, Kind::Vector { .. });
            if known && index.fields.iter().any(is_vector) {
                let why = "an index cannot have a vector; `nearest` reads the rows of the filter";
                return Err(refuse(&self.schema, None, why));
            }
            let is_reference = |&field: &usize| self.is_made(field) && field != self.key();
            if known && index.fields.iter().any(is_reference) {
                let why = "an index cannot have a computed reference: use the fields of the \
                           reference instead";
                return Err(refuse(&self.schema, None, why));
            }
            if index.fields.is_empty() || !known {
                return Err(refuse(
                    &self.schema,
                    None,
                    "an index has no fields, or a field that the model does not have",
                ));
            }
        }
        Ok(())
    }
}

/// Returns the value of a new column of a computed field in stored rows, until it is computed.
fn placeholder(kind: &Kind) -> Option<Value> {
    Some(match kind.form() {
        ValueForm::Bool => Value::Bool(false),
        ValueForm::Int => Value::Int(0),
        ValueForm::Float => Value::Float(0.0),
        ValueForm::Currency => Value::Currency(Currency::default()),
        ValueForm::Text => Value::Text(String::new()),
        ValueForm::Date => Value::Date(Date::default()),
        ValueForm::Time => Value::Time(Time::default()),
        ValueForm::Timestamp => Value::Timestamp(Timestamp::default()),
        ValueForm::Uuid => Value::Uuid(Uuid::nil()),
        ValueForm::Json | ValueForm::Blob => return None,
    })
}

/// Checks that a field can have its action of a delete.
fn check_on_delete(field: &Field) -> Result<(), &'static str> {
    let is_reference = matches!(field.kind, Kind::Reference { .. });
    match field.on_delete {
        OnDelete::Restrict => Ok(()),
        _ if !is_reference => {
            Err("only a reference has an action of a delete (`on_delete`): leave it out")
        }
        OnDelete::SetNull if !field.nullable => {
            Err("`on_delete = \"set_null\"` needs a field that may be NULL: make it optional, or \
                 use `cascade` or `restrict`")
        }
        OnDelete::SetNull if field.immutable => {
            Err("`on_delete = \"set_null\"` changes the field, which is immutable: leave one out")
        }
        OnDelete::Cascade | OnDelete::SetNull => Ok(()),
    }
}

fn check_sanitizers(field: &Field) -> Result<(), &'static str> {
    if !matches!(field.kind, Kind::Text { .. }) || field.role != Role::Plain {
        return Err("only texts that are not keys have sanitizers");
    }
    match [Sanitizer::Lower, Sanitizer::Upper].iter().all(|case| field.sanitizers.contains(case)) {
        true => Err("a text cannot be converted to lower and upper case; keep one sanitizer"),
        false => Ok(()),
    }
}

fn refuse(schema: &Schema, field: Option<&Field>, why: &str) -> Error {
    let place = match field {
        Some(field) => format!("field `{}` of model `{}`", field.name, schema.name),
        None => format!("model `{}`", schema.name),
    };
    Error::new(ErrorKind::Invalid, format!("{place}: {why}"))
}

fn check_names(schema: &Schema) -> Result<()> {
    let rule = "a name must have 1 to 63 ASCII letters, digits or `_`, and must not start with a \
                digit";
    if !is_name(&schema.name) || schema.name.starts_with("sqlite_") {
        return Err(refuse(schema, None, &format!("{rule} (nor with `sqlite_`)")));
    }
    if schema.fields.len() > FieldSet::CAPACITY {
        let most = FieldSet::CAPACITY;
        return Err(refuse(
            schema,
            None,
            &format!(
                "the model has more than {most} fields; split the \
                                                  model"
            ),
        ));
    }
    for (position, field) in schema.fields.iter().enumerate() {
        if !is_name(&field.name) {
            return Err(refuse(schema, Some(field), rule));
        }
        let same = |other: &Field| other.name.eq_ignore_ascii_case(&field.name);
        if schema.fields[..position].iter().any(same) {
            return Err(refuse(schema, Some(field), "two fields have this name"));
        }
        if let Some(was) = &field.was {
            let taken = |other: &Field| other.name.eq_ignore_ascii_case(was);
            if !is_name(was) || schema.fields.iter().any(taken) {
                let why = format!("`was` must be the name of a former field, not {was:?}");
                return Err(refuse(schema, Some(field), &why));
            }
        }
    }
    Ok(())
}

fn check_key(schema: &Schema) -> Result<KeyKind> {
    let Some(field) = schema.fields.get(schema.key) else {
        return Err(refuse(schema, None, "the model has no key; give one field the role `key`"));
    };
    if schema.fields.iter().filter(|field| field.role == Role::Key).count() != 1
        || field.role != Role::Key
    {
        return Err(refuse(schema, Some(field), "exactly one field must have the role `key`"));
    }
    if field.nullable {
        return Err(refuse(schema, Some(field), "a key cannot be NULL"));
    }
    match field.kind {
        Kind::Int { min: i64::MIN, max: i64::MAX } => Ok(KeyKind::Auto),
        Kind::Uuid => Ok(KeyKind::Uuid),
        Kind::Text { .. } => Ok(KeyKind::Text),
        _ => Err(refuse(schema, Some(field), "a key must be i64, Uuid or text")),
    }
}

fn check_role(schema: &Schema, field: &Field) -> Result<()> {
    let fits = match field.role {
        Role::Plain | Role::Key => true,
        Role::CreatedAt | Role::UpdatedAt => field.kind == Kind::Timestamp && !field.nullable,
        Role::Version => field.kind == Kind::I64 && !field.nullable,
    };
    let once = field.role == Role::Plain
        || schema.fields.iter().filter(|other| other.role == field.role).count() == 1;
    match (fits, once) {
        (false, _) => Err(refuse(
            schema,
            Some(field),
            "created_at and updated_at must be Timestamp, and version i64; none can be optional",
        )),
        (_, false) => Err(refuse(schema, Some(field), "two fields have this role")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> Field {
        Field::new("id", Kind::I64).role(Role::Key)
    }

    fn to_itself() -> Field {
        Field::new("above", Kind::Reference { table: "a".into(), key: KeyKind::Auto })
    }

    #[test]
    fn refuses_what_makes_no_sense_and_says_where() {
        let text = |name| Field::new(name, Kind::TEXT);
        for (schema, part) in [
            (Schema::new("a b", vec![id()]), "model `a b`"),
            (Schema::new("a", vec![text("x")]), "no key"),
            (Schema::new("a", vec![id(), text("x"), text("X")]), "field `X`"),
            (Schema::new("a", vec![id(), text("v").role(Role::Version)]), "version i64"),
            (Schema::new("a", vec![id().nullable(true)]), "cannot be NULL"),
            (Schema::new("a", vec![id(), text("b").role(Role::Key)]), "exactly one"),
            (Schema::new("a", vec![id().immutable(true)]), "immutable"),
            (Schema::new("a", vec![id(), text("b").on_delete(OnDelete::Cascade)]), "reference"),
            (Schema::new("a", vec![id(), to_itself().on_delete(OnDelete::SetNull)]), "optional"),
            (
                Schema::new(
                    "a",
                    vec![
                        id(),
                        to_itself().nullable(true).immutable(true).on_delete(OnDelete::SetNull),
                    ],
                ),
                "immutable",
            ),
        ] {
            let error = Table::new(schema).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn blobs_are_not_read_by_default() {
        let fields = vec![id(), Field::new("photo", Kind::Blob)];
        let table = Table::new(Schema::new("a", fields)).unwrap();
        assert!(!table.read_by_default().contains(1));
        assert!(table.all().contains(1));
    }

    #[test]
    fn a_plain_index_does_not_stand_in_for_a_unique_one() {
        let fields = vec![id(), Field::new("email", Kind::TEXT).unique(true)];
        let plain = crate::Index::new(vec![1]);
        let unique = crate::Index::unique(vec![1]);
        let table = |index: &crate::Index| {
            Table::new(Schema::new("a", fields.clone()).indexes(vec![index.clone()])).unwrap()
        };
        assert_eq!(table(&plain).indexes(), [unique.clone(), plain]);
        assert_eq!(table(&unique).indexes(), [unique]);
    }

    #[test]
    fn refuses_a_range_that_nothing_fits() {
        let range = crate::Rule::Range {
            min: Some(crate::Literal::Int(3)),
            max: Some(crate::Literal::Int(2)),
        };
        let schema = Schema::new("a", vec![id(), Field::new("b", Kind::I64).rules(vec![range])]);
        let error = Table::new(schema).unwrap_err();
        assert!(
            error.to_string().contains("field `b` of model `a`: the range 3 to 2 is empty"),
            "{error}"
        );
    }
}
