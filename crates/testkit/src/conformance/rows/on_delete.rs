//! Actions of references when a row is deleted: referring rows are deleted as well, or their
//! references become NULL, on every path and every engine.

use std::sync::atomic::{AtomicUsize, Ordering};

use marmota_derive::Model;
use marmota_model::{Caller, Error, ErrorKind, Ref, Result, Timestamp, Value};
use marmota_store::action::block_on;
use marmota_store::change::{ChangeKind, ChangeRetention, FeedEvent};
use marmota_store::hook::BeforeChange;
use marmota_store::rights::{Grant, Right, Rights};
use marmota_store::{HistoryAction, StoreBuilder};

use crate::conformance::harness::refusal::{refused, says};
use crate::conformance::harness::subject::{Stand, Subject};

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Member {
    id: i64,
    name: String,
}

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Project {
    id: i64,
    name: String,
}

#[derive(Clone, Debug, Model, PartialEq)]
struct Issue {
    id: i64,
    #[model(on_delete = "cascade")]
    project: Ref<Project>,
    #[model(on_delete = "set_null")]
    assignee: Option<Ref<Member>>,
    #[model(updated_at)]
    updated: Timestamp,
    #[model(version)]
    version: i64,
}

#[derive(Clone, Debug, Model, PartialEq)]
struct Remark {
    id: i64,
    #[model(on_delete = "cascade")]
    issue: Ref<Issue>,
    #[model(on_delete = "cascade")]
    above: Option<Ref<Remark>>,
}

/// It refers to remarks without an action.
#[derive(Clone, Debug, Model, PartialEq)]
struct Vote {
    id: i64,
    remark: Ref<Remark>,
}

/// Two tables that refer to each other.
#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Left {
    id: i64,
    #[model(on_delete = "cascade")]
    right: Option<Ref<Right2>>,
}

#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(table = "right_side")]
struct Right2 {
    id: i64,
    #[model(on_delete = "cascade")]
    left: Option<Ref<Left>>,
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    builder
        .model::<Member>()
        .model::<Project>()
        .model::<Issue>()
        .model::<Remark>()
        .model::<Vote>()
        .model::<Left>()
        .model::<Right2>()
}

fn recorded(builder: StoreBuilder) -> StoreBuilder {
    models(builder).changes(ChangeRetention::default())
}

fn cached(builder: StoreBuilder) -> StoreBuilder {
    models(builder).cache(1 << 20)
}

/// Opens the subject, if its engine executes the actions.
fn open(subject: &Subject) -> Option<Stand<'_>> {
    subject.capability().on_delete.then(|| Stand::open(subject, models))
}

/// The keys of two projects with two issues each, which have two remarks each; and of a member, to
/// whom all issues are assigned.
struct Rows {
    projects: Vec<i64>,
    issues: Vec<i64>,
    remarks: Vec<i64>,
    member: i64,
}

fn fill(stand: &Stand<'_>) -> Rows {
    let member = stand.insert(&Member { id: 0, name: "Ada".into() }).run().unwrap();
    let (mut projects, mut issues, mut remarks) = (vec![], vec![], vec![]);
    for project in 0..2 {
        let name = format!("project {project}");
        let project = stand.insert(&Project { id: 0, name }).run().unwrap();
        projects.push(project);
        for _ in 0..2 {
            let issue = stand.insert(&issue(project, Some(member))).run().unwrap();
            issues.push(issue);
            let first = stand.insert(&remark(issue, None)).run().unwrap();
            let second = stand.insert(&remark(issue, Some(first))).run().unwrap();
            remarks.extend([first, second]);
        }
    }
    Rows { projects, issues, remarks, member }
}

fn issue(project: i64, assignee: Option<i64>) -> Issue {
    Issue {
        id: 0,
        project: Ref::new(project),
        assignee: assignee.map(Ref::new),
        updated: Timestamp::default(),
        version: 0,
    }
}

fn remark(issue: i64, above: Option<i64>) -> Remark {
    Remark { id: 0, issue: Ref::new(issue), above: above.map(Ref::new) }
}

/// The numbers of members, projects, issues and remarks.
fn counts(stand: &Stand<'_>) -> [u64; 4] {
    [
        stand.count::<Member>().run().unwrap(),
        stand.count::<Project>().run().unwrap(),
        stand.count::<Issue>().run().unwrap(),
        stand.count::<Remark>().run().unwrap(),
    ]
}

