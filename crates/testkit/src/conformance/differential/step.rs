//! The steps of a case, and how they are generated.

use std::ops::ControlFlow;

use marmota_model::json::{JsonCondition, JsonPath, JsonTest};
use marmota_model::{
    Comparison, Field, FilterExpr, Kind, Place, Quantifier, RelatedFilter, RelationStep, Role,
    Schema, SortKey, Value,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::strategy::Union;

use marmota_store::operation::OnConflict;

use super::tables::{TABLES, aggregates, groupings, references, relations, schemas, values};

/// A write of one row, alone or in a batch.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Insert { table: usize, row: Vec<Value>, on_conflict: OnConflict },
    Update { table: usize, key: Value, row: Vec<Value>, version: Option<i64> },
    Increment { table: usize, key: Value, field: usize, by: Value },
    Delete { table: usize, key: Value, version: Option<i64> },
}

/// An operation for both sides.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Change(Change),
    InsertMany {
        table: usize,
        rows: Vec<Vec<Value>>,
        on_conflict: OnConflict,
    },
    UpdateMany {
        table: usize,
        rows: Vec<Vec<Value>>,
    },
    DeleteWhere {
        table: usize,
        filter: FilterExpr,
    },
    Batch {
        changes: Vec<Change>,
        each: bool,
    },
    Get {
        table: usize,
        key: Value,
    },
    List {
        table: usize,
        filter: Option<FilterExpr>,
        order: Vec<SortKey>,
        limit: Option<u64>,
    },
    Count {
        table: usize,
        filter: Option<FilterExpr>,
    },
    /// Groups by fields of the table and of related rows, with computed values, as text.
    Group {
        table: usize,
        filter: Option<FilterExpr>,
        by: Vec<&'static str>,
        select: Vec<&'static str>,
        limit: Option<u64>,
    },
    /// The first rows of each value of a reference, as related rows are read.
    ListEach {
        table: usize,
        filter: Option<FilterExpr>,
        order: Vec<SortKey>,
        by: usize,
        limit: u64,
    },
    /// A list, page by page.
    Pages {
        table: usize,
        filter: Option<FilterExpr>,
        order: Vec<SortKey>,
        rows: u64,
    },
    Begin,
    Commit,
    Rollback,
    Savepoint,
    RollbackTo(usize),
    Release(usize),
    /// Close and open, if the engine is persistent.
    Reopen,
}

impl Step {
    /// Returns true if an engine without transactions refuses the step.
    pub(super) fn needs_transactions(&self) -> bool {
        matches!(
            self,
            Self::Begin
                | Self::Commit
                | Self::Rollback
                | Self::Savepoint
                | Self::RollbackTo(_)
                | Self::Release(_)
                | Self::Batch { each: false, .. }
        )
    }

    /// Returns true if the step may change rows.
    pub(super) fn is_write(&self) -> bool {
        !matches!(
            self,
            Self::Get { .. }
                | Self::List { .. }
                | Self::ListEach { .. }
                | Self::Group { .. }
                | Self::Count { .. }
                | Self::Pages { .. }
        )
    }
}

/// Steps of all kinds, mostly those that fill tables.
pub(super) fn steps() -> BoxedStrategy<Step> {
    let control = prop_oneof![
        4 => Just(Step::Begin),
        3 => Just(Step::Commit),
        2 => Just(Step::Rollback),
        2 => Just(Step::Savepoint),
        2 => (0..3_usize).prop_map(Step::RollbackTo),
        1 => (0..3_usize).prop_map(Step::Release),
        1 => Just(Step::Reopen),
    ];
    let of_table = Union::new((0..TABLES).map(steps_of));
    let batch = (vec(changes(), 0..5), any::<bool>())
        .prop_map(|(changes, each)| Step::Batch { changes, each });
    prop_oneof![6 => changes().prop_map(Step::Change), 8 => of_table, 2 => batch, 2 => control]
        .boxed()
}

