//! Conditions on related rows: in text and typed, random ones compared with their evaluation in
//! Rust, and their limits.

use marmota_derive::Model;
use marmota_model::{Comparison, ErrorKind, Filter, Ref, Result, parse_filter};
use marmota_store::{Store, StoreBuilder};

use crate::conformance::harness::refusal::refused;
use crate::conformance::harness::subject::{Stand, Subject};

register!($ relations_promises relations:
    random_filters_agree_with_rust,
    typed_filters_are_those_of_the_text,
    a_condition_is_never_unknown,
    deletes_and_counts_take_relations,
    invalid_relations_are_refused,
    ; by transactions:
    a_transaction_sees_its_own_related_rows,
);

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Team {
    id: i64,
    name: String,
}

#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(table = "worker")]
struct Worker {
    id: i64,
    name: String,
    team: Option<Ref<Team>>,
    boss: Option<Ref<Worker>>,
}

#[derive(Clone, Debug, Model, PartialEq)]
#[model(relation(labels = "issue_label.label"))]
struct Issue {
    id: i64,
    points: Option<i64>,
    assignee: Option<Ref<Worker>>,
    team: Ref<Team>,
}

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Label {
    id: i64,
    #[model(collate = "nocase")]
    name: String,
}

#[derive(Clone, Debug, Model, PartialEq)]
struct IssueLabel {
    id: i64,
    issue: Ref<Issue>,
    label: Ref<Label>,
}

#[derive(Clone, Debug, Model, PartialEq)]
struct Remark {
    id: i64,
    issue: Option<Ref<Issue>>,
    author: Ref<Worker>,
    reviewer: Option<Ref<Worker>>,
    stars: Option<i64>,
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    let builder = builder.model::<Team>().model::<Worker>().model::<Issue>();
    builder.model::<Label>().model::<IssueLabel>().model::<Remark>()
}

/// All rows of the store.
#[derive(Debug, Default)]
struct Rows {
    teams: Vec<Team>,
    workers: Vec<Worker>,
    issues: Vec<Issue>,
    labels: Vec<Label>,
    links: Vec<IssueLabel>,
    remarks: Vec<Remark>,
}

fn text(random: &mut fastrand::Rng) -> String {
    ["a", "b", "B", "c"][random.usize(0..4)].to_owned()
}

/// Inserts random rows, and returns them as they are stored.
fn fill(store: &Store, random: &mut fastrand::Rng) -> Rows {
    let one = |keys: &[i64], random: &mut fastrand::Rng| keys[random.usize(0..keys.len())];
    let teams: Vec<Team> = (0..3).map(|_| Team { id: 0, name: text(random) }).collect();
    let teams = store.insert_many(&teams).run().unwrap();
    let mut workers = Vec::new();
    for _ in 0..8 {
        let team = random.bool().then(|| Ref::new(one(&teams, random)));
        let boss = (!workers.is_empty() && random.bool()).then(|| Ref::new(one(&workers, random)));
        let worker = Worker { id: 0, name: text(random), team, boss };
        workers.push(store.insert(&worker).run().unwrap());
    }
    let issues: Vec<Issue> = (0..20)
        .map(|_| Issue {
            id: 0,
            points: random.bool().then(|| random.i64(0..5)),
            assignee: (random.u8(0..3) > 0).then(|| Ref::new(one(&workers, random))),
            team: Ref::new(one(&teams, random)),
        })
        .collect();
    let issues = store.insert_many(&issues).run().unwrap();
    let labels: Vec<Label> = (0..4).map(|_| Label { id: 0, name: text(random) }).collect();
    let labels = store.insert_many(&labels).run().unwrap();
    let links: Vec<IssueLabel> = (0..25)
        .map(|_| IssueLabel {
            id: 0,
            issue: Ref::new(one(&issues, random)),
            label: Ref::new(one(&labels, random)),
        })
        .collect();
    store.insert_many(&links).run().unwrap();
    let remarks: Vec<Remark> = (0..30)
        .map(|_| Remark {
            id: 0,
            issue: (random.u8(0..4) > 0).then(|| Ref::new(one(&issues, random))),
            author: Ref::new(one(&workers, random)),
            reviewer: random.bool().then(|| Ref::new(one(&workers, random))),
            stars: random.bool().then(|| random.i64(0..5)),
        })
        .collect();
    store.insert_many(&remarks).run().unwrap();
    Rows {
        teams: store.list().run().unwrap(),
        workers: store.list().run().unwrap(),
        issues: store.list().run().unwrap(),
        labels: store.list().run().unwrap(),
        links: store.list().run().unwrap(),
        remarks: store.list().run().unwrap(),
    }
}

