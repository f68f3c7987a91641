//! Writes to one table: increments, deletes, defaults, and many rows at once.

use marmota_model::{
    Currency, ErrorKind, Field, Kind, Literal, Record, Role, Schema, Value, ValueRef,
};

use crate::conformance::harness::models;
use crate::conformance::harness::models::{Account, Note, Sample, Seat};
use crate::conformance::harness::refusal::{blamed, refused, says};
use crate::conformance::harness::subject::{Stand, Subject};

/// An increment is atomic and returns the sum.
pub fn an_increment_gives_the_sum(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let key = stand.insert(&Account::default()).run().unwrap();
    assert_eq!(stand.increment(Account::VISITS, key, 5).run().unwrap(), 5);
    assert_eq!(stand.increment(Account::VISITS, key, -7).run().unwrap(), -2);
    assert_eq!(stand.increment(Account::VISITS, key, 0).run().unwrap(), -2);
    let amount = Currency::from_scaled(12_345);
    assert_eq!(stand.increment(Account::BALANCE, key, amount).run().unwrap(), amount);
    assert_eq!(stand.increment(Account::SMALL, key, 255).run().unwrap(), 255);
    stand.settle();
    let found = stand.get::<Account>(key).run().unwrap();
    assert_eq!((found.visits, found.balance, found.small), (-2, amount, 255));
    let other = stand.insert(&Note::new("a", 1)).run().unwrap();
    assert_eq!(stand.increment(Note::NUMBER, other, 2).run().unwrap(), Some(3));
}

/// An increment whose sum is outside the field's range is refused, and the field remains unchanged.
pub fn an_increment_stays_in_range(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let account = Account {
        visits: i64::MAX - 1,
        balance: Currency::from_scaled(i64::MIN + 1),
        small: 250,
        level: 4,
        ..Account::default()
    };
    let key = stand.insert(&account).run().unwrap();
    stand.settle();
    let invalid = ErrorKind::Invalid;
    blamed(stand.increment(Account::VISITS, key, 2).run(), invalid, "visits", "range");
    blamed(stand.increment(Account::VISITS, key, i64::MAX).run(), invalid, "visits", "range");
    let two = Currency::from_scaled(-2);
    blamed(stand.increment(Account::BALANCE, key, two).run(), invalid, "balance", "range");
    blamed(stand.increment(Account::SMALL, key, 6).run(), invalid, "small", "range");
    blamed(stand.increment(Account::SMALL, key, -251).run(), invalid, "small", "range");
    let found = stand.get::<Account>(key).run().unwrap();
    assert_eq!(found, Account { id: key, updated: found.updated, version: 1, ..account });
    assert_eq!(stand.increment(Account::VISITS, key, 1).run().unwrap(), i64::MAX);
    assert_eq!(stand.increment(Account::SMALL, key, 5).run().unwrap(), 255);
    assert_eq!(stand.increment(Account::SMALL, key, -255).run().unwrap(), 0);
}

/// An increment whose sum violates a rule of the field is refused.
pub fn an_increment_keeps_the_rules(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let key = stand.insert(&Account { level: 4, ..Account::default() }).run().unwrap();
    blamed(stand.increment(Account::LEVEL, key, 2).run(), ErrorKind::Invalid, "level", "range");
    assert_eq!(stand.increment(Account::LEVEL, key, 1).run().unwrap(), 5);
}

/// An increment with a value of another kind, or of a field that cannot be incremented, is refused
/// with the field.
pub fn only_numbers_are_added_to(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let key = stand.insert(&Account::default()).run().unwrap();
    let invalid = ErrorKind::Invalid;
    blamed(stand.increment(Account::VISITS, key, "1").run(), invalid, "visits", "type");
    blamed(
        stand.increment(Account::VISITS, key, Currency::from(1)).run(),
        invalid,
        "visits",
        "type",
    );
    blamed(stand.increment(Account::BALANCE, key, 1).run(), invalid, "balance", "type");
    blamed(stand.increment(Account::VERSION, key, 1).run(), invalid, "version", "type");
    blamed(stand.increment(Account::ID, key, 1).run(), invalid, "id", "type");
    blamed(stand.increment(Sample::F64, 1, 1).run(), invalid, "f64", "type");
    blamed(stand.increment(Note::TEXT, 1, 1).run(), invalid, "text", "type");
}

