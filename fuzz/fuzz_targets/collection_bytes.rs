//! The binary form of collections, with a valid checksum: no panic, no stack overflow, and decoded
//! values can be encoded and decoded again without a change.
#![no_main]

use libfuzzer_sys::fuzz_target;
use marmota_collections::{DecodeLimits, List, Map, Persist};
use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize, Serialize)]
enum Tree {
    Leaf(Option<String>),
    Node { left: Box<Tree>, right: Vec<Tree> },
}

const LIMITS: DecodeLimits = DecodeLimits { bytes_max: 1 << 16, items_max: 1 << 10, depth_max: 32 };

/// Returns the content with a valid header and checksum.
fn sealed(shape: u8, items: u64, content: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = b"MARMOTC\0\x01\0\0\0".to_vec();
    bytes.push(shape);
    bytes.extend(u64::MAX.to_le_bytes());
    bytes.extend(items.to_le_bytes());
    bytes.extend((content.len() as u64).to_le_bytes());
    bytes.extend(zstd::encode_all(content, 1).ok()?);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    Some(bytes)
}

fuzz_target!(|input: (u16, &[u8])| {
    let (items, content) = input;
    let _ = List::<u8>::new().fill_binary(content, &LIMITS);
    let Some(bytes) = sealed(1, items.into(), content) else { return };
    let mut trees = List::<Tree>::new();
    if trees.fill_binary(&bytes, &LIMITS).is_ok() {
        assert_eq!(trees.len(), usize::from(items));
        let again = trees.to_binary().map(|bytes| List::<Tree>::from_binary(&bytes));
        let again = again.expect("a decoded value can be encoded").expect("and decoded");
        assert_eq!(format!("{again:?}"), format!("{trees:?}"));
    }
    let Some(bytes) = sealed(2, items.into(), content) else { return };
    let _ = Map::<String, Tree>::new().fill_binary(&bytes, &LIMITS);
});
