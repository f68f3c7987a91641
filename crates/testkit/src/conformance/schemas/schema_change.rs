//! A database opened with changed models: changes that lose no data are made, others are refused
//! with the remedy.

use marmota_model::{
    Currency, EnumStored, Error, ErrorKind, Field, Index, Kind, Literal, Record, Role, RowQuery,
    Schema, Value, Variant,
};
use marmota_store::StoreBuilder;
use marmota_store::rights::OWN_PREFIX;

use crate::conformance::harness::refusal::{refused, says};
use crate::conformance::harness::subject::{Stand, Subject};

fn id() -> Field {
    Field::new("id", Kind::I64).role(Role::Key)
}

fn text(name: &'static str) -> Field {
    Field::new(name, Kind::TEXT).nullable(true)
}

fn person(fields: Vec<Field>) -> Schema {
    Schema::new("person", fields)
}

fn first(builder: StoreBuilder) -> StoreBuilder {
    builder.schema(person(vec![id(), text("name"), Field::new("year", Kind::I64).nullable(true)]))
}

fn insert(stand: &Stand<'_>, name: &str, year: impl Into<Value>) -> Value {
    let mut record = Record::new(stand.table("person").unwrap());
    record.set("name", name).unwrap();
    record.set("year", year).unwrap();
    stand.insert_record(&record).run().unwrap()
}

fn rows(stand: &Stand<'_>) -> Vec<Vec<Value>> {
    let table = stand.table("person").unwrap();
    let query = RowQuery { fields: Some(table.all()), ..RowQuery::new() };
    let rows = stand.list_records(&table).query(query).run().unwrap();
    rows.iter().map(|row| row.values().to_vec()).collect()
}

/// The tables of a database are listed without its models, so that a move can find all of them.
pub fn tables_are_listed_without_models(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let stand = stand(subject);
    insert(&stand, "Irene", 1897);
    stand.close().unwrap();
    drop(stand);
    let mut listed = subject.builder().existing_tables().unwrap().unwrap();
    listed.retain(|name| !name.starts_with(OWN_PREFIX));
    assert_eq!(listed, ["person"]);
}

/// A database with two rows, created by the first models.
fn stand(subject: &Subject) -> Stand<'_> {
    let stand = Stand::open(subject, first);
    insert(&stand, "Marie", 1867);
    insert(&stand, "Pierre", Value::Null);
    stand
}

/// Opens with models that must be refused, then with the first models, which find all rows
/// unchanged.
fn refused_as(
    subject: &Subject,
    models: fn(StoreBuilder) -> StoreBuilder,
    parts: &[&str],
) -> Error {
    let mut stand = stand(subject);
    let before = rows(&stand);
    let error = refused(stand.reopen_as(models), ErrorKind::Invalid);
    says(&error, parts);
    stand.reopen_as(first).unwrap();
    assert_eq!(rows(&stand), before, "after it was refused");
    error
}

/// Opening with the same models changes nothing.
pub fn the_same_models_open_again(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let mut stand = stand(subject);
    let before = rows(&stand);
    for _ in 0..3 {
        stand.reopen();
        assert_eq!(rows(&stand), before);
    }
}

/// A new column has its default, or NULL, in existing rows.
pub fn a_new_column_gets_its_default(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let mut stand = stand(subject);
    let models = |builder: StoreBuilder| {
        builder.schema(person(vec![
            id(),
            text("name"),
            Field::new("country", Kind::TEXT).default(Literal::Text("it's".into())),
            Field::new("year", Kind::I64).nullable(true),
            Field::new("score", Kind::Currency).default(Literal::Text("0.5".into())),
            Field::new("flag", Kind::Bool).default(Literal::Bool(true)),
            Field::new("ratio", Kind::Float).default(Literal::Float(1.5)),
            Field::new("born", Kind::Date).default(Literal::Text("1867-11-07".into())),
            Field::new(
                "colour",
                Kind::Enum {
                    variants: vec![Variant { name: "red".into(), number: 1 }].into(),
                    stored: EnumStored::Text,
                },
            )
            .default(Literal::Text("red".into())),
            Field::new("remark", Kind::TEXT).nullable(true),
            Field::new("photo", Kind::Blob).nullable(true),
        ]))
    };
    stand.reopen_as(models).unwrap();
    let row = |key: i64, name: &str, year: Value| {
        vec![
            Value::Int(key),
            Value::from(name),
            Value::from("it's"),
            year,
            Value::Currency(Currency::from_scaled(5000)),
            Value::Bool(true),
            Value::Float(1.5),
            Value::Date("1867-11-07".parse().unwrap()),
            Value::from("red"),
            Value::Null,
            Value::Null,
        ]
    };
    let mut wanted = vec![row(1, "Marie", Value::Int(1867)), row(2, "Pierre", Value::Null)];
    assert_eq!(rows(&stand), wanted);
    insert(&stand, "Irène", 1897);
    wanted.push(row(3, "Irène", Value::Int(1897)));
    assert_eq!(rows(&stand), wanted);
    stand.reopen();
    assert_eq!(rows(&stand), wanted);
}

