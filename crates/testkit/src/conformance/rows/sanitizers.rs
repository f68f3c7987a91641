//! Sanitizers, and the rules for texts: every write stores the sanitized text and checks it.

use marmota_derive::Model;
use marmota_model::{ErrorKind, Record};
use marmota_store::StoreBuilder;

use crate::conformance::harness::refusal::blamed;
use crate::conformance::harness::subject::{Stand, Subject};

#[derive(Clone, Debug, Model, PartialEq)]
struct Visitor {
    id: i64,
    #[model(trim, collapse_spaces, not_empty, max = 12)]
    name: String,
    #[model(trim, lower, email, unique)]
    email: Option<String>,
    #[model(upper, count(digits, min = 1, max = 2), count(spaces, max = 0))]
    code: Option<String>,
    #[model(url)]
    page: Option<String>,
    #[model(ip)]
    address: Option<String>,
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<Visitor>()
}

fn visitor(name: &str) -> Visitor {
    Visitor { id: 0, name: name.into(), email: None, code: None, page: None, address: None }
}

/// Inserts, updates, patches, upserts, batches, structs and records store sanitized texts.
pub fn every_write_stores_sanitized_texts(subject: &Subject) {
    let stand = Stand::open(subject, models);
    let name_of = |key: i64| stand.get::<Visitor>(key).run().unwrap().name;
    let key = stand.insert(&visitor(" Ada \t Byron ")).run().unwrap();
    assert_eq!(name_of(key), "Ada Byron");
    // The length is that of the sanitized text.
    let wide = visitor("   Grace          Hopper   ");
    stand.update(&Visitor { id: key, ..wide.clone() }).run().unwrap();
    assert_eq!(name_of(key), "Grace Hopper");
    stand.patch::<Visitor>(key).set(Visitor::NAME, "  Ada ").run().unwrap();
    assert_eq!(name_of(key), "Ada");
    let keys = stand.insert_many(&[wide, visitor("Emmy\nNoether")]).run().unwrap();
    assert_eq!([name_of(keys[0]), name_of(keys[1])], ["Grace Hopper", "Emmy Noether"]);

    let mut batch = stand.batch();
    batch.patch::<Visitor>(key).set(Visitor::CODE, "a1");
    batch.insert(&visitor(" in a batch "));
    batch.continue_on_error().run().unwrap();
    assert_eq!(stand.get::<Visitor>(key).run().unwrap().code.as_deref(), Some("A1"));
    assert_eq!(stand.count::<Visitor>().filter(Visitor::NAME.eq("in a batch")).run().unwrap(), 1);

    let mut record = Record::new(stand.table("visitor").unwrap());
    record.set("name", "record ").unwrap();
    record.set("email", " ADA@Example.org").unwrap();
    let of_record = stand.insert_record(&record).run().unwrap().as_ref().as_int().unwrap();
    let found = stand.get::<Visitor>(of_record).run().unwrap();
    assert_eq!((&*found.name, found.email.as_deref()), ("record", Some("ada@example.org")));
    // Equal after they are sanitized.
    let same = Visitor { email: Some("ada@EXAMPLE.org ".into()), ..visitor("other") };
    blamed(stand.insert(&same).run(), ErrorKind::Conflict, "email", "unique");
}

/// A text that breaks a rule after it was sanitized is refused with its field.
pub fn a_sanitized_text_is_checked(subject: &Subject) {
    let stand = Stand::open(subject, models);
    let invalid = ErrorKind::Invalid;
    let key = stand.insert(&visitor("Ada")).run().unwrap();
    let patch = || stand.patch::<Visitor>(key);
    blamed(patch().set(Visitor::NAME, " \t ").run(), invalid, "name", "not_empty");
    let text = |text: &str| Some(text.to_owned());
    for code in ["", "abc", "a123", "a 1"] {
        blamed(patch().set(Visitor::CODE, text(code)).run(), invalid, "code", "count");
    }
    for page in ["example.org", "ftp://example.org", "https://", "javascript:alert(1)", "http:/x y"]
    {
        blamed(patch().set(Visitor::PAGE, text(page)).run(), invalid, "page", "url");
    }
    for address in ["1.2.3", "300.1.1.1", "::g", "192.0.2.1/24"] {
        blamed(patch().set(Visitor::ADDRESS, text(address)).run(), invalid, "address", "ip");
    }
    let good = patch()
        .set(Visitor::CODE, text("x42"))
        .set(Visitor::PAGE, text("HTTPS://example.org:8443/a?b=%20#c"))
        .set(Visitor::ADDRESS, text("2001:db8::1"));
    good.run().unwrap();
    assert_eq!(stand.get::<Visitor>(key).run().unwrap().code.as_deref(), Some("X42"));
}

register!($ sanitizers_promises sanitizers:
    every_write_stores_sanitized_texts,
    a_sanitized_text_is_checked,
);
