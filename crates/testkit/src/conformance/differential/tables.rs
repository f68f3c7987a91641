//! The tables of a case, with few values for each field, so that rows conflict and filters match.

use marmota_model::{
    Collation, Currency, EnumStored, Field, FieldValue, File, Index, KeyKind, Kind, Literal,
    RelationStep, Role, Rule, Schema, Timestamp, Uuid, Value, Variant,
};
use marmota_store::StoreBuilder;

/// The number of tables.
pub(super) const TABLES: usize = 3;

pub(super) fn schemas() -> [Schema; TABLES] {
    [maker(), part(), tag()]
}

pub(super) fn models(builder: StoreBuilder) -> StoreBuilder {
    schemas().into_iter().fold(builder, StoreBuilder::schema)
}

fn text(chars_max: u32, collation: Collation) -> Kind {
    Kind::Text { chars_max, collation }
}

fn reference(table: &'static str, key: KeyKind) -> Kind {
    Kind::Reference { table: table.into(), key }
}

fn variants() -> Vec<Variant> {
    [("red", 3), ("blue", -1), ("deep blue", 7)]
        .map(|(name, number)| Variant { name: name.into(), number })
        .into()
}

fn maker() -> Schema {
    let range = Rule::Range { min: Some(Literal::Int(0)), max: Some(Literal::Int(3)) };
    Schema::new(
        "maker",
        vec![
            Field::new("code", Kind::TEXT).role(Role::Key),
            Field::new("label", text(5, Collation::NoCase)).nullable(true).unique(true),
            Field::new("floor", Kind::I64).rules(vec![range]),
            Field::new("mark", Kind::TEXT).nullable(true),
            Field::new("photo", Kind::Blob).nullable(true),
            Field::new("version", Kind::I64).role(Role::Version),
        ],
    )
    .indexes(vec![Index::unique(vec![2, 3])])
}

fn part() -> Schema {
    let level = Kind::Int { min: i64::from(i8::MIN), max: i64::from(i8::MAX) };
    let stored = EnumStored::Integer;
    Schema::new(
        "part",
        vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("name", text(0, Collation::NoCase)).default(Literal::Text("it's".into())),
            Field::new("amount", Kind::Currency).nullable(true),
            Field::new("ratio", Kind::Float).nullable(true),
            Field::new("flag", Kind::Bool),
            Field::new("day", Kind::Date).nullable(true),
            Field::new("level", level).nullable(true),
            Field::new("colour", Kind::Enum { variants: variants().into(), stored }).nullable(true),
            Field::new("maker", reference("maker", KeyKind::Text)).nullable(true),
            Field::new("parent", reference("part", KeyKind::Auto)).nullable(true),
        ],
    )
    .indexes(vec![Index::new(vec![6, 1]), Index::new(vec![2])])
}

fn tag() -> Schema {
    let stored = EnumStored::Text;
    Schema::new(
        "tag",
        vec![
            Field::new("id", Kind::Uuid).role(Role::Key),
            Field::new("part", reference("part", KeyKind::Auto)),
            Field::new("word", text(4, Collation::NoCase)),
            Field::new("colour", Kind::Enum { variants: variants().into(), stored }).nullable(true),
            Field::new("at", Kind::Timestamp).nullable(true),
            Field::new("time", Kind::Time).nullable(true),
            Field::new("json", Kind::Json).nullable(true),
            Field::new("place", Kind::Vector { dimensions: 2 }).nullable(true),
            Field::new("file", <File as FieldValue>::KIND).nullable(true),
            Field::new("version", Kind::I64).role(Role::Version),
        ],
    )
    .indexes(vec![Index::unique(vec![1, 2])])
}

/// The steps from a table to its related rows.
pub(super) fn relations(table: &str) -> Vec<RelationStep> {
    let step = |table: &'static str, local, target, to_one| RelationStep {
        table: table.into(),
        local,
        target,
        to_one,
    };
    match table {
        "maker" => vec![step("part", 0, 8, false)],
        "part" => vec![
            step("maker", 8, 0, true),
            step("part", 9, 0, true),
            step("part", 0, 9, false),
            step("tag", 0, 1, false),
        ],
        _ => vec![step("part", 1, 0, true)],
    }
}

/// The fields by which rows are grouped, some of them of related rows.
pub(super) fn groupings(table: usize) -> Vec<&'static str> {
    match table {
        0 => vec!["floor", "mark"],
        1 => vec!["flag", "day", "colour", "maker", "maker.floor", "parent.maker.mark"],
        _ => vec!["part", "colour", "time", "part.level", "part.maker.floor"],
    }
}