/// An engine that does not execute the actions refuses the schema, with the field and a remedy.
pub fn an_engine_without_actions_refuses_them(subject: &Subject) {
    if subject.capability().on_delete {
        return;
    }
    let error = subject.builder_with(models).open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    says(&error, &["`project` of `issue`", "on_delete"]);
}

/// A delete by key, by filter and in a batch deletes the rows that refer to the deleted ones, and
/// those that refer to these. The result has the number of rows of the table itself.
pub fn referring_rows_are_deleted(subject: &Subject) {
    let Some(mut stand) = open(subject) else { return };
    let rows = fill(&stand);
    stand.delete::<Project>(rows.projects[0]).run().unwrap();
    stand.settle();
    assert_eq!(counts(&stand), [1, 1, 2, 4]);
    stand.get::<Issue>(rows.issues[2]).run().unwrap();
    let mut batch = stand.batch();
    batch.delete::<Issue>(rows.issues[2]).insert(&Member { id: 0, name: "Bo".into() });
    let results = batch.continue_on_error().run().unwrap();
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(counts(&stand), [2, 1, 1, 2]);
    fill(&stand);
    let deleted = stand.delete_where::<Project>(Project::NAME.starts_with("project")).run();
    assert_eq!(deleted.unwrap(), 3);
    stand.settle();
    assert_eq!(counts(&stand), [3, 0, 0, 0]);
    refused(stand.delete::<Project>(rows.projects[0]).run(), ErrorKind::NotFound);
}

/// A row that is referred to without an action, anywhere below the deleted one, refuses the whole
/// delete.
pub fn a_restricting_row_keeps_all(subject: &Subject) {
    let Some(mut stand) = open(subject) else { return };
    let rows = fill(&stand);
    let vote = Vote { id: 0, remark: Ref::new(rows.remarks[1]) };
    let vote = stand.insert(&vote).run().unwrap();
    let error = refused(stand.delete::<Project>(rows.projects[0]).run(), ErrorKind::Conflict);
    says(&error, &["remark", "vote"]);
    refused(stand.delete_where::<Project>(Project::ID.gt(0)).run(), ErrorKind::Conflict);
    stand.settle();
    assert_eq!(counts(&stand), [1, 2, 4, 8]);
    stand.delete::<Vote>(vote).run().unwrap();
    stand.delete::<Project>(rows.projects[0]).run().unwrap();
    assert_eq!(counts(&stand), [1, 1, 2, 4]);
}

/// A reference becomes NULL: the version is incremented, so that a stale update is refused.
pub fn references_become_null(subject: &Subject) {
    let Some(mut stand) = open(subject) else { return };
    let rows = fill(&stand);
    let before = stand.get::<Issue>(rows.issues[0]).run().unwrap();
    stand.delete::<Member>(rows.member).run().unwrap();
    stand.settle();
    assert_eq!(counts(&stand), [0, 2, 4, 8]);
    let after = stand.get::<Issue>(rows.issues[0]).run().unwrap();
    assert_eq!((after.assignee, after.version), (None, before.version + 1));
    assert!(after.updated >= before.updated);
    refused(stand.update(&before).run(), ErrorKind::Stale);
    assert_eq!(stand.count::<Issue>().filter(Issue::ASSIGNEE.is_null()).run().unwrap(), 4);
}

/// A tree of rows of one table is deleted from its root, at any depth; a filter counts the rows that
/// it selects, although some of them refer to others.
pub fn trees_are_deleted(subject: &Subject) {
    let Some(mut stand) = open(subject) else { return };
    let rows = fill(&stand);
    let (issue, root) = (rows.issues[0], rows.remarks[0]);
    let mut above = root;
    for _ in 0..300 {
        above = stand.insert(&remark(issue, Some(above))).run().unwrap();
    }
    stand.settle();
    stand.delete::<Remark>(root).run().unwrap();
    assert_eq!(counts(&stand), [1, 2, 4, 6]);
    assert_eq!(stand.delete_where::<Remark>(Remark::ID.gt(0)).run().unwrap(), 6);
}

