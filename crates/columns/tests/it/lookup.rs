//! Indexes, joins and JSON against plain loops over the same rows.

use std::ops::ControlFlow;
use std::sync::Arc;

use marmota_columns::csv;
use marmota_derive::Model;
use marmota_model::{ErrorKind, Field, FieldSet, Kind, Role, Schema, Table, Value, ValueRef};
use proptest::prelude::*;

#[derive(Clone, Debug, PartialEq, Model)]
struct Leg {
    id: i64,
    trip: Option<String>,
    minute: Option<i16>,
    stop: String,
}

#[derive(Clone, Debug, PartialEq, Model)]
struct Trip {
    id: i64,
    name: String,
    first_minute: i16,
}

fn csv_of(legs: &[(u8, i16, String)]) -> String {
    let line = |(trip, minute, stop): &(u8, i16, String)| {
        let trip = if *trip == 0 { String::new() } else { format!("t{trip}") };
        let minute = if *minute == 0 { String::new() } else { minute.to_string() };
        format!("{trip},{minute},{stop}\n")
    };
    format!("trip,minute,stop\n{}", legs.iter().map(line).collect::<String>())
}

proptest! {
    #[test]
    fn indexes_and_joins_find_what_loops_find(
        mut legs in prop::collection::vec((0_u8..8, -3_i16..4, "[a-c]{1,2}"), 0..60),
        trips in prop::collection::vec((1_u8..9, -4_i16..5), 0..12),
        sorted in any::<bool>(),
    ) {
        if sorted {
            legs.sort();
        }
        let legs = csv::read::<Leg>(csv_of(&legs).as_bytes()).unwrap();
        let all: Vec<Leg> = legs.iter().collect::<Result<_, _>>().unwrap();
        let rows = |keep: &dyn Fn(&Leg) -> bool| -> Vec<u32> {
            (0..all.len() as u32).filter(|&row| keep(&all[row as usize])).collect()
        };
        let (by_trip, by_minute) = (legs.index(Leg::TRIP), legs.index(Leg::MINUTE));
        for trip in ["t1", "t2", "t3", "t7", "x", ""] {
            let expected = rows(&|leg| leg.trip.as_deref() == Some(trip));
            prop_assert_eq!(by_trip.rows(trip).collect::<Vec<_>>(), expected);
        }
        let expected = rows(&|leg| leg.trip.is_none());
        prop_assert_eq!(by_trip.rows_of(ValueRef::Null).collect::<Vec<_>>(), expected);
        for minute in -4..5_i16 {
            let expected = rows(&|leg| leg.minute == Some(minute));
            prop_assert_eq!(by_minute.rows(minute).collect::<Vec<_>>(), expected);
        }
        let expected = rows(&|leg| leg.minute.is_none());
        prop_assert_eq!(by_minute.rows_of(ValueRef::Null).collect::<Vec<_>>(), expected);
        prop_assert_eq!(by_minute.iter().map(|(_, rows)| rows.len()).sum::<usize>(), all.len());

        let line = |(name, minute): &(u8, i16)| format!("t{name},{minute}\n");
        let lines: String = trips.iter().map(line).collect();
        let trips = csv::read::<Trip>(format!("name,first_minute\n{lines}").as_bytes()).unwrap();
        let by_stop_trip = legs.index_by("trip").unwrap();
        prop_assert_eq!(by_stop_trip.len(), by_trip.len());
        for (row, trip) in trips.iter().enumerate() {
            let trip = trip.unwrap();
            prop_assert_eq!(trip.id, row as i64 + 1);
            let expected = rows(&|leg| leg.trip.as_ref() == Some(&trip.name));
            prop_assert_eq!(by_trip.rows(&*trip.name).collect::<Vec<_>>(), expected);
        }
    }
}

#[derive(Clone, Debug, PartialEq, Model)]
struct Call {
    id: i64,
    trip: String,
    platform: i32,
}