/// An increment of NULL is refused with the field, which remains NULL.
pub fn null_is_not_added_to(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let key = stand.insert(&Note::new("a", None)).run().unwrap();
    blamed(stand.increment(Note::NUMBER, key, 1).run(), ErrorKind::Invalid, "number", "required");
    stand.settle();
    assert_eq!(stand.get::<Note>(key).run().unwrap().number, None);
}

/// A delete removes its row and no other.
pub fn a_delete_takes_one_row(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let keys = stand.insert_many(&Note::numbered(0..5)).run().unwrap();
    stand.delete::<Note>(keys[2]).run().unwrap();
    let table = stand.table("note").unwrap();
    stand.delete_record(&table, keys[4]).run().unwrap();
    stand.settle();
    let left: Vec<i64> = stand.list::<Note>().run().unwrap().iter().map(|note| note.id).collect();
    assert_eq!(left, [keys[0], keys[1], keys[3]]);
    refused(stand.delete::<Note>(keys[2]).run(), ErrorKind::NotFound);
}

/// A delete by filter removes the selected rows and returns their number; a repeat removes none.
pub fn a_delete_by_filter_takes_what_it_selects(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let mut notes = Note::numbered(0..50);
    notes.push(Note::new("null", None));
    stand.insert_many(&notes).run().unwrap();
    let small = || Note::NUMBER.lt(20);
    assert_eq!(stand.delete_where::<Note>(small()).run().unwrap(), 20);
    assert_eq!(stand.delete_where::<Note>(small()).run().unwrap(), 0);
    stand.settle();
    assert_eq!(stand.count::<Note>().run().unwrap(), 31);
    let rest = !Note::NUMBER.eq(49);
    assert_eq!(stand.delete_where::<Note>(rest).run().unwrap(), 29);
    stand.settle();
    let left = stand.list::<Note>().order(Note::NUMBER.ascending()).run().unwrap();
    assert_eq!(left.iter().map(|note| note.number).collect::<Vec<_>>(), [None, Some(49)]);
}

/// Counts agree with lists.
pub fn counts_agree_with_lists(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    assert_eq!(stand.count::<Note>().run().unwrap(), 0);
    stand.insert_many(&Note::numbered(0..1000)).run().unwrap();
    stand.settle();
    assert_eq!(stand.count::<Note>().run().unwrap(), 1000);
    let half = || Note::NUMBER.ge(500).and(Note::TEXT.contains("9"));
    let listed = stand.list::<Note>().filter(half()).run().unwrap().len() as u64;
    assert_eq!(stand.count::<Note>().filter(half()).run().unwrap(), listed);
    assert_eq!(
        stand
            .count::<Note>()
            .filter(Note::NUMBER.ge(500))
            .filter(Note::NUMBER.lt(510))
            .run()
            .unwrap(),
        10
    );
}

/// An insert of many rows, of one and of none returns the keys in order.
pub fn many_rows_get_their_keys(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    assert_eq!(stand.insert_many::<Note>(&[]).run().unwrap(), [0_i64; 0]);
    assert_eq!(stand.update_many::<Note>(&[]).run().unwrap(), 0);
    for count in [1, 2, 99, 100, 101, 499, 500, 501, 1777] {
        let notes = Note::numbered(0..count);
        let keys = stand.insert_many(&notes).run().unwrap();
        assert_eq!(keys.len(), notes.len());
        stand.settle();
        let first = stand.get::<Note>(keys[0]).run().unwrap();
        let last = stand.get::<Note>(*keys.last().unwrap()).run().unwrap();
        assert_eq!((first.number, last.number), (Some(0), Some(count - 1)));
    }
    assert_eq!(stand.count::<Note>().run().unwrap(), 3580);
}

/// If one of many rows violates a rule, the error names it, and no row is inserted.
pub fn a_bad_row_among_many_is_named(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    for count in [5_usize, 700] {
        let mut accounts = vec![Account::default(); count];
        accounts[count - 2].level = 6;
        let error =
            blamed(stand.insert_many(&accounts).run(), ErrorKind::Invalid, "level", "range");
        says(&error, &[&format!("row {}", count - 2)]);
        stand.settle();
        assert_eq!(stand.count::<Account>().run().unwrap(), 0, "of {count}");
    }
    let mut accounts = vec![Account::default(); 5];
    let keys = stand.insert_many(&accounts).run().unwrap();
    for (account, key) in accounts.iter_mut().zip(keys) {
        (account.id, account.visits) = (key, 1);
    }
    accounts[3].level = -6;
    let error = blamed(stand.update_many(&accounts).run(), ErrorKind::Invalid, "level", "range");
    says(&error, &["row 3"]);
    stand.settle();
    assert!(stand.list::<Account>().run().unwrap().iter().all(|account| account.visits == 0));
}

