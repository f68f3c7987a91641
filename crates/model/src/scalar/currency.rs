//! Exact amounts with four decimals, in a 64-bit integer.

use std::fmt;
use std::str::FromStr;

use super::digits::{Room, eight, put_unsigned, put_word, without_zeros};

/// An exact amount with four decimals, from -922 337 203 685 477.5808 to 922 337 203 685 477.5807.
/// It is not a binary fraction, so it is never rounded.
///
/// The text form has no thousands separator and no exponent; a fifth decimal is an error, unless it
/// is zero. SQL engines store it as an integer or `numeric(19,4)`; JSON has it as a number.
///
/// ```
/// use marmota_model::Currency;
/// let price: Currency = "12.5".parse()?;
/// assert_eq!(price.scaled(), 125_000);
/// assert_eq!(price.to_string(), "12.5");
/// # Ok::<(), marmota_model::CurrencyError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency(i64);

/// The error for a text that is not a [`Currency`].
///
/// ```
/// use marmota_model::{Currency, CurrencyError};
/// assert_eq!("12,5".parse::<Currency>(), Err(CurrencyError::Syntax));
/// assert_eq!("0.00005".parse::<Currency>(), Err(CurrencyError::Precision));
/// assert_eq!("1000000000000000".parse::<Currency>(), Err(CurrencyError::Range));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurrencyError {
    /// The text is not a decimal number.
    Syntax,
    /// The text has more than four decimals that are not zero.
    Precision,
    /// The amount does not fit 64 bits.
    Range,
}

impl fmt::Display for CurrencyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "not a decimal number",
            Self::Precision => "more than four decimals",
            Self::Range => "outside ±922337203685477.5807",
        })
    }
}

impl std::error::Error for CurrencyError {}

impl Currency {
    /// Units per 1: amounts are stored in ten-thousandths.
    ///
    /// ```
    /// use marmota_model::Currency;
    /// assert_eq!(Currency::from(3).scaled(), 3 * Currency::SCALE);
    /// ```
    pub const SCALE: i64 = 10_000;

    /// Returns the amount of `scaled` ten-thousandths.
    ///
    /// ```
    /// use marmota_model::Currency;
    /// assert_eq!(Currency::from_scaled(-25_000).to_string(), "-2.5");
    /// ```
    #[must_use]
    pub const fn from_scaled(scaled: i64) -> Self {
        Self(scaled)
    }

    /// Returns the amount in ten-thousandths.
    ///
    /// ```
    /// use marmota_model::Currency;
    /// let (a, b): (Currency, Currency) = ("0.1".parse()?, "0.2".parse()?);
    /// assert_eq!(a.scaled() + b.scaled(), 3_000);
    /// # Ok::<(), marmota_model::CurrencyError>(())
    /// ```
    #[must_use]
    pub const fn scaled(self) -> i64 {
        self.0
    }

    /// Returns the sum, or `None` on overflow.
    ///
    /// ```
    /// use marmota_model::Currency;
    /// let (a, b): (Currency, Currency) = ("0.1".parse()?, "0.2".parse()?);
    /// assert_eq!(a.checked_add(b), Some("0.3".parse()?));
    /// assert_eq!(Currency::from_scaled(i64::MAX).checked_add(a), None);
    /// # Ok::<(), marmota_model::CurrencyError>(())
    /// ```
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// Writes the shortest exact decimal form: `12.5`, `-0.0001`, `7`.
    ///
    /// ```
    /// use marmota_model::Currency;
    /// let mut out = b"price=".to_vec();
    /// Currency::from_scaled(125_000).write(&mut out);
    /// assert_eq!(out, b"price=12.5");
    /// ```
    pub fn write(self, out: &mut Vec<u8>) {
        let mut room = [0; 32];
        let length = self.put(&mut room);
        out.extend_from_slice(&room[..length]);
    }

    /// Writes the same as [`Currency::write`]. Returns the number of bytes written.
    #[inline(always)]
    pub(crate) fn put(self, to: &mut Room) -> usize {
        let scale = Self::SCALE.unsigned_abs();
        let magnitude = self.0.unsigned_abs();
        to[0] = b'-';
        let end = put_unsigned(to, usize::from(self.0 < 0), magnitude / scale);
        let fraction = (magnitude % scale) as u32;
        if fraction == 0 {
            return end;
        }
        let digits = eight(fraction);
        put_word(to, end, digits >> 24 & !0xff | u64::from(b'.'));
        end + 1 + without_zeros(digits, 4)
    }
}

impl From<i32> for Currency {
    fn from(whole: i32) -> Self {
        Self(i64::from(whole) * Self::SCALE)
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::with_capacity(24);
        self.write(&mut out);
        f.pad(std::str::from_utf8(&out).unwrap_or_default())
    }
}

impl FromStr for Currency {
    type Err = CurrencyError;

    fn from_str(text: &str) -> Result<Self, CurrencyError> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !is_number(whole) || !is_number(fraction) || digits.ends_with('.') {
            return Err(CurrencyError::Syntax);
        }
        let (kept, dropped) = fraction.split_at(fraction.len().min(4));
        if dropped.bytes().any(|digit| digit != b'0') {
            return Err(CurrencyError::Precision);
        }
        let mut scaled: i64 = 0;
        let padding = std::iter::repeat_n(b'0', 4 - kept.len());
        for digit in whole.bytes().chain(kept.bytes()).chain(padding) {
            let digit = i64::from(digit - b'0');
            // Accumulates negative values, since the minimum has no positive counterpart.
            scaled = scaled
                .checked_mul(10)
                .and_then(|scaled| scaled.checked_sub(digit))
                .ok_or(CurrencyError::Range)?;
        }
        if negative {
            Ok(Self(scaled))
        } else {
            scaled.checked_neg().map(Self).ok_or(CurrencyError::Range)
        }
    }
}

impl serde::Serialize for Currency {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Currency {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refuses_what_it_cannot_hold_exactly() {
        for (text, error) in [
            ("", CurrencyError::Syntax),
            ("-", CurrencyError::Syntax),
            ("1.", CurrencyError::Syntax),
            (".5", CurrencyError::Syntax),
            ("1e3", CurrencyError::Syntax),
            ("+1", CurrencyError::Syntax),
            ("1.00001", CurrencyError::Precision),
            ("922337203685477.5808", CurrencyError::Range),
            ("99999999999999999999", CurrencyError::Range),
        ] {
            assert_eq!(text.parse::<Currency>(), Err(error), "{text}");
        }
        assert_eq!("1.00000".parse(), Ok(Currency(10_000)));
        assert_eq!("-922337203685477.5808".parse(), Ok(Currency(i64::MIN)));
    }

    proptest! {
        #[test]
        fn text_round_trips(scaled: i64) {
            let amount = Currency(scaled);
            prop_assert_eq!(amount.to_string().parse(), Ok(amount));
        }
    }
}
