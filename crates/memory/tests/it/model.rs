//! The memory engine against a naive one: a vector of rows, cloned at every
//! savepoint, and a filter asked of each by a direct reading of its meaning.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

use marmota_memory::Memory;
use marmota_model::{
    Collation, Comparison, ErrorKind, Field, FilterExpr, Index, Kind, Place, Result, Role,
    RowQuery, Schema, SortKey, Table, Value, ValueRef,
};
use marmota_store::engine::{self, Engine, Session};
use marmota_store::operation::{Keys, Operation, Outcome};
use proptest::prelude::*;

const ID: usize = 0;
const CODE: usize = 1;
const NAME: usize = 2;
const RANK: usize = 3;
const PRICE: usize = 4;
const RATIO: usize = 5;
const ALIVE: usize = 6;
const VERSION: usize = 7;
const FIELDS: usize = 8;

fn table(text_key: bool) -> Table {
    let no_case = Kind::Text { chars_max: 0, collation: Collation::NoCase };
    let key = if text_key { no_case.clone() } else { Kind::I64 };
    let fields = vec![
        Field::new("id", key).role(Role::Key),
        Field::new("code", Kind::TEXT).unique(true).nullable(true),
        Field::new("name", no_case),
        Field::new("rank", Kind::Int { min: -3, max: 3 }).nullable(true),
        Field::new("price", Kind::Currency),
        Field::new("ratio", Kind::Float).nullable(true),
        Field::new("alive", Kind::Bool).nullable(true),
        Field::new("version", Kind::I64).role(Role::Version),
    ];
    let index = |fields: &[usize], unique| Index { unique, ..Index::new(fields.to_vec()) };
    Table::new(Schema::new("thing", fields).indexes(vec![
        index(&[NAME], false),
        index(&[RANK, NAME], false),
        index(&[RATIO], false),
        index(&[ALIVE, RANK, NAME], true),
    ]))
    .unwrap()
}

type Row = Vec<Value>;

/// The naive engine.
#[derive(Clone)]
struct Naive {
    table: Arc<Table>,
    rows: Vec<Row>,
}

fn collate(table: &Table, field: usize, a: &Value, b: &Value) -> Ordering {
    match (&table.fields()[field].kind.collation(), a, b) {
        (Collation::NoCase, Value::Text(a), Value::Text(b)) => {
            a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
        }
        _ => a.as_ref().order(&b.as_ref()),
    }
}

impl Naive {
    fn find(&self, key: &Value) -> Option<usize> {
        self.rows.iter().position(|row| collate(&self.table, ID, &row[ID], key).is_eq())
    }

    fn ask(&self, filter: &FilterExpr, row: &Row) -> Option<bool> {
        match filter {
            FilterExpr::Compare { field, comparison, value } => {
                if row[*field] == Value::Null {
                    return None;
                }
                let order = collate(&self.table, *field, &row[*field], value);
                Some(match comparison {
                    Comparison::Equal => order == Ordering::Equal,
                    Comparison::NotEqual => order != Ordering::Equal,
                    Comparison::Less => order == Ordering::Less,
                    Comparison::LessOrEqual => order != Ordering::Greater,
                    Comparison::Greater => order == Ordering::Greater,
                    Comparison::GreaterOrEqual => order != Ordering::Less,
                })
            }
            FilterExpr::In { values, .. } if values.is_empty() => Some(false),
            FilterExpr::In { field, values } => {
                let same = |value| collate(&self.table, *field, &row[*field], value).is_eq();
                (row[*field] != Value::Null).then(|| values.iter().any(same))
            }
            FilterExpr::Match { field, place, text } => {
                let Value::Text(stored) = &row[*field] else { return None };
                let (stored, text) = (stored.to_ascii_lowercase(), text.to_ascii_lowercase());
                Some(match place {
                    Place::Anywhere => stored.contains(&text),
                    Place::Start => stored.starts_with(&text),
                })
            }
            FilterExpr::IsNull { field } => Some(row[*field] == Value::Null),
            FilterExpr::Inside { field, condition } => condition.evaluate(match &row[*field] {
                Value::Json(json) => Some(json),
                _ => None,
            }),
            FilterExpr::Near { .. } => unreachable!("these tables have no places"),
            FilterExpr::Search { .. } => unreachable!("no field of these tables is searched"),
            FilterExpr::Related(_) => unreachable!("these tables have no relations"),
            FilterExpr::Not(inner) => self.ask(inner, row).map(|answer| !answer),
            FilterExpr::And(all) => {
                let answers: Vec<_> = all.iter().map(|one| self.ask(one, row)).collect();
                if answers.contains(&Some(false)) {
                    Some(false)
                } else {
                    (!answers.contains(&None)).then_some(true)
                }
            }
            FilterExpr::Or(any) => {
                let answers: Vec<_> = any.iter().map(|one| self.ask(one, row)).collect();
                if answers.contains(&Some(true)) {
                    Some(true)
                } else {
                    (!answers.contains(&None)).then_some(false)
                }
            }
        }
    }

