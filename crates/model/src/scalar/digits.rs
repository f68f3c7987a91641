//! Conversion of numbers to decimal digits, eight at a time in one word. In JSON lists most bytes
//! of values are digits, and each digit by itself takes a division.

/// Space for any number, date or time.
pub(crate) type Room = [u8; 32];

const ZEROS: u64 = 0x3030_3030_3030_3030;

/// Returns the eight digits of a number below 100,000,000, one per byte (0 to 9), the first one in
/// the lowest byte.
#[inline(always)]
const fn spread(number: u32) -> u64 {
    // Splits into 4 and 4 digits, then 2, then 1. Each division is a multiplication that is exact
    // for numbers with this many digits, and no part overflows into its neighbour.
    let fours = (number as u64 / 10_000) | ((number as u64 % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = hundreds | ((fours - hundreds * 100) << 16);
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | ((twos - tens * 10) << 8)
}

/// Returns the eight digits of a number below 100,000,000 as text, the first one in the lowest
/// byte.
#[inline(always)]
pub(crate) const fn eight(number: u32) -> u64 {
    spread(number) | ZEROS
}

/// Writes a word's bytes, the lowest first. There must be space for all eight, even if fewer are
/// used.
#[inline(always)]
pub(crate) fn put_word(to: &mut [u8], at: usize, word: u64) {
    to[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

/// Writes a number. Returns the number of bytes written.
#[inline(always)]
pub(crate) fn put_unsigned(to: &mut Room, at: usize, number: u64) -> usize {
    const PART: u64 = 100_000_000;
    if number < PART {
        return at + put_first(to, at, number as u32);
    }
    let (high, low) = (number / PART, (number % PART) as u32);
    let mut end = at;
    if high < PART {
        end += put_first(to, end, high as u32);
    } else {
        end += put_first(to, end, (high / PART) as u32);
        put_word(to, end, eight((high % PART) as u32));
        end += 8;
    }
    put_word(to, end, eight(low));
    end + 8
}

/// Writes a number below 100,000,000 without leading zeros. Returns the number of digits.
#[inline(always)]
fn put_first(to: &mut Room, at: usize, number: u32) -> usize {
    let digits = spread(number);
    // The last digit counts even if it is a zero.
    let zeros = (digits | (1 << 56)).trailing_zeros() / 8;
    put_word(to, at, (digits | ZEROS) >> (zeros * 8));
    8 - zeros as usize
}

/// Writes a number. Returns the number of bytes written.
#[inline(always)]
pub(crate) fn put_signed(to: &mut Room, number: i64) -> usize {
    to[0] = b'-';
    put_unsigned(to, usize::from(number < 0), number.unsigned_abs())
}

/// Returns how many of the last `count` digits of [`eight`] remain without trailing zeros.
#[inline(always)]
pub(crate) const fn without_zeros(digits: u64, count: usize) -> usize {
    count - ((digits ^ ZEROS).leading_zeros() / 8) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(number: i64) -> String {
        let mut to = [0; 32];
        let length = put_signed(&mut to, number);
        String::from_utf8(to[..length].to_vec()).unwrap()
    }

    #[test]
    fn every_number_of_four_digits_is_spread() {
        for number in 0..10_000_u32 {
            for number in [number, number * 10_000, number * 10_000 + 9_999 - number] {
                let text = format!("{number:08}");
                assert_eq!(eight(number).to_le_bytes(), *text.as_bytes());
            }
        }
    }

    #[test]
    fn numbers_of_every_length_are_written() {
        let mut power = 1_i64;
        loop {
            for number in [power - 1, power, -power] {
                assert_eq!(written(number), number.to_string());
            }
            let Some(next) = power.checked_mul(10) else { break };
            power = next;
        }
        for number in [i64::MIN, i64::MAX] {
            assert_eq!(written(number), number.to_string());
        }
    }

    proptest! {
        #[test]
        fn numbers_are_written_as_by_display(number: i64, shift in 0..64) {
            let number = number >> shift;
            prop_assert_eq!(written(number), number.to_string());
        }
    }
}