/// A condition: its text, and its evaluation.
type Condition<R> = (String, Box<dyn Fn(&Rows, &R) -> Option<bool>>);

fn key<M: marmota_model::Model<Key = i64>>(reference: Option<&Ref<M>>) -> Option<i64> {
    reference.map(|reference| *reference.key())
}

/// A comparison of a number that may be missing.
fn number<R: 'static>(
    random: &mut fastrand::Rng,
    field: &str,
    of: fn(&R) -> Option<i64>,
) -> Condition<R> {
    let (sign, comparison) = comparison(random);
    let against = random.i64(0..5);
    match random.u8(0..4) {
        0 => (format!("{field} = null"), Box::new(move |_, row| Some(of(row).is_none()))),
        _ => (
            format!("{field} {sign} {against}"),
            Box::new(move |_, row| Some(comparison.holds(of(row)?.cmp(&against)))),
        ),
    }
}

fn comparison(random: &mut fastrand::Rng) -> (&'static str, Comparison) {
    let all = [
        ("=", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<", Comparison::Less),
        ("<=", Comparison::LessOrEqual),
        (">", Comparison::Greater),
        (">=", Comparison::GreaterOrEqual),
    ];
    all[random.usize(0..6)]
}

/// Combines conditions with `and`, `or` and `not`.
fn combined<R: 'static>(
    random: &mut fastrand::Rng,
    simple: fn(&mut fastrand::Rng, u8) -> Condition<R>,
    depth: u8,
) -> Condition<R> {
    if depth == 0 {
        return simple(random, 0);
    }
    let (one, evaluate) = simple(random, depth - 1);
    match random.u8(0..5) {
        0 => {
            let (two, other) = combined(random, simple, depth - 1);
            let both = move |rows: &Rows, row: &R| match (evaluate(rows, row), other(rows, row)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            };
            (format!("({one} and {two})"), Box::new(both))
        }
        1 => {
            let (two, other) = combined(random, simple, depth - 1);
            let either = move |rows: &Rows, row: &R| match (evaluate(rows, row), other(rows, row)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            };
            (format!("({one} or {two})"), Box::new(either))
        }
        2 => (format!("not ({one})"), Box::new(move |rows, row| evaluate(rows, row).map(|it| !it))),
        _ => (one, evaluate),
    }
}

fn of_label(random: &mut fastrand::Rng, _: u8) -> Condition<Label> {
    let name = text(random);
    let written = format!("name = '{name}'");
    (written, Box::new(move |_, label| Some(label.name.eq_ignore_ascii_case(&name))))
}

fn of_team(random: &mut fastrand::Rng, _: u8) -> Condition<Team> {
    let name = text(random);
    (format!("name = '{name}'"), Box::new(move |_, team| Some(team.name == name)))
}

fn of_worker(random: &mut fastrand::Rng, depth: u8) -> Condition<Worker> {
    match random.u8(0..if depth == 0 { 2 } else { 5 }) {
        0 => {
            let name = text(random);
            (format!("name < '{name}'"), Box::new(move |_, worker| Some(worker.name < name)))
        }
        1 => ("boss = null".to_owned(), Box::new(|_, worker| Some(worker.boss.is_none()))),
        2 => {
            let (inner, evaluate) = of_team(random, depth - 1);
            let test = move |rows: &Rows, worker: &Worker| {
                let mut teams = rows.teams.iter();
                let team = teams.find(|team| Some(team.id) == key(worker.team.as_ref()));
                Some(team.is_some_and(|team| evaluate(rows, team) == Some(true)))
            };
            (format!("team.{inner}"), Box::new(test))
        }
        3 => {
            let (inner, evaluate) = of_worker(random, depth - 1);
            let test = move |rows: &Rows, worker: &Worker| {
                let mut all = rows.workers.iter();
                let boss = all.find(|boss| Some(boss.id) == key(worker.boss.as_ref()));
                Some(boss.is_some_and(|boss| evaluate(rows, boss) == Some(true)))
            };
            (format!("any(boss, {inner})"), Box::new(test))
        }
        _ => {
            let (inner, evaluate) = of_remark(random, 0);
            let test = move |rows: &Rows, worker: &Worker| {
                let mut remarks = rows.remarks.iter();
                Some(!remarks.any(|remark| {
                    key(remark.reviewer.as_ref()) == Some(worker.id)
                        && evaluate(rows, remark) == Some(true)
                }))
            };
            (format!("none(remark:reviewer, {inner})"), Box::new(test))
        }
    }
}

