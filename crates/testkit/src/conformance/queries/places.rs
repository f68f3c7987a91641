//! Points on the earth: circles, boxes and orders by distance, the same as by brute force on every
//! engine.

use marmota_derive::Model;
use marmota_model::{
    Caller, ErrorKind, Filter, GeoBox, GeoCircle, GeoPoint, parse_filter, parse_ranking,
};
use marmota_store::StoreBuilder;
use marmota_store::rights::{Grant, Right, Rights};

use crate::conformance::harness::refusal::{refused, says};
use crate::conformance::harness::subject::{Stand, Subject};

#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(index(lat, lon))]
struct Shop {
    id: i64,
    owner: i64,
    name: String,
    lat: Option<f64>,
    lon: Option<f64>,
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<Shop>()
}

fn point(latitude: f64, longitude: f64) -> GeoPoint {
    GeoPoint::new(latitude, longitude).unwrap()
}

/// Returns shops all over the earth, and many around Munich, a pole and the meridian of 180 degrees.
fn shops() -> Vec<Shop> {
    let mut rng = fastrand::Rng::with_seed(48);
    let mut around = |latitude: f64, longitude: f64, size: f64| {
        let lat = (latitude + (rng.f64() - 0.5) * size).clamp(-90.0, 90.0);
        let lon = longitude + (rng.f64() - 0.5) * size * 2.0;
        (Some(lat), Some(if lon > 180.0 { lon - 360.0 } else { lon }))
    };
    let mut places: Vec<(Option<f64>, Option<f64>)> = Vec::new();
    for _ in 0..60 {
        places.extend([
            around(48.137, 11.575, 0.2),
            around(-17.0, 180.0, 6.0),
            around(0.0, 0.0, 180.0),
            around(90.0, 0.0, 2.0),
        ]);
    }
    places.extend([
        (Some(48.0), Some(11.5)),
        (Some(48.0), Some(11.5)),
        (Some(-90.0), Some(17.0)),
        (Some(0.0), Some(180.0)),
        (Some(0.0), Some(-180.0)),
        (None, Some(11.5)),
        (Some(48.0), None),
        (None, None),
    ]);
    let shop = |(number, (lat, lon)): (usize, (Option<f64>, Option<f64>))| Shop {
        id: 0,
        owner: number as i64 % 3,
        name: format!("shop {}", number % 5),
        lat,
        lon,
    };
    places.into_iter().enumerate().map(shop).collect()
}

fn ids(rows: &[Shop]) -> Vec<i64> {
    rows.iter().map(|row| row.id).collect()
}

/// Returns the keys of the rows whose point is selected.
fn selected(rows: &[Shop], is_in: impl Fn(f64, f64) -> bool) -> Vec<i64> {
    let fits = |row: &&Shop| row.lat.zip(row.lon).is_some_and(|(lat, lon)| is_in(lat, lon));
    rows.iter().filter(fits).map(|row| row.id).collect()
}