fn changes() -> BoxedStrategy<Change> {
    Union::new((0..TABLES).map(|table| {
        let schema = &schemas()[table];
        let key = || key_of(schema);
        let version = || option::weighted(0.3, 1..3_i64);
        let insert = (row_of(schema, 0.1), ways())
            .prop_map(move |(row, on_conflict)| Change::Insert { table, row, on_conflict });
        let update = (key(), row_of(schema, 0.7), version())
            .prop_map(move |(key, row, version)| Change::Update { table, key, row, version });
        let numbers: Vec<usize> = (0..schema.fields.len())
            .filter(|&field| {
                matches!(schema.fields[field].kind, Kind::Int { .. } | Kind::Currency)
                    && schema.fields[field].role == Role::Plain
            })
            .collect();
        let delete = (key(), version()).prop_map(move |(key, version)| Change::Delete {
            table,
            key,
            version,
        });
        if numbers.is_empty() {
            return prop_oneof![6 => insert, 3 => update, 1 => delete].boxed();
        }
        let fields = schema.fields.clone();
        let increment = (key(), select(numbers)).prop_flat_map(move |(key, field)| {
            select(values(&fields[field])).prop_map(move |by| Change::Increment {
                table,
                key: key.clone(),
                field,
                by,
            })
        });
        prop_oneof![6 => insert, 3 => update, 2 => increment, 1 => delete].boxed()
    }))
    .boxed()
}

/// The conflict action of an insert; mostly to refuse.
fn ways() -> BoxedStrategy<OnConflict> {
    prop_oneof![
        3 => Just(OnConflict::Refuse),
        1 => Just(OnConflict::Ignore),
        1 => Just(OnConflict::Replace),
        2 => Just(OnConflict::UPDATE),
    ]
    .boxed()
}

fn steps_of(table: usize) -> BoxedStrategy<Step> {
    let schema = &schemas()[table];
    let filter = || filter_of(schema);
    let some_filter = || option::weighted(0.7, filter_of(schema));
    let order = || order_of(schema);
    let group = (
        some_filter(),
        subsequence(groupings(table), 0..3),
        subsequence(aggregates(table), 1..4),
        option::of(1..4_u64),
    );
    let each = (some_filter(), order(), select(references(table)), 1..4_u64);
    prop_oneof![
        2 => (vec(row_of(schema, 0.1), 0..6), ways()).prop_map(
            move |(rows, on_conflict)| Step::InsertMany { table, rows, on_conflict }
        ),
        1 => vec(row_of(schema, 0.0), 0..4)
            .prop_map(move |rows| Step::UpdateMany { table, rows }),
        1 => filter().prop_map(move |filter| Step::DeleteWhere { table, filter }),
        1 => key_of(schema).prop_map(move |key| Step::Get { table, key }),
        3 => (some_filter(), order(), option::of(0..9_u64)).prop_map(
            move |(filter, order, limit)| Step::List { table, filter, order, limit }
        ),
        2 => (some_filter(), order(), 1..5_u64).prop_map(
            move |(filter, order, rows)| Step::Pages { table, filter, order, rows }
        ),
        1 => some_filter().prop_map(move |filter| Step::Count { table, filter }),
        1 => group.prop_map(move |(filter, by, select, limit)| {
            Step::Group { table, filter, by, select, limit }
        }),
        1 => each.prop_map(move |(filter, order, by, limit)| {
            Step::ListEach { table, filter, order, by, limit }
        }),
    ]
    .boxed()
}

fn key_of(schema: &Schema) -> BoxedStrategy<Value> {
    select(values(&schema.fields[schema.key])).boxed()
}

/// A value for a field, mostly one of the first two.
fn value_of(field: &Field, absent: f64) -> BoxedStrategy<Value> {
    let pool = values(field);
    if field.role == Role::Key && field.kind == Kind::Uuid {
        // The store would generate different ones on each side.
        return select(pool).boxed();
    }
    let first = pool[..2].to_vec();
    // An absent key is assigned by the engine, or refused.
    let is_key = field.role == Role::Key;
    let absent = if is_key && field.kind == Kind::I64 { 0.6 } else { absent };
    let absent_permille = (absent * 1000.0) as u32;
    let null_weight = if field.nullable { 300 } else { 15 };
    prop_oneof![
        1 + absent_permille => Just(Value::Absent),
        null_weight => Just(Value::Null),
        300 => select(first),
        400 => select(pool),
    ]
    .boxed()
}

fn row_of(schema: &Schema, absent: f64) -> BoxedStrategy<Vec<Value>> {
    let fields: Vec<_> = schema.fields.iter().map(|field| value_of(field, absent)).collect();
    fields.boxed()
}

