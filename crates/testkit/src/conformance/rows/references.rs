//! References: the row must exist, and cannot be deleted while it is referred to.

use marmota_model::{ErrorKind, Ref, Uuid};

use crate::conformance::harness::models;
use crate::conformance::harness::models::{City, Country, Document};
use crate::conformance::harness::refusal::{blamed, refused, says};
use crate::conformance::harness::subject::{Stand, Subject};

fn stand(subject: &Subject) -> Stand<'_> {
    let stand = Stand::open(subject, models::all);
    let countries = [Country::new("fr", "France"), Country::new("cz", "Czechia")];
    stand.insert_many(&countries).run().unwrap();
    stand
}

/// Every write with a reference to a missing row is refused with its field.
pub fn a_reference_needs_its_row(subject: &Subject) {
    let mut stand = stand(subject);
    blamed(
        stand.insert(&City::new("Nowhere", "zz")).run(),
        ErrorKind::Invalid,
        "country",
        "reference",
    );
    let mut city = City::new("Bourges", "fr");
    city.id = stand.insert(&city).run().unwrap();
    stand.settle();
    let lost = City { charter: Some(Ref::new(Uuid::max())), ..city.clone() };
    blamed(stand.update(&lost).run(), ErrorKind::Invalid, "charter", "reference");
    let patch = stand.patch::<City>(city.id).set(City::TWIN, Ref::new(999));
    blamed(patch.run(), ErrorKind::Invalid, "twin", "reference");
    let many = [City::new("a", "fr"), City::new("b", "xx"), City::new("c", "cz")];
    let error = blamed(stand.insert_many(&many).run(), ErrorKind::Invalid, "country", "reference");
    says(&error, &["row 1"]);
    let error = blamed(
        stand.update_many(&[city.clone(), City { id: city.id, ..many[1].clone() }]).run(),
        ErrorKind::Invalid,
        "country",
        "reference",
    );
    says(&error, &["row 1"]);
    stand.settle();
    assert_eq!(stand.list::<City>().run().unwrap(), [city]);
}

/// NULL refers to no row. Keys of every kind can be referred to.
pub fn a_reference_holds_any_key(subject: &Subject) {
    let mut stand = stand(subject);
    let charter = stand.insert(&Document::new("charter", b"x")).run().unwrap();
    let mut first = City::new("Bourges", "fr");
    first.id = stand.insert(&first).run().unwrap();
    let mut second = City {
        twin: Some(Ref::new(first.id)),
        charter: Some(Ref::new(charter)),
        ..City::new("Plzeň", "cz")
    };
    second.id = stand.insert(&second).run().unwrap();
    first.twin = Some(Ref::new(second.id));
    stand.update(&first).run().unwrap();
    stand.settle();
    assert_eq!(stand.list::<City>().run().unwrap(), [first.clone(), second.clone()]);
    let found = stand.list::<City>().filter(City::CHARTER.eq(Ref::new(charter))).run();
    assert_eq!(found.unwrap(), [second]);
    let found = stand.list::<City>().filter(City::CHARTER.is_null()).run();
    assert_eq!(found.unwrap(), [first]);
}

/// A row that is referred to cannot be deleted.
pub fn a_row_referred_to_stays(subject: &Subject) {
    let mut stand = stand(subject);
    let charter = stand.insert(&Document::new("charter", b"x")).run().unwrap();
    let city = City { charter: Some(Ref::new(charter)), ..City::new("Bourges", "fr") };
    let city = stand.insert(&city).run().unwrap();
    let twin = City { twin: Some(Ref::new(city)), ..City::new("Plzeň", "cz") };
    let twin = stand.insert(&twin).run().unwrap();
    stand.settle();
    refused(stand.delete::<Country>("fr").run(), ErrorKind::Conflict);
    refused(stand.delete::<Document>(charter).run(), ErrorKind::Conflict);
    refused(stand.delete::<City>(city).run(), ErrorKind::Conflict);
    let table = stand.table("country").unwrap();
    let error = refused(stand.delete_record(&table, "cz").run(), ErrorKind::Conflict);
    says(&error, &["city"]);
    stand.settle();
    assert_eq!(stand.count::<Country>().run().unwrap(), 2);
    assert_eq!(stand.get::<Document>(charter).run().unwrap().title, "charter");

    stand.delete::<City>(twin).run().unwrap();
    stand.delete::<Country>("cz").run().unwrap();
    stand.delete::<City>(city).run().unwrap();
    stand.delete::<Document>(charter).run().unwrap();
    stand.delete::<Country>("fr").run().unwrap();
}

