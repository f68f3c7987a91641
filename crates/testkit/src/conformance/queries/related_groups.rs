//! Groups by fields of the rows to which references lead, compared with groups made in plain code;
//! rights on related rows; and what is refused.

use std::collections::BTreeMap;

use marmota_model::{Caller, ErrorKind, GroupQuery, Record, Value};
use marmota_store::group::{avg, count, max, min, sum};
use marmota_store::rights::{Grant, Right, Rights};

use super::related_orders::{Clerk, Office, Rows, Task, open};
use crate::conformance::harness::refusal::refused;
use crate::conformance::harness::subject::{Stand, Subject};

register!($ related_groups_promises related_groups:
    rows_are_grouped_by_related_fields,
    groups_of_related_fields_have_conditions_and_an_order,
    hidden_related_rows_are_one_group,
    invalid_related_groups_are_refused,
);

/// The count, sum, mean, minimum and maximum of points.
type Points = (u64, (Option<i64>, Option<f64>, Option<i64>, Option<i64>));

/// Computes the values of the tasks with the same key.
fn grouped<K: Ord>(rows: &Rows, key: impl Fn(&Task) -> K) -> Vec<(K, Points)> {
    let mut groups: BTreeMap<K, Vec<&Task>> = BTreeMap::new();
    for task in &rows.tasks {
        groups.entry(key(task)).or_default().push(task);
    }
    let values = |tasks: Vec<&Task>| {
        let points: Vec<i64> = tasks.iter().filter_map(|task| task.points).collect();
        let sum = (!points.is_empty()).then(|| points.iter().sum::<i64>());
        let mean = sum.map(|sum| sum as f64 / points.len() as f64);
        (
            tasks.len() as u64,
            (sum, mean, points.iter().min().copied(), points.iter().max().copied()),
        )
    };
    groups.into_iter().map(|(key, tasks)| (key, values(tasks))).collect()
}

fn query(stand: &Stand<'_>, by: &str, select: &str) -> GroupQuery {
    let (table, mut query) = (stand.table("task").unwrap(), GroupQuery::new());
    query.group_by(&table, by).unwrap();
    query.select(&table, select).unwrap();
    query
}

/// Groups by one and two references, by several fields of one related row, and together with
/// fields of the table have the rows that plain code finds. There are more references than keys in
/// the filter of one list.
pub fn rows_are_grouped_by_related_fields(subject: &Subject) {
    let (stand, rows) = open(subject, 430);
    let values =
        || (count(), (sum(Task::POINTS), avg(Task::POINTS), min(Task::POINTS), max(Task::POINTS)));
    let list = || stand.list::<Task>();
    let name = || Task::CLERK.then(Clerk::NAME);
    let city = || Task::CLERK.then(Clerk::OFFICE).then(Office::CITY);

    let found = list().group_by(name()).select(values()).run().unwrap();
    assert_eq!(found, grouped(&rows, |task| rows.name(task)));
    let found = list().group_by(city()).select(values()).run().unwrap();
    let found: Vec<(Option<String>, Points)> =
        found.into_iter().map(|(city, values)| (city.flatten(), values)).collect();
    assert_eq!(found, grouped(&rows, |task| rows.city(task)));
    let names: Vec<Option<String>> =
        grouped(&rows, |task| rows.name(task)).into_iter().map(|(name, _)| name).collect();
    assert_eq!(list().group_by(name()).run().unwrap(), names);

    let both = (name(), Task::POINTS, city());
    let found = list().group_by(both).select(values()).run().unwrap();
    let found: Vec<_> = found
        .into_iter()
        .map(|((name, points, city), values)| ((name, points, city.flatten()), values))
        .collect();
    assert_eq!(found, grouped(&rows, |task| (rows.name(task), task.points, rows.city(task))));

    let query = query(&stand, "clerk.name,points,clerk.office.city", "count,sum(points)");
    let table = stand.table("task").unwrap();
    let records = stand.list_records(&table).group(query).run().unwrap();
    assert_eq!(records.len(), found.len());
    for (record, ((name, points, city), (count, (sum, ..)))) in records.iter().zip(found) {
        let wanted = [
            ("clerk_name", name.map_or(Value::Null, Value::from)),
            ("points", points.map_or(Value::Null, Value::from)),
            ("clerk_office_city", city.map_or(Value::Null, Value::from)),
            ("count", Value::Int(count as i64)),
            ("sum_points", sum.map_or(Value::Null, Value::from)),
        ];
        for (member, value) in wanted {
            assert_eq!(*record.value(member).unwrap(), value, "{member}");
        }
    }
}

