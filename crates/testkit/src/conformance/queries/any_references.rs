//! References to rows of several tables: a text names the table and the key, and a reference for each
//! table is computed of it.

use marmota_derive::Model;
use marmota_model::{
    ErrorKind, Field, KeyKind, Kind, Record, Ref, Role, Schema, Uuid, Value, parse_filter,
};
use marmota_store::StoreBuilder;
use marmota_store::change::ChangeRetention;
use marmota_store::group::count;
use marmota_store::operation::Keys;
use marmota_store::related::{many, one};

use crate::conformance::harness::refusal::{blamed, refused, says};
use crate::conformance::harness::subject::{Stand, Subject};

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Issue {
    id: i64,
    title: String,
}

#[derive(Clone, Debug, Model, PartialEq)]
struct Page {
    #[model(key)]
    name: String,
    title: String,
}

#[derive(Clone, Debug, Model, PartialEq)]
struct Device {
    id: Uuid,
    title: String,
}

/// A comment on a row of one of three tables.
#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(audit)]
struct Remark {
    id: i64,
    subject: Option<String>,
    #[model(computed = "key_in(subject)")]
    issue: Option<Ref<Issue>>,
    #[model(computed = "key_in(subject)")]
    page: Option<Ref<Page>>,
    #[model(computed = "key_in(subject)")]
    device: Option<Ref<Device>>,
    stars: i64,
    #[model(version)]
    version: i64,
}

const DEVICE: Uuid = Uuid::from_u128(0x018f_2f3e_7c1e_7cc8_b8a1_7a7b_4f0d_2a55);

fn models(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<Issue>().model::<Page>().model::<Device>().model::<Remark>()
}

fn remark(subject: &str, stars: i64) -> Remark {
    let subject = (!subject.is_empty()).then(|| subject.to_owned());
    Remark { subject, stars, ..Remark::default() }
}

/// Opens the subject with rows to refer to: two issues, a page whose key has a `/`, a device.
fn open_with(subject: &Subject, models: fn(StoreBuilder) -> StoreBuilder) -> Stand<'_> {
    let mut stand = Stand::open(subject, models);
    for (id, title) in [(1, "crash"), (2, "idea")] {
        stand.insert(&Issue { id, title: title.into() }).run().unwrap();
    }
    stand.insert(&Page { name: "a/b".into(), title: "start".into() }).run().unwrap();
    stand.insert(&Device { id: DEVICE, title: "printer".into() }).run().unwrap();
    stand.settle();
    stand
}

fn open(subject: &Subject) -> Stand<'_> {
    open_with(subject, models)
}

fn device() -> String {
    format!("device/{DEVICE}")
}

/// The references that a remark has.
fn leads_to(stand: &Stand<'_>, id: i64) -> [bool; 3] {
    let found = stand.get::<Remark>(id).run().unwrap();
    [found.issue.is_some(), found.page.is_some(), found.device.is_some()]
}

/// A text leads to the row that it names, and to none if it is NULL. One that names no row is refused.
pub fn a_text_leads_to_a_row_of_any_table(subject: &Subject) {
    let mut stand = open(subject);
    let mut ids = Vec::new();
    for text in ["issue/1", "page/a/b", &device(), ""] {
        ids.push(stand.insert(&remark(text, 0)).run().unwrap());
    }
    stand.settle();
    let found = stand.get::<Remark>(ids[0]).run().unwrap();
    assert_eq!((found.subject.as_deref(), found.issue), (Some("issue/1"), Some(1.into())));
    assert_eq!(found.subject.as_deref(), Some(&*Ref::<Issue>::new(1).to_string()));
    let found = stand.get::<Remark>(ids[1]).run().unwrap();
    assert_eq!((found.issue, found.page), (None, Some("a/b".into())));
    assert_eq!(stand.get::<Remark>(ids[2]).run().unwrap().device, Some(DEVICE.into()));
    assert_eq!(leads_to(&stand, ids[3]), [false; 3]);

    for (text, field) in [("issue/9", "issue"), ("page/b", "page")] {
        let error = stand.insert(&remark(text, 0)).run();
        blamed(error, ErrorKind::Invalid, field, "reference");
    }
    for text in ["issue", "person/1", "issue/01", "issue/", "page/", "device/1", "issue/1/2"] {
        let error = stand.insert(&remark(text, 0)).run();
        let error = blamed(error, ErrorKind::Invalid, "subject", "reference");
        assert_eq!(error.violations()[0].value, format!("\"{text}\""), "{error:?}");
    }
    let error = stand.insert(&remark("person/1", 0)).run().unwrap_err();
    assert!(error.violations()[0].message.contains("`issue/KEY` or `page/KEY` or `device/KEY`"));
    assert_eq!(stand.count::<Remark>().run().unwrap(), 4);
}

