//! Rights on fields: a value that a caller may not read is in no answer, and no answer depends on
//! it.

use std::future::poll_fn;
use std::time::{Duration, Instant};

use marmota_derive::Model;
use marmota_model::{
    Caller, ErrorKind, GroupQuery, Record, Ref, RowQuery, Value, parse_filter, parse_order,
};
use marmota_store::action::block_on;
use marmota_store::change::ChangeRetention;
use marmota_store::live::LiveContent;
use marmota_store::rights::{Grant, Right, Rights};
use marmota_store::{Store, StoreBuilder};

use crate::conformance::harness::refusal::{blamed, refused};
use crate::conformance::harness::subject::{AddModels, Stand, Subject};

register!($ field_rights_promises field_rights: ; by transactions:
    unreadable_fields_are_absent,
    unreadable_fields_are_unknown,
    a_filter_through_a_relation_sees_readable_fields,
    fields_that_may_not_be_written_are_refused,
    an_insert_uses_defaults_of_other_fields,
    grants_with_other_fields_add_up_row_by_row,
    history_entries_have_readable_fields,
    conflicts_do_not_name_unreadable_fields,
    a_live_query_has_readable_fields,
    invalid_lists_of_fields_are_refused,
);

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Crew {
    id: i64,
    name: String,
    budget: i64,
}

#[derive(Clone, Debug, Model, PartialEq)]
#[model(audit, unique(crew, badge))]
struct Sailor {
    id: i64,
    owner: i64,
    name: String,
    #[model(default = 7)]
    salary: i64,
    badge: Option<i64>,
    #[model(search)]
    notes: String,
    crew: Option<Ref<Crew>>,
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<Crew>().model::<Sailor>()
}

fn with_feed(builder: StoreBuilder) -> StoreBuilder {
    models(builder).changes(ChangeRetention::default())
}

const ANN: i64 = 7;

fn sailor(owner: i64, name: &str, salary: i64) -> Sailor {
    let (name, notes) = (name.to_owned(), "rum and secrets".to_owned());
    Sailor { id: 0, owner, name, salary, badge: Some(salary), notes, crew: Some(Ref::new(1)) }
}

/// A store with two sailors, the first of which is Ann's.
fn open(subject: &Subject, models: AddModels) -> Option<Stand<'_>> {
    if !subject.capability().guarded_writes {
        return None;
    }
    let stand = Stand::open(subject, models);
    stand.insert(&Crew { id: 0, name: "red".to_owned(), budget: 900 }).run().unwrap();
    stand.insert_many(&[sailor(ANN, "ann", 10), sailor(8, "bob", 20)]).run().unwrap();
    Some(stand)
}

fn ann(store: &Store, grants: &[Grant]) -> Store {
    let caller = Caller { id: ANN.to_string(), name: "ann".to_owned(), groups: Vec::new() };
    store.with_rights(Rights::new(store.registry(), Some(caller), grants).unwrap())
}

/// All rights, but on these fields.
fn except(fields: &[&str]) -> Grant {
    Grant::new("sailor", &Right::ALL).except(fields.iter().copied())
}

fn value<'r>(row: &'r Record, field: &str) -> &'r Value {
    row.value(field).unwrap()
}

/// A read has no value of a field that its caller may not read, also if it names the field.
pub fn unreadable_fields_are_absent(subject: &Subject) {
    let Some(stand) = open(subject, models) else { return };
    let table = stand.table("sailor").unwrap();
    let caller = ann(&stand, &[except(&["salary", "notes"])]);
    for store in [&*stand, &caller] {
        let is_hidden = store.rights().is_some();
        // The second read may come from a cache.
        for _ in 0..2 {
            let row = store.get_record(&table, 1).run().unwrap();
            assert_eq!(*value(&row, "salary") == Value::Absent, is_hidden);
            assert_eq!(value(&row, "name"), &Value::from("ann"));
        }
        let rows = store.list_records(&table).run().unwrap();
        assert_eq!(rows.len(), 2);
        for row in rows {
            assert_eq!(*value(&row, "salary") == Value::Absent, is_hidden);
            assert_eq!(*value(&row, "notes") == Value::Absent, is_hidden);
            assert_ne!(value(&row, "badge"), &Value::Absent);
        }
    }
    assert!(caller.list::<Sailor>().column(Sailor::SALARY).run().is_err());
}

