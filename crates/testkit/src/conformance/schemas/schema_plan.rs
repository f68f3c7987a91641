//! Plans: the changes that a database needs, shown without changing anything and applied as shown.
//! Destructive steps are applied only if they are permitted.

use marmota_model::{ErrorKind, Field, Kind, Record, Role, RowQuery, Schema, Value};
use marmota_store::StoreBuilder;
use marmota_store::plan::{Destructive, Plan, StepEffect};

use crate::conformance::harness::refusal::{refused, says};
use crate::conformance::harness::subject::{Stand, Subject};

fn id() -> Field {
    Field::new("id", Kind::I64).role(Role::Key)
}

fn text(name: &'static str) -> Field {
    Field::new(name, Kind::TEXT).nullable(true)
}

fn first(builder: StoreBuilder) -> StoreBuilder {
    builder.schema(Schema::new("person", vec![id(), text("name"), text("nickname")]))
}

/// Without the nickname, with a year, and with the name renamed to full name.
fn second(builder: StoreBuilder) -> StoreBuilder {
    let year = Field::new("year", Kind::I64).nullable(true);
    let fields = vec![id(), text("full_name").was("name"), year];
    builder.schema(Schema::new("person", fields))
}

/// The second models with a renamed table.
fn third(builder: StoreBuilder) -> StoreBuilder {
    let fields = vec![id(), text("full_name").was("name"), text("nickname")];
    builder.schema(Schema::new("scientist", fields).was("person"))
}

/// A closed database with a row, created by the first models.
fn closed(subject: &Subject) {
    let stand = Stand::open(subject, first);
    let mut record = Record::new(stand.table("person").unwrap());
    record.set("name", "Marie").unwrap();
    record.set("nickname", "Manya").unwrap();
    stand.insert_record(&record).run().unwrap();
    stand.close().unwrap();
}

fn lines(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(ToString::to_string).collect()
}

fn rows(stand: &Stand<'_>, table: &str) -> Vec<Vec<Value>> {
    let table = stand.table(table).unwrap();
    let query = RowQuery { fields: Some(table.all()), ..RowQuery::new() };
    let rows = stand.list_records(&table).query(query).run().unwrap();
    rows.iter().map(|row| row.values().to_vec()).collect()
}

/// A plan lists what opening would change, and changes nothing.
pub fn a_plan_changes_nothing(subject: &Subject) {
    let made = first(subject.builder()).plan().unwrap();
    assert_eq!(lines(&made)[0], "add table person");
    assert!(made.steps.iter().all(|step| step.effect == StepEffect::Safe), "{made:?}");
    if !subject.capability().persistent {
        return;
    }
    closed(subject);
    for _ in 0..2 {
        let plan = second(subject.builder()).plan().unwrap();
        let mut lines = lines(&plan);
        lines.sort();
        let wanted = [
            "add column person.year",
            "drop column person.nickname",
            "rename column person.name to full_name",
        ];
        assert_eq!(lines, wanted);
        let dropped = plan.steps.iter().find(|step| step.column() == Some("nickname")).unwrap();
        assert!(matches!(dropped.effect, StepEffect::Destructive { .. }), "{dropped:?}");
    }
    assert_eq!(lines(&first(subject.builder()).plan().unwrap()), [""; 0]);
    let stand = Stand::open(subject, first);
    let row = vec![Value::Int(1), Value::from("Marie"), Value::from("Manya")];
    assert_eq!(rows(&stand, "person"), [row]);
}

/// A field with a previous name keeps its values.
pub fn a_rename_keeps_values(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    closed(subject);
    let row = vec![Value::Int(1), Value::from("Marie"), Value::from("Manya")];
    for _ in 0..2 {
        let stand = Stand::open(subject, third);
        assert_eq!(rows(&stand, "scientist"), std::slice::from_ref(&row));
        stand.close().unwrap();
    }
    assert_eq!(lines(&third(subject.builder()).plan().unwrap()), [""; 0]);
}

/// Only a column that is named as permitted to be dropped is dropped.
pub fn a_column_is_dropped_if_allowed(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    closed(subject);
    let named = |name: &str| Destructive { needed: false, columns: vec![name.to_owned()] };
    let wrong = second(subject.builder()).allow_destructive(named("person.surname")).open();
    says(&refused(wrong, ErrorKind::Invalid), &["person"]);
    let allowed =
        second(subject.builder()).allow_destructive(named("person.nickname")).open().unwrap();
    allowed.close().unwrap();
    let stand = Stand::open(subject, second);
    assert_eq!(rows(&stand, "person"), [[Value::Int(1), Value::from("Marie"), Value::Null]]);
    stand.close().unwrap();
    assert_eq!(lines(&second(subject.builder()).plan().unwrap()), [""; 0]);
    // A column that is added again under the name is new.
    let stand = Stand::open(subject, |builder| {
        let fields = vec![id(), text("full_name"), text("nickname")];
        let year = Field::new("year", Kind::I64).nullable(true);
        builder.schema(Schema::new("person", [fields, vec![year]].concat()))
    });
    assert_eq!(rows(&stand, "person")[0][2], Value::Null);
}

register!($ schema_plan_promises schema_plan:
    a_plan_changes_nothing,
    a_rename_keeps_values,
    a_column_is_dropped_if_allowed,
);