/// Conditions, orders and limits apply to the groups by related fields, not to those by references.
pub fn groups_of_related_fields_have_conditions_and_an_order(subject: &Subject) {
    let (stand, rows) = open(subject, 60);
    let name = || Task::CLERK.then(Clerk::NAME);
    let mut wanted = grouped(&rows, |task| rows.name(task));
    wanted.retain(|(_, (count, _))| *count >= 10);
    wanted.sort_by_key(|(name, (count, _))| (std::cmp::Reverse(*count), name.clone()));
    let wanted: Vec<_> = wanted.into_iter().map(|(name, (count, _))| (name, count)).collect();
    assert!(wanted.len() > 1, "{wanted:?}");
    let groups = || stand.list::<Task>().group_by(name()).select(count());
    let groups = || groups().having(count().ge(10)).order(count().descending());
    assert_eq!(groups().run().unwrap(), wanted);
    assert_eq!(groups().limit(1).run().unwrap(), wanted[..1]);
    let mut reversed = grouped(&rows, |task| rows.name(task));
    reversed.reverse();
    let found = stand.list::<Task>().group_by(name()).select(count());
    let found = found.order(name().descending()).run().unwrap();
    let names: Vec<Option<String>> = reversed.into_iter().map(|(name, _)| name).collect();
    assert_eq!(found.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), names);
    let some = stand.list::<Task>().filter(Task::POINTS.eq(1)).group_by(name()).select(count());
    let total: u64 = some.run().unwrap().into_iter().map(|(_, count)| count).sum();
    assert_eq!(total, rows.tasks.iter().filter(|task| task.points == Some(1)).count() as u64);
    let none = stand.list::<Task>().filter(Task::ID.lt(0)).group_by(name()).select(count());
    assert_eq!(none.run().unwrap(), []);
}

/// The rows whose related row the caller may not read are in the group of those without one. A
/// field that may not be read is refused, and so is a table.
pub fn hidden_related_rows_are_one_group(subject: &Subject) {
    let (stand, mut rows) = open(subject, 30);
    let caller = || Caller { id: "7".to_owned(), name: "ann".to_owned(), groups: Vec::new() };
    let under = |grants: &[Grant]| {
        stand.with_rights(Rights::new(stand.registry(), Some(caller()), grants).unwrap())
    };
    let name = || Task::CLERK.then(Clerk::NAME);
    let tasks = || Grant::new("task", &[Right::Read]);
    let ann = under(&[tasks(), Grant::new("clerk", &[Right::Read]).rule("pay = 1")]);
    rows.clerks.retain(|clerk| clerk.pay == Some(1));
    let wanted = grouped(&rows, |task| rows.name(task));
    let wanted: Vec<_> = wanted.into_iter().map(|(name, (count, _))| (name, count)).collect();
    let found = ann.list::<Task>().group_by(name()).select(count()).run().unwrap();
    assert_eq!(found, wanted);
    let without = under(&[tasks(), Grant::new("clerk", &[Right::Read]).except(["name"])]);
    refused(without.list::<Task>().group_by(name()).run(), ErrorKind::Invalid);
    without.list::<Task>().group_by(Task::CLERK.then(Clerk::PAY)).run().unwrap();
    refused(under(&[tasks()]).list::<Task>().group_by(name()).run(), ErrorKind::Denied);
    let no_reference = under(&[
        Grant::new("task", &[Right::Read]).except(["clerk"]),
        Grant::new("clerk", &[Right::Read]),
    ]);
    refused(no_reference.list::<Task>().group_by(name()).run(), ErrorKind::Invalid);
}

/// Only references to existing tables and fields are followed, each path once, and a query has at
/// most four of them.
pub fn invalid_related_groups_are_refused(subject: &Subject) {
    let (stand, _) = open(subject, 3);
    let (task, clerk) = (stand.table("task").unwrap(), stand.table("clerk").unwrap());
    for text in ["clerk.nme", "points.name", "clerk.", ".name", "task.id"] {
        refused(GroupQuery::new().group_by(&task, text), ErrorKind::Invalid);
    }
    refused(GroupQuery::new().group_by(&clerk, "task.points"), ErrorKind::Invalid);
    let run = |by: &str, select: &str| -> marmota_model::Result<Vec<Record>> {
        stand.list_records(&task).group(query(&stand, by, select)).run()
    };
    refused(run("clerk.name,clerk.name", "count"), ErrorKind::Invalid);
    let many = "clerk.id,clerk.name,clerk.pay,clerk.boss.id,clerk.boss.name";
    refused(run(many, "count"), ErrorKind::Invalid);
    let means: Vec<String> = (0..9).map(|number| format!("a{number}:avg(points)")).collect();
    let error = run("clerk.name", &means.join(",")).unwrap_err();
    assert!(error.to_string().contains("a mean is two"), "{error}");
    run("clerk.name", &means[..8].join(",")).unwrap();
}