    fn list(&self, query: &RowQuery) -> Vec<Row> {
        let filter = query.filter_with_after(&self.table);
        let chosen =
            |row: &&Row| filter.as_ref().is_none_or(|filter| self.ask(filter, row) == Some(true));
        let mut rows: Vec<Row> = self.rows.iter().filter(chosen).cloned().collect();
        let order = query.order_with_key(&self.table);
        rows.sort_by(|a, b| {
            for by in &order {
                let found = collate(&self.table, by.field, &a[by.field], &b[by.field]);
                let found = if by.descending { found.reverse() } else { found };
                if found.is_ne() {
                    return found;
                }
            }
            Ordering::Equal
        });
        rows.truncate(query.limit.unwrap_or(u64::MAX) as usize);
        rows
    }

    fn is_unique(&self, row: &Row, own: Option<usize>) -> bool {
        let collides = |fields: &[usize]| {
            !fields.iter().any(|&field| row[field] == Value::Null)
                && self.rows.iter().enumerate().any(|(at, other)| {
                    let same = |&field: &usize| {
                        collate(&self.table, field, &row[field], &other[field]).is_eq()
                    };
                    Some(at) != own && fields.iter().all(same)
                })
        };
        !collides(&[ID]) && !collides(&[CODE]) && !collides(&[ALIVE, RANK, NAME])
    }

    fn insert(&mut self, mut row: Row) -> Result<Value, ErrorKind> {
        if row[ID] == Value::Absent {
            let last = self.rows.iter().filter_map(|row| row[ID].as_ref().as_int()).max();
            row[ID] = Value::Int(last.unwrap_or(0).checked_add(1).ok_or(ErrorKind::Conflict)?);
        }
        if !self.is_unique(&row, None) {
            return Err(ErrorKind::Conflict);
        }
        let key = row[ID].clone();
        self.rows.push(row);
        Ok(key)
    }

    fn update(
        &mut self,
        key: &Value,
        changes: &Row,
        expected: Option<i64>,
    ) -> Result<i64, ErrorKind> {
        let at = self.find(key).ok_or(ErrorKind::NotFound)?;
        let mut row = self.rows[at].clone();
        let version = row[VERSION].as_ref().as_int().unwrap();
        if expected.is_some_and(|expected| expected != version) {
            return Err(ErrorKind::Stale);
        }
        for (field, value) in changes.iter().enumerate() {
            if *value != Value::Absent {
                row[field] = value.clone();
            }
        }
        row[VERSION] = Value::Int(version + 1);
        if !self.is_unique(&row, Some(at)) {
            return Err(ErrorKind::Conflict);
        }
        self.rows[at] = row;
        Ok(version + 1)
    }