/// Rows of two tables that refer to each other are deleted together.
pub fn circles_are_deleted(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    for by_filter in [false, true] {
        let left = stand.insert(&Left::default()).run().unwrap();
        let right = Right2 { id: 0, left: Some(Ref::new(left)) };
        let right = stand.insert(&right).run().unwrap();
        stand.patch::<Left>(left).set(Left::RIGHT, Ref::new(right)).run().unwrap();
        let own = stand.insert(&Left { id: 0, right: Some(Ref::new(right)) }).run().unwrap();
        match by_filter {
            false => stand.delete::<Left>(own).run().unwrap(),
            true => assert_eq!(stand.delete_where::<Left>(Left::ID.eq(own)).run().unwrap(), 1),
        }
        assert_eq!(stand.count::<Left>().run().unwrap(), 1);
        stand.delete::<Right2>(right).run().unwrap();
        assert_eq!(stand.count::<Left>().run().unwrap(), 0);
        assert_eq!(stand.count::<Right2>().run().unwrap(), 0);
    }
}

/// A delete that would take too many rows with it is refused, and deletes none.
pub fn too_many_rows_are_refused(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    let rows = fill(&stand);
    let many = vec![remark(rows.issues[0], None); 10_001];
    stand.insert_many(&many).run().unwrap();
    let error = refused(stand.delete::<Project>(rows.projects[0]).run(), ErrorKind::Conflict);
    says(&error, &["10000", "remark"]);
    assert_eq!(counts(&stand), [1, 2, 4, 10_009]);
    stand.delete::<Project>(rows.projects[1]).run().unwrap();
}

/// A row that others refer to with an action cannot be replaced, because that deletes it first.
pub fn such_rows_are_not_replaced(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    let rows = fill(&stand);
    let again = Project { id: rows.projects[0], name: "again".into() };
    let error = refused(stand.insert(&again).or_replace().run(), ErrorKind::Invalid);
    says(&error, &["replace", "on_delete"]);
    stand.upsert(&again).run().unwrap();
    assert_eq!(counts(&stand), [1, 2, 4, 8]);
}

/// The rows of a cascade are in the change feed, in the commit of the delete.
pub fn the_feed_has_all_rows(subject: &Subject) {
    let capability = subject.capability();
    if !capability.on_delete || !capability.change_feed {
        return;
    }
    let stand = Stand::open(subject, recorded);
    let rows = fill(&stand);
    let mut stream = stand.changes().unwrap();
    let mut next = || match block_on(stream.next()).unwrap() {
        Some(FeedEvent::Commit(commit)) => commit,
        other => panic!("no commit: {other:?}"),
    };
    stand.with_actor("ann").delete::<Project>(rows.projects[0]).run().unwrap();
    let commit = next();
    let of = |table: &str| {
        let changes = commit.changes.iter().filter(|change| change.table.name() == table);
        changes.filter(|change| change.kind == ChangeKind::Delete).count()
    };
    assert_eq!([of("project"), of("issue"), of("remark")], [1, 2, 4]);
    assert!(commit.changes.iter().all(|change| change.actor.as_deref() == Some("ann")));
    stand.delete::<Member>(rows.member).run().unwrap();
    let commit = next();
    let nulls = commit.changes.iter().filter(|change| {
        let row = change.after.as_ref();
        change.kind == ChangeKind::Update && row.is_some_and(|row| row[2] == Value::Null)
    });
    assert_eq!(nulls.count(), 2);
}

/// A cache returns no row that was deleted or changed because of another one.
pub fn caches_forget_the_rows(subject: &Subject) {
    if !subject.capability().on_delete {
        return;
    }
    let stand = Stand::open(subject, cached);
    let rows = fill(&stand);
    for &issue in &rows.issues {
        stand.get::<Issue>(issue).run().unwrap();
        stand.get::<Issue>(issue).run().unwrap();
    }
    stand.delete::<Member>(rows.member).run().unwrap();
    assert_eq!(stand.get::<Issue>(rows.issues[3]).run().unwrap().assignee, None);
    stand.delete::<Project>(rows.projects[0]).run().unwrap();
    refused(stand.get::<Issue>(rows.issues[0]).run(), ErrorKind::NotFound);
}

/// The right to delete a row is enough to delete the rows that refer to it.
pub fn the_right_to_the_deleted_row_is_enough(subject: &Subject) {
    if !subject.capability().guarded_writes {
        return;
    }
    let Some(stand) = open(subject) else { return };
    let rows = fill(&stand);
    let rule = format!("id = {}", rows.projects[0]);
    let grants = [Grant::new("project", &[Right::Read, Right::Delete]).rule(&rule)];
    let limited =
        stand.with_rights(Rights::new(stand.registry(), Some(Caller::default()), &grants).unwrap());
    refused(limited.delete::<Issue>(rows.issues[0]).run(), ErrorKind::Denied);
    refused(limited.delete::<Project>(rows.projects[1]).run(), ErrorKind::NotFound);
    assert_eq!(counts(&stand), [1, 2, 4, 8]);
    limited.delete::<Project>(rows.projects[0]).run().unwrap();
    assert_eq!(counts(&stand), [1, 1, 2, 4]);
}