/// A delete by filter that selects a row that is referred to deletes no row.
pub fn a_delete_by_filter_spares_all(subject: &Subject) {
    let mut stand = stand(subject);
    stand.insert(&Country::new("aa", "free")).run().unwrap();
    stand.insert(&Country::new("zz", "free")).run().unwrap();
    stand.insert(&City::new("Bourges", "fr")).run().unwrap();
    let everything = Country::CODE.ge("");
    refused(stand.delete_where::<Country>(everything.clone()).run(), ErrorKind::Conflict);
    stand.settle();
    assert_eq!(stand.count::<Country>().run().unwrap(), 4);
    assert_eq!(stand.delete_where::<Country>(Country::CODE.ne("fr")).run().unwrap(), 3);
    stand.delete_where::<City>(City::ID.gt(0)).run().unwrap();
    assert_eq!(stand.delete_where::<Country>(everything).run().unwrap(), 1);
}

/// A row may refer to itself, and can be deleted. Rows that refer to each other can be deleted
/// together by a filter.
pub fn rows_may_refer_to_their_own_kind(subject: &Subject) {
    let mut stand = stand(subject);
    let mut city = City::new("Narcissus", "fr");
    city.id = stand.insert(&city).run().unwrap();
    city.twin = Some(Ref::new(city.id));
    stand.update(&city).run().unwrap();
    stand.settle();
    assert_eq!(stand.get::<City>(city.id).run().unwrap(), city);
    stand.delete::<City>(city.id).run().unwrap();

    let own = City { id: 500, twin: Some(Ref::new(500)), ..City::new("Ouroboros", "fr") };
    assert_eq!(stand.insert(&own).run().unwrap(), 500);
    let child = City { twin: Some(Ref::new(500)), ..City::new("child", "fr") };
    let child = stand.insert(&child).run().unwrap();
    let grandchild = City { twin: Some(Ref::new(child)), ..City::new("grandchild", "fr") };
    stand.insert(&grandchild).run().unwrap();
    assert_eq!(
        stand.delete_where::<City>(City::COUNTRY.eq(Ref::new("fr".into()))).run().unwrap(),
        3
    );
    assert_eq!(stand.count::<City>().run().unwrap(), 0);
}

/// Changing a reference protects the new row, and no longer the old one.
pub fn a_moved_reference_releases_its_row(subject: &Subject) {
    let mut stand = stand(subject);
    let city = stand.insert(&City::new("Strasbourg", "cz")).run().unwrap();
    let french: Ref<Country> = Ref::new("fr".to_owned());
    stand.patch::<City>(city).set(City::COUNTRY, french).run().unwrap();
    stand.settle();
    stand.delete::<Country>("cz").run().unwrap();
    refused(stand.delete::<Country>("fr").run(), ErrorKind::Conflict);
    refused(stand.delete_where::<Country>(Country::CODE.eq("fr")).run(), ErrorKind::Conflict);
}

register!($ references_promises references:
    a_reference_needs_its_row,
    a_reference_holds_any_key,
    a_row_referred_to_stays,
    a_delete_by_filter_spares_all,
    rows_may_refer_to_their_own_kind,
    a_moved_reference_releases_its_row,
);