    fn increment(&mut self, key: &Value, by: i64) -> Result<Value, ErrorKind> {
        let at = self.find(key).ok_or(ErrorKind::NotFound)?;
        let Value::Int(rank) = self.rows[at][RANK] else { return Err(ErrorKind::Invalid) };
        let sum = rank + by;
        if !(-3..=3).contains(&sum) {
            return Err(ErrorKind::Invalid);
        }
        let mut changes = vec![Value::Absent; FIELDS];
        changes[RANK] = Value::Int(sum);
        self.update(key, &changes, None).map(|_| Value::Int(sum))
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Row),
    InsertMany(Vec<Row>),
    Update(Value, Row, Option<i64>),
    Increment(Value, i64),
    Delete(Value),
    DeleteWhere(FilterExpr),
    Get(Value),
    List(RowQuery, Option<usize>),
    Count(FilterExpr),
    Begin,
    Commit,
    Rollback,
    Savepoint,
    RollbackTo,
}

fn text() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "",
        "a",
        "A",
        "ab",
        "aB",
        "b",
        "B",
        "_",
        "é",
        "É",
        "abcdefgh",
        "abcdefghI",
        "ABCDEFGHi",
        "abcdefgh_",
    ])
    .prop_map(str::to_owned)
}

fn value(field: usize, text_key: bool) -> BoxedStrategy<Value> {
    match field {
        ID if text_key => text().prop_map(Value::Text).boxed(),
        ID => prop_oneof![
            20 => (-1i64..15).prop_map(Value::Int),
            1 => (0i64..3).prop_map(|n| Value::Int(5_000 * n)),
        ]
        .boxed(),
        CODE | NAME => text().prop_map(Value::Text).boxed(),
        RANK => (-3i64..=3).prop_map(Value::Int).boxed(),
        PRICE => (0..4).prop_map(|n: i32| Value::Currency(n.into())).boxed(),
        RATIO => prop::sample::select(vec![-1.5, -0.0, 0.0, 2.0, f64::MAX])
            .prop_map(Value::Float)
            .boxed(),
        ALIVE => any::<bool>().prop_map(Value::Bool).boxed(),
        _ => (1i64..4).prop_map(Value::Int).boxed(),
    }
}

fn nullable(field: usize, text_key: bool) -> BoxedStrategy<Value> {
    match field {
        CODE | RANK | RATIO | ALIVE => {
            prop_oneof![1 => Just(Value::Null), 3 => value(field, text_key)].boxed()
        }
        VERSION => Just(Value::Int(1)).boxed(),
        _ => value(field, text_key),
    }
}

fn row(text_key: bool, auto: bool) -> impl Strategy<Value = Row> {
    let fields: Vec<_> = (0..FIELDS)
        .map(|field| match field {
            ID if auto && !text_key => Just(Value::Absent).boxed(),
            field => nullable(field, text_key),
        })
        .collect();
    fields
}

fn changes(text_key: bool) -> impl Strategy<Value = Row> {
    let fields: Vec<_> = (0..FIELDS)
        .map(|field| match field {
            ID | VERSION => Just(Value::Absent).boxed(),
            field => prop_oneof![2 => Just(Value::Absent), 1 => nullable(field, text_key)].boxed(),
        })
        .collect();
    fields
}

fn filter(text_key: bool) -> impl Strategy<Value = FilterExpr> {
    let comparison = prop::sample::select(vec![
        Comparison::Equal,
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ]);
    let compare = (0..FIELDS, comparison).prop_flat_map(move |(field, comparison)| {
        value(field, text_key).prop_map(move |value| FilterExpr::Compare {
            field,
            comparison,
            value,
        })
    });
    let within = (0..FIELDS).prop_flat_map(move |field| {
        prop::collection::vec(value(field, text_key), 0..4)
            .prop_map(move |values| FilterExpr::In { field, values })
    });
    let place = prop::sample::select(vec![Place::Anywhere, Place::Start]);
    let matches = (CODE..=NAME, place, text()).prop_map(|(field, place, text)| FilterExpr::Match {
        field,
        place,
        text,
    });
    let leaf = prop_oneof![
        5 => compare,
        1 => within,
        1 => matches,
        1 => (0..FIELDS).prop_map(|field| FilterExpr::IsNull { field }),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            1 => inner.clone().prop_map(|inner| FilterExpr::Not(Box::new(inner))),
            3 => prop::collection::vec(inner.clone(), 0..4).prop_map(FilterExpr::And),
            1 => prop::collection::vec(inner, 0..3).prop_map(FilterExpr::Or),
        ]
    })
}

