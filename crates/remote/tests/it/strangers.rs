//! Bytes that no client of ours would send.

use marmota_model::{Error, ErrorKind};
use marmota_remote::{Remote, Service};
use proptest::prelude::*;

use crate::{Person, client, person, served};

/// A packet of a number with a body.
fn packet(number: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap();
    [&length.to_le_bytes()[..], &number.to_le_bytes(), body].concat()
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes: Vec<u8>, bodies: Vec<(u32, u8, Vec<u8>)>) {
        let service = Service::new(&served());
        let _ = service.answer(&bytes);
        let mut all = Vec::new();
        for (number, verb, rest) in bodies {
            all.extend(packet(number, &[&[verb % 34, 0, 0, 0][..], &rest].concat()));
        }
        let _ = service.answer(&all);
    }
}

#[test]
fn steps_without_a_transaction_are_refused() {
    let service = Service::new(&served());
    for verb in 13..=17 {
        let answer = service.answer(&packet(7, &[verb, 0, 0, 1]));
        let text = String::from_utf8_lossy(&answer);
        assert!(text.contains("begin one") || text.contains("after its end"), "{text}");
    }
}

#[test]
fn an_answer_that_is_too_long_is_refused() {
    let service = Service::new(&served()).answer_bytes_max(2_000);
    let store = client(Remote::in_process(&service)).unwrap();
    let people: Vec<Person> = (0..200).map(|number| person(&format!("{number}"))).collect();
    store.insert_many(&people).run().unwrap();
    let error = store.list::<Person>().run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("limit"), "{error}");
    assert_eq!(store.list::<Person>().limit(50).run().unwrap().len(), 50);
}

#[test]
fn rules_hold_on_the_server() {
    let service = Service::new(&served()).packet_bytes_max(4_096);
    let store = client(Remote::in_process(&service)).unwrap();
    let long = "x".repeat(10_000);
    let refused: Result<(), Error> =
        store.list::<Person>().filter(Person::NAME.eq(long)).run().map(drop);
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("4096"), "{error}");
    // The connection is as good as before.
    assert_eq!(store.count::<Person>().run().unwrap(), 0);
}