/// The values that are computed for a group. Sums of floats depend on the order of the rows.
pub(super) fn aggregates(table: usize) -> Vec<&'static str> {
    match table {
        0 => vec!["count", "count(mark)", "sum(floor)", "avg(floor)", "max(floor)"],
        1 => vec!["count", "sum(level)", "avg(level)", "min(day)", "max(ratio)", "count(maker)"],
        _ => vec!["count", "min(at)", "max(time)", "count(colour)"],
    }
}

/// The fields by which the first rows of each value are read.
pub(super) fn references(table: usize) -> Vec<usize> {
    match table {
        0 => vec![2],
        1 => vec![8, 9],
        _ => vec![1],
    }
}

/// The values that a field is set to and compared with, without NULL. The first two are the most
/// frequent.
pub(super) fn values(field: &Field) -> Vec<Value> {
    fn texts(texts: &[&str]) -> Vec<Value> {
        texts.iter().map(|text| Value::from(*text)).collect()
    }
    match &field.kind {
        Kind::Bool => [true, false].map(Value::Bool).into(),
        _ if field.role == Role::Key && field.kind == Kind::I64 => {
            [1, 2, 3, 5, 40].map(Value::Int).into()
        }
        _ if field.role == Role::Version => [1, 2, 3].map(Value::Int).into(),
        Kind::Int { .. } => [0, 1, 2, 3, -1, 127, -128, 128].map(Value::Int).into(),
        Kind::Float => [0.5, 1.0, -1e300, 0.1, 3.0].map(Value::Float).into(),
        Kind::Currency => [10_000, -1, 0, i64::MAX, i64::MIN]
            .map(|scaled| Value::Currency(Currency::from_scaled(scaled)))
            .into(),
        Kind::Blob => [vec![], vec![1], vec![1, 2]].map(Value::Blob).into(),
        Kind::Vector { .. } => [[0.5_f32, -1.0], [0.0, 0.0]]
            .map(|it| Value::Blob(it.iter().flat_map(|number| number.to_le_bytes()).collect()))
            .into(),
        Kind::Json => ["1", "[1, 2]", "{\"a\":\"é\"}"].map(|json| Value::Json(json.into())).into(),
        Kind::File { .. } => [1, 2]
            .map(|number| File {
                id: Uuid::from_u128(number),
                name: "é.png".to_owned(),
                content_type: "image/png".to_owned(),
                bytes: 3,
                sha256: "0".repeat(64),
                created: Timestamp::default(),
            })
            .map(|file| Value::Json(file.to_json()))
            .into(),
        Kind::Date => ["2026-11-21", "1969-12-31", "0001-01-01"]
            .map(|day| Value::Date(day.parse().unwrap()))
            .into(),
        Kind::Time => {
            ["00:00:00", "17:05:00.000001"].map(|time| Value::Time(time.parse().unwrap())).into()
        }
        Kind::Timestamp => ["1970-01-01T00:00:00Z", "1969-12-31T23:59:59.999999Z"]
            .map(|at| Value::Timestamp(at.parse().unwrap()))
            .into(),
        Kind::Uuid => [1, 2, 3, u128::MAX].map(|bits| Value::Uuid(Uuid::from_u128(bits))).into(),
        Kind::Enum { stored: EnumStored::Text, .. } => texts(&["red", "blue", "deep blue"]),
        Kind::Enum { .. } => [3, -1, 7].map(Value::Int).into(),
        Kind::Reference { key: KeyKind::Auto, .. } => [1, 2, 3, 40, 9].map(Value::Int).into(),
        Kind::Reference { .. } => texts(&["a", "b", "A", "é"]),
        Kind::Text { .. } if field.role == Role::Key => texts(&["a", "b", "A", "é", "c d"]),
        _ => texts(&["ab", "AB", "é", "", "a_b%", "'", "É", "toolong", "b"]),
    }
}

#[cfg(test)]
mod tests {
    use marmota_model::{Table, ValueForm};

    use super::*;
    use crate::random_row::RandomRow;

    #[test]
    fn values_of_every_form_are_tried() {
        let fields: Vec<Field> =
            schemas().iter().flat_map(|schema| schema.fields.to_vec()).collect();
        for form in ValueForm::ALL {
            let has_form = |field: &Field| field.kind.form() == form;
            assert!(fields.iter().any(has_form), "no table has a field with values of {form:?}");
        }
        for field in &fields {
            for value in values(field) {
                assert_eq!(value.as_ref().form(), Some(field.kind.form()), "{}", field.name);
            }
        }
    }

    #[test]
    fn random_values_fit_every_field() {
        let mut random = RandomRow::new(7);
        for table in schemas().map(|schema| Table::new(schema).unwrap()) {
            for (position, field) in table.fields().iter().enumerate() {
                let mut row = vec![Value::Absent; table.fields().len()];
                row[position] = random.value(&table, field, &mut |_| None).unwrap_or_default();
                let row: Vec<_> = row.iter().map(Value::as_ref).collect();
                table.validate(&row).unwrap();
            }
        }
    }
}