/// A filter, an order, a group, an aggregate and a search of an unreadable field fail as those of a
/// field that does not exist.
pub fn unreadable_fields_are_unknown(subject: &Subject) {
    let Some(stand) = open(subject, models) else { return };
    let table = stand.table("sailor").unwrap();
    let caller = ann(&stand, &[except(&["salary", "notes"])]);
    let unknown = |result: marmota_model::Result<()>, field: &str| {
        let error = blamed(result, ErrorKind::Invalid, field, "unknown");
        let expected = "`sailor` has no such field; it has id, owner, name, badge, crew";
        assert_eq!(error.violations()[0].message, expected);
    };
    let filter = |text: &str| parse_filter(&table, text).unwrap();
    for text in ["salary = 10", "not salary = 10", "name = 'x' or salary > 3", "salary in (1)"] {
        unknown(caller.list_records(&table).filter(filter(text)).run().map(drop), "salary");
    }
    let paid = || Sailor::SALARY.gt(15);
    unknown(caller.count::<Sailor>().filter(paid()).run().map(drop), "salary");
    unknown(caller.delete_where::<Sailor>(paid()).run().map(drop), "salary");
    let order = parse_order(&table, "salary").unwrap();
    let sorted = order.into_iter().fold(caller.list_records(&table), |list, by| list.order(by));
    unknown(sorted.run().map(drop), "salary");
    let found = caller.list_records(&table).filter(filter("@ 'secrets'"));
    unknown(found.run().map(drop), "notes");
    let found = caller.list::<Sailor>().filter(Sailor::NOTES.search("rum"));
    unknown(found.run().map(drop), "notes");
    for select in ["sum(salary)", "max(salary)", "count(salary)"] {
        let mut query = GroupQuery::new();
        query.select(&table, select).unwrap();
        unknown(caller.list_records(&table).group(query).run().map(drop), "salary");
    }
    let query = GroupQuery { by: vec![table.position("salary").unwrap()], ..GroupQuery::new() };
    unknown(caller.list_records(&table).group(query).run().map(drop), "salary");
    assert_eq!(stand.count::<Sailor>().run().unwrap(), 2);
    // By name, both fields are unknown in the caller's view of the table.
    let view = caller.view_of(&table);
    for name in ["salary", "nothing"] {
        let error = parse_filter(view, &format!("{name} = 1")).unwrap_err();
        assert_eq!(error.violations()[0].rule, "unknown");
        assert!(!error.to_string().contains("has id, owner, name, salary"), "{error}");
    }
}

/// Conditions on related rows obey the rights on the fields of their table.
pub fn a_filter_through_a_relation_sees_readable_fields(subject: &Subject) {
    let Some(stand) = open(subject, models) else { return };
    let crew = |fields: &[&str]| Grant::new("crew", &[Right::Read]).except(fields.iter().copied());
    let caller = ann(&stand, &[except(&["salary"]), crew(&["budget"])]);
    let rich = || Sailor::CREW.to(Crew::BUDGET.gt(0));
    blamed(caller.list::<Sailor>().filter(rich()).run(), ErrorKind::Invalid, "budget", "unknown");
    let red = Sailor::CREW.to(Crew::NAME.eq("red"));
    assert_eq!(caller.count::<Sailor>().filter(red).run().unwrap(), 2);
    let paid = || Sailor::CREW.any(Sailor::SALARY.gt(15));
    blamed(caller.count::<Crew>().filter(paid()).run(), ErrorKind::Invalid, "salary", "unknown");
    // The reference itself is a field.
    let caller = ann(&stand, &[except(&["crew"]), crew(&[])]);
    let any = || Sailor::CREW.any(Sailor::NAME.eq("ann"));
    blamed(caller.count::<Crew>().filter(any()).run(), ErrorKind::Invalid, "crew", "unknown");
    blamed(caller.count::<Sailor>().filter(rich()).run(), ErrorKind::Invalid, "crew", "unknown");
    let table = stand.table("crew").unwrap();
    let (hidden, missing) = (
        parse_filter(caller.view_of(&table), "any(sailor, name = 'ann')").unwrap_err(),
        parse_filter(caller.view_of(&table), "any(tailor, name = 'ann')").unwrap_err(),
    );
    assert_eq!(hidden.message().replace("sailor", "tailor"), missing.message());
}

