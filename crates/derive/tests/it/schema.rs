//! The schema is what the attributes say, and can be registered.

use marmota_model::{
    Collation, Currency, EnumStored, ErrorKind, Field, FieldSet, Index, Key, KeyKind, Kind,
    Literal, Model, Role, Rule, Scratch, Table, Value, ValueRef,
};

use crate::person::{HTTPLog, Person, Ticket};

fn field(name: &str) -> &'static Field {
    let mut fields = Person::schema().fields.iter();
    fields.find(|field| field.name == name).unwrap()
}

#[test]
fn names_come_from_rust_or_from_the_attributes() {
    assert_eq!(Person::TABLE, "people");
    assert_eq!(Person::schema().name, "people");
    assert_eq!(<HTTPLog as Model>::TABLE, "http_log");
    assert_eq!(Ticket::TABLE, "ticket");
    let names: Vec<&str> = HTTPLog::schema().fields.iter().map(|field| &*field.name).collect();
    let expected =
        ["code", "id", "type", "row", "scratch", "schema", "table", "created_at", "version"];
    assert_eq!(names, expected);
    assert_eq!(field("type").kind.name(), "enum");
}

#[test]
fn keys_are_those_called_id_or_marked() {
    assert_eq!((Person::KEY_KIND, Person::schema().key), (KeyKind::Auto, 0));
    assert_eq!((HTTPLog::KEY_KIND, HTTPLog::schema().key), (KeyKind::Text, 0));
    assert_eq!((Ticket::KEY_KIND, Ticket::schema().key), (KeyKind::Uuid, 0));
    assert_eq!(field("id").role, Role::Key);
    assert_eq!(HTTPLog::schema().fields[1].role, Role::Plain);
}

#[derive(marmota_derive::Model)]
struct Seat {
    room: String,
    #[model(key(room, number))]
    name: String,
    #[model(rename = "seat_number")]
    number: i64,
}

#[test]
fn a_key_may_consist_of_several_fields() {
    let schema = Seat::schema();
    assert_eq!((schema.key, &*schema.key_fields), (1, &[0, 2][..]));
    assert_eq!(Seat::key_of("B,1", 7), "B%2C1,7");
    let table = Table::new(schema.clone()).unwrap();
    assert_eq!(table.immutable(), FieldSet::EMPTY.with(0).with(2));
}

#[test]
fn roles_are_given_by_attributes_alone() {
    assert_eq!(field("created").role, Role::CreatedAt);
    assert_eq!(field("updated").role, Role::UpdatedAt);
    assert_eq!(field("version").role, Role::Version);
    let plain = |name| {
        let mut fields = HTTPLog::schema().fields.iter();
        fields.find(|field| field.name == name).unwrap().role == Role::Plain
    };
    assert!(plain("created_at") && plain("version"));
}

#[test]
fn kinds_come_from_types_with_max_and_collation_added() {
    let kind = |name| field(name).kind.clone();
    let text = |chars_max, collation| Kind::Text { chars_max, collation };
    assert_eq!(kind("first_name"), text(40, Collation::Binary));
    assert_eq!(kind("last_name"), text(40, Collation::NoCase));
    assert_eq!(kind("email"), Kind::TEXT);
    assert_eq!(kind("even"), Kind::Int { min: -128, max: 127 });
    assert_eq!(kind("boss"), Kind::Reference { table: "people".into(), key: KeyKind::Auto });
    assert_eq!(kind("friend"), kind("boss"));
    let log = Ticket::schema().fields[1].kind.clone();
    assert_eq!(log, Kind::Reference { table: "http_log".into(), key: KeyKind::Text });
    let Kind::Enum { variants, stored } = kind("type") else { panic!("no enum") };
    assert_eq!(stored, EnumStored::Integer);
    let variants: Vec<_> = variants.iter().map(|one| (&*one.name, one.number)).collect();
    assert_eq!(variants, [("on duty", 1), ("retired", 2), ("lost", -7)]);
}

#[test]
fn options_alone_are_nullable() {
    let nullable: Vec<&str> = Person::schema()
        .fields
        .iter()
        .filter(|field| field.nullable)
        .map(|field| &*field.name)
        .collect();
    let expected =
        ["year_of_death", "email", "even", "gender", "boss", "friend", "stamp", "ratio", "hired"];
    assert_eq!(nullable, expected);
}

#[test]
fn defaults_are_literals_of_the_field() {
    assert_eq!(field("country").default, Some(Literal::Text("FR".into())));
    assert_eq!(field("even").default, Some(Literal::Int(-2)));
    assert_eq!(field("wage").default, Some(Literal::Currency(Currency::from_scaled(125_000))));
    assert_eq!(field("share").default, Some(Literal::Float(1.0)));
    assert_eq!(field("active").default, Some(Literal::Bool(true)));
    assert_eq!(field("nick").default, None);
}

#[test]
fn indexes_are_those_of_fields_then_those_of_the_struct() {
    let index = |fields: &[usize], unique| Index { unique, ..Index::new(fields.to_vec()) };
    // `email` is unique: its `index` adds nothing.
    let expected = [index(&[2], false), index(&[2, 1], false), index(&[5, 6], true)];
    assert_eq!(*Person::schema().indexes, expected);
    assert!(field("email").unique);
}