/// A circle has the rows at most its radius away, also around a pole and over the meridian of 180
/// degrees; rows without a point are in none. Filters as text are the same.
pub fn a_circle_has_the_rows_within_its_radius(subject: &Subject) {
    let mut stand = Stand::open(subject, models);
    stand.insert_many(&shops()).run().unwrap();
    stand.settle();
    let table = stand.table("shop").unwrap();
    let rows = stand.list::<Shop>().run().unwrap();
    for (lat, lon, radius, fewest) in [
        (48.137, 11.575, 5_000.0, 5),
        (48.0, 11.5, 0.0, 2),
        (-17.0, 179.9, 150_000.0, 5),
        (-17.0, -179.9, 150_000.0, 5),
        (0.0, 180.0, 1.0, 2),
        (89.9, -120.0, 30_000.0, 2),
        (90.0, 0.0, 50_000.0, 5),
        (-90.0, 0.0, 1.0, 1),
        (10.0, 20.0, 5_000_000.0, 10),
        (10.0, 20.0, 15_000_000.0, 100),
        (10.0, 20.0, 30_000_000.0, 245),
    ] {
        let circle = GeoCircle::new(point(lat, lon), radius).unwrap();
        let wanted = selected(&rows, |lat, lon| circle.contains(lat, lon));
        assert!(wanted.len() >= fewest, "{circle:?}: {}", wanted.len());
        let filter = || Filter::near(Shop::LAT, Shop::LON, circle);
        let found = stand.list::<Shop>().filter(filter()).run().unwrap();
        assert_eq!(ids(&found), wanted, "{circle:?}");
        let count = stand.count::<Shop>().filter(filter()).run().unwrap();
        assert_eq!(count, wanted.len() as u64, "{circle:?}");
        let text = format!("near(lat, lon, {lat:?}, {lon:?}, {radius:?})");
        let parsed = parse_filter(&table, &text).unwrap().of::<Shop>().unwrap();
        assert_eq!(parsed, filter());

        // Together with other conditions, and negated.
        let own = filter().and(Shop::OWNER.eq(1)).or(Shop::NAME.eq("shop 2").and(filter()));
        let fits = |row: &&Shop| row.owner == 1 || row.name == "shop 2";
        let own_wanted: Vec<i64> = rows.iter().filter(fits).map(|row| row.id).collect();
        let own_wanted: Vec<i64> =
            wanted.iter().copied().filter(|id| own_wanted.contains(id)).collect();
        let found = stand.list::<Shop>().filter(own).run().unwrap();
        assert_eq!(ids(&found), own_wanted, "{circle:?}");
        let has_point = Shop::LAT.is_null().or(Shop::LON.is_null());
        let others = (!filter()).and(!has_point);
        let found = stand.list::<Shop>().filter(others).run().unwrap();
        let outside = selected(&rows, |lat, lon| !circle.contains(lat, lon));
        assert_eq!(ids(&found), outside, "{circle:?}");
    }
    let circle = GeoCircle::new(point(48.137, 11.575), 5_000.0).unwrap();
    let inside = selected(&rows, |lat, lon| circle.contains(lat, lon)).len() as u64;
    let filter = Filter::near(Shop::LAT, Shop::LON, circle);
    assert_eq!(stand.delete_where(filter).run().unwrap(), inside);
    assert_eq!(stand.count::<Shop>().run().unwrap(), rows.len() as u64 - inside);
}

/// A box has the rows between its edges, also over the meridian of 180 degrees.
pub fn a_box_has_the_rows_between_its_edges(subject: &Subject) {
    let mut stand = Stand::open(subject, models);
    stand.insert_many(&shops()).run().unwrap();
    stand.settle();
    let table = stand.table("shop").unwrap();
    let rows = stand.list::<Shop>().run().unwrap();
    for (south, west, north, east, fewest) in [
        (48.0, 11.5, 48.0, 11.5, 2),
        (48.1, 11.5, 48.2, 11.7, 10),
        (-20.0, 178.0, -14.0, -178.0, 10),
        (-20.0, -180.0, -14.0, -178.0, 5),
        (-90.0, -180.0, 90.0, 180.0, 245),
        (0.0, 180.0, 0.0, 180.0, 1),
        (0.0, 180.0, 0.0, -180.0, 2),
    ] {
        let area = GeoBox::new(south, west, north, east).unwrap();
        let wanted = selected(&rows, |lat, lon| area.contains(lat, lon));
        assert!(wanted.len() >= fewest, "{area:?}: {}", wanted.len());
        let filter = Filter::within(Shop::LAT, Shop::LON, area);
        let found = stand.list::<Shop>().filter(filter.clone()).run().unwrap();
        assert_eq!(ids(&found), wanted, "{area:?}");
        let text = format!("within(lat, lon, {south:?}, {west:?}, {north:?}, {east:?})");
        let parsed = parse_filter(&table, &text).unwrap().of::<Shop>().unwrap();
        assert_eq!(parsed, filter);
    }
}

