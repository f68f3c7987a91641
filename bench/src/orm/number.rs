//! Numbers as text for the tables.

/// Formats a rate with three digits, which is the precision of a noisy machine.
pub(crate) fn rate(per_s: f64) -> String {
    let (number, unit) = match per_s {
        1e6.. => (per_s / 1e6, " M"),
        1e3.. => (per_s / 1e3, " k"),
        _ => (per_s, ""),
    };
    match number {
        100.0.. => format!("{number:.0}{unit}"),
        10.0.. => format!("{number:.1}{unit}"),
        _ => format!("{number:.2}{unit}"),
    }
}

/// Formats a number with commas between groups of three digits.
pub(crate) fn thousands(rows: u32) -> String {
    let digits = rows.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_readable() {
        let rates = [4_912_345.0, 83_412.0, 512_000.0, 999.0, 12.34].map(rate);
        assert_eq!(rates, ["4.91 M", "83.4 k", "512 k", "999", "12.3"]);
        assert_eq!(
            [5, 5_000, 200_000, 1_000_000].map(thousands),
            ["5", "5,000", "200,000", "1,000,000"]
        );
    }
}