fn of_remark(random: &mut fastrand::Rng, depth: u8) -> Condition<Remark> {
    if depth == 0 || random.bool() {
        return number(random, "stars", |remark| remark.stars);
    }
    let (inner, evaluate) = of_worker(random, depth - 1);
    let inner = if inner.starts_with(['n', 'a']) && inner.contains('(') {
        format!("any(author, {inner})")
    } else {
        format!("author.{inner}")
    };
    let test = move |rows: &Rows, remark: &Remark| {
        let author = rows.workers.iter().find(|worker| worker.id == *remark.author.key());
        Some(author.is_some_and(|author| evaluate(rows, author) == Some(true)))
    };
    (inner, Box::new(test))
}

fn of_issue(random: &mut fastrand::Rng, depth: u8) -> Condition<Issue> {
    match random.u8(0..if depth == 0 { 1 } else { 6 }) {
        0 => number(random, "points", |issue| issue.points),
        1 => {
            let (inner, evaluate) = combined(random, of_worker, depth - 1);
            let test = move |rows: &Rows, issue: &Issue| {
                let mut all = rows.workers.iter();
                let worker = all.find(|worker| Some(worker.id) == key(issue.assignee.as_ref()));
                Some(worker.is_some_and(|worker| evaluate(rows, worker) == Some(true)))
            };
            (format!("any(assignee, {inner})"), Box::new(test))
        }
        2 => {
            let (inner, evaluate) = combined(random, of_label, depth - 1);
            let test = move |rows: &Rows, issue: &Issue| {
                Some(labels(rows, issue).any(|label| evaluate(rows, label) == Some(true)))
            };
            (format!("any(labels, {inner})"), Box::new(test))
        }
        3 => {
            let (inner, evaluate) = combined(random, of_label, depth - 1);
            let ((sign, comparison), against) = (comparison(random), random.usize(0..4));
            let test = move |rows: &Rows, issue: &Issue| {
                let found = labels(rows, issue).filter(|one| evaluate(rows, one) == Some(true));
                Some(comparison.holds(found.count().cmp(&against)))
            };
            (format!("count(labels, {inner}) {sign} {against}"), Box::new(test))
        }
        4 => {
            let (inner, evaluate) = combined(random, of_remark, depth - 1);
            let ((sign, comparison), against) = (comparison(random), random.usize(0..4));
            let test = move |rows: &Rows, issue: &Issue| {
                let found = remarks(rows, issue).filter(|one| evaluate(rows, one) == Some(true));
                Some(comparison.holds(found.count().cmp(&against)))
            };
            (format!("count(remark, {inner}) {sign} {against}"), Box::new(test))
        }
        _ => {
            // The remarks of the assignee: a missing assignee has none.
            let ((sign, comparison), against) = (comparison(random), random.usize(0..4));
            let test = move |rows: &Rows, issue: &Issue| {
                let worker = key(issue.assignee.as_ref());
                let remarks = rows.remarks.iter();
                let found = remarks.filter(|remark| Some(*remark.author.key()) == worker);
                Some(comparison.holds(found.count().cmp(&against)))
            };
            (format!("count(assignee.remark:author) {sign} {against}"), Box::new(test))
        }
    }
}

fn labels<'r>(rows: &'r Rows, issue: &Issue) -> impl Iterator<Item = &'r Label> {
    let id = issue.id;
    let links = rows.links.iter().filter(move |link| *link.issue.key() == id);
    links.filter_map(|link| rows.labels.iter().find(|label| label.id == *link.label.key()))
}

fn remarks<'r>(rows: &'r Rows, issue: &Issue) -> impl Iterator<Item = &'r Remark> {
    let id = issue.id;
    rows.remarks.iter().filter(move |remark| key(remark.issue.as_ref()) == Some(id))
}

fn filter_of(store: &Store, text: &str) -> Filter<Issue> {
    parse_filter(&store.table("issue").unwrap(), text).unwrap().of().unwrap()
}

fn found(store: &Store, filter: &str) -> Result<Vec<i64>> {
    store.list::<Issue>().filter(filter_of(store, filter)).column(Issue::ID).run()
}

