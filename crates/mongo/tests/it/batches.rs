//! Batches of which each write stands for itself.

use marmota::prelude::*;

use crate::tee::Tee;
use crate::{Office, server};

/// An `insert` in a message: a text of that name.
const INSERT: &[u8] = b"\x02insert\0";

/// A row whose keys the engine gives.
#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Desk {
    id: i64,
    #[model(unique)]
    name: String,
}

#[test]
fn inserts_share_commands_and_fail_alone() {
    let tee = Tee::before(&server().url());
    let store = marmota::open(tee.url()).unwrap().model::<Desk>().model::<Office>().open().unwrap();
    store.insert(&Desk { id: 0, name: "7".to_owned() }).run().unwrap();
    tee.count(INSERT);
    let mut batch = store.batch();
    for number in 0..300 {
        batch.insert(&Desk { id: 0, name: (number % 290).to_string() });
    }
    batch.insert(&Office::new("1", "Nord")).delete::<Office>("none").insert(&Office::new("1", "x"));
    let results = batch.continue_on_error().run().unwrap();
    let commands = tee.count(INSERT);
    assert_eq!(results.len(), 303);
    for (number, result) in results[..300].iter().enumerate() {
        match result {
            Ok(outcome) => assert_eq!(outcome.rows, 1, "{number}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                assert_eq!(error.violations()[0].field, "name");
                assert!(number == 7 || number >= 290, "{number}: {error}");
            }
        }
    }
    assert_eq!(results[..300].iter().filter(|result| result.is_err()).count(), 11);
    assert!(results[300].is_ok());
    assert_eq!(results[301].as_ref().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(results[302].as_ref().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(store.count::<Desk>().run().unwrap(), 290);
    assert!(commands < 40, "{commands} commands for 302 inserts");
    let last = store.list::<Desk>().filter(Desk::NAME.eq("289")).run().unwrap();
    assert_eq!(store.get::<Desk>(last[0].id).run().unwrap().name, "289");
    store.close().unwrap();
}