#[test]
fn an_index_may_have_a_filter() {
    #[allow(dead_code, reason = "only the schema is read")]
    #[derive(marmota_derive::Model)]
    #[model(unique(mail, where = "deleted = null"), index(mail, size, where = "size > 3"))]
    struct Note {
        id: i64,
        #[model(rename = "email")]
        mail: String,
        size: i64,
        deleted: Option<i64>,
    }
    let expected = [
        Index::unique(vec![1]).filter("deleted = null"),
        Index::new(vec![1, 2]).filter("size > 3"),
    ];
    assert_eq!(*Note::schema().indexes, expected);
    let wrong = Index::new(vec![1]).filter("mail = 'x'");
    let error = Table::new(Note::schema().clone().indexes(vec![wrong])).unwrap_err();
    assert!(error.message().contains("it has id, email, size, deleted"), "{error}");
}

#[test]
fn rules_stand_in_the_order_written() {
    assert!(matches!(&*field("first_name").rules, [Rule::NotEmpty]));
    assert!(matches!(&*field("email").rules, [Rule::Email]));
    assert!(matches!(&*field("nick").rules, [Rule::Length { min: 2, max: 9 }]));
    assert!(matches!(&*field("stamp").rules, [Rule::Length { min: 0, max: 3 }]));
    assert!(matches!(&*field("country").rules, [Rule::Pattern(text)] if text == "[A-Z]{2}"));
    let [Rule::Check { name: first, .. }, Rule::Check { name: second, .. }] = &*field("even").rules
    else {
        panic!("two checks")
    };
    assert_eq!((*first, *second), ("is_even", "is_small"));
    let [Rule::Range { min: Some(Literal::Int(-3000)), max: Some(Literal::Int(2100)) }] =
        &*field("year_of_birth").rules
    else {
        panic!("a range")
    };
}

#[test]
fn nothing_is_made_at_run_time() {
    let schema = Person::schema();
    assert!(std::ptr::eq(schema, Person::schema()));
    let borrowed = |field: &Field| matches!(field.name, std::borrow::Cow::Borrowed(_));
    assert!(schema.fields.iter().all(borrowed));
}

#[test]
fn every_schema_can_be_registered() {
    let table = Table::new(Person::schema().clone()).unwrap();
    assert_eq!(table.key(), 0);
    assert_eq!(table.version(), Some(27));
    assert_eq!(table.default(6), Some(ValueRef::Text("FR")));
    // A reference and a unique field get an index each, beside those declared.
    assert_eq!(table.indexes().len(), 6);
    Table::new(HTTPLog::schema().clone()).unwrap();
    Table::new(Ticket::schema().clone()).unwrap();
}

#[test]
fn own_checks_see_the_value_and_give_the_message() {
    let table = Table::new(HTTPLog::schema().clone()).unwrap();
    let mut log = HTTPLog {
        code: "7".to_owned(),
        id: None,
        r#type: false,
        row: 1,
        scratch: 2,
        schema: 3,
        table: 4,
        created_at: "2026-11-21T00:00:00Z".parse().unwrap(),
        version: 0,
    };
    let check = |log: &HTTPLog| {
        let scratch = Scratch::new();
        let mut row = [ValueRef::Absent; 9];
        log.write(&mut row, &scratch);
        table.validate(&row)
    };
    let error = check(&log).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let [violation] = error.violations() else { panic!("one violation") };
    assert_eq!((&*violation.field, &*violation.rule), ("code", "value"));
    assert_eq!(violation.message, "must begin with #");
    log.set_key("#7".to_owned());
    assert_eq!(log.key(), "#7");
    check(&log).unwrap();
}

#[test]
fn optional_fields_pass_their_value_to_checks_and_null_passes() {
    let table = Table::new(Person::schema().clone()).unwrap();
    let even = Person::EVEN.position();
    let check = |value| {
        let mut row = [ValueRef::Absent; 28];
        row[even] = value;
        table.validate(&row).map_err(|error| error.violations()[0].rule.clone())
    };
    assert_eq!(check(ValueRef::Null), Ok(()));
    assert_eq!(check(ValueRef::Int(2)), Ok(()));
    assert_eq!(check(ValueRef::Int(3)), Err("is_even".to_owned()));
    assert_eq!(check(ValueRef::Int(126)), Err("is_small".to_owned()));
    assert_eq!(check(ValueRef::Int(128)), Err("range".to_owned()));
}

#[test]
fn the_derive_allows_as_many_fields_as_a_field_set_holds() {
    // tests/fail/too_many_fields.rs has one more.
    assert_eq!(FieldSet::CAPACITY, 128);
}

#[test]
fn keys_are_set_from_what_an_engine_reports() {
    let key = <Person as Model>::Key::from_value(&Value::Int(7));
    assert_eq!(key, Some(7));
}

#[test]
fn expressions_are_in_the_schema() {
    #[derive(marmota_derive::Model)]
    struct Item {
        id: i64,
        price: i64,
        #[model(computed = "price * 2")]
        double: i64,
        #[model(default = 1, default_expression = "price + 1")]
        next: i64,
        #[model(generated = "price * 3")]
        triple: i64,
        #[model(generated)]
        known: Option<i64>,
    }
    let fields = &Item::schema().fields;
    assert_eq!(fields[4].generated.as_deref(), Some("price * 3"));
    assert_eq!((fields[5].generated.as_deref(), fields[1].generated.as_deref()), (Some(""), None));
    assert_eq!(fields[2].computed.as_deref(), Some("price * 2"));
    assert_eq!(fields[3].default_expression.as_deref(), Some("price + 1"));
    let table = Table::new(Item::schema().clone()).unwrap();
    assert_eq!(
        (table.computed(2), table.default_expression(3)),
        (Some("price * 2"), Some("price + 1"))
    );
    let item = Item { id: 0, price: 1, double: 2, next: 2, triple: 3, known: None };
    assert_eq!(item.id + item.price + item.double + item.next + item.triple, 8);
    assert!(item.known.is_none() && table.generated_fields().len() == 2);
}