/// Random filters through relations select the rows that plain Rust selects.
pub fn random_filters_agree_with_rust(subject: &Subject) {
    let mut stand = Stand::open(subject, models);
    let mut random = fastrand::Rng::with_seed(7);
    let rows = fill(&stand, &mut random);
    stand.settle();
    let mut selected = 0;
    for _ in 0..150 {
        let (text, evaluate) = combined(&mut random, of_issue, 3);
        let wanted = rows.issues.iter().filter(|issue| evaluate(&rows, issue) == Some(true));
        let wanted: Vec<i64> = wanted.map(|issue| issue.id).collect();
        let filter = match parse_filter(&stand.table("issue").unwrap(), &text) {
            Err(error) if error.message().contains("steps between related tables") => continue,
            filter => filter.unwrap_or_else(|error| panic!("{text}: {error}")).of().unwrap(),
        };
        let list = stand.list::<Issue>().filter(filter).column(Issue::ID);
        assert_eq!(list.run().unwrap(), wanted, "{text}");
        let one = &rows.issues[random.usize(0..rows.issues.len())];
        let filter = filter_of(&stand, &text).and(Issue::ID.eq(one.id));
        let count = stand.count::<Issue>().filter(filter).run().unwrap();
        assert_eq!(count == 1, wanted.contains(&one.id), "{} of {text}", one.id);
        selected += usize::from(!wanted.is_empty() && wanted.len() < rows.issues.len());
    }
    assert!(selected > 50, "{selected} filters have selected some of the rows");
}

/// Filters made of columns are those of the text.
pub fn typed_filters_are_those_of_the_text(subject: &Subject) {
    let stand = Stand::open(subject, models);
    let none = || Filter::all([]);
    let more = Comparison::Greater;
    let pairs: [(&str, Filter<Issue>); 6] = [
        ("assignee.name = 'a'", Issue::ASSIGNEE.to(Worker::NAME.eq("a"))),
        ("assignee.team.name = 'a'", Issue::ASSIGNEE.to(Worker::TEAM.to(Team::NAME.eq("a")))),
        (
            "any(labels, name = 'a')",
            IssueLabel::ISSUE.any(IssueLabel::LABEL.to(Label::NAME.eq("a"))),
        ),
        ("none(remark, stars > 3)", Remark::ISSUE.none(Remark::STARS.gt(3))),
        ("count(remark) > 2", Remark::ISSUE.count(none(), more, 2)),
        ("count(remark:issue, stars = 1) > 2", Remark::ISSUE.count(Remark::STARS.eq(1), more, 2)),
    ];
    fill(&stand, &mut fastrand::Rng::with_seed(3));
    let issue = stand.table("issue").unwrap();
    for (text, typed) in pairs {
        let parsed: Filter<Issue> = parse_filter(&issue, text).unwrap().of().unwrap();
        assert_eq!(parsed, typed, "{text}");
        stand.list::<Issue>().filter(typed).run().unwrap();
    }
}

/// A missing related row makes a condition false, and its negation true.
pub fn a_condition_is_never_unknown(subject: &Subject) {
    let mut stand = Stand::open(subject, models);
    let team = Ref::new(stand.insert(&Team::default()).run().unwrap());
    let issue = Issue { id: 0, points: None, assignee: None, team };
    let id = stand.insert(&issue).run().unwrap();
    stand.settle();
    for (filter, selects) in [
        ("assignee.name = 'a'", false),
        ("not assignee.name = 'a'", true),
        ("assignee.name = null", false),
        ("assignee.boss = null", false),
        ("not any(assignee)", true),
        ("count(assignee) = 0", true),
        ("count(assignee.remark:author) = 0", true),
        ("count(assignee.remark:author) > 0", false),
        ("none(labels)", true),
        ("count(labels) < 1", true),
        ("not count(labels) < 1", false),
    ] {
        let wanted: &[i64] = if selects { &[id] } else { &[] };
        assert_eq!(found(&stand, filter).unwrap(), wanted, "{filter}");
    }
}

