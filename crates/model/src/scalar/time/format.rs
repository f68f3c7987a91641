//! Dates and times as text in ISO 8601.
//!
//! Days are converted to years and months as in H. Hinnant, "chrono-Compatible Low-Level Date
//! Algorithms" (`civil_from_days`): years begin in March, so that a leap day is the last day.

use std::fmt;

use super::{CIVIL_DAYS, Date, MICROS_PER_DAY, Time, Timestamp};
use crate::scalar::digits::{Room, eight, put_word, without_zeros};

const DATE_BYTES: usize = 10;

// Custom formatting, eight digits at a time: conversion of a list of rows to JSON spent half of its
// time in general formatting, and then a fifth with two digits at a time.

#[inline(always)]
fn put_date(to: &mut Room, day: Date) -> usize {
    let (year, month, day) = day.civil();
    let digits = eight(year * 10_000 + month * 100 + day);
    // YYYY-MM- and DD.
    let word = digits & 0xffff_ffff | DASHES | digits << 8 & 0x00ff_ff00_0000_0000;
    put_word(to, 0, word);
    to[8..DATE_BYTES].copy_from_slice(&digits.to_le_bytes()[6..]);
    DATE_BYTES
}

const DASHES: u64 = (b'-' as u64) << 32 | (b'-' as u64) << 56;
const COLONS: u64 = (b':' as u64) << 16 | (b':' as u64) << 40;

/// Writes a time at `at`, with as many decimals of the second as needed. Returns its end.
#[inline(always)]
fn put_time_at(to: &mut Room, at: usize, micros: u64) -> usize {
    let (seconds, micros) = ((micros / 1_000_000) as u32, (micros % 1_000_000) as u32);
    let minutes = seconds / 60;
    let digits = eight(minutes / 60 * 10_000 + minutes % 60 * 100 + seconds % 60);
    let word = digits >> 16 & 0xffff
        | COLONS
        | digits >> 8 & 0x0000_00ff_ff00_0000
        | digits & 0xffff_0000_0000_0000;
    put_word(to, at, word);
    if micros == 0 {
        return at + 8;
    }
    let digits = eight(micros);
    put_word(to, at + 8, digits >> 8 & !0xff | u64::from(b'.'));
    at + 9 + without_zeros(digits, 6)
}

#[inline(always)]
fn put_time(to: &mut Room, time: Time) -> usize {
    put_time_at(to, 0, time.0 as u64)
}

#[inline(always)]
fn put_timestamp(to: &mut Room, at: Timestamp) -> usize {
    // Counts from 0000-03-01, so that the number is not negative.
    let micros = (at.0 + i64::from(CIVIL_DAYS) * MICROS_PER_DAY) as u64;
    let day = (micros / MICROS_PER_DAY as u64) as i32 - CIVIL_DAYS;
    put_date(to, Date(day));
    to[DATE_BYTES] = b'T';
    let end = put_time_at(to, DATE_BYTES + 1, micros % MICROS_PER_DAY as u64);
    to[end] = b'Z';
    end + 1
}

impl Date {
    /// Returns the year, month and day.
    pub(super) const fn civil(self) -> (u32, u32, u32) {
        // Years begin in March, so that a leap day is the last day of its year. The calendar
        // repeats every 400 years.
        let days = (self.0 + CIVIL_DAYS) as u32;
        // In quarters of a day, a century has 146,097 and a year 1,461.
        let quarters = 4 * days + 3;
        let century = quarters / 146_097;
        let quarters = (quarters - century * 146_097) | 3;
        let year_of_century = quarters / 1_461;
        let day = (quarters - year_of_century * 1_461) / 4;
        // Five months have 153 days, starting with March and with August.
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let year = 100 * century + year_of_century;
        if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
    }
}

macro_rules! written {
    ($($type:ty, $put:ident;)*) => {$(
        impl $type {
            /// Appends it in the form of `Display`.
            ///
            /// ```
            /// let mut out = Vec::new();
            /// marmota_model::Date::from_days(0)?.write(&mut out);
            /// assert_eq!(out, b"1970-01-01");
            /// # Ok::<(), marmota_model::TimeError>(())
            /// ```
            pub fn write(self, out: &mut Vec<u8>) {
                let mut room = [0; 32];
                let length = $put(&mut room, self);
                out.extend_from_slice(&room[..length]);
            }

            /// Writes it in the form of `Display`. Returns the number of bytes written.
            #[inline(always)]
            pub(crate) fn put(self, to: &mut Room) -> usize {
                $put(to, self)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut room = [0; 32];
                let length = $put(&mut room, *self);
                f.write_str(std::str::from_utf8(&room[..length]).unwrap_or_default())
            }
        }
    )*};
}

written!(Date, put_date; Time, put_time; Timestamp, put_timestamp;);