/// A write of the text leads to another row, of another table too.
pub fn writes_of_the_text_change_the_row(subject: &Subject) {
    let mut stand = open(subject);
    let id = stand.insert(&remark("issue/1", 0)).run().unwrap();
    stand.settle();
    stand.patch::<Remark>(id).set(Remark::SUBJECT, "page/a/b".to_owned()).run().unwrap();
    assert_eq!(leads_to(&stand, id), [false, true, false]);
    let version = stand.get::<Remark>(id).run().unwrap().version;
    stand.update(&Remark { id, version, ..remark(&device(), 3) }).run().unwrap();
    assert_eq!(leads_to(&stand, id), [false, false, true]);
    let patch = stand.patch::<Remark>(id).set(Remark::SUBJECT, "issue/9".to_owned()).run();
    blamed(patch, ErrorKind::Invalid, "issue", "reference");
    stand.patch::<Remark>(id).set(Remark::SUBJECT, None).run().unwrap();
    assert_eq!(leads_to(&stand, id), [false; 3]);
    let ids = stand.insert_many(&[remark("issue/1", 1), remark("page/a/b", 2)]).run().unwrap();
    assert_eq!(leads_to(&stand, ids[1]), [false, true, false]);
    let mut record = Record::new(stand.table("remark").unwrap());
    for (field, value) in [("subject", Value::from("issue/1")), ("stars", 0.into())] {
        record.set(field, value).unwrap();
    }
    record.set("issue", 2).unwrap();
    blamed(stand.insert_record(&record).run(), ErrorKind::Invalid, "issue", "computed");
}

/// Links of a batch to a new row write the text.
pub fn links_write_the_text(subject: &Subject) {
    let mut stand = open(subject);
    let mut batch = stand.batch();
    let issue = batch.insert(&Issue { id: 0, title: "new".into() }).handle();
    let page = batch.insert(&Page { name: "c".into(), title: "new".into() }).handle();
    batch.insert(&remark("", 1)).set_ref(Remark::ISSUE, issue);
    batch.insert(&remark("", 2)).set_ref(Remark::PAGE, page);
    let results = batch.all_or_nothing().run().unwrap();
    stand.settle();
    let Keys::One(Value::Int(made)) = results[0].as_ref().unwrap().keys.clone() else {
        panic!("no key: {:?}", results[0])
    };
    let found = stand.list::<Remark>().order(Remark::STARS.ascending()).run().unwrap();
    assert_eq!(found[0].subject, Some(format!("issue/{made}")));
    assert_eq!((found[0].issue.clone(), &found[1].page), (Some(made.into()), &Some("c".into())));
    assert_eq!(found[1].subject.as_deref(), Some("page/c"));

    let mut batch = stand.batch();
    let issue = batch.insert(&Issue { id: 0, title: "new".into() }).handle();
    let page = batch.insert(&Page { name: "d".into(), title: "new".into() }).handle();
    batch.insert(&remark("", 3)).set_ref(Remark::ISSUE, issue).set_ref(Remark::PAGE, page);
    refused(batch.all_or_nothing().run(), ErrorKind::Invalid);
    assert_eq!(stand.count::<Remark>().run().unwrap(), 2);
}