fn query(text_key: bool) -> impl Strategy<Value = RowQuery> {
    let order = prop::collection::vec(
        (0..FIELDS, any::<bool>()).prop_map(|(field, descending)| SortKey { field, descending }),
        0..3,
    );
    let limit = prop::option::of(0u64..8);
    (prop::option::of(filter(text_key)), order, limit, any::<bool>()).prop_map(
        |(filter, mut order, limit, one_way)| {
            if one_way {
                let descending = order.first().is_some_and(|by| by.descending);
                order.iter_mut().for_each(|by| by.descending = descending);
            }
            let mut query = RowQuery::new();
            (query.filter, query.order, query.limit) = (filter, order, limit);
            query
        },
    )
}

fn step(text_key: bool) -> impl Strategy<Value = Step> {
    let key = || value(ID, text_key);
    prop_oneof![
        6 => any::<bool>().prop_flat_map(move |auto| row(text_key, auto)).prop_map(Step::Insert),
        1 => prop::collection::vec(row(text_key, true), 0..4).prop_map(Step::InsertMany),
        4 => (key(), changes(text_key), prop::option::of(1i64..3))
            .prop_map(|(key, row, version)| Step::Update(key, row, version)),
        2 => (key(), -2i64..3).prop_map(|(key, by)| Step::Increment(key, by)),
        3 => key().prop_map(Step::Delete),
        1 => filter(text_key).prop_map(Step::DeleteWhere),
        2 => key().prop_map(Step::Get),
        10 => (query(text_key), prop::option::of(0usize..20))
            .prop_map(|(query, after)| Step::List(query, after)),
        2 => filter(text_key).prop_map(Step::Count),
        1 => Just(Step::Begin),
        1 => Just(Step::Commit),
        1 => Just(Step::Rollback),
        1 => Just(Step::Savepoint),
        1 => Just(Step::RollbackTo),
    ]
}

fn borrow(row: &Row) -> Vec<ValueRef<'_>> {
    row.iter().map(Value::as_ref).collect()
}

pub(crate) struct Source<'a>(pub(crate) std::slice::Iter<'a, Row>);

impl<'a> marmota_model::RowSource<'a> for Source<'a> {
    fn remaining(&self) -> usize {
        self.0.len()
    }

    fn next(&mut self, row: &mut [ValueRef<'a>]) -> Result<bool> {
        let Some(next) = self.0.next() else { return Ok(false) };
        row.iter_mut().zip(next).for_each(|(value, next)| *value = next.as_ref());
        Ok(true)
    }
}

/// The engine, the naive one, and the states that it can go back to.
struct Twins {
    table: Arc<Table>,
    session: Box<dyn Session>,
    naive: Naive,
    begun: Option<Naive>,
    saved: Option<Naive>,
    _engine: Memory,
}

impl Twins {
    fn new(text_key: bool) -> Self {
        let table = Arc::new(table(text_key));
        let engine = Memory::new();
        engine.prepare(std::slice::from_ref(&table), 1).unwrap();
        let session = engine.session().unwrap();
        let naive = Naive { table: Arc::clone(&table), rows: Vec::new() };
        Self { table, session, naive, begun: None, saved: None, _engine: engine }
    }

