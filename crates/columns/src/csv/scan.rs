//! Finds the separators of CSV with vector comparisons, 64 bytes at a time: the commas and line
//! ends outside of quotes. It handles bytes only; the caller parses what is between two separators.
//!
//! The `csv` crate's parser is not used because of its speed. Over the 79 MB of stop times of the
//! transit example (ten fields per row), on one core of the development machine, reading the file
//! alone took 12 ms of CPU time, `csv-core` 115 ms, `memchr3_iter` 141 ms (a call for each
//! separator) and these masks 27 ms. Tests compare the two parsers over random inputs.
//!
//! A quote opens if the number of quotes before it is even and closes if it is odd (a doubled one
//! does both). That holds as long as every opening quote is at the beginning of a field, which is
//! checked here as well.

use wide::u8x16;

/// The number of bytes processed at once.
pub(crate) const BLOCK_BYTES: usize = 64;

/// The positions of the separators in a piece of CSV.
#[derive(Debug)]
pub(crate) struct Scan {
    separator: u8,
    marks: Vec<u32>,
    count: usize,
    /// The number of line ends among them.
    pub(crate) lines: usize,
    /// True if there is any quote.
    pub(crate) has_quotes: bool,
    /// The first quote in the middle of a field.
    pub(crate) stray_quote: Option<usize>,
    /// True if the input ends inside of quotes, in the field after the last mark.
    pub(crate) ends_inside: bool,
}

/// The state carried from one block to the next.
struct Carry {
    /// All ones inside of quotes.
    inside: u64,
    /// 1 if the previous byte was a separator or does not exist.
    separator: u64,
    /// 1 if the previous byte was a quote.
    quote: u64,
}

/// One bit per byte of a block.
struct Masks {
    separators: u64,
    lines: u64,
    quotes: u64,
}

impl Masks {
    #[inline]
    fn of(block: &[u8; BLOCK_BYTES], separator: u8) -> Self {
        let (comma, line, quote) =
            (u8x16::splat(separator), u8x16::splat(b'\n'), u8x16::splat(b'"'));
        let mut masks = Self { separators: 0, lines: 0, quotes: 0 };
        for (part, bytes) in block.as_chunks::<16>().0.iter().enumerate() {
            let bytes = u8x16::from(*bytes);
            let (commas, lines) = (bytes.simd_eq(comma), bytes.simd_eq(line));
            let shift = 16 * part;
            masks.lines |= u64::from(lines.to_bitmask()) << shift;
            masks.separators |= u64::from((commas | lines).to_bitmask()) << shift;
            masks.quotes |= u64::from(bytes.simd_eq(quote).to_bitmask()) << shift;
        }
        masks
    }

    fn keep(&mut self, kept: u64) {
        self.separators &= kept;
        self.lines &= kept;
        self.quotes &= kept;
    }
}

/// Sets each bit to the XOR of all bits up to it. For quotes: whether a byte is inside of them.
const fn prefix_xor(mut bits: u64) -> u64 {
    bits ^= bits << 1;
    bits ^= bits << 2;
    bits ^= bits << 4;
    bits ^= bits << 8;
    bits ^= bits << 16;
    bits ^ bits << 32
}

impl Scan {
    pub(crate) const fn new(separator: u8) -> Self {
        Self {
            separator,
            marks: Vec::new(),
            count: 0,
            lines: 0,
            has_quotes: false,
            stray_quote: None,
            ends_inside: false,
        }
    }

