//! Serde implementations of lists and maps: their form inside other types and in JSON.
//!
//! A map is an object where the format permits it: always in binary formats, and in human-readable
//! ones (JSON) if every key is a text. Otherwise it is a list of pairs. Both forms can be read.

use std::fmt;
use std::marker::PhantomData;

use marmota_model::Result;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use crate::list::{Discipline, List};
use crate::map::{Base, Lookup, Map};

mod text_key;

/// The largest number of entries that are allocated in advance.
const ROOM_MAX: usize = 256;

impl<T: Serialize, D> Serialize for List<T, D> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        self.as_slice().serialize(out)
    }
}

impl<'de, T: Deserialize<'de>, D: Discipline<T> + Default> Deserialize<'de> for List<T, D> {
    fn deserialize<R: Deserializer<'de>>(from: R) -> Result<Self, R::Error> {
        let mut list = Self::default();
        list.replace_all(Vec::deserialize(from)?).map_err(de::Error::custom)?;
        Ok(list)
    }
}

impl<K: Serialize, V: Serialize, B: Base<K, V>> Serialize for Map<K, V, B> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        // One snapshot for the count, the keys and the entries, since entries may expire meanwhile.
        let entries: Vec<(&K, &V)> = self.iter().collect();
        if !out.is_human_readable() || entries.iter().all(|(key, _)| text_key::is_text(key)) {
            let mut out = out.serialize_map(Some(entries.len()))?;
            for (key, value) in entries {
                out.serialize_entry(key, value)?;
            }
            return out.end();
        }
        let mut out = out.serialize_seq(Some(entries.len()))?;
        for pair in entries {
            out.serialize_element(&pair)?;
        }
        out.end()
    }
}

impl<'de, K, V, B> Deserialize<'de> for Map<K, V, B>
where
    K: Deserialize<'de>,
    V: Deserialize<'de>,
    B: Base<K, V, Entries: Lookup<K, V, K>>,
{
    fn deserialize<R: Deserializer<'de>>(from: R) -> Result<Self, R::Error> {
        let Pairs(pairs) = Pairs::deserialize(from)?;
        let mut map = Self::default();
        map.replace_pairs(pairs).map_err(de::Error::custom)?;
        Ok(map)
    }
}

/// Keys and values in the order in which they were read.
pub(crate) struct Pairs<K, V>(pub(crate) Vec<(K, V)>);

impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Deserialize<'de> for Pairs<K, V> {
    fn deserialize<R: Deserializer<'de>>(from: R) -> Result<Self, R::Error> {
        if from.is_human_readable() {
            from.deserialize_any(PairsVisitor(PhantomData))
        } else {
            from.deserialize_map(PairsVisitor(PhantomData))
        }
    }
}

struct PairsVisitor<K, V>(PhantomData<(K, V)>);

impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Visitor<'de> for PairsVisitor<K, V> {
    type Value = Pairs<K, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object, or an array of [key, value]")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::with_capacity(from.size_hint().unwrap_or(0).min(ROOM_MAX));
        while let Some(pair) = from.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::with_capacity(from.size_hint().unwrap_or(0).min(ROOM_MAX));
        while let Some(pair) = from.next_element()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}