/// Filters, orders, groups and related rows follow each of the references.
pub fn queries_follow_the_references(subject: &Subject) {
    let mut stand = open(subject);
    let texts = ["issue/1", "issue/1", "issue/2", "page/a/b", &device(), ""];
    let remarks: Vec<Remark> =
        texts.iter().zip(1..).map(|(text, stars)| remark(text, stars)).collect();
    stand.insert_many(&remarks).run().unwrap();
    stand.settle();
    let table = stand.table("remark").unwrap();
    for (text, found) in [
        ("subject = 'issue/1'", vec![1, 2]),
        ("issue = 1", vec![1, 2]),
        ("issue.title = 'crash'", vec![1, 2]),
        ("page.title = 'start' or device.title = 'printer'", vec![4, 5]),
        ("issue = null and page = null and device = null", vec![6]),
        ("not issue.title = 'crash'", vec![3, 4, 5, 6]),
        ("any(issue.remark, stars = 2)", vec![1, 2]),
        ("subject ^ 'issue/'", vec![1, 2, 3]),
    ] {
        let filter = parse_filter(&table, text).unwrap();
        let read = stand.list_records(&table).filter(filter).run().unwrap();
        let read: Vec<&Value> = read.iter().map(|row| row.value("stars").unwrap()).collect();
        let found: Vec<Value> = found.into_iter().map(Value::Int).collect();
        assert_eq!(read, found.iter().collect::<Vec<_>>(), "{text}");
    }
    let issues = stand.table("issue").unwrap();
    for (text, found) in [("count(remark) > 1", vec![1]), ("none(remark, stars > 2)", vec![1])] {
        let filter = parse_filter(&issues, text).unwrap();
        let read = stand.list_records(&issues).filter(filter).run().unwrap();
        let read: Vec<&Value> = read.iter().map(|row| row.value("id").unwrap()).collect();
        let found: Vec<Value> = found.into_iter().map(Value::Int).collect();
        assert_eq!(read, found.iter().collect::<Vec<_>>(), "{text}");
    }
    let found = stand
        .list::<Remark>()
        .order(Remark::STARS.ascending())
        .with((one(Remark::ISSUE), one(Remark::PAGE)))
        .run()
        .unwrap();
    let titles: Vec<Option<&str>> = found
        .iter()
        .map(|(_, (issue, page))| {
            let issue = issue.as_ref().map(|one| &*one.title);
            issue.or(page.as_ref().map(|one| &*one.title))
        })
        .collect();
    let crash = Some("crash");
    assert_eq!(titles, [crash, crash, Some("idea"), Some("start"), None, None]);
    let found = stand.list::<Issue>().with(many(Remark::ISSUE)).run().unwrap();
    assert_eq!(found.iter().map(|(_, all)| all.len()).collect::<Vec<_>>(), [2, 1]);
    let groups = stand.list::<Remark>().group_by(Remark::ISSUE).select(count()).run().unwrap();
    let groups: Vec<(Option<i64>, u64)> =
        groups.iter().map(|(issue, rows)| (issue.as_ref().map(|it| *it.key()), *rows)).collect();
    assert_eq!(groups, [(None, 3), (Some(1), 2), (Some(2), 1)]);
}

/// A row to which a text leads stays.
pub fn a_row_named_by_a_text_stays(subject: &Subject) {
    let mut stand = open(subject);
    let id = stand.insert(&remark("page/a/b", 0)).run().unwrap();
    stand.settle();
    let error = refused(stand.delete::<Page>("a/b".to_owned()).run(), ErrorKind::Conflict);
    says(&error, &["remark"]);
    stand.patch::<Remark>(id).set(Remark::SUBJECT, "issue/1".to_owned()).run().unwrap();
    stand.delete::<Page>("a/b".to_owned()).run().unwrap();
    refused(stand.delete_where(Issue::ID.gt(0)).run(), ErrorKind::Conflict);
}

/// A row whose references have actions.
#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Vote {
    id: i64,
    subject: Option<String>,
    #[model(computed = "key_in(subject)", on_delete = "set_null")]
    issue: Option<Ref<Issue>>,
    #[model(computed = "key_in(subject)", on_delete = "cascade")]
    page: Option<Ref<Page>>,
    #[model(version)]
    version: i64,
}