/// Up to three different fields without blobs, which are not read and therefore cannot start a
/// page.
fn order_of(schema: &Schema) -> BoxedStrategy<Vec<SortKey>> {
    let sortable: Vec<usize> =
        (0..schema.fields.len()).filter(|&field| schema.fields[field].kind != Kind::Blob).collect();
    let order = (select(sortable), any::<bool>())
        .prop_map(|(field, descending)| SortKey { field, descending });
    vec(order, 0..4)
        .prop_map(|mut order| {
            let mut seen = Vec::new();
            order.retain(|by| {
                let new = !seen.contains(&by.field);
                seen.push(by.field);
                new
            });
            order
        })
        .boxed()
}

fn filter_of(schema: &Schema) -> BoxedStrategy<FilterExpr> {
    condition_of(schema, 2)
}

/// Conditions, through at most `steps` relations one after the other.
fn condition_of(schema: &Schema, steps: usize) -> BoxedStrategy<FilterExpr> {
    let fields = Union::new((0..schema.fields.len()).map(|field| leaf_of(schema, field)));
    let relations = if steps == 0 { Vec::new() } else { relations(&schema.name) };
    let leaves = if relations.is_empty() {
        fields.boxed()
    } else {
        let related = Union::new(relations.into_iter().map(|step| related_of(step, steps - 1)));
        prop_oneof![3 => fields, 1 => related].boxed()
    };
    leaves
        .prop_recursive(3, 10, 3, |inner| {
            prop_oneof![
                inner.clone().prop_map(|filter| FilterExpr::Not(Box::new(filter))),
                vec(inner.clone(), 0..4).prop_map(FilterExpr::And),
                vec(inner, 0..4).prop_map(FilterExpr::Or),
            ]
        })
        .boxed()
}

/// A condition on the rows to which a step leads.
fn related_of(step: RelationStep, steps: usize) -> BoxedStrategy<FilterExpr> {
    let comparison = select(vec![Comparison::Less, Comparison::Equal, Comparison::GreaterOrEqual]);
    let count = (comparison, 0..3_u32)
        .prop_map(|(comparison, number)| Quantifier::Count { comparison, number });
    let quantifier = if step.to_one {
        Just(Quantifier::Any).boxed()
    } else {
        prop_oneof![Just(Quantifier::Any), count].boxed()
    };
    let target = schemas().into_iter().find(|schema| schema.name == step.table);
    let filter = target.map_or(Just(FilterExpr::ALL).boxed(), |it| condition_of(&it, steps));
    (quantifier, filter)
        .prop_map(move |(quantifier, filter)| {
            let step = step.clone();
            FilterExpr::Related(Box::new(RelatedFilter { step, quantifier, filter }))
        })
        .boxed()
}

fn leaf_of(schema: &Schema, field: usize) -> BoxedStrategy<FilterExpr> {
    let pool = values(&schema.fields[field]);
    let comparison = select(vec![
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ]);
    let compare = (comparison, select(pool.clone()))
        .prop_map(move |(comparison, value)| FilterExpr::Compare { field, comparison, value });
    let list = vec(select(pool), 0..4).prop_map(move |values| FilterExpr::In { field, values });
    let null = Just(FilterExpr::IsNull { field });
    if schema.fields[field].kind == Kind::Json {
        let path = select(vec!["a", "[0]", "a.b", "[1].a"]);
        let test = select(vec![
            JsonTest::Compare(Comparison::Equal, Value::Int(1)),
            JsonTest::Compare(Comparison::Less, Value::from("b")),
            JsonTest::In(vec![Value::from("a"), Value::Bool(true)]),
            JsonTest::IsNull,
            JsonTest::Exists,
        ]);
        let inside = (path, test).prop_map(move |(path, test)| {
            let condition = Box::new(JsonCondition { path: JsonPath::new(path), test });
            FilterExpr::Inside { field, condition }
        });
        return prop_oneof![3 => compare, 1 => list, 1 => null, 4 => inside].boxed();
    }
    if !matches!(schema.fields[field].kind, Kind::Text { .. }) {
        return prop_oneof![6 => compare, 2 => list, 1 => null].boxed();
    }
    let text = select(vec!["", "a", "A", "b", "%", "_", "'", "é", "É", "B%"]);
    let place = select(vec![Place::Anywhere, Place::Start]);
    let matches = (place, text).prop_map(move |(place, text)| FilterExpr::Match {
        field,
        place,
        text: text.to_owned(),
    });
    prop_oneof![4 => compare, 2 => list, 1 => null, 3 => matches].boxed()
}

/// Continues a read.
pub(super) const CONTINUE: ControlFlow<()> = ControlFlow::Continue(());
