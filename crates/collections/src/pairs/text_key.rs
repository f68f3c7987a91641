//! A test of whether serde writes a key as a text, which JSON objects require. It uses a serializer
//! without output.

use std::fmt;

use serde::ser::{Error, Impossible, Serialize, Serializer};

/// Returns true for texts, characters and unit variants of enums.
pub(super) fn is_text<K: Serialize + ?Sized>(key: &K) -> bool {
    key.serialize(Probe).is_ok()
}

struct Probe;

/// The error for a value that is not a text.
#[derive(Debug)]
struct NoText;

impl fmt::Display for NoText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no text")
    }
}

impl std::error::Error for NoText {}

impl Error for NoText {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

macro_rules! no_text {
    ($($method:ident($kind:ty))*) => {
        $(fn $method(self, _: $kind) -> Result<(), NoText> {
            Err(NoText)
        })*
    };
}

type None = Impossible<(), NoText>;

impl Serializer for Probe {
    type Ok = ();
    type Error = NoText;
    type SerializeSeq = None;
    type SerializeTuple = None;
    type SerializeTupleStruct = None;
    type SerializeTupleVariant = None;
    type SerializeMap = None;
    type SerializeStruct = None;
    type SerializeStructVariant = None;

    no_text! {
        serialize_bool(bool) serialize_i8(i8) serialize_i16(i16) serialize_i32(i32)
        serialize_i64(i64) serialize_i128(i128) serialize_u8(u8) serialize_u16(u16)
        serialize_u32(u32) serialize_u64(u64) serialize_u128(u128) serialize_f32(f32)
        serialize_f64(f64) serialize_bytes(&[u8]) serialize_unit_struct(&'static str)
    }

    fn serialize_char(self, _: char) -> Result<(), NoText> {
        Ok(())
    }

    fn serialize_str(self, _: &str) -> Result<(), NoText> {
        Ok(())
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, _: &T) -> Result<(), NoText> {
        Ok(())
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
    ) -> Result<(), NoText> {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), NoText> {
        value.serialize(self)
    }

    fn serialize_none(self) -> Result<(), NoText> {
        Err(NoText)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Result<(), NoText> {
        Err(NoText)
    }

    fn serialize_unit(self) -> Result<(), NoText> {
        Err(NoText)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), NoText> {
        Err(NoText)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<None, NoText> {
        Err(NoText)
    }

    fn serialize_tuple(self, _: usize) -> Result<None, NoText> {
        Err(NoText)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<None, NoText> {
        Err(NoText)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<None, NoText> {
        Err(NoText)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<None, NoText> {
        Err(NoText)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<None, NoText> {
        Err(NoText)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<None, NoText> {
        Err(NoText)
    }
}
