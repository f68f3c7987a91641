//! Parts of a file (`Range`; RFC 9110, 14). It only parses: whether a range is wanted at all
//! (`If-Range`) is decided by its caller.

/// Requests for more parts than this, or for overlapping ones, are assumed to be attacks (RFC 9110,
/// 17.15), and get the whole file.
const PARTS_MAX: usize = 16;

/// The parts that a `Range` requests; see [`Request::requested_range`](crate::Request::requested_range).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedRange {
    /// The whole file: the header is not understood, or a server need not serve its parts.
    Whole,
    /// From the first position to before the second.
    Part(u64, u64),
    /// Several parts that do not overlap, in the requested order.
    Parts(Vec<(u64, u64)>),
    /// No part that exists.
    Nothing,
}

/// Parses a header for a file of this length. A malformed header is ignored, as RFC 9110, 14.2,
/// permits.
pub(crate) fn wanted(header: &str, length: u64) -> RequestedRange {
    let Some(ranges) = header.trim().strip_prefix("bytes=") else { return RequestedRange::Whole };
    let mut parts = Vec::new();
    for range in ranges.split(',').take(PARTS_MAX + 1) {
        match one(range.trim(), length) {
            RequestedRange::Part(start, end) => parts.push((start, end)),
            RequestedRange::Nothing => {}
            _ => return RequestedRange::Whole,
        }
    }
    match parts[..] {
        _ if ranges.split(',').count() > PARTS_MAX => RequestedRange::Whole,
        [] => RequestedRange::Nothing,
        [(start, end)] => RequestedRange::Part(start, end),
        _ if overlap(&parts) => RequestedRange::Whole,
        _ => RequestedRange::Parts(parts),
    }
}

/// Returns true if two of the parts have a byte in common.
fn overlap(parts: &[(u64, u64)]) -> bool {
    let mut sorted = parts.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[1].0 < pair[0].1)
}

/// Parses one range: `first-last`, `first-` or `-count`.
fn one(range: &str, length: u64) -> RequestedRange {
    let Some((first, last)) = range.split_once('-') else { return RequestedRange::Whole };
    let number = |text: &str| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        // A position beyond any file is equivalent to the largest number.
        (digits && !text.is_empty()).then(|| text.parse::<u64>().unwrap_or(u64::MAX))
    };
    match (number(first.trim()), number(last.trim())) {
        (Some(first), Some(last)) if last < first => RequestedRange::Whole,
        (Some(first), _) if first >= length => match last.trim().is_empty() {
            false if number(last.trim()).is_none() => RequestedRange::Whole,
            _ => RequestedRange::Nothing,
        },
        (Some(first), Some(last)) => {
            RequestedRange::Part(first, last.saturating_add(1).min(length))
        }
        (Some(first), None) if last.trim().is_empty() => RequestedRange::Part(first, length),
        (None, Some(0)) if first.trim().is_empty() => RequestedRange::Nothing,
        (None, Some(_)) if first.trim().is_empty() && length == 0 => RequestedRange::Nothing,
        (None, Some(count)) if first.trim().is_empty() => {
            RequestedRange::Part(length.saturating_sub(count), length)
        }
        _ => RequestedRange::Whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_understood_or_passed_over() {
        use RequestedRange::{Nothing, Part, Parts, Whole};
        for (header, expected) in [
            ("bytes=0-0", Part(0, 1)),
            ("bytes=2-", Part(2, 10)),
            ("bytes=-3", Part(7, 10)),
            ("bytes=-30", Part(0, 10)),
            ("bytes=5-99", Part(5, 10)),
            ("bytes=5-99999999999999999999", Part(5, 10)),
            ("bytes=10-", Nothing),
            ("bytes=10-12", Nothing),
            ("bytes=-0", Nothing),
            ("bytes=5-2", Whole),
            ("bytes=0-1,3-4", Parts(vec![(0, 2), (3, 5)])),
            ("bytes=-2, 0-0", Parts(vec![(8, 10), (0, 1)])),
            ("bytes=12-13,0-1", Part(0, 2)),
            ("bytes=12-13,14-", Nothing),
            ("bytes=0-4,4-5", Whole),
            ("bytes=0-,0-", Whole),
            ("bytes=0-1,x", Whole),
            ("bytes=0-1,", Whole),
            ("bytes=a-b", Whole),
            ("bytes=-", Whole),
            ("bytes=", Whole),
            ("lines=1-2", Whole),
            ("bytes=+1-2", Whole),
        ] {
            assert_eq!(wanted(header, 10), expected, "{header}");
        }
        assert_eq!(wanted("bytes=0-", 0), Nothing);
        assert_eq!(wanted("bytes=-5", 0), Nothing);
        let many: Vec<String> = (0..17).map(|at| format!("{}-{}", at * 2, at * 2)).collect();
        assert_eq!(wanted(&format!("bytes={}", many.join(",")), 100), Whole);
        assert!(matches!(wanted(&format!("bytes={}", many[1..].join(",")), 100), Parts(_)));
    }
}
