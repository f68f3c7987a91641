//! Orders by fields of the rows to which references lead: random rows compared with a sort in Rust,
//! pages, rights, and reads that refuse such an order.

use std::cmp::Ordering;

use marmota_derive::Model;
use marmota_model::{Caller, ErrorKind, Order, Ref, parse_order};
use marmota_store::StoreBuilder;
use marmota_store::group::count;
use marmota_store::rights::{Grant, Right, Rights};

use crate::conformance::harness::refusal::refused;
use crate::conformance::harness::subject::{Stand, Subject};

register!($ related_orders_promises related_orders:
    lists_are_sorted_by_related_rows,
    pages_continue_in_a_related_order,
    hidden_related_rows_do_not_sort,
    other_reads_refuse_a_related_order,
    invalid_related_orders_are_refused,
);

#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(table = "office")]
pub(super) struct Office {
    pub(super) id: i64,
    pub(super) city: Option<String>,
}

#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(table = "clerk")]
pub(super) struct Clerk {
    pub(super) id: i64,
    #[model(collate = "nocase")]
    pub(super) name: String,
    pub(super) pay: Option<i64>,
    pub(super) office: Option<Ref<Office>>,
    pub(super) boss: Option<Ref<Clerk>>,
}

#[derive(Clone, Debug, Model, PartialEq)]
#[model(table = "task")]
pub(super) struct Task {
    pub(super) id: i64,
    pub(super) points: Option<i64>,
    pub(super) clerk: Option<Ref<Clerk>>,
}

pub(super) struct Rows {
    pub(super) offices: Vec<Office>,
    pub(super) clerks: Vec<Clerk>,
    pub(super) tasks: Vec<Task>,
}

impl Rows {
    fn clerk(&self, task: &Task) -> Option<&Clerk> {
        let key = task.clerk.as_ref()?.key();
        self.clerks.iter().find(|clerk| clerk.id == *key)
    }

    pub(super) fn name(&self, task: &Task) -> Option<String> {
        self.clerk(task).map(|clerk| clerk.name.to_ascii_lowercase())
    }

    pub(super) fn city(&self, task: &Task) -> Option<String> {
        let key = self.clerk(task)?.office.as_ref()?.key();
        self.offices.iter().find(|office| office.id == *key)?.city.clone()
    }

    fn pay_of_boss(&self, task: &Task) -> Option<i64> {
        let key = self.clerk(task)?.boss.as_ref()?.key();
        self.clerks.iter().find(|clerk| clerk.id == *key)?.pay
    }

    /// Returns the keys of the tasks, sorted.
    fn sorted(&self, compare: impl Fn(&Task, &Task) -> Ordering) -> Vec<i64> {
        let mut tasks: Vec<&Task> = self.tasks.iter().collect();
        tasks.sort_by(|a, b| compare(a, b));
        tasks.into_iter().map(|task| task.id).collect()
    }
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<Office>().model::<Clerk>().model::<Task>()
}

pub(super) fn open(subject: &Subject, tasks: usize) -> (Stand<'_>, Rows) {
    let mut stand = Stand::open(subject, models);
    let random = &mut fastrand::Rng::with_seed(41);
    let cities = [Some("Oslo"), None, Some("Bonn"), Some("Graz")];
    let offices = cities.map(|city| Office { id: 0, city: city.map(str::to_owned) });
    let offices = stand.insert_many(&offices).run().unwrap();
    let mut clerks: Vec<i64> = Vec::new();
    for number in 0..9 {
        let clerk = Clerk {
            id: 0,
            name: ["ada", "Bob", "ann", "Cid", "bob"][number % 5].to_owned(),
            pay: random.bool().then(|| random.i64(0..3)),
            office: random.bool().then(|| Ref::new(offices[random.usize(0..4)])),
            boss: (number > 2).then(|| Ref::new(clerks[random.usize(0..number)])),
        };
        clerks.push(stand.insert(&clerk).run().unwrap());
    }
    let all: Vec<Task> = (0..tasks)
        .map(|_| Task {
            id: 0,
            points: random.bool().then(|| random.i64(0..3)),
            clerk: (random.u8(0..4) > 0).then(|| Ref::new(clerks[random.usize(0..9)])),
        })
        .collect();
    stand.insert_many(&all).run().unwrap();
    stand.settle();
    let rows = Rows {
        offices: stand.list().run().unwrap(),
        clerks: stand.list().run().unwrap(),
        tasks: stand.list().run().unwrap(),
    };
    (stand, rows)
}