    /// Scans the first `length` bytes of `bytes`, which start with a record. `bytes` must extend to
    /// the end of the last block.
    pub(crate) fn run(&mut self, bytes: &[u8], length: usize) {
        if self.marks.is_empty() {
            self.marks.push(u32::MAX);
        }
        (self.count, self.lines, self.has_quotes, self.stray_quote) = (1, 0, false, None);
        let mut carry = Carry { inside: 0, separator: 1, quote: 0 };
        let blocks = bytes[..length.next_multiple_of(BLOCK_BYTES)].as_chunks::<BLOCK_BYTES>().0;
        for (number, block) in blocks.iter().enumerate() {
            let base = number * BLOCK_BYTES;
            let mut masks = Masks::of(block, self.separator);
            if length - base < BLOCK_BYTES {
                masks.keep((1 << (length - base)) - 1);
            }
            if masks.quotes | carry.inside != 0 {
                self.leave_quoted(&mut masks, &mut carry, base);
            }
            carry.separator = masks.separators >> 63;
            carry.quote = masks.quotes >> 63;
            self.lines += masks.lines.count_ones() as usize;
            self.mark(masks.separators, base);
        }
        self.ends_inside = carry.inside != 0;
    }

    /// Returns one less than the start of the first field (wrapped), then the position of each
    /// separator.
    pub(crate) fn marks(&self) -> &[u32] {
        &self.marks[..self.count]
    }

    /// Clears the bits inside of quotes.
    fn leave_quoted(&mut self, masks: &mut Masks, carry: &mut Carry, base: usize) {
        self.has_quotes = true;
        let inside = prefix_xor(masks.quotes) ^ carry.inside;
        masks.separators &= !inside;
        masks.lines &= !inside;
        let opening = masks.quotes & inside;
        let may_open = masks.separators << 1 | carry.separator | masks.quotes << 1 | carry.quote;
        let stray = opening & !may_open;
        if stray != 0 && self.stray_quote.is_none() {
            self.stray_quote = Some(base + stray.trailing_zeros() as usize);
        }
        carry.inside = if inside >> 63 == 1 { u64::MAX } else { 0 };
    }

    #[inline]
    fn mark(&mut self, mut separators: u64, base: usize) {
        let count = separators.count_ones() as usize;
        let end = self.count + BLOCK_BYTES;
        if self.marks.len() < end {
            self.marks.resize(2 * end, 0);
        }
        // Eight at a time, even if fewer are left: no branch per separator.
        let places = self.marks[self.count..end].as_chunks_mut::<8>().0;
        for eight in places.iter_mut().take(count.div_ceil(8)) {
            for place in eight {
                *place = base as u32 + separators.trailing_zeros();
                separators &= separators.wrapping_sub(1);
            }
        }
        self.count += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scan(text: &str) -> Scan {
        let mut bytes = text.as_bytes().to_vec();
        // Bytes after `length` must be ignored.
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), b',');
        let mut scan = Scan::new(b',');
        scan.run(&bytes, text.len());
        scan
    }

    /// The reference implementation, byte by byte.
    fn plain(text: &str) -> (Vec<u32>, Option<usize>, bool) {
        let (mut marks, mut stray, mut inside, mut before) = (vec![u32::MAX], None, false, b',');
        for (place, byte) in text.bytes().enumerate() {
            match byte {
                b'"' => {
                    inside = !inside;
                    let opens = matches!(before, b',' | b'\n' | b'"');
                    if inside && !opens && stray.is_none() {
                        stray = Some(place);
                    }
                }
                b',' | b'\n' if !inside => marks.push(place as u32),
                _ => {}
            }
            // A separator inside of quotes does not count.
            before = if inside && byte != b'"' { b'x' } else { byte };
        }
        (marks, stray, inside)
    }

    proptest! {
        #[test]
        fn finds_what_a_plain_loop_finds(text in "[a,\"\n\r]{0,300}", pad in 0_usize..70) {
            let text = format!("{}{text}", "x".repeat(pad));
            let scan = scan(&text);
            let (marks, stray, inside) = plain(&text);
            prop_assert_eq!(scan.stray_quote, stray);
            if stray.is_none() {
                let lines = marks[1..].iter().filter(|&&at| text.as_bytes()[at as usize] == b'\n');
                prop_assert_eq!(scan.lines, lines.count());
                prop_assert_eq!(scan.marks(), marks);
                prop_assert_eq!(scan.ends_inside, inside);
            }
        }
    }
}