/// An order by distance has the nearest rows first, with the metres as scores, over pages, and only
/// rows that the caller may read.
pub fn the_nearest_places_come_first(subject: &Subject) {
    let mut stand = Stand::open(subject, models);
    stand.insert_many(&shops()).run().unwrap();
    stand.settle();
    let rows = stand.list::<Shop>().run().unwrap();
    let sorted = |from: GeoPoint, fits: &dyn Fn(&Shop) -> bool| {
        let mut all: Vec<(f64, i64)> = Vec::new();
        for row in rows.iter().filter(|row| fits(row)) {
            if let Some((lat, lon)) = row.lat.zip(row.lon) {
                all.push((from.distance(point(lat, lon)), row.id));
            }
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        all
    };
    for from in [point(48.1, 11.6), point(-17.0, 180.0), point(90.0, 0.0)] {
        let list = || stand.list::<Shop>().by_distance(Shop::LAT, Shop::LON, from);
        let wanted = sorted(from, &|_| true);
        let scored = list().limit(50).scores().run().unwrap();
        let scored: Vec<(f64, i64)> = scored.iter().map(|(row, score)| (*score, row.id)).collect();
        assert_eq!(scored, wanted[..50], "{from:?}");
        let mut pages = list().limit(70).run().unwrap();
        while let page = list().limit(70).after(pages.last().unwrap()).run().unwrap()
            && !page.is_empty()
        {
            pages.extend(page);
        }
        assert_eq!(ids(&pages), wanted.iter().map(|(_, id)| *id).collect::<Vec<_>>(), "{from:?}");

        let circle = GeoCircle::new(from, 100_000.0).unwrap();
        let near = list().filter(Filter::near(Shop::LAT, Shop::LON, circle)).run().unwrap();
        let count = near.len();
        assert_eq!(ids(&near), wanted[..count].iter().map(|(_, id)| *id).collect::<Vec<_>>());
        assert!(count > 0 && wanted[count - 1].0 <= 100_000.0 && wanted[count].0 > 100_000.0);
    }

    let grant = Grant::new("shop", &Right::ALL).rule("near(lat, lon, 48.1, 11.6, 20000)");
    let caller = Caller { id: "1".into(), name: "ann".into(), groups: Vec::new() };
    let rights = Rights::new(stand.registry(), Some(caller), &[grant]).unwrap();
    let from = point(48.0, 11.5);
    let ann = stand.with_rights(rights);
    let found = ann.list::<Shop>().by_distance(Shop::LAT, Shop::LON, from).run().unwrap();
    let circle = GeoCircle::new(point(48.1, 11.6), 20_000.0).unwrap();
    let wanted = sorted(from, &|row| {
        row.lat.zip(row.lon).is_some_and(|(lat, lon)| circle.contains(lat, lon))
    });
    assert!(!found.is_empty());
    let wanted: Vec<i64> = wanted.iter().map(|(_, id)| *id).take(100).collect();
    assert_eq!(ids(&found), wanted);
}

/// Fields that have no coordinates, and numbers that are no place, are refused by name.
pub fn a_bad_place_is_refused(subject: &Subject) {
    let stand = Stand::open(subject, models);
    let table = stand.table("shop").unwrap();
    for (text, part) in [
        ("near(lat, lon, 91, 0, 1)", "latitude 91"),
        ("near(lat, lon, 0, -180.5, 1)", "longitude -180.5"),
        ("near(lat, lon, 0, 0, -1)", "radius -1"),
        ("near(lat, name, 0, 0, 1)", "field `name`"),
        ("near(where, lon, 0, 0, 1)", "`where`"),
        ("near(lat, lon, 0, 0)", "expected `,`"),
        ("near(lat, lon, 0, 0, null)", "a number"),
        ("within(lat, lon, 2, 0, 1, 0)", "south, 2"),
        ("within(lat, lon, 0, 200, 1, 0)", "west 200"),
        ("within(owner, lon, 0, 0, 1, 0)", "field `owner`"),
    ] {
        let error = parse_filter(&table, text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
        assert!(error.to_string().contains(part), "{text}: {error}");
    }
    for text in
        ["near(lat,lon,1)", "near(lat,lon,1,2,3)", "near(lat,name,1,2)", "near(lat,lon,x,2)"]
    {
        let error = parse_ranking(&table, text, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
    }
    let list = stand.list::<Shop>().order(Shop::NAME.ascending());
    let error =
        refused(list.by_distance(Shop::LAT, Shop::LON, point(0.0, 0.0)).run(), ErrorKind::Invalid);
    says(&error, &["no other order"]);
}

register!($ places_promises places:
    a_circle_has_the_rows_within_its_radius,
    a_box_has_the_rows_between_its_edges,
    the_nearest_places_come_first,
    a_bad_place_is_refused,
);
