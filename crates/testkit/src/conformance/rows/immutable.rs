//! Immutable fields: no write changes them after the insert.

use std::sync::Arc;

use marmota_derive::Model;
use marmota_model::{ErrorKind, Json, Record, Value};
use marmota_store::StoreBuilder;
use marmota_store::rights::{Grant, Right, Rights};
use serde_json::json;

use crate::conformance::harness::refusal::{blamed, refused};
use crate::conformance::harness::subject::{Stand, Subject};

#[derive(Clone, Debug, Model, PartialEq)]
struct Ticket {
    id: i64,
    #[model(immutable, max = 9)]
    team: String,
    #[model(unique)]
    number: i64,
    #[model(immutable)]
    weight: Option<i64>,
    #[model(immutable)]
    origin: Json<serde_json::Value>,
    text: String,
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<Ticket>()
}

fn ticket(number: i64) -> Ticket {
    let origin = Json(json!({ "b": [1, 2.5], "a": "x" }));
    let (team, text) = ("red".to_owned(), "new".to_owned());
    Ticket { id: 0, team, number, weight: Some(1), origin, text }
}

/// A patch, update, increment or upsert that would change an immutable field is refused with the
/// field and changes nothing. Writing the stored value again is permitted.
pub fn an_immutable_field_stays(subject: &Subject) {
    let stand = Stand::open(subject, models);
    let key = stand.insert(&ticket(1)).run().unwrap();
    let stored = stand.get::<Ticket>(key).run().unwrap();

    let invalid = ErrorKind::Invalid;
    let patch = || stand.patch::<Ticket>(key).set(Ticket::TEXT, "patched");
    blamed(patch().set(Ticket::TEAM, "blue").run(), invalid, "team", "immutable");
    blamed(patch().set(Ticket::WEIGHT, None::<i64>).run(), invalid, "weight", "immutable");
    blamed(stand.increment(Ticket::WEIGHT, key, 1).run(), invalid, "weight", "immutable");
    let moved = Ticket { team: "blue".into(), weight: None, ..stored.clone() };
    let error = blamed(stand.update(&moved).run(), invalid, "team", "immutable");
    assert_eq!(error.violations().len(), 2, "{error:?}");
    let error = blamed(stand.upsert(&moved).run(), invalid, "team", "immutable");
    assert_eq!(error.violations().len(), 2, "{error:?}");
    // Found by its unique value.
    let by_number = Ticket { id: 0, ..moved.clone() };
    blamed(stand.upsert(&by_number).run(), invalid, "team", "immutable");
    let mut batch = stand.batch();
    batch.patch::<Ticket>(key).set(Ticket::TEAM, "blue").set(Ticket::TEXT, "in a batch");
    let results = batch.continue_on_error().run().unwrap();
    blamed(results.into_iter().next().unwrap(), invalid, "team", "immutable");
    assert_eq!(stand.get::<Ticket>(key).run().unwrap(), stored);

    patch().set(Ticket::TEAM, "red").run().unwrap();
    let same = Ticket { text: "again".into(), ..stored.clone() };
    stand.update(&same).run().unwrap();
    stand.upsert(&Ticket { id: 0, text: "once more".into(), ..stored.clone() }).run().unwrap();
    let found = stand.get::<Ticket>(key).run().unwrap();
    assert_eq!(found, Ticket { text: "once more".into(), ..stored.clone() });
    // A record without the field leaves it unchanged.
    let table = stand.table("ticket").unwrap();
    let mut record = Record::new(Arc::clone(&table));
    record.set("text", Value::from("left out")).unwrap();
    stand.update_record(key, &record).run().unwrap();
    assert_eq!(stand.get::<Ticket>(key).run().unwrap().text, "left out");

    refused(stand.patch::<Ticket>(99).set(Ticket::TEAM, "blue").run(), ErrorKind::NotFound);
    // Another row has its own value, and a row that replaces another is a new row.
    let other = Ticket { team: "blue".into(), ..ticket(2) };
    let other = stand.insert(&other).run().unwrap();
    assert_eq!(stand.get::<Ticket>(other).run().unwrap().team, "blue");
    stand.delete::<Ticket>(other).run().unwrap();
    stand.insert(&Ticket { id: other, ..ticket(3) }).run().unwrap();
}

/// Updates of many rows, batches, transactions and callers with rights do not change immutable
/// fields.
pub fn an_immutable_field_stays_on_every_path(subject: &Subject) {
    let stand = Stand::open(subject, models);
    let invalid = ErrorKind::Invalid;
    stand.insert_many(&[ticket(1), ticket(2)]).run().unwrap();
    let stored = stand.list::<Ticket>().run().unwrap();
    let mut moved = stored.clone();
    moved[0].text = "changed".into();
    moved[1].team = "blue".into();
    blamed(stand.update_many(&moved).run(), invalid, "team", "immutable");
    assert_eq!(stand.list::<Ticket>().run().unwrap(), stored);
    let done = stand.transaction(|transaction| {
        let patch = transaction.patch::<Ticket>(stored[0].id).set(Ticket::TEAM, "blue");
        blamed(patch.run(), invalid, "team", "immutable");
        transaction.patch::<Ticket>(stored[0].id).set(Ticket::TEXT, "in a transaction").run()
    });
    done.unwrap();
    let mut batch = stand.batch();
    batch.patch::<Ticket>(stored[1].id).set(Ticket::TEXT, "undone");
    batch.patch::<Ticket>(stored[0].id).set(Ticket::TEAM, "blue");
    blamed(batch.all_or_nothing().run(), invalid, "team", "immutable");
    assert_eq!(stand.get::<Ticket>(stored[1].id).run().unwrap().text, "new");

    if !subject.capability().guarded_writes {
        return;
    }
    let grants = [Grant::new("ticket", &Right::ALL).rule("number < 9")];
    let rights = Rights::new(stand.registry(), None, &grants).unwrap();
    let caller = stand.with_rights(rights);
    let patch = caller.patch::<Ticket>(stored[0].id).set(Ticket::TEAM, "blue");
    blamed(patch.run(), invalid, "team", "immutable");
    caller.patch::<Ticket>(stored[0].id).set(Ticket::TEAM, "red").run().unwrap();
}

register!($ immutable_promises immutable: ; by transactions:
    an_immutable_field_stays,
    an_immutable_field_stays_on_every_path,
);