/// A write of a field that may be read but not written is refused with the field; one of a field
/// that may not be read either is unknown.
pub fn fields_that_may_not_be_written_are_refused(subject: &Subject) {
    let Some(stand) = open(subject, models) else { return };
    let grants = [
        Grant::new("sailor", &[Right::Read]).except(["badge"]),
        Grant::new("sailor", &[Right::Update, Right::Insert]).except(["salary", "badge"]),
    ];
    let caller = ann(&stand, &grants);
    let denied = ErrorKind::Denied;
    let patch = || caller.patch::<Sailor>(1);
    blamed(patch().set(Sailor::SALARY, 5).run(), denied, "salary", "rights");
    let both = patch().set(Sailor::NAME, "x").set(Sailor::SALARY, 5);
    blamed(both.run(), denied, "salary", "rights");
    blamed(patch().set(Sailor::BADGE, 5).run(), ErrorKind::Invalid, "badge", "unknown");
    blamed(caller.increment(Sailor::SALARY, 1, 1).run(), denied, "salary", "rights");
    let mut moved = stand.get::<Sailor>(1).run().unwrap();
    moved.salary = 11;
    moved.badge = None;
    refused(caller.update(&moved).run(), ErrorKind::Invalid);
    refused(caller.upsert(&moved).run(), denied);
    refused(caller.insert(&sailor(ANN, "new", 30)).run(), ErrorKind::Invalid);
    let mut batch = caller.batch();
    batch.patch::<Sailor>(1).set(Sailor::SALARY, 9);
    batch.patch::<Sailor>(2).set(Sailor::NAME, "robert");
    let results = batch.continue_on_error().run().unwrap();
    assert_eq!(results[0].as_ref().unwrap_err().kind(), denied);
    assert!(results[1].is_ok());
    patch().set(Sailor::NAME, "anne").run().unwrap();
    let rows = stand.list::<Sailor>().order(Sailor::ID.ascending()).run().unwrap();
    let rows: Vec<(&str, i64)> = rows.iter().map(|row| (&*row.name, row.salary)).collect();
    assert_eq!(rows, [("anne", 10), ("robert", 20)]);
}

/// An insert without a field that may not be written uses its default, and may name that default.
pub fn an_insert_uses_defaults_of_other_fields(subject: &Subject) {
    let Some(stand) = open(subject, models) else { return };
    let grant = Grant::new("sailor", &[Right::Insert]).except(["salary", "badge"]);
    let caller = ann(&stand, &[grant, Grant::new("crew", &[Right::Refer])]);
    let new = Sailor { badge: None, ..sailor(ANN, "new", 7) };
    let key = caller.insert(&new).run().unwrap();
    assert_eq!(stand.get::<Sailor>(key).run().unwrap().salary, 7);
    refused(caller.insert(&Sailor { salary: 8, ..new.clone() }).run(), ErrorKind::Invalid);
    let many = [new.clone(), Sailor { badge: Some(1), ..new }];
    refused(caller.insert_many(&many).run(), ErrorKind::Invalid);
    assert_eq!(stand.count::<Sailor>().run().unwrap(), 3);
}

