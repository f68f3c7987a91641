//! An explanation of rights is what happens: it is compared with the operations of the user.

use std::sync::Arc;

use marmota_auth::{Auth, GrantOrigin, Settings};
use marmota_model::{ErrorKind, Field, Kind, Record, Role, Schema, Table, Value};
use marmota_store::Store;
use marmota_store::access::{AccessExtent, RightReport};
use marmota_store::action::block_on;
use marmota_store::rights::{Grant, Right};

use crate::databases::{Database, databases};

fn store(database: &Database) -> Store {
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("owner", Kind::TEXT),
        Field::new("pay", Kind::I64),
    ];
    let builder = database.builder().schema(Schema::new("note", fields));
    marmota_auth::models(builder).open().unwrap()
}

fn note(table: &Arc<Table>, owner: &str) -> Record {
    let mut row = Record::new(Arc::clone(table));
    row.set("owner", owner).unwrap();
    row.set("pay", 7).unwrap();
    row
}

/// Returns the report of a right.
fn of(reports: &[RightReport], right: Right) -> &RightReport {
    reports.iter().find(|report| report.right == right).unwrap()
}

#[test]
fn an_explanation_is_what_happens() {
    let own = |rights: &[Right]| Grant::new("note", rights).rule("owner = @user.name");
    let all = |rights: &[Right]| Grant::new("note", rights);
    let read = [Right::Read];
    let write = [Right::Insert, Right::Update, Right::Delete];
    let cases: [Vec<Grant>; 8] = [
        vec![],
        vec![all(&Right::ALL)],
        vec![own(&Right::ALL)],
        vec![all(&read), own(&write)],
        vec![own(&read), all(&write)],
        vec![all(&write)],
        vec![all(&Right::ALL).except(["pay"])],
        vec![all(&read).except(["pay"]), own(&read), all(&[Right::Update]).fields(["pay"])],
    ];
    for grants in cases {
        for database in databases() {
            let store = store(&database);
            let auth = Auth::new(&store, Settings::default().password_cost(64, 1)).unwrap();
            auth.set_group("staff", &grants).unwrap();
            let (_, token) = auth.add_user("ann", &["staff".to_owned()], false).unwrap();
            auth.set_password("ann", &token, "correct horse battery", None).unwrap();
            let login = auth.login("ann", "correct horse battery", None).unwrap();
            let known = auth.authenticate(&login.token).run().unwrap();
            let (hers, table) = (known.store(), store.table("note").unwrap());
            let view = known.store().rights().map_or(&table, |rights| rights.view_of(&table));
            let access = block_on(auth.access_of(Some("ann"))).unwrap();
            assert!(access.grants.iter().any(|one| one.origin == GrantOrigin::User));
            let all: Vec<Grant> = access.grants.iter().map(|one| one.grant.clone()).collect();
            let caller = access.caller.as_ref();
            for owner in ["ann", "bob"] {
                let key = store.insert_record(&note(&table, owner)).run().unwrap();
                let explained = block_on(store.explain_access(caller, &all, &table, Some(&key)));
                let explained = explained.unwrap();
                let case = format!("{grants:?} {owner}: {explained:#?}");
                let allowed = |right| of(&explained, right).extent == AccessExtent::All;

                let read = hers.get_record(view, key.clone()).run();
                assert_eq!(allowed(Right::Read), read.is_ok(), "read {case}");
                if let Ok(read) = &read {
                    let hidden = &of(&explained, Right::Read).hidden;
                    let pay = read.value("pay").map_or(Value::Absent, Clone::clone);
                    assert_eq!(hidden.contains(&"pay".to_owned()), pay == Value::Absent, "{case}");
                }
                let update = of(&explained, Right::Update);
                let may = update.extent == AccessExtent::All && update.hidden.is_empty();
                let updated = hers.update_record(key.clone(), &note(&table, owner)).run();
                assert_eq!(may, updated.is_ok(), "update {updated:?} {case}");
                let new = hers.insert_record(&note(&table, owner)).run();
                assert_eq!(allowed(Right::Insert), new.is_ok(), "insert {new:?} {case}");
                let deleted = hers.delete_record(&table, key.clone()).run();
                assert_eq!(allowed(Right::Delete), deleted.is_ok(), "delete {case}");
                for report in &explained {
                    let is_denied = report.extent == AccessExtent::None;
                    assert_eq!(is_denied, report.reason.is_some(), "{case}");
                }
            }
        }
    }
}

#[test]
fn a_row_that_does_not_exist_and_an_unknown_user_are_errors() {
    for database in databases() {
        let store = store(&database);
        let auth = Auth::new(&store, Settings::default().password_cost(64, 1)).unwrap();
        let table = store.table("note").unwrap();
        let missing = block_on(store.explain_access(None, &[], &table, Some(&Value::Int(9))));
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
        let unknown = block_on(auth.access_of(Some("nora"))).unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::NotFound);
        let anonymous = block_on(auth.access_of(None)).unwrap();
        assert!(anonymous.caller.is_none() && anonymous.grants.is_empty());
    }
}