/// A new table is added to existing ones, and can be referred to.
pub fn a_new_table_is_made(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let mut stand = stand(subject);
    let models = |builder: StoreBuilder| {
        let reference = Kind::Reference { table: "city".into(), key: marmota_model::KeyKind::Auto };
        builder
            .schema(person(vec![
                id(),
                text("name"),
                Field::new("year", Kind::I64).nullable(true),
                Field::new("city", reference).nullable(true),
            ]))
            .schema(Schema::new("city", vec![id(), text("name")]))
    };
    stand.reopen_as(models).unwrap();
    let mut city = Record::new(stand.table("city").unwrap());
    city.set("name", "Sceaux").unwrap();
    let key = stand.insert_record(&city).run().unwrap();
    let table = stand.table("person").unwrap();
    let mut marie = Record::new(std::sync::Arc::clone(&table));
    marie.set("city", key.clone()).unwrap();
    stand.update_record(1, &marie).run().unwrap();
    refused(stand.delete_record(&stand.table("city").unwrap(), key).run(), ErrorKind::Conflict);
    marie.set("city", 99).unwrap();
    refused(stand.update_record(2, &marie).run(), ErrorKind::Invalid);
    stand.reopen();
    assert_eq!(rows(&stand)[0][3], Value::Int(1));
}

/// A new index, unique or not, covers existing rows.
pub fn a_new_index_is_made(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let mut stand = stand(subject);
    let models = |builder: StoreBuilder| {
        let fields =
            vec![id(), text("name").unique(true), Field::new("year", Kind::I64).nullable(true)];
        let index = Index::new(vec![2, 1]);
        builder.schema(person(fields).indexes(vec![index]))
    };
    stand.reopen_as(models).unwrap();
    let mut again = Record::new(stand.table("person").unwrap());
    again.set("name", "Marie").unwrap();
    refused(stand.insert_record(&again).run(), ErrorKind::Conflict);
    again.set("name", "Irène").unwrap();
    stand.insert_record(&again).run().unwrap();
    // Without the index, duplicates are permitted again.
    stand.reopen_as(first).unwrap();
    insert(&stand, "Marie", 1);
    assert_eq!(rows(&stand).len(), 4);
}

/// A unique index over duplicate values is refused with the field.
pub fn a_unique_index_over_doubles_is_refused(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let mut stand = stand(subject);
    insert(&stand, "Marie", 5);
    let before = rows(&stand);
    let models = |builder: StoreBuilder| {
        builder.schema(person(vec![
            id(),
            text("name").unique(true),
            Field::new("year", Kind::I64).nullable(true),
        ]))
    };
    let error = stand.reopen_as(models).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Conflict), "{error:?}");
    says(&error, &["person", "name"]);
    stand.reopen_as(first).unwrap();
    assert_eq!(rows(&stand), before);
}

/// In a table with rows, a new required column without a default is refused. The error names the
/// remedies: a default or an option.
pub fn a_new_column_without_default_is_refused(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let models = |builder: StoreBuilder| {
        builder.schema(person(vec![
            id(),
            text("name"),
            Field::new("year", Kind::I64).nullable(true),
            Field::new("must", Kind::I64),
        ]))
    };
    refused_as(subject, models, &["person", "must", "default"]);
}

/// A column whose kind changed is refused with both kinds.
pub fn another_kind_is_refused(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let models =
        |builder: StoreBuilder| builder.schema(person(vec![id(), text("name"), text("year")]));
    refused_as(subject, models, &["person", "year"]);
}

/// A column that becomes required is refused if it has NULLs.
pub fn a_required_column_with_nulls_is_refused(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let models = |builder: StoreBuilder| {
        builder.schema(person(vec![id(), text("name"), Field::new("year", Kind::I64)]))
    };
    refused_as(subject, models, &["person", "year"]);
}

/// Changing the key to another field is refused, or accepted if the field is a key; no row is lost.
pub fn another_key_loses_nothing(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let mut stand = stand(subject);
    let before = rows(&stand);
    let models = |builder: StoreBuilder| {
        builder.schema(person(vec![
            Field::new("id", Kind::I64).nullable(true),
            Field::new("name", Kind::TEXT).role(Role::Key),
            Field::new("year", Kind::I64).nullable(true),
        ]))
    };
    match stand.reopen_as(models) {
        Ok(()) => assert_eq!(rows(&stand), before),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
            says(&error, &["person"]);
        }
    }
    stand.reopen_as(first).unwrap();
    assert_eq!(rows(&stand), before);
}

