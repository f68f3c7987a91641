//! Conditions on related rows: the transaction of their reads, and their limit. What they select is
//! tested by the conformance suite.

use marmota::prelude::*;
use mongodb::bson::Document;

use crate::replica::{Act, Replica, refusal};
use crate::{Office, server};

/// A room of an office, to which it refers.
#[derive(Clone, Debug, Model, PartialEq)]
struct Room {
    id: i64,
    office: Option<Ref<Office>>,
}

fn open(url: &str) -> Store {
    marmota::open(url).unwrap().model::<Office>().model::<Room>().open().unwrap()
}

fn names(commands: &[Document]) -> Vec<&str> {
    commands.iter().filter_map(|command| command.keys().next()).map(String::as_str).collect()
}

#[test]
fn related_rows_and_rows_are_read_in_one_transaction() {
    let replica = Replica::of("8.0", &server().url());
    let store = open(&replica.url());
    store.insert_many(&[Office::new("n", "Nord"), Office::new("s", "Süd")]).run().unwrap();
    for office in ["n", "n", "s"] {
        store.insert(&Room { id: 0, office: Some(Ref::new(office.to_owned())) }).run().unwrap();
    }
    store.insert(&Room { id: 0, office: None }).run().unwrap();
    replica.transaction_commands();
    let nord = || Room::OFFICE.to(Office::NAME.eq("nord"));
    let listed = store.list::<Room>().filter(nord()).column(Room::ID).run().unwrap();
    assert_eq!(listed, [1, 2]);
    let commands = replica.transaction_commands();
    assert_eq!(names(&commands), ["find", "find", "abortTransaction"]);
    assert_eq!(commands[0].get("txnNumber"), commands[1].get("txnNumber"));
    // A conflict is repeated from the first read.
    let conflict = || Act::Refuse(refusal(112, "WriteConflict", &["TransientTransactionError"]));
    replica.on("find", 1, conflict());
    assert_eq!(store.list::<Room>().filter(!nord()).column(Room::ID).run().unwrap(), [3, 4]);
    let said = ["find", "find", "abortTransaction", "find", "find", "abortTransaction"];
    assert_eq!(names(&replica.transaction_commands()), said);
    replica.on("aggregate", 0, conflict());
    assert_eq!(store.count::<Room>().filter(nord()).run().unwrap(), 2);
    let said = ["find", "aggregate", "abortTransaction", "find", "aggregate", "abortTransaction"];
    assert_eq!(names(&replica.transaction_commands()), said);
    // Of one room, only its office is read.
    let one = nord().and(Room::ID.eq(3));
    assert_eq!(store.count::<Room>().filter(one).run().unwrap(), 0);
    let commands = replica.transaction_commands();
    assert_eq!(names(&commands), ["find", "find", "aggregate", "abortTransaction"]);
    let office = commands[1].get_document("filter").unwrap().to_string();
    assert!(office.contains(r#""_id": "s""#), "{office}");
    store.close().unwrap();
    assert_eq!(replica.breaches(), Vec::<String>::new());
    assert_eq!(replica.rules_left(), 0);
    assert!(replica.is_idle());
}

#[test]
fn lists_of_more_than_8_mb_are_refused() {
    let replica = Replica::of("8.0", &server().url());
    let store = open(&replica.url());
    let offices: Vec<Office> =
        (0..9).map(|number| Office::new(&format!("{number}").repeat(1 << 20), "any")).collect();
    for office in &offices {
        store.insert(office).run().unwrap();
    }
    let any = || Room::OFFICE.to(Office::NAME.eq("any"));
    for error in [
        store.list::<Room>().filter(any()).run().unwrap_err(),
        store.count::<Room>().filter(any()).run().unwrap_err(),
        store.delete_where::<Room>(any()).run().unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("rows of `office` in a filter of `room`"), "{error}");
    }
    // The refusal is not the server's, so that a transaction continues.
    let rooms = store.transaction(|own| {
        let error = own.list::<Room>().filter(any()).run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        own.insert(&Room { id: 0, office: Some(Ref::new(offices[2].code.clone())) }).run()?;
        own.count::<Room>().run()
    });
    assert_eq!(rooms.unwrap(), 1);
    store.delete::<Office>(offices[0].code.clone()).run().unwrap();
    store.delete::<Office>(offices[1].code.clone()).run().unwrap();
    assert_eq!(store.count::<Room>().filter(any()).run().unwrap(), 1);
    store.close().unwrap();
}