/// SQL statements execute the same actions, by the database itself.
pub fn sql_executes_the_actions(subject: &Subject) {
    if !subject.capability().sql {
        return;
    }
    let Some(stand) = open(subject) else { return };
    let rows = fill(&stand);
    let sql = format!("DELETE FROM project WHERE id = {}", rows.projects[0]);
    stand.execute(&sql).run().unwrap();
    assert_eq!(counts(&stand), [1, 1, 2, 4]);
    stand.execute("DELETE FROM member").run().unwrap();
    assert_eq!(stand.get::<Issue>(rows.issues[3]).run().unwrap().assignee, None);
}

#[derive(Clone, Debug, Model, PartialEq)]
#[model(audit)]
struct Folder {
    id: i64,
    #[model(on_delete = "cascade")]
    above: Option<Ref<Folder>>,
}

#[derive(Clone, Debug, Model, PartialEq)]
#[model(audit)]
struct Leaf {
    id: i64,
    #[model(on_delete = "cascade")]
    folder: Ref<Folder>,
    #[model(on_delete = "set_null")]
    origin: Option<Ref<Member>>,
}

fn audited(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<Folder>().model::<Leaf>().model::<Member>()
}

/// The rows of a cascade are in the history, with the actor of the delete.
pub fn the_history_has_all_rows(subject: &Subject) {
    let capability = subject.capability();
    if !capability.on_delete || !capability.transactions {
        return;
    }
    let stand = Stand::open(subject, audited);
    let member = stand.insert(&Member::default()).run().unwrap();
    let mut folders = vec![stand.insert(&Folder { id: 0, above: None }).run().unwrap()];
    for _ in 0..3 {
        let above = folders.last().map(|&above| Ref::new(above));
        folders.push(stand.insert(&Folder { id: 0, above }).run().unwrap());
    }
    let leaf = Leaf { id: 0, folder: Ref::new(folders[3]), origin: Some(Ref::new(member)) };
    let leaf = stand.insert(&leaf).run().unwrap();
    stand.with_actor("ann").delete::<Member>(member).run().unwrap();
    let history = stand.history::<Leaf>(leaf).run().unwrap();
    assert_eq!(history.len(), 2);
    assert_eq!(history[1].action, HistoryAction::Update);
    let fields = history[1].fields.as_ref().map(|json| json.0.clone());
    assert_eq!(fields, Some(serde_json::json!({"origin": null})));
    stand.with_actor("bo").delete::<Folder>(folders[0]).run().unwrap();
    assert_eq!(stand.count::<Leaf>().run().unwrap(), 0);
    let last = |entries: Vec<marmota_store::History>| {
        entries.last().map(|last| (last.action, last.actor.clone()))
    };
    let expected = Some((HistoryAction::Delete, Some("bo".to_owned())));
    assert_eq!(last(stand.history::<Leaf>(leaf).run().unwrap()), expected);
    for folder in folders {
        assert_eq!(last(stand.history::<Folder>(folder).run().unwrap()), expected);
    }
    // The filter selects a row, a row below it, but not the one between.
    let top = stand.insert(&Folder { id: 0, above: None }).run().unwrap();
    let middle = stand.insert(&Folder { id: 0, above: Some(Ref::new(top)) }).run().unwrap();
    let low = stand.insert(&Folder { id: 0, above: Some(Ref::new(middle)) }).run().unwrap();
    let chosen = Folder::ID.eq(top).or(Folder::ID.eq(low));
    assert_eq!(stand.with_actor("bo").delete_where::<Folder>(chosen).run().unwrap(), 2);
    for folder in [top, middle, low] {
        assert_eq!(last(stand.history::<Folder>(folder).run().unwrap()), expected);
    }
}

#[derive(Clone, Debug, Model, PartialEq)]
#[model(audit)]
struct Ping {
    id: i64,
    #[model(on_delete = "cascade")]
    pong: Option<Ref<Pong>>,
}

