//! JSON, binary and files: what comes back, and what damaged bytes do.

use std::collections::BTreeMap;
use std::time::Duration;

use marmota_collections::{
    DecodeLimits, Expiry, HashedBy, List, ManualClock, Map, Persist, PersistFormat, Sorted,
    SortedBy,
};
use marmota_model::ErrorKind;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Record {
    id: i64,
    name: String,
    tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weight: Option<f64>,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Kind {
    Leaf,
    Number(u64),
    Pair { left: Box<Kind>, right: Box<Kind> },
}

fn kinds() -> impl Strategy<Value = Kind> {
    let leaf = prop_oneof![Just(Kind::Leaf), any::<u64>().prop_map(Kind::Number)];
    leaf.prop_recursive(4, 16, 2, |inner| {
        (inner.clone(), inner)
            .prop_map(|(left, right)| Kind::Pair { left: Box::new(left), right: Box::new(right) })
    })
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    let tags = prop::collection::vec(".{0,6}", 0..3);
    let weight = prop::option::of(-1e9..1e9);
    let record = (any::<i64>(), ".{0,40}", tags, weight, kinds())
        .prop_map(|(id, name, tags, weight, kind)| Record { id, name, tags, weight, kind });
    prop::collection::vec(record, 0..20)
}

proptest! {
    #[test]
    fn lists_come_back(records in records()) {
        let list = List::from(records);
        prop_assert_eq!(&List::from_binary(&list.to_binary().unwrap()).unwrap(), &list);
        prop_assert_eq!(&List::from_json(&list.to_json().unwrap()).unwrap(), &list);
        let mut sorted = List::sorted_by(|record: &Record| &record.id);
        sorted.fill_binary(&list.to_binary().unwrap(), &DecodeLimits::default()).unwrap();
        prop_assert!(sorted.is_sorted_by_key(|record| record.id));
        prop_assert_eq!(sorted.len(), list.len());
    }

    #[test]
    fn maps_come_back(
        texts in prop::collection::btree_map(".{0,9}", any::<u32>(), 0..20),
        numbers in prop::collection::btree_map(any::<(i8, bool)>(), any::<Option<u8>>(), 0..20),
    ) {
        let texts: Map<_, _> = texts.into_iter().collect();
        prop_assert_eq!(&Map::from_binary(&texts.to_binary().unwrap()).unwrap(), &texts);
        prop_assert_eq!(&Map::from_json(&texts.to_json().unwrap()).unwrap(), &texts);
        let numbers: Map<_, _, Sorted> = numbers.into_iter().collect();
        prop_assert_eq!(&Map::from_binary(&numbers.to_binary().unwrap()).unwrap(), &numbers);
        prop_assert_eq!(&Map::from_json(&numbers.to_json().unwrap()).unwrap(), &numbers);
    }

    #[test]
    fn damaged_bytes_are_an_error_that_names_the_place(
        records in records(), at in any::<prop::sample::Index>(), flip in 1_u8..=255,
    ) {
        let mut bytes = List::from(records).to_binary().unwrap();
        let cut = &bytes[..at.index(bytes.len())];
        let error = List::<Record>::from_binary(cut).unwrap_err();
        prop_assert!(error.to_string().starts_with("byte "), "{error}");
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let error = List::<Record>::from_binary(&bytes).unwrap_err();
        prop_assert!(error.to_string().starts_with("byte "), "{error}");
    }

    #[test]
    fn hostile_bytes_with_a_right_checksum_never_panic(
        content in prop::collection::vec(any::<u8>(), 0..200), items in 0_u64..300, map: bool,
        length in prop::option::of(any::<u64>()),
    ) {
        let bytes = forged(if map { 2 } else { 1 }, items, length, &content);
        if let Ok(list) = List::<Record>::from_binary(&bytes) {
            prop_assert_eq!(list.len() as u64, items);
        }
        let _ = List::<serde_json::Value>::from_binary(&bytes);
        let _ = Map::<String, Kind>::from_binary(&bytes);
        let _ = Map::<Vec<Option<u8>>, BTreeMap<String, f32>, Sorted>::from_binary(&bytes);
    }
}

/// Bytes as an attacker makes them: all right but the content.
fn forged(shape: u8, items: u64, length: Option<u64>, content: &[u8]) -> Vec<u8> {
    let mut bytes = b"MARMOTC\0\x01\0\0\0".to_vec();
    bytes.push(shape);
    bytes.extend(0_u64.to_le_bytes());
    bytes.extend(items.to_le_bytes());
    bytes.extend(length.unwrap_or(content.len() as u64).to_le_bytes());
    bytes.extend(zstd::encode_all(content, 1).expect("to a vector"));
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

fn message<T>(result: marmota_model::Result<T>) -> String {
    match result {
        Ok(_) => panic!("these bytes must be refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn hostile_bytes_are_refused_by_what_is_wrong() {
    // A recursive enum, 100,000 deep: the decoder alone would end the stack.
    let deep = b"\x81\xA4Pair\x91".repeat(100_000);
    let text = message(List::<Kind>::from_binary(&forged(1, 1, None, &deep)));
    assert!(text.starts_with("item 0, byte 224") && text.contains("nested deeper"), "{text}");
    // Four billion of something, in five bytes.
    for marker in [0xDB, 0xDD, 0xDF, 0xC6, 0xC9] {
        let huge = [marker, 0xFF, 0xFF, 0xFF, 0xFF];
        let text = message(List::<Vec<String>>::from_binary(&forged(1, 1, None, &huge)));
        assert!(text.starts_with("item 0, byte "), "{text}");
    }
    let text = message(List::<u8>::from_binary(&forged(1, 1 << 60, None, &[1])));
    assert!(text.contains("more than the limit"), "{text}");
    let text = message(List::<u8>::from_binary(&forged(1, 7, None, &[1])));
    assert_eq!(text, "byte 21: 7 items cannot be in 1 bytes");
    let text = message(List::<u8>::from_binary(&forged(1, 1, Some(u64::MAX), &[1])));
    assert!(text.starts_with("byte 29: ") && text.contains("limit"), "{text}");
    let bomb = forged(1, 1, Some(4), &vec![0; 50 << 20]);
    assert!(message(List::<u8>::from_binary(&bomb)).contains("the declared length"));
    let text = message(List::<u8>::from_binary(&forged(1, 1, None, &[1, 2])));
    assert_eq!(
        text,
        "item 1, byte 1 of the unpacked content: there are bytes after the declared items"
    );
    let text = message(List::<u8>::from_binary(&forged(1, 3, None, &[1, 2, 0xC3])));
    assert!(text.starts_with("item 2, byte 2 of the unpacked content: "), "{text}");
    let text = message(List::<u8>::from_binary(&forged(2, 0, None, &[])));
    assert_eq!(text, "byte 12: the bytes are not a List");
}

#[test]
fn a_newer_version_is_refused_by_its_number() {
    let mut bytes = List::from(vec![1]).to_binary().unwrap();
    bytes[8] = 2;
    assert!(message(List::<u8>::from_binary(&bytes)).contains("version 2"));
}

#[test]
fn maps_in_json_are_objects_if_their_keys_are_texts() {
    #[derive(Serialize, Deserialize, PartialEq, Eq, PartialOrd, Ord, Clone, Debug)]
    enum Colour {
        Red,
        Mixed(u8),
    }
    let mut map = Map::<Colour, u8, Sorted>::sorted();
    map.insert(Colour::Red, 1);
    assert_eq!(map.to_json().unwrap(), r#"{"Red":1}"#);
    map.insert(Colour::Mixed(3), 2);
    assert_eq!(map.to_json().unwrap(), r#"[["Red",1],[{"Mixed":3},2]]"#);
    assert_eq!(Map::from_json(&map.to_json().unwrap()).unwrap(), map);
    // Both are read, whatever the keys.
    let numbers = Map::<u8, u8, Sorted>::from_json(r#"{"1":2}"#).unwrap();
    assert_eq!(numbers.to_json().unwrap(), "[[1,2]]");
    assert_eq!(Map::<String, u8>::from_json("[]").unwrap().len(), 0);
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let mut map = Map::<String, u8>::new();
    map.insert("one".to_owned(), 1);
    for json in [r#"{"a":1,"a":2}"#, r#"{"a":300}"#, "7", r#"{"a":"#, ""] {
        assert!(map.fill_json(json.as_bytes(), &DecodeLimits::default()).is_err(), "{json}");
    }
    assert!(message(Map::<String, u8>::from_json("{\n\"a\":300}")).contains("line 2"));
    let twice = b"\x93\xA1a\x01\xC0\x93\xA1a\x02\xC0";
    let filled = map.fill_binary(&forged(2, 2, None, twice), &DecodeLimits::default());
    assert_eq!(filled.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(map.get("one"), Some(&1));
    let mut list = List::hashed();
    list.add(1).unwrap();
    let few = DecodeLimits { bytes_max: 3, ..DecodeLimits::default() };
    assert!(list.fill_json(b"[2,2]", &DecodeLimits::default()).is_err());
    assert!(list.fill_json(b"[2, 3]", &few).is_err());
    assert_eq!(list.find(&1), Some(&1));
}

#[test]
fn lists_and_maps_are_parts_of_other_structs() {
    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Settings {
        words: List<String, SortedBy>,
        once: List<String, HashedBy>,
        ports: Map<String, u16>,
    }
    let text = r#"{"words":["b","a"],"once":["x"],"ports":{"http":80}}"#;
    let settings: Settings = serde_json::from_str(text).unwrap();
    assert_eq!(settings.words.place_of("b"), Some(1));
    assert_eq!(settings.ports.get("http"), Some(&80));
    let bytes = rmp_serde::to_vec(&settings).unwrap();
    assert_eq!(rmp_serde::from_slice::<Settings>(&bytes).unwrap(), settings);
    let twice = text.replace(r#"["x"]"#, r#"["x","x"]"#);
    assert!(serde_json::from_str::<Settings>(&twice).unwrap_err().to_string().contains("same key"));
}

#[test]
fn a_struct_may_gain_a_field() {
    #[derive(Serialize)]
    struct Old {
        id: u8,
    }
    #[derive(Deserialize, Serialize, PartialEq, Debug)]
    struct New {
        #[serde(default)]
        name: String,
        id: u8,
    }
    // Serialised as the old program did, by way of a value that both can be.
    let old = List::from(vec![serde_json::to_value(Old { id: 7 }).unwrap()]);
    let new = List::<New>::from_binary(&old.to_binary().unwrap()).unwrap();
    assert_eq!(new[0], New { name: String::new(), id: 7 });
}

#[test]
fn time_to_live_is_saved_and_time_on_disk_counts() {
    let clock = ManualClock::new();
    let mut map = Map::<String, u8>::new().with_clock(clock.clock());
    map.insert("for ever".to_owned(), 1);
    map.insert_for("an hour".to_owned(), 2, Expiry::After(Duration::from_secs(3600)));
    map.insert_for("gone".to_owned(), 3, Expiry::After(Duration::from_secs(1)));
    clock.advance(Duration::from_secs(1));
    let bytes = map.to_binary().unwrap();
    let read = Map::<String, u8>::from_binary(&bytes).unwrap();
    assert_eq!((read.len(), read.expiry("for ever")), (2, Some(Expiry::Never)));
    let Some(Expiry::After(left)) = read.expiry("an hour") else { panic!("it expires") };
    assert!(left <= Duration::from_secs(3599) && left > Duration::from_secs(3500), "{left:?}");
    // Saved in 1970: the hour is long past.
    let hour = b"\x93\xA1a\x01\xCE\x00\x36\xEE\x80";
    assert!(Map::<String, u8>::from_binary(&forged(2, 1, None, hour)).unwrap().is_empty());
}

#[test]
fn files_are_replaced_whole_and_read_by_what_is_in_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers");
    let mut map = Map::<String, Vec<u32>>::new();
    assert_eq!(Map::<String, Vec<u32>>::load(&path).unwrap_err().kind(), ErrorKind::NotFound);
    for format in [PersistFormat::Json, PersistFormat::Binary, PersistFormat::Json] {
        map.insert(format!("{format:?}"), vec![1; map.len()]);
        map.save(&path, format).unwrap();
        assert_eq!(Map::load(&path).unwrap(), map);
    }
    let few = DecodeLimits { bytes_max: 8, ..DecodeLimits::default() };
    let error = map.fill_from(&path, &few).unwrap_err().to_string();
    assert!(error.contains("numbers") && error.contains("bytes_max"), "{error}");
    std::fs::write(&path, "{]").unwrap();
    assert!(message(Map::<String, u8>::load(&path)).contains("numbers: "));
    assert!(map.save(folder.path().join("none/there"), PersistFormat::Json).is_err());
    assert!(map.save("/", PersistFormat::Json).is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
}