/// Counts, deletes and pages take conditions on related rows.
pub fn deletes_and_counts_take_relations(subject: &Subject) {
    let mut stand = Stand::open(subject, models);
    fill(&stand, &mut fastrand::Rng::with_seed(5));
    stand.settle();
    let filter = || IssueLabel::ISSUE.to(Issue::ASSIGNEE.to(Worker::BOSS.is_null()));
    let all = stand.list::<IssueLabel>().filter(filter()).run().unwrap();
    assert!(all.len() > 2);
    let count = stand.count::<IssueLabel>().filter(filter()).run().unwrap();
    assert_eq!(count, all.len() as u64);
    let page = stand.list::<IssueLabel>().filter(filter()).limit(2).run().unwrap();
    let next = stand.list::<IssueLabel>().filter(filter()).after(&page[1]).run().unwrap();
    assert_eq!((&page[..], &next[..]), all.split_at(2));
    let deleted = stand.delete_where::<IssueLabel>(filter()).run().unwrap();
    assert_eq!(deleted, count);
    assert_eq!(stand.count::<IssueLabel>().filter(filter()).run().unwrap(), 0);
    // The condition is on the table itself.
    let without = Worker::BOSS.none(Filter::all([])).and(!Issue::ASSIGNEE.any(Filter::all([])));
    let without = without.and(Remark::AUTHOR.none(Filter::all([])));
    let without = without.and(Remark::REVIEWER.none(Filter::all([])));
    let before = stand.count::<Worker>().filter(without.clone()).run().unwrap();
    assert_eq!(stand.delete_where::<Worker>(without).run().unwrap(), before);
}

/// Unknown, ambiguous, long and deep relations are refused, with the place.
pub fn invalid_relations_are_refused(subject: &Subject) {
    let stand = Stand::open(subject, models);
    let issue = stand.table("issue").unwrap();
    let long = "any(assignee, any(boss, any(boss, any(boss, any(boss)))))";
    for (table, filter, part) in [
        ("issue", "any(lables)", "has no relation `lables`; it has assignee, team, labels"),
        ("issue", "assignee.nme = 'x'", "`worker` has no such field"),
        ("issue", "labels.name = 'x'", "which has several rows; write any(labels, …)"),
        ("issue", "points.x = 1", "only JSON fields"),
        ("issue", "any(points)", "no relation `points`"),
        ("issue", "any(labels", "expected `)`"),
        ("issue", "any()", "the name of a relation"),
        ("issue", "count(labels) = x", "a number of rows"),
        ("issue", "count(labels) = -1", "a number of rows"),
        ("issue", "count(labels)", "one of = !="),
        ("issue", "count(team.issue.remark) > 1", "two steps to several rows"),
        ("issue", long, "more than 4 steps between related tables, at the step from `worker`"),
        ("worker", "any(remark)", "write remark:author or remark:reviewer"),
        ("worker", "any(remark:stars)", "remark:author, remark:reviewer"),
        ("worker", "any(issue, labels.name = 'x')", "write any(labels, …)"),
    ] {
        let table = stand.table(table).unwrap();
        let error = parse_filter(&table, filter).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{filter}");
        assert!(error.to_string().contains(part), "{filter}: {error}");
    }
    // A typed filter is checked when it is used.
    let boss = || Worker::BOSS.to(Filter::all([]));
    let deep = Worker::BOSS.to(Worker::BOSS.to(Worker::BOSS.to(Worker::BOSS.to(boss()))));
    refused(stand.list::<Worker>().filter(deep).run(), ErrorKind::Invalid);
    // Other uses of the words and characters are as before.
    assert!(parse_filter(&issue, "points in (1, 2) and not points = 3").is_ok());
}

/// A transaction sees its own related rows, and its rollback removes them.
pub fn a_transaction_sees_its_own_related_rows(subject: &Subject) {
    let stand = Stand::open(subject, models);
    let team = Ref::new(stand.insert(&Team::default()).run().unwrap());
    let issue = Issue { id: 0, points: None, assignee: None, team };
    let id = stand.insert(&issue).run().unwrap();
    let bug = stand.insert(&Label { id: 0, name: "bug".to_owned() }).run().unwrap();
    let has_bug = || IssueLabel::ISSUE.any(IssueLabel::LABEL.to(Label::NAME.eq("bug")));
    let transaction = stand.begin_run().unwrap();
    let link = IssueLabel { id: 0, issue: Ref::new(id), label: Ref::new(bug) };
    transaction.insert(&link).run().unwrap();
    assert_eq!(transaction.count::<Issue>().filter(has_bug()).run().unwrap(), 1);
    transaction.rollback().run().unwrap();
    drop(transaction);
    assert_eq!(stand.count::<Issue>().filter(has_bug()).run().unwrap(), 0);
}