    fn run(&mut self, operation: &mut Operation<'_>) -> Result<(Outcome, Vec<Row>), ErrorKind> {
        let mut rows = Vec::new();
        let mut sink = |row: &[ValueRef<'_>]| {
            rows.push(row.iter().map(ValueRef::to_value).collect());
            ControlFlow::Continue(())
        };
        let done = engine::run(&mut *self.session, operation, &mut sink);
        done.map(|outcome| (outcome, rows)).map_err(|error| error.kind())
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let table = Arc::clone(&self.table);
        let table = &*table;
        let count = |rows: Result<(Outcome, Vec<Row>), ErrorKind>| rows.map(|(o, _)| o.rows);
        match step {
            Step::Insert(row) => {
                let done = self.run(&mut Operation::insert(table, &borrow(row)));
                let auto = row[ID] == Value::Absent;
                let expected = self.naive.insert(row.clone());
                let keys = expected.map(|key| if auto { Keys::One(key) } else { Keys::Known });
                prop_assert_eq!(done.map(|(outcome, _)| outcome.keys), keys);
            }
            Step::InsertMany(rows) => {
                let source = &mut Source(rows.iter());
                let done = self.run(&mut Operation::insert_many(table, source));
                let mut after = self.naive.clone();
                let inserted: Result<Vec<Value>, ErrorKind> =
                    rows.iter().map(|row| after.insert(row.clone())).collect();
                let count = inserted.as_ref().map(|keys| keys.len() as u64).map_err(|e| *e);
                prop_assert_eq!(done.map(|(outcome, _)| outcome.rows), count);
                if inserted.is_ok() {
                    self.naive = after;
                }
            }
            Step::Update(key, row, version) => {
                let (key_ref, row_ref) = (key.as_ref(), borrow(row));
                let done = self.run(&mut Operation::Update {
                    table,
                    key: key_ref,
                    row: &row_ref,
                    version: *version,
                });
                let expected = self.naive.update(key, row, *version);
                prop_assert_eq!(done.map(|(outcome, _)| outcome.version), expected.map(Some));
            }
            Step::Increment(key, by) => {
                let done = self.run(&mut Operation::Increment {
                    table,
                    key: key.as_ref(),
                    field: RANK,
                    by: ValueRef::Int(*by),
                    stamp: ValueRef::Null,
                });
                let expected = self.naive.increment(key, *by);
                prop_assert_eq!(done.map(|(outcome, _)| outcome.value), expected);
            }
            Step::Delete(key) => {
                let operation = &mut Operation::Delete { table, key: key.as_ref(), version: None };
                let done = self.run(operation);
                let at = self.naive.find(key).ok_or(ErrorKind::NotFound);
                prop_assert_eq!(count(done), at.map(|_| 1));
                if let Ok(at) = at {
                    self.naive.rows.remove(at);
                }
            }
            Step::DeleteWhere(filter) => {
                let done = self.run(&mut Operation::DeleteWhere { table, filter: Some(filter) });
                let naive = self.naive.clone();
                self.naive.rows.retain(|row| naive.ask(filter, row) != Some(true));
                let gone = naive.rows.len() - self.naive.rows.len();
                prop_assert_eq!(count(done), Ok(gone as u64));
            }
            Step::Get(key) => {
                let fields = table.all();
                let done = self.run(&mut Operation::Get { table, key: key.as_ref(), fields });
                let expected = self.naive.find(key).map(|at| self.naive.rows[at].clone());
                prop_assert_eq!(done.map(|(_, rows)| rows), Ok(Vec::from_iter(expected)));
            }
            Step::List(query, after) => {
                let mut query = query.clone();
                if let Some(row) = after.and_then(|after| self.naive.rows.get(after)) {
                    let order = query.order_with_key(table);
                    query.after = Some(order.iter().map(|by| row[by.field].clone()).collect());
                }
                let done = self.run(&mut Operation::List { table, query: &query });
                prop_assert_eq!(done.map(|(_, rows)| rows), Ok(self.naive.list(&query)));
            }
            Step::Count(filter) => {
                let done = self.run(&mut Operation::Count { table, filter: Some(filter) });
                let mut query = RowQuery::new();
                query.filter = Some(filter.clone());
                prop_assert_eq!(count(done), Ok(self.naive.list(&query).len() as u64));
            }
            step => self.transact(step)?,
        }
        Ok(())
    }