/// An insert of many rows with keys for only some of them is refused.
pub fn keys_are_all_given_or_none(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let mixed = [Note { id: 1, ..Note::new("a", 1) }, Note::new("b", 2)];
    refused(stand.insert_many(&mixed).run(), ErrorKind::Invalid);
    assert_eq!(stand.count::<Note>().run().unwrap(), 0);
}

/// An update of many rows returns their number. A missing row undoes the update.
pub fn an_update_of_many_needs_every_row(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let keys = stand.insert_many(&Note::numbered(0..10)).run().unwrap();
    let mut notes = stand.list::<Note>().run().unwrap();
    notes.iter_mut().for_each(|note| note.text.push('!'));
    assert_eq!(stand.update_many(&notes).run().unwrap(), 10);
    stand.settle();
    assert_eq!(stand.list::<Note>().run().unwrap(), notes);
    let mut again = notes.clone();
    again.iter_mut().for_each(|note| note.number = None);
    stand.delete::<Note>(keys[7]).run().unwrap();
    let error = refused(stand.update_many(&again).run(), ErrorKind::NotFound);
    says(&error, &[&keys[7].to_string()]);
    notes.remove(7);
    stand.settle();
    assert_eq!(stand.list::<Note>().run().unwrap(), notes);
}

/// A failed write has no effect: neither a partial row nor a lock remains.
pub fn a_failed_write_changes_nothing(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let seat = Seat::new(Some("a"), 1, Some("x"));
    let key = stand.insert(&seat).run().unwrap();
    for _ in 0..3 {
        refused(stand.insert(&Seat::new(Some("b"), 2, Some("X"))).run(), ErrorKind::Conflict);
        refused(stand.insert(&Seat::new(Some("a"), 1, Some("y"))).run(), ErrorKind::Conflict);
    }
    stand.settle();
    assert_eq!(stand.list::<Seat>().run().unwrap(), [Seat { id: key, ..seat }]);
    // The values of the failed rows are free in every index.
    stand.insert(&Seat::new(Some("b"), 2, Some("y"))).run().unwrap();
    let found = stand.list::<Seat>().filter(Seat::HOLDER.eq("Y")).run().unwrap();
    assert_eq!(found.len(), 1);
}

/// Fields of a record that are not set get their default or NULL, or are refused.
pub fn defaults_fill_what_is_not_set(subject: &Subject) {
    let schema = |builder: marmota_store::StoreBuilder| {
        builder.schema(Schema::new(
            "thing",
            vec![
                Field::new("id", Kind::I64).role(Role::Key),
                Field::new("name", Kind::TEXT).default(Literal::Text("it's".into())),
                Field::new("price", Kind::Currency).default(Literal::Text("12.5".into())),
                Field::new("day", Kind::Date).default(Literal::Text("2026-11-21".into())),
                Field::new("note", Kind::TEXT).nullable(true),
                Field::new("count", Kind::I64),
            ],
        ))
    };
    let mut stand = Stand::open(subject, schema);
    let table = stand.table("thing").unwrap();
    let mut record = Record::new(std::sync::Arc::clone(&table));
    blamed(stand.insert_record(&record).run(), ErrorKind::Invalid, "count", "required");
    record.set("count", 7).unwrap();
    let key = stand.insert_record(&record).run().unwrap();
    stand.settle();
    let found = stand.get_record(&stand.table("thing").unwrap(), key.clone()).run().unwrap();
    let wanted = [
        key,
        Value::from("it's"),
        Value::Currency(Currency::from_scaled(125_000)),
        Value::Date("2026-11-21".parse().unwrap()),
        Value::Null,
        Value::Int(7),
    ];
    assert_eq!(found.values(), wanted);
    let rows: Vec<ValueRef<'_>> = found.as_row();
    assert_eq!(rows.len(), 6);
}

register!($ writes_promises writes:
    an_increment_gives_the_sum,
    an_increment_stays_in_range,
    an_increment_keeps_the_rules,
    only_numbers_are_added_to,
    null_is_not_added_to,
    a_delete_takes_one_row,
    a_delete_by_filter_takes_what_it_selects,
    counts_agree_with_lists,
    many_rows_get_their_keys,
    a_bad_row_among_many_is_named,
    keys_are_all_given_or_none,
    an_update_of_many_needs_every_row,
    a_failed_write_changes_nothing,
    defaults_fill_what_is_not_set,
);