/// A column that the models no longer have is refused, or kept and found again when the models have
/// it again.
pub fn a_column_left_out_loses_nothing(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let mut stand = stand(subject);
    let before = rows(&stand);
    let models = |builder: StoreBuilder| builder.schema(person(vec![id(), text("name")]));
    match stand.reopen_as(models) {
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
            says(&error, &["person", "year"]);
        }
        Ok(()) => {
            let mut record = Record::new(stand.table("person").unwrap());
            record.set("name", "Irène").unwrap();
            let key = stand.insert_record(&record).run().unwrap();
            stand.delete_record(&stand.table("person").unwrap(), key).run().unwrap();
        }
    }
    stand.reopen_as(first).unwrap();
    assert_eq!(rows(&stand), before);
}

/// A required column that the models no longer have would prevent inserts: it is refused when the
/// store is opened, or inserts succeed.
pub fn a_required_column_left_out_is_met_at_the_start(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let strict = |builder: StoreBuilder| {
        builder.schema(person(vec![id(), text("name"), Field::new("must", Kind::I64)]))
    };
    let mut stand = Stand::open(subject, strict);
    let mut record = Record::new(stand.table("person").unwrap());
    record.set("name", "Marie").unwrap();
    record.set("must", 1).unwrap();
    stand.insert_record(&record).run().unwrap();
    let models = |builder: StoreBuilder| builder.schema(person(vec![id(), text("name")]));
    match stand.reopen_as(models) {
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
            says(&error, &["person", "must"]);
        }
        Ok(()) => {
            let mut record = Record::new(stand.table("person").unwrap());
            record.set("name", "Irène").unwrap();
            stand.insert_record(&record).run().unwrap();
        }
    }
}

/// A table that the models no longer have keeps its rows.
pub fn a_table_left_out_loses_nothing(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let mut stand = stand(subject);
    let before = rows(&stand);
    let other = |builder: StoreBuilder| builder.schema(Schema::new("other", vec![id()]));
    stand.reopen_as(other).unwrap();
    refused(stand.table("person"), ErrorKind::NotFound);
    stand.reopen_as(first).unwrap();
    assert_eq!(rows(&stand), before);
}

/// The order of fields does not matter.
pub fn the_order_of_fields_does_not_matter(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let mut stand = stand(subject);
    let models = |builder: StoreBuilder| {
        builder.schema(person(vec![
            Field::new("year", Kind::I64).nullable(true),
            text("name"),
            id(),
        ]))
    };
    stand.reopen_as(models).unwrap();
    insert(&stand, "Irène", 1897);
    let row = |year: Value, name: &str, id: i64| vec![year, Value::from(name), Value::Int(id)];
    assert_eq!(
        rows(&stand),
        [
            row(Value::Int(1867), "Marie", 1),
            row(Value::Null, "Pierre", 2),
            row(Value::Int(1897), "Irène", 3)
        ]
    );
}

/// A database with a higher `schema_version` than the program's is refused with an error that names
/// it; a lower one is raised.
pub fn a_newer_version_is_refused(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let mut stand = stand(subject);
    stand.reopen_as(|builder| first(builder).schema_version(31)).unwrap();
    let before = rows(&stand);
    for older in [
        |builder: StoreBuilder| first(builder).schema_version(29),
        |builder: StoreBuilder| first(builder),
    ] {
        let error = refused(stand.reopen_as(older), ErrorKind::Invalid);
        says(&error, &["31"]);
    }
    stand.reopen_as(|builder| first(builder).schema_version(31)).unwrap();
    assert_eq!(rows(&stand), before);
    stand.reopen_as(|builder| first(builder).schema_version(32)).unwrap();
    assert_eq!(rows(&stand), before);
}

/// Invalid models are refused before the database is changed.
pub fn models_that_make_no_sense_are_refused(subject: &Subject) {
    let reference =
        || Kind::Reference { table: "missing".into(), key: marmota_model::KeyKind::Auto };
    let lost = Schema::new("a", vec![id(), Field::new("b", reference())]);
    let error = refused(subject.builder().schema(lost).open(), ErrorKind::Invalid);
    says(&error, &["missing", "b"]);
    let twice = subject.builder().schema(Schema::new("a", vec![id()]));
    refused(twice.schema(Schema::new("a", vec![id()])).open(), ErrorKind::Conflict);
    refused(subject.builder().schema(Schema::new("a", vec![])).open(), ErrorKind::Invalid);
    subject.builder().schema(Schema::new("a", vec![id()])).open().unwrap();
}

register!($ schema_change_promises schema_change:
    the_same_models_open_again,
    tables_are_listed_without_models,
    a_new_column_gets_its_default,
    a_new_table_is_made,
    a_new_index_is_made,
    a_unique_index_over_doubles_is_refused,
    a_new_column_without_default_is_refused,
    another_kind_is_refused,
    a_required_column_with_nulls_is_refused,
    another_key_loses_nothing,
    a_column_left_out_loses_nothing,
    a_required_column_left_out_is_met_at_the_start,
    a_table_left_out_loses_nothing,
    the_order_of_fields_does_not_matter,
    a_newer_version_is_refused,
    models_that_make_no_sense_are_refused,
);
