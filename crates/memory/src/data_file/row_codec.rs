//! The encoding of rows and table descriptions in the binary file and in the log.
//!
//! In rows, integers have variable length with the sign in the lowest bit, texts and bytes follow
//! their length, and one bit for each field marks NULL. No length is trusted: truncated input is
//! refused.

use std::io::{self, Write};
use std::ops::Range;

use marmota_model::{Currency, Date, Time, Timestamp, Uuid, ValueForm, ValueRef};

pub(crate) const fn form_number(form: ValueForm) -> u8 {
    match form {
        ValueForm::Bool => 1,
        ValueForm::Int => 2,
        ValueForm::Float => 3,
        ValueForm::Currency => 4,
        ValueForm::Text => 5,
        ValueForm::Json => 6,
        ValueForm::Blob => 7,
        ValueForm::Date => 8,
        ValueForm::Time => 9,
        ValueForm::Timestamp => 10,
        ValueForm::Uuid => 11,
    }
}

pub(crate) fn form_of_number(number: u8) -> Option<ValueForm> {
    ValueForm::ALL.into_iter().find(|&form| form_number(form) == number)
}

pub(crate) fn write_name(out: &mut impl Write, name: &str) -> io::Result<()> {
    // Names have at most 63 bytes.
    out.write_all(&[name.len() as u8])?;
    out.write_all(name.as_bytes())
}

pub(crate) fn write_head<'n>(
    out: &mut impl Write,
    name: &str,
    fields: impl ExactSizeIterator<Item = (&'n str, ValueForm)>,
) -> io::Result<()> {
    write_name(out, name)?;
    out.write_all(&(fields.len() as u16).to_le_bytes())?;
    for (name, form) in fields {
        write_name(out, name)?;
        out.write_all(&[form_number(form)])?;
    }
    Ok(())
}

pub(crate) fn write_row(out: &mut Vec<u8>, row: &[ValueRef<'_>]) {
    for eight in row.chunks(8) {
        let bit = |(at, value): (usize, &ValueRef<'_>)| u8::from(value.is_null()) << at;
        out.push(eight.iter().enumerate().map(bit).sum());
    }
    for &value in row {
        write_value(out, value);
    }
}

/// Writes a value without its NULL bit; for NULL nothing is written.
pub(crate) fn write_value(out: &mut Vec<u8>, value: ValueRef<'_>) {
    match value {
        ValueRef::Absent | ValueRef::Null => {}
        ValueRef::Bool(value) => out.push(u8::from(value)),
        ValueRef::Int(value) => write_int(out, value),
        ValueRef::Float(value) => out.extend_from_slice(&value.to_bits().to_le_bytes()),
        ValueRef::Currency(value) => write_int(out, value.scaled()),
        ValueRef::Date(value) => write_int(out, i64::from(value.days())),
        ValueRef::Time(value) => write_int(out, value.micros()),
        ValueRef::Timestamp(value) => write_int(out, value.micros()),
        ValueRef::Uuid(value) => out.extend_from_slice(value.as_bytes()),
        ValueRef::Text(text) | ValueRef::Json(text) => write_bytes(out, text.as_bytes()),
        ValueRef::Blob(bytes) => write_bytes(out, bytes),
    }
}

pub(crate) fn write_int(out: &mut Vec<u8>, value: i64) {
    write_unsigned(out, (value << 1 ^ value >> 63) as u64);
}

pub(crate) fn write_unsigned(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_unsigned(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Bytes that are read from the front; a read returns `None` if they end too soon.
pub(crate) struct Bytes<'b> {
    pub(crate) rest: &'b [u8],
}

impl<'b> Bytes<'b> {
    pub(crate) fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    pub(crate) fn name(&mut self) -> Option<String> {
        let length = self.u8()?;
        String::from_utf8(self.take(length.into())?.to_vec()).ok()
    }

    pub(crate) fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let part = u64::from(byte & 0x7F);
            if shift == 63 && part > 1 {
                return None;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn int(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(crate) fn bytes(&mut self) -> Option<&'b [u8]> {
        let length = self.unsigned()?;
        self.take(usize::try_from(length).ok()?)
    }

    pub(crate) fn text(&mut self) -> Option<&'b str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    /// Reads a head written by [`write_head`].
    pub(crate) fn head(&mut self) -> Option<(String, Vec<(String, ValueForm)>)> {
        let name = self.name()?;
        let mut fields = Vec::new();
        for _ in 0..self.u16()? {
            let field = self.name()?;
            fields.push((field, form_of_number(self.u8()?)?));
        }
        Some((name, fields))
    }

    /// Skips a row, and returns the position of one of its values.
    pub(crate) fn key_of_row(
        &mut self,
        fields: &[(String, ValueForm)],
        key: usize,
    ) -> Option<Range<usize>> {
        let length = self.rest.len();
        let nulls = self.take(fields.len().div_ceil(8))?;
        let mut found = None;
        for (at, &(_, form)) in fields.iter().enumerate() {
            if nulls[at / 8] >> (at % 8) & 1 == 1 {
                continue;
            }
            let start = length - self.rest.len();
            self.value(form)?;
            if at == key {
                found = Some(start..length - self.rest.len());
            }
        }
        found
    }

    pub(crate) fn row(
        &mut self,
        fields: &[(String, ValueForm)],
        places: &[Option<usize>],
        row: &mut [ValueRef<'b>],
    ) -> Option<()> {
        let nulls = self.take(fields.len().div_ceil(8))?;
        for (at, (&(_, form), &place)) in fields.iter().zip(places).enumerate() {
            let null = nulls[at / 8] >> (at % 8) & 1 == 1;
            let value = if null { ValueRef::Null } else { self.value(form)? };
            if let Some(place) = place {
                row[place] = value;
            }
        }
        Some(())
    }

    pub(crate) fn value(&mut self, form: ValueForm) -> Option<ValueRef<'b>> {
        Some(match form {
            ValueForm::Bool => match self.u8()? {
                0 => ValueRef::Bool(false),
                1 => ValueRef::Bool(true),
                _ => return None,
            },
            ValueForm::Int => ValueRef::Int(self.int()?),
            ValueForm::Float => {
                let bits = u64::from_le_bytes(self.take(8)?.try_into().ok()?);
                ValueRef::Float(f64::from_bits(bits))
            }
            ValueForm::Currency => ValueRef::Currency(Currency::from_scaled(self.int()?)),
            ValueForm::Text => ValueRef::Text(self.text()?),
            ValueForm::Json => ValueRef::Json(self.text()?),
            ValueForm::Blob => ValueRef::Blob(self.bytes()?),
            ValueForm::Date => {
                ValueRef::Date(Date::from_days(i32::try_from(self.int()?).ok()?).ok()?)
            }
            ValueForm::Time => ValueRef::Time(Time::from_micros(self.int()?).ok()?),
            ValueForm::Timestamp => ValueRef::Timestamp(Timestamp::from_micros(self.int()?).ok()?),
            ValueForm::Uuid => ValueRef::Uuid(Uuid::from_slice(self.take(16)?).ok()?),
        })
    }
}
