//! Unique fields and indexes: a duplicate is refused with its field, and the whole write is undone.

use marmota_model::{ErrorKind, Result, Uuid};

use crate::conformance::harness::models;
use crate::conformance::harness::models::Seat;
use crate::conformance::harness::refusal::{blamed, refusal, refused, says};
use crate::conformance::harness::subject::{Stand, Subject};

/// Checks for a violation by each field of the pair.
#[track_caller]
fn pair_is_blamed<T>(result: Result<T>) {
    let error = refused(result, ErrorKind::Conflict);
    let unique = |field: &str| (field.to_owned(), "unique".to_owned());
    assert_eq!(refusal(&error).1, [unique("number"), unique("row")]);
}

/// A unique field refuses a second row with the same value. NULL is not a value.
pub fn a_unique_field_holds(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let taken = Uuid::from_u128(7);
    let ticket = Some(taken);
    let first = Seat { ticket, ..Seat::new(Some("a"), 1, None) };
    let key = stand.insert(&first).run().unwrap();
    stand.settle();
    let second = Seat { ticket, ..Seat::new(Some("a"), 2, None) };
    blamed(stand.insert(&second).run(), ErrorKind::Conflict, "ticket", "unique");
    stand.insert(&Seat::new(Some("a"), 3, None)).run().unwrap();
    let other = stand.insert(&Seat::new(Some("a"), 4, None)).run().unwrap();
    let patch = stand.patch::<Seat>(other).set(Seat::TICKET, taken);
    blamed(patch.run(), ErrorKind::Conflict, "ticket", "unique");
    let update = Seat { id: other, ..second };
    blamed(stand.update(&update).run(), ErrorKind::Conflict, "ticket", "unique");
    // A row does not conflict with itself.
    stand.update(&Seat { id: key, number: 9, ..first }).run().unwrap();
    assert_eq!(
        stand.get::<Seat>(other).run().unwrap(),
        Seat { id: other, ..Seat::new(Some("a"), 4, None) }
    );
    assert_eq!(stand.count::<Seat>().run().unwrap(), 3);
}

/// A unique field with a case-insensitive collation refuses a value that differs only in the case
/// of A to Z.
pub fn a_unique_text_without_case_holds(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    stand.insert(&Seat::new(None, 1, Some("Zoë Élan"))).run().unwrap();
    stand.settle();
    let same = Seat::new(None, 2, Some("zOë ÉLAN"));
    blamed(stand.insert(&same).run(), ErrorKind::Conflict, "holder", "unique");
    stand.insert(&Seat::new(None, 3, Some("ZoË ÉLAN"))).run().unwrap();
    stand.insert(&Seat::new(None, 4, Some("zoë élan"))).run().unwrap();
    let mine = stand.list::<Seat>().filter(Seat::NUMBER.eq(1)).run().unwrap().remove(0);
    stand.update(&Seat { holder: Some("ZOë Élan".to_owned()), ..mine }).run().unwrap();
    assert_eq!(stand.count::<Seat>().run().unwrap(), 3);
}

/// A unique index over two fields refuses a row that agrees in both. NULL agrees with nothing.
pub fn a_unique_pair_holds(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    stand.insert(&Seat::new(Some("a"), 1, None)).run().unwrap();
    stand.insert(&Seat::new(Some("a"), 2, None)).run().unwrap();
    let third = stand.insert(&Seat::new(Some("b"), 1, None)).run().unwrap();
    stand.insert(&Seat::new(Some("A"), 1, None)).run().unwrap();
    stand.insert(&Seat::new(None, 1, None)).run().unwrap();
    stand.insert(&Seat::new(None, 1, None)).run().unwrap();
    stand.settle();
    pair_is_blamed(stand.insert(&Seat::new(Some("a"), 1, None)).run());
    pair_is_blamed(stand.patch::<Seat>(third).set(Seat::ROW, "a").run());
    assert_eq!(stand.increment(Seat::NUMBER, third, 1).run().unwrap(), 2);
    stand.patch::<Seat>(third).set(Seat::ROW, "a").set(Seat::NUMBER, 3).run().unwrap();
    pair_is_blamed(stand.increment(Seat::NUMBER, third, -1).run());
    assert_eq!(stand.get::<Seat>(third).run().unwrap().number, 3);
}