/// Of several grants, each opens its fields of its rows. A query sees the rows in which it may read
/// all fields on which its result depends.
pub fn grants_with_other_fields_add_up_row_by_row(subject: &Subject) {
    let Some(stand) = open(subject, models) else { return };
    let table = stand.table("sailor").unwrap();
    let grants = [
        Grant::new("sailor", &[Right::Read]).fields(["name"]),
        Grant::new("sailor", &[Right::Read, Right::Update]).rule("owner = @user.id"),
        Grant::new("sailor", &[Right::Update]).fields(["name"]),
    ];
    let caller = ann(&stand, &grants);
    let salaries = |rows: &[Record]| -> Vec<Value> {
        rows.iter().map(|row| value(row, "salary").clone()).collect()
    };
    let (own, hidden) = (Value::from(10), Value::Absent);
    let rows = caller.list_records(&table).run().unwrap();
    assert_eq!(salaries(&rows), [own.clone(), hidden.clone()]);
    assert_eq!(value(&rows[1], "owner"), &Value::Absent, "the field of the rule is not lent");
    for _ in 0..2 {
        let rows = [1, 2].map(|key| caller.get_record(&table, key).run().unwrap());
        assert_eq!(salaries(&rows), [own.clone(), hidden.clone()]);
    }
    let list = |filter: &str| {
        let filter = parse_filter(&table, filter).unwrap();
        salaries(&caller.list_records(&table).filter(filter).run().unwrap())
    };
    assert_eq!(list("salary > 0"), std::slice::from_ref(&own));
    assert_eq!(list("not salary = 10"), Vec::<Value>::new());
    assert_eq!(list("salary > 0 or name = 'bob'"), std::slice::from_ref(&own));
    assert_eq!(list("name ~ 'b'"), [hidden]);
    let order = parse_order(&table, "-salary").unwrap();
    let sorted = order.into_iter().fold(caller.list_records(&table), |list, by| list.order(by));
    assert_eq!(salaries(&sorted.run().unwrap()), [own]);
    let mut query = GroupQuery::new();
    query.select(&table, "sum(salary)").unwrap();
    let sum = caller.list_records(&table).group(query).run().unwrap();
    assert_eq!(sum[0].values()[0], Value::from(10));
    // Writes need a grant for each field.
    caller.patch::<Sailor>(1).set(Sailor::SALARY, 12).set(Sailor::NAME, "a").run().unwrap();
    caller.patch::<Sailor>(2).set(Sailor::NAME, "b").run().unwrap();
    let both = caller.patch::<Sailor>(2).set(Sailor::SALARY, 12).set(Sailor::NAME, "c");
    refused(both.run(), ErrorKind::Denied);
    refused(caller.increment(Sailor::SALARY, 2, 1).run(), ErrorKind::Denied);
    // A grant without limits on all rows makes the others irrelevant.
    let open = [&grants[..], &[Grant::new("sailor", &[Right::Read])]].concat();
    let rows = ann(&stand, &open).list_records(&table).run().unwrap();
    assert_eq!(salaries(&rows), [Value::from(12), Value::from(20)]);
}

/// Entries of the history have the fields that the caller may read, and cannot be searched for
/// others.
pub fn history_entries_have_readable_fields(subject: &Subject) {
    let Some(stand) = open(subject, models) else { return };
    stand.patch::<Sailor>(1).set(Sailor::SALARY, 99).run().unwrap();
    for grant in [except(&["salary"]), except(&["salary"]).rule("owner = @user.id")] {
        let caller = ann(&stand, &[grant]);
        let entries = caller.history::<Sailor>(1).run().unwrap();
        assert_eq!(entries.len(), 2);
        for entry in &entries {
            let fields = entry.fields.as_ref().unwrap();
            assert!(fields.0.get("salary").is_none(), "{fields:?}");
        }
        assert_eq!(entries[0].fields.as_ref().unwrap().0["name"], "ann");
        assert_eq!(entries[0].of_table, "sailor");
        let table = stand.table("marmota_history").unwrap();
        let paid =
            parse_filter(&table, "of_table = 'sailor' and of_key = '1' and fields.salary = 99");
        refused(caller.list_records(&table).filter(paid.unwrap()).run(), ErrorKind::Invalid);
    }
}