/// A delete deletes the rows whose text names the row, or sets the text to NULL.
pub fn deletes_reach_the_text(subject: &Subject) {
    if !subject.capability().on_delete {
        return;
    }
    let mut stand = open_with(subject, |builder| models(builder).model::<Vote>());
    let vote = |text: &str| Vote { subject: Some(text.to_owned()), ..Vote::default() };
    let id = stand.insert(&vote("issue/1")).run().unwrap();
    let other = stand.insert(&vote("issue/2")).run().unwrap();
    stand.insert_many(&[vote("page/a/b"), vote("page/a/b")]).run().unwrap();
    stand.settle();
    stand.delete::<Issue>(1).run().unwrap();
    stand.settle();
    let found = stand.get::<Vote>(id).run().unwrap();
    assert_eq!(found, Vote { id, version: found.version, ..Vote::default() });
    assert_eq!(stand.get::<Vote>(other).run().unwrap().issue, Some(2.into()));
    stand.delete::<Page>("a/b".to_owned()).run().unwrap();
    stand.settle();
    assert_eq!(stand.count::<Vote>().run().unwrap(), 2);
}

/// Live queries have the references.
pub fn live_queries_have_the_references(subject: &Subject) {
    if !subject.capability().change_feed {
        return;
    }
    let stand = open_with(subject, |builder| models(builder).changes(ChangeRetention::default()));
    let of_issue = Remark::ISSUE.eq(Ref::new(2));
    let mut live = stand.live::<Remark>().filter(of_issue).subscribe_run().unwrap();
    let id = stand.insert(&remark("page/a/b", 1)).run().unwrap();
    stand.patch::<Remark>(id).set(Remark::SUBJECT, "issue/2".to_owned()).run().unwrap();
    let mut page: Vec<Remark> = Vec::new();
    while page.is_empty() {
        live.next_run().unwrap().expect("the store is open").apply_to(&mut page);
    }
    assert_eq!(page[0].subject.as_deref(), Some("issue/2"));
}

/// Returns the schema of notes, with references to these tables.
fn note_schema(tables: &[&'static str]) -> Schema {
    let mut fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("subject", Kind::TEXT).nullable(true),
    ];
    for table in tables {
        let key = if *table == "page" { KeyKind::Text } else { KeyKind::Auto };
        let kind = Kind::Reference { table: (*table).into(), key };
        fields.push(Field::new(table, kind).nullable(true).computed("key_in(subject)"));
    }
    Schema::new("note", fields)
}

/// A table is added to those that a text may name.
pub fn a_table_is_added_to_a_text(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let mut stand = open_with(subject, |it| models(it).schema(note_schema(&["issue"])));
    let note = |stand: &Stand<'_>, text: &str| {
        let mut record = Record::new(stand.table("note").unwrap());
        record.set("subject", text)?;
        stand.insert_record(&record).run()
    };
    note(&stand, "issue/1").unwrap();
    blamed(note(&stand, "page/a/b"), ErrorKind::Invalid, "subject", "reference");
    stand.settle();
    stand.reopen_as(|it| models(it).schema(note_schema(&["issue", "page"]))).unwrap();
    note(&stand, "page/a/b").unwrap();
    stand.settle();
    refused(stand.delete::<Page>("a/b".to_owned()).run(), ErrorKind::Conflict);
    let table = stand.table("note").unwrap();
    let filter = parse_filter(&table, "issue.title = 'crash' or page.title = 'start'").unwrap();
    assert_eq!(stand.list_records(&table).filter(filter).run().unwrap().len(), 2);
}

register!($ any_references_promises any_references: ; by transactions:
    a_text_leads_to_a_row_of_any_table,
    writes_of_the_text_change_the_row,
    links_write_the_text,
    queries_follow_the_references,
    a_row_named_by_a_text_stays,
    deletes_reach_the_text,
    live_queries_have_the_references,
    a_table_is_added_to_a_text,
);