#[test]
fn joins_by_text_and_by_number() {
    let calls = csv::read::<Call>(b"trip,platform\nb,3\na,1\nb,2\nc,3\n").unwrap();
    let trips = csv::read::<Call>(b"trip,platform\na,3\nx,2\nb,9\n").unwrap();
    let by_trip = calls.index(Call::TRIP).join(&trips, Call::TRIP);
    let rows = |row| by_trip.rows(row).collect::<Vec<_>>();
    assert_eq!([rows(0), rows(1), rows(2), rows(3)], [vec![1], vec![], vec![0, 2], vec![]]);
    assert_eq!([by_trip.rows(2).nth(1), by_trip.rows(2).nth(2)], [Some(2), None]);
    let by_platform = calls.index(Call::PLATFORM).join(&trips, Call::PLATFORM);
    let rows = |row| by_platform.rows(row).collect::<Vec<_>>();
    assert_eq!([rows(0), rows(1), rows(2)], [vec![0, 3], vec![2], vec![]]);
    let by_id = calls.index(Call::ID);
    assert_eq!(by_id.rows(3_i64).collect::<Vec<_>>(), [2]);
    assert_eq!(by_id.rows(9_i64).len(), 0);
}

#[test]
fn nulls_join_with_nothing() {
    let legs = csv::read::<Leg>(b"trip,minute,stop\n,,a\nx,5,b\n").unwrap();
    for column in ["trip", "minute"] {
        let index = legs.index_by(column).unwrap();
        assert_eq!(index.rows_of(ValueRef::Null).collect::<Vec<_>>(), [0]);
    }
    let join = legs.index(Leg::TRIP).join(&legs, Leg::TRIP);
    assert_eq!([join.rows(0).len(), join.rows(1).len()], [0, 1]);
    let join = legs.index(Leg::MINUTE).join(&legs, Leg::MINUTE);
    assert_eq!([join.rows(0).len(), join.rows(1).len()], [0, 1]);
}

#[test]
fn rows_are_lent_as_asked() {
    let legs = csv::read::<Leg>(b"trip,minute,stop\nx,5,a\ny,,\"b\"\"\nc\"\n").unwrap();
    let mut lent = Vec::new();
    let mut sink = |row: &[ValueRef<'_>]| {
        lent.push(row.iter().map(ValueRef::to_value).collect::<Vec<_>>());
        ControlFlow::Continue(())
    };
    let fields: FieldSet = [0, 2].into_iter().collect();
    legs.read([1, 0], fields, &mut sink).unwrap();
    let (absent, int) = (|| Value::Absent, Value::Int);
    assert_eq!(
        lent,
        [vec![int(2), absent(), Value::Null, absent()], vec![int(1), absent(), int(5), absent()]]
    );
    let error = legs.read([2], fields, &mut marmota_model::NoRows).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(legs.get(2).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(legs.value(1, 3), Some(ValueRef::Text("b\"\nc")));
    assert_eq!((legs.value(2, 0), legs.value(0, 9)), (None, None));
    let mut json = Vec::new();
    legs.json(&["stop", "trip", "minute", "id"]).unwrap().array(&mut json, [1, 0]);
    let expected = "[{\"stop\":\"b\\\"\\nc\",\"trip\":\"y\",\"minute\":null,\"id\":2},\
                    {\"stop\":\"a\",\"trip\":\"x\",\"minute\":5,\"id\":1}]";
    assert_eq!(String::from_utf8(json).unwrap(), expected);
    let none = legs.json(&[]).unwrap();
    let (mut array, mut object) = (Vec::new(), Vec::new());
    none.array(&mut array, 0..2);
    none.object(&mut object, 0);
    none.members(&mut object, 1);
    assert_eq!((&*array, &*object), (&b"[{},{}]"[..], &b"{}"[..]));
    let mut members = Vec::new();
    legs.json(&["trip", "id"]).unwrap().members(&mut members, 0);
    assert_eq!(members, br#""trip":"x","id":1"#);
    let error = legs.json(&["stops"]).unwrap_err().to_string();
    assert!(error.contains("stops") && error.contains("minute"), "{error}");
}

#[test]
fn tables_made_at_run_time() {
    let fields = vec![
        Field::new("code", Kind::TEXT).role(Role::Key),
        Field::new("zone", Kind::I64).nullable(true),
    ];
    let table = Arc::new(Table::new(Schema::new("stop", fields)).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stops.csv");
    std::fs::write(&path, "zone,code\n1,a\n,b\n1,c\n").unwrap();
    let stops = csv::load_records(&table, &path).unwrap();
    assert_eq!(stops.record(1).unwrap().value("code").unwrap(), &Value::from("b"));
    let by_zone = stops.index_by("zone").unwrap();
    assert_eq!(by_zone.rows_of(ValueRef::Int(1)).collect::<Vec<_>>(), [0, 2]);
    let same_zone = by_zone.join_by(&stops, "zone").unwrap();
    assert_eq!(same_zone.rows(2).collect::<Vec<_>>(), [0, 2]);
    assert!(stops.index_by("x").is_err());
}