/// The violation of an index of several fields does not name those that the caller may not use.
pub fn conflicts_do_not_name_unreadable_fields(subject: &Subject) {
    let Some(stand) = open(subject, models) else { return };
    stand.insert(&Crew { id: 0, name: "blue".to_owned(), budget: 1 }).run().unwrap();
    let other = Sailor { crew: Some(Ref::new(2)), ..sailor(ANN, "cid", 10) };
    let key = stand.insert(&other).run().unwrap();
    let caller = ann(&stand, &[except(&["badge"]), Grant::new("crew", &[Right::Refer])]);
    let moved = caller.patch::<Sailor>(key).set(Sailor::CREW, Ref::new(1));
    let error = refused(moved.run(), ErrorKind::Conflict);
    assert!(!format!("{error:?}{error}").contains("badge"), "{error:?}");
}

/// A live query has the fields that the caller may read, in its snapshot and its patches.
pub fn a_live_query_has_readable_fields(subject: &Subject) {
    if !subject.capability().change_feed {
        return;
    }
    let Some(stand) = open(subject, with_feed) else { return };
    let table = stand.table("sailor").unwrap();
    let public = Grant::new("sailor", &[Right::Read]).fields(["name"]);
    let own = Grant::new("sailor", &[Right::Read]).rule("owner = @user.id");
    for grants in [vec![except(&["salary", "badge", "notes"])], vec![public, own]] {
        let caller = ann(&stand, &grants);
        let mut rows = block_on(caller.live_rows(&table, RowQuery::new(), false, None)).unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        let mut is_over = false;
        while !is_over {
            assert!(Instant::now() < until, "the change does not arrive");
            let update = block_on(poll_fn(|context| rows.poll_next(context)))
                .unwrap()
                .expect("the store is open");
            let text = format!("{:?}", update.content);
            for secret in ["10", "20", "1234", "5678", "secrets"] {
                assert!(!text.contains(&format!("({secret})")), "{secret} in {text}");
                assert!(!text.contains("rum and"), "{text}");
            }
            if let LiveContent::Snapshot(_) = update.content {
                let patch = |key, salary, name: &str| {
                    let patch = stand.patch::<Sailor>(key).set(Sailor::SALARY, salary);
                    patch.set(Sailor::NAME, name).run().unwrap();
                };
                patch(1, 1234, "last");
                patch(2, 5678, "last");
            }
            is_over = text.contains("last");
        }
        let invalid =
            RowQuery { filter: Some(Sailor::SALARY.eq(1234).into_expr()), ..RowQuery::new() };
        let paid = block_on(caller.live_rows(&table, invalid, false, None));
        match grants.len() {
            1 => drop(refused(paid, ErrorKind::Invalid)),
            _ => drop(paid.unwrap()),
        }
        for (key, salary) in [(1, 10), (2, 20)] {
            stand.patch::<Sailor>(key).set(Sailor::SALARY, salary).run().unwrap();
        }
    }
}

/// A list of fields names fields of its table, and not the key in `except`.
pub fn invalid_lists_of_fields_are_refused(subject: &Subject) {
    let Some(stand) = open(subject, models) else { return };
    let grant = |table: &str| Grant::new(table, &[Right::Read]);
    for invalid in [
        grant("sailor").fields(["pay"]),
        grant("sailor").except(["pay"]),
        grant("sailor").except(["id"]),
        grant("sailor").except(["name"]).fields(["name"]),
        grant("*").except(["name"]),
        Grant::call("rum").except(["name"]),
    ] {
        refused(invalid.check(stand.registry()), ErrorKind::Invalid);
    }
    let json = r#"{"table":"sailor","rights":["read"],"except":["salary"]}"#;
    let parsed: Grant = serde_json::from_str(json).unwrap();
    assert_eq!(serde_json::to_string(&parsed).unwrap(), json);
    parsed.check(stand.registry()).unwrap();
}