    fn transact(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let invalid = Err(ErrorKind::Invalid);
        let (operation, expected) = match step {
            Step::Begin if self.begun.is_none() => {
                self.begun = Some(self.naive.clone());
                (Operation::Begin, Ok(()))
            }
            Step::Begin => (Operation::Begin, invalid),
            Step::Commit | Step::Rollback => {
                let is_commit = matches!(step, Step::Commit);
                let operation = if is_commit { Operation::Commit } else { Operation::Rollback };
                self.saved = None;
                match self.begun.take() {
                    None => (operation, invalid),
                    Some(begun) => {
                        if !is_commit {
                            self.naive = begun;
                        }
                        (operation, Ok(()))
                    }
                }
            }
            Step::Savepoint if self.begun.is_some() => {
                self.saved = Some(self.naive.clone());
                (Operation::Savepoint(7), Ok(()))
            }
            Step::Savepoint => (Operation::Savepoint(7), invalid),
            _ => match &self.saved {
                Some(saved) => {
                    self.naive = saved.clone();
                    (Operation::RollbackTo(7), Ok(()))
                }
                None => (Operation::RollbackTo(7), invalid),
            },
        };
        let mut operation = operation;
        prop_assert_eq!(self.run(&mut operation).map(drop), expected);
        Ok(())
    }
}

fn play(text_key: bool, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut twins = Twins::new(text_key);
    for step in steps {
        twins.step(step)?;
    }
    // What indexes say at the end is what the rows say.
    for field in 0..FIELDS {
        let mut query = RowQuery::new();
        query.order = vec![SortKey { field, descending: false }];
        twins.step(&Step::List(query, None))?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn any_operations_answer_as_the_naive_engine(
        steps in prop::collection::vec(step(false), 1..60),
    ) {
        play(false, &steps)?;
    }

    #[test]
    fn with_keys_that_are_texts_too(steps in prop::collection::vec(step(true), 1..60)) {
        play(true, &steps)?;
    }
}

/// A page may begin behind a row that the filter does not let through: all
/// rows found lie behind it then, or none, whatever their keys.
#[test]
fn a_page_begins_behind_a_row_that_the_filter_leaves_out() {
    let mut twins = Twins::new(false);
    let table = Arc::clone(&twins.table);
    for _ in 0..40 {
        let mut row = vec![Value::Null; FIELDS];
        (row[ID], row[NAME], row[RATIO]) = (Value::Absent, Value::from("x"), Value::Float(0.0));
        (row[PRICE], row[VERSION]) = (Value::Currency(0.into()), Value::Int(1));
        let key = twins.naive.insert(row.clone()).unwrap();
        let row = borrow(&row);
        let inserted = twins.run(&mut Operation::insert(&table, &row)).unwrap().0;
        assert_eq!(inserted.keys, Keys::One(key));
    }
    for (ratio, descending) in
        [(-1.0, false), (-0.0, false), (1.0, false), (1.0, true), (-1.0, true)]
    {
        let value = Value::Float(-0.0);
        let query = RowQuery {
            filter: Some(FilterExpr::Compare {
                field: RATIO,
                comparison: Comparison::Equal,
                value,
            }),
            order: vec![SortKey { field: RATIO, descending }],
            after: Some(vec![Value::Float(ratio), Value::Int(20)]),
            ..RowQuery::new()
        };
        twins.step(&Step::List(query, None)).unwrap();
    }
}

/// Many rows, so that plans differ from scans and chunks split.
#[test]
fn many_rows_answer_as_few() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut twins = Twins::new(false);
    let table = Arc::clone(&twins.table);
    for number in 0..1200 {
        let mut row = row(false, true).new_tree(&mut runner).unwrap().current();
        row[CODE] = Value::Text(format!("code {}", number * 7919 % 1200));
        row[ALIVE] = Value::Null;
        let key = twins.naive.insert(row.clone()).unwrap();
        let row = borrow(&row);
        let operation = &mut Operation::insert(&table, &row);
        assert_eq!(twins.run(operation).unwrap().0.keys, Keys::One(key));
    }
    let steps = step(false);
    for _ in 0..1500 {
        let step = steps.new_tree(&mut runner).unwrap().current();
        // A filter that is true of most rows would leave none to look at.
        if !matches!(step, Step::DeleteWhere(_)) {
            twins.step(&step).unwrap();
        }
    }
}