/// A text, the same order typed, and the keys in this order.
type Case = (&'static str, Vec<Order<Task>>, Vec<i64>);

fn cases(rows: &Rows) -> Vec<Case> {
    let by_key = |a: &Task, b: &Task| a.id.cmp(&b.id);
    let by_name = |a: &Task, b: &Task| rows.name(a).cmp(&rows.name(b));
    let by_city = |a: &Task, b: &Task| rows.city(a).cmp(&rows.city(b));
    let by_pay = |a: &Task, b: &Task| rows.pay_of_boss(a).cmp(&rows.pay_of_boss(b));
    let city = || Task::CLERK.then(Clerk::OFFICE).then(Office::CITY);
    let pay = || Task::CLERK.then(Clerk::BOSS).then(Clerk::PAY);
    vec![
        (
            "clerk.name",
            vec![Task::CLERK.then(Clerk::NAME).ascending()],
            rows.sorted(|a, b| by_name(a, b).then(by_key(a, b))),
        ),
        (
            "-clerk.office.city",
            vec![city().descending()],
            rows.sorted(|a, b| by_city(b, a).then(by_key(b, a))),
        ),
        (
            "points,-clerk.boss.pay,clerk.name,-id",
            vec![
                Task::POINTS.ascending(),
                pay().descending(),
                Task::CLERK.then(Clerk::NAME).ascending(),
                Task::ID.descending(),
            ],
            rows.sorted(|a, b| {
                let order = a.points.cmp(&b.points).then(by_pay(b, a)).then(by_name(a, b));
                order.then(by_key(b, a))
            }),
        ),
        (
            "clerk.office.city,clerk",
            vec![city().ascending(), Task::CLERK.ascending()],
            rows.sorted(|a, b| {
                let clerk = |task: &Task| task.clerk.as_ref().map(|clerk| *clerk.key());
                by_city(a, b).then(clerk(a).cmp(&clerk(b))).then(by_key(a, b))
            }),
        ),
    ]
}

/// Lists are sorted by fields of related rows, in text and typed, through one and two references.
/// More rows than the keys of one read are listed.
pub fn lists_are_sorted_by_related_rows(subject: &Subject) {
    let (stand, rows) = open(subject, 430);
    let table = stand.table("task").unwrap();
    for (text, typed, wanted) in cases(&rows) {
        let list = typed.into_iter().fold(stand.list::<Task>(), |list, order| list.order(order));
        let listed = list.run().unwrap();
        assert_eq!(listed.iter().map(|task| task.id).collect::<Vec<_>>(), wanted, "{text}");
        let list = parse_order(&table, text).unwrap().into_iter();
        let list = list.fold(stand.list_records(&table), |list, order| list.order(order));
        let records = list.limit(7).run().unwrap();
        let keys: Vec<i64> =
            records.iter().map(|one| one.values()[0].as_ref().as_int().unwrap()).collect();
        assert_eq!(keys, wanted[..7], "{text}");
    }
    let some = stand.list::<Task>().filter(Task::POINTS.eq(1));
    let some = some.order(Task::CLERK.then(Clerk::NAME).ascending()).run().unwrap();
    let mut wanted: Vec<Task> = rows.tasks.clone();
    wanted.retain(|task| task.points == Some(1));
    wanted.sort_by_key(|task| (rows.name(task), task.id));
    assert_eq!(some, wanted);
}

/// Pages of any size continue after the last row, and together have each row once.
pub fn pages_continue_in_a_related_order(subject: &Subject) {
    let (stand, rows) = open(subject, 30);
    for (text, typed, wanted) in cases(&rows) {
        for size in [1, 7] {
            let mut found: Vec<Task> = Vec::new();
            loop {
                let list = typed.iter().cloned();
                let list = list.fold(stand.list::<Task>(), |list, order| list.order(order));
                let list = if let Some(last) = found.last() { list.after(last) } else { list };
                let page = list.limit(size).run().unwrap();
                let is_last = (page.len() as u64) < size;
                found.extend(page);
                if is_last {
                    break;
                }
            }
            let found: Vec<i64> = found.iter().map(|task| task.id).collect();
            assert_eq!(found, wanted, "{text} in pages of {size}");
        }
    }
}

/// A related row that the caller may not read is ordered as if it did not exist; a field that may
/// not be read is refused, and so is a table.
pub fn hidden_related_rows_do_not_sort(subject: &Subject) {
    let (stand, mut rows) = open(subject, 30);
    let caller = || Caller { id: "7".to_owned(), name: "ann".to_owned(), groups: Vec::new() };
    let under = |grants: &[Grant]| {
        stand.with_rights(Rights::new(stand.registry(), Some(caller()), grants).unwrap())
    };
    let by_name = || Task::CLERK.then(Clerk::NAME).ascending();
    let tasks = || Grant::new("task", &[Right::Read]);
    let ann = under(&[tasks(), Grant::new("clerk", &[Right::Read]).rule("pay = 1")]);
    rows.clerks.retain(|clerk| clerk.pay == Some(1));
    let wanted = rows.sorted(|a, b| rows.name(a).cmp(&rows.name(b)).then(a.id.cmp(&b.id)));
    let listed = ann.list::<Task>().order(by_name()).run().unwrap();
    assert_eq!(listed.iter().map(|task| task.id).collect::<Vec<_>>(), wanted);
    let without = under(&[tasks(), Grant::new("clerk", &[Right::Read]).except(["name"])]);
    refused(without.list::<Task>().order(by_name()).run(), ErrorKind::Invalid);
    without.list::<Task>().order(Task::CLERK.then(Clerk::PAY).ascending()).run().unwrap();
    refused(under(&[tasks()]).list::<Task>().order(by_name()).run(), ErrorKind::Denied);
}

/// Groups and live queries have no related order.
pub fn other_reads_refuse_a_related_order(subject: &Subject) {
    let (stand, _) = open(subject, 3);
    let by_name = || Task::CLERK.then(Clerk::NAME).ascending();
    let groups = stand.list::<Task>().group_by(Task::POINTS).select(count());
    refused(groups.order(by_name()).run(), ErrorKind::Invalid);
    let mut query = marmota_model::RowQuery::new();
    by_name().append_to(&mut query);
    refused(query.refuse_related("a live query"), ErrorKind::Invalid);
}

/// Only references to existing tables and fields are followed.
pub fn invalid_related_orders_are_refused(subject: &Subject) {
    let (stand, _) = open(subject, 3);
    let (task, clerk) = (stand.table("task").unwrap(), stand.table("clerk").unwrap());
    for text in ["clerk.nme", "points.name", "clerk.", ".name", "clerk.name,clerk.name", "task.id"]
    {
        refused(parse_order(&task, text), ErrorKind::Invalid);
    }
    refused(parse_order(&clerk, "task.points"), ErrorKind::Invalid);
    refused(parse_order(&clerk, "boss.boss.boss.boss.boss.name"), ErrorKind::Invalid);
    let many = "clerk.id,clerk.name,clerk.pay,clerk.boss.id,clerk.boss.name";
    let list = parse_order(&task, many).unwrap().into_iter();
    let list = list.fold(stand.list_records(&task), |list, order| list.order(order));
    refused(list.run(), ErrorKind::Invalid);
}
