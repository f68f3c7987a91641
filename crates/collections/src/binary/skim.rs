//! Finds the end of a MessagePack value without decoding it. A loop without recursion checks that
//! all lengths lie within the bytes and that the nesting is within its limit. The decoder counts
//! the nesting of arrays and maps but not of enums, so hostile bytes could otherwise overflow the
//! stack.

/// The offset of a fault and its description.
type Fault = (usize, &'static str);

/// Returns the offset of the byte after the value that begins at `start`.
pub(super) fn end_of_value(bytes: &[u8], start: usize, depth_max: usize) -> Result<usize, Fault> {
    let mut at = start;
    // The number of values left at each open level.
    let mut open: Vec<u64> = vec![1];
    while let Some(left) = open.last_mut() {
        if *left == 0 {
            open.pop();
            continue;
        }
        *left -= 1;
        let value = Value::at(bytes, at)?;
        let body = (at + value.head).checked_add(value.body).filter(|&end| end <= bytes.len());
        at = body.ok_or((at, "a length exceeds the end"))?;
        if value.values > 0 {
            if value.values > (bytes.len() - at) as u64 {
                return Err((at - value.head, "a length exceeds the end"));
            }
            if open.len() > depth_max {
                return Err((at - value.head, "the item is nested deeper than the limit"));
            }
            open.push(value.values);
        }
    }
    Ok(at)
}

/// The length of a value, as stated by its first bytes.
struct Value {
    /// Bytes of the marker and the length.
    head: usize,
    /// Bytes of content that follow.
    body: usize,
    /// Number of values that it contains.
    values: u64,
}

impl Value {
    fn at(bytes: &[u8], at: usize) -> Result<Self, Fault> {
        let &marker = bytes.get(at).ok_or((at, "the bytes end inside an item"))?;
        // Reads a big-endian length of `size` bytes after the marker.
        let length = |size: usize| {
            let bytes = bytes.get(at + 1..at + 1 + size);
            let bytes = bytes.ok_or((at, "the bytes end inside a length"))?;
            Ok::<u32, Fault>(bytes.iter().fold(0, |sum, &byte| sum << 8 | u32::from(byte)))
        };
        let sized = |body: usize| Ok(Self { head: 1, body, values: 0 });
        let bytes_of = |size, extra: usize| {
            Ok(Self { head: 1 + size, body: length(size)? as usize + extra, values: 0 })
        };
        let values_of = |size, each: u64| {
            Ok(Self { head: 1 + size, body: 0, values: u64::from(length(size)?) * each })
        };
        match marker {
            0x00..=0x7F | 0xC0 | 0xC2 | 0xC3 | 0xE0..=0xFF => sized(0),
            0x80..=0x8F => Ok(Self { head: 1, body: 0, values: u64::from(marker & 0x0F) * 2 }),
            0x90..=0x9F => Ok(Self { head: 1, body: 0, values: u64::from(marker & 0x0F) }),
            0xA0..=0xBF => sized(usize::from(marker & 0x1F)),
            0xC1 => Err((at, "0xC1 is not a valid type byte")),
            0xC4 | 0xD9 => bytes_of(1, 0),
            0xC5 | 0xDA => bytes_of(2, 0),
            0xC6 | 0xDB => bytes_of(4, 0),
            0xC7 => bytes_of(1, 1),
            0xC8 => bytes_of(2, 1),
            0xC9 => bytes_of(4, 1),
            0xCC | 0xD0 => sized(1),
            0xCD | 0xD1 => sized(2),
            0xCA | 0xCE | 0xD2 => sized(4),
            0xCB | 0xCF | 0xD3 => sized(8),
            0xD4..=0xD8 => sized(1 + (1 << (marker - 0xD4))),
            0xDC => values_of(2, 1),
            0xDD => values_of(4, 1),
            0xDE => values_of(2, 2),
            0xDF => values_of(4, 2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_where_the_encoder_ended() {
        let value = serde_json::json!({
            "texts": ["", "a".repeat(31), "b".repeat(32), "c".repeat(256), "d".repeat(70_000)],
            "numbers": [0, 127, 128, 65_535, 65_536, -1, -33, -40_000, 5_000_000_000_u64, 1.5],
            "many": vec![0; 70_000], "some": vec![true; 20], "none": null, "nested": [[[{}]]],
        });
        let mut bytes = rmp_serde::to_vec(&value).unwrap();
        let end = bytes.len();
        bytes.push(0xC1);
        assert_eq!(end_of_value(&bytes, 0, 8), Ok(end));
        assert_eq!(end_of_value(&bytes, end, 8), Err((end, "0xC1 is not a valid type byte")));
        for cut in [1, 100, end - 1] {
            assert!(end_of_value(&bytes[..cut], 0, 8).is_err());
        }
    }

    #[test]
    fn nesting_has_a_limit_and_lengths_are_not_believed() {
        let deep = |depth: usize| [vec![0x91; depth], vec![0xC0]].concat();
        assert_eq!(end_of_value(&deep(8), 0, 8), Ok(9));
        assert!(end_of_value(&deep(9), 0, 8).is_err());
        assert!(end_of_value(&[0xDF, 0xFF, 0xFF, 0xFF, 0xFF, 0], 0, 8).is_err());
        assert!(end_of_value(&[0xDB, 0xFF, 0xFF, 0xFF, 0xFF, 0], 0, 8).is_err());
    }
}