/// A value that was freed by a delete, an update or a rollback can be used again.
pub fn a_freed_value_can_be_taken(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let first = stand.insert(&Seat::new(None, 1, Some("x"))).run().unwrap();
    stand.patch::<Seat>(first).set(Seat::HOLDER, "y").run().unwrap();
    let second = stand.insert(&Seat::new(None, 2, Some("x"))).run().unwrap();
    stand.delete::<Seat>(second).run().unwrap();
    stand.settle();
    let undone = stand.begin_run().unwrap();
    undone.insert(&Seat::new(None, 3, Some("X"))).run().unwrap();
    undone.rollback().run().unwrap();
    drop(undone);
    let third = stand.insert(&Seat::new(None, 4, Some("X"))).run().unwrap();
    stand.delete_where::<Seat>(Seat::ID.eq(third)).run().unwrap();
    stand.insert(&Seat::new(None, 5, Some("x"))).run().unwrap();
    stand.patch::<Seat>(first).set(Seat::HOLDER, None).run().unwrap();
    stand.insert(&Seat::new(None, 6, Some("y"))).run().unwrap();
}

/// If one of many inserted rows conflicts, the error names it, and no row is inserted.
pub fn many_rows_are_all_or_none(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let kept = stand.insert(&Seat::new(None, 1, Some("kept"))).run().unwrap();
    for count in [3_i64, 40, 1200] {
        let middle = count / 2;
        let mut seats: Vec<Seat> = (0..count)
            .map(|number| Seat::new(Some("r"), number, Some(&format!("h{number}"))))
            .collect();
        seats[middle as usize].holder = Some("KEPT".to_owned());
        let error =
            blamed(stand.insert_many(&seats).run(), ErrorKind::Conflict, "holder", "unique");
        says(&error, &[&format!("row {middle}")]);
        // A row that conflicts with another row of the same call.
        seats[middle as usize].holder = Some("h0".to_owned());
        let error =
            blamed(stand.insert_many(&seats).run(), ErrorKind::Conflict, "holder", "unique");
        says(&error, &[&format!("row {middle}")]);
        stand.settle();
        assert_eq!(stand.count::<Seat>().run().unwrap(), 1, "of {count}");
    }
    assert_eq!(stand.get::<Seat>(kept).run().unwrap().holder.unwrap(), "kept");
}

/// If one of many updated rows conflicts, the error names it, and no row is updated.
pub fn many_updates_are_all_or_none(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let mut seats: Vec<Seat> =
        (0..60).map(|number| Seat::new(Some("r"), number, Some(&format!("h{number}")))).collect();
    let keys = stand.insert_many(&seats).run().unwrap();
    for (seat, key) in seats.iter_mut().zip(keys) {
        seat.id = key;
    }
    let mut changed = seats.clone();
    for (number, seat) in changed.iter_mut().enumerate() {
        seat.number += 1000;
        seat.holder = Some(format!("new {number}"));
    }
    changed[30].holder = Some("H59".to_owned());
    let error = blamed(stand.update_many(&changed).run(), ErrorKind::Conflict, "holder", "unique");
    says(&error, &["row 30"]);
    stand.settle();
    assert_eq!(stand.list::<Seat>().run().unwrap(), seats);
    changed[30].holder = None;
    changed[40].id = 1_000_000;
    let error = refused(stand.update_many(&changed).run(), ErrorKind::NotFound);
    says(&error, &["1000000"]);
    stand.settle();
    assert_eq!(stand.list::<Seat>().run().unwrap(), seats);
    changed.remove(40);
    assert_eq!(stand.update_many(&changed).run().unwrap(), 59);
}

register!($ unique_promises unique:
    a_unique_field_holds,
    a_unique_text_without_case_holds,
    a_unique_pair_holds,
    many_rows_are_all_or_none,
    many_updates_are_all_or_none,
; by transactions:
    a_freed_value_can_be_taken,
);