#[derive(Clone, Debug, Model, PartialEq)]
struct Pong {
    id: i64,
    #[model(on_delete = "cascade")]
    ping: Option<Ref<Ping>>,
}

/// A circle of cascades through several tables cannot contain a table with history entries.
pub fn a_circle_with_history_is_refused(subject: &Subject) {
    let capability = subject.capability();
    if !capability.on_delete || !capability.transactions {
        return;
    }
    let models = |builder: StoreBuilder| builder.model::<Ping>().model::<Pong>();
    let error = models(subject.builder()).open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    says(&error, &["`ping` to `pong` and back", "audited"]);
}

/// The number of remarks that [`keep_two`] has seen.
static SEEN: AtomicUsize = AtomicUsize::new(0);

fn keep_two(change: &mut BeforeChange<Remark>) -> Result<()> {
    if change.kind == ChangeKind::Delete && SEEN.fetch_add(1, Ordering::Relaxed) >= 2 {
        return Err(Error::new(ErrorKind::Conflict, "the third remark stays"));
    }
    Ok(())
}

fn hooked(builder: StoreBuilder) -> StoreBuilder {
    models(builder).before::<Remark>(keep_two)
}

/// Hooks are called for the rows of a cascade, and one that refuses a row refuses the delete.
pub fn hooks_see_all_rows(subject: &Subject) {
    let capability = subject.capability();
    if !capability.on_delete || !capability.guarded_writes || !capability.transactions {
        return;
    }
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _turn = TURN.lock();
    SEEN.store(0, Ordering::Relaxed);
    let stand = Stand::open(subject, hooked);
    let rows = fill(&stand);
    stand.delete::<Issue>(rows.issues[0]).run().unwrap();
    assert_eq!(SEEN.load(Ordering::Relaxed), 2);
    let error = refused(stand.delete::<Project>(rows.projects[1]).run(), ErrorKind::Conflict);
    says(&error, &["third remark"]);
    assert_eq!(counts(&stand), [1, 2, 3, 6]);
}

#[derive(Clone, Debug, Model, PartialEq)]
#[model(table = "part")]
struct PlainPart {
    id: i64,
    member: Option<Ref<Member>>,
}

#[derive(Clone, Debug, Model, PartialEq)]
#[model(table = "part")]
struct CascadingPart {
    id: i64,
    #[model(on_delete = "cascade")]
    member: Option<Ref<Member>>,
}

fn plain(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<Member>().model::<PlainPart>()
}

fn cascading(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<Member>().model::<CascadingPart>()
}

/// A database that is opened with another action takes it over, in both directions.
pub fn an_action_can_be_changed(subject: &Subject) {
    let capability = subject.capability();
    if !capability.on_delete || !capability.persistent || !capability.guarded_writes {
        return;
    }
    let mut stand = Stand::open(subject, plain);
    let member = stand.insert(&Member::default()).run().unwrap();
    let part = PlainPart { id: 0, member: Some(Ref::new(member)) };
    stand.insert(&part).run().unwrap();
    refused(stand.delete::<Member>(member).run(), ErrorKind::Conflict);
    stand.reopen_as(cascading).unwrap();
    if stand.capability().sql {
        stand.execute("DELETE FROM member").run().unwrap();
    } else {
        stand.delete::<Member>(member).run().unwrap();
    }
    assert_eq!(stand.count::<CascadingPart>().run().unwrap(), 0);
    let member = stand.insert(&Member::default()).run().unwrap();
    let part = CascadingPart { id: 0, member: Some(Ref::new(member)) };
    stand.insert(&part).run().unwrap();
    stand.reopen_as(plain).unwrap();
    refused(stand.delete::<Member>(member).run(), ErrorKind::Conflict);
    assert_eq!(stand.count::<PlainPart>().run().unwrap(), 1);
}

register!($ on_delete_promises on_delete:
    an_engine_without_actions_refuses_them,
    referring_rows_are_deleted,
    a_restricting_row_keeps_all,
    references_become_null,
    trees_are_deleted,
    circles_are_deleted,
    too_many_rows_are_refused,
    such_rows_are_not_replaced,
    the_feed_has_all_rows,
    caches_forget_the_rows,
    the_right_to_the_deleted_row_is_enough,
    sql_executes_the_actions,
    the_history_has_all_rows,
    a_circle_with_history_is_refused,
    hooks_see_all_rows,
    an_action_can_be_changed,
);
