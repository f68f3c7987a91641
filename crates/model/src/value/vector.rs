//! Vectors of 32-bit floats: their bytes, their JSON, and the distances between them.
//!
//! A vector is stored as its numbers in little-endian order, so that a distance is computed from the
//! bytes of a row without a copy. The sums are made in 16 lanes, which the compiler vectorizes; their
//! order is fixed, so that a distance is the same on every engine.

/// The maximum number of dimensions of a vector field.
pub const VECTOR_DIMENSIONS_MAX: u32 = 4_096;

/// The size of a number.
const NUMBER_BYTES: usize = size_of::<f32>();
/// The number of sums that are made at once.
const LANES: usize = 16;

/// How the distance between two vectors is measured. A lower distance is nearer.
///
/// ```
/// use marmota_model::Metric;
/// assert_eq!(Metric::Cosine.distance(&[1.0, 0.0], &[0.0, 2.0]), 1.0);
/// assert_eq!(Metric::L2.distance(&[1.0, 0.0], &[1.0, 2.0]), 2.0);
/// assert_eq!(Metric::Dot.distance(&[1.0, 2.0], &[1.0, 2.0]), -5.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Metric {
    /// One minus the cosine of the angle: 0 for the same direction, 2 for the opposite one. It is 1
    /// if one of the vectors is zero.
    #[default]
    Cosine,
    /// The Euclidean distance.
    L2,
    /// The inner product, negated.
    Dot,
}

impl Metric {
    /// All metrics.
    pub const ALL: [Self; 3] = [Self::Cosine, Self::L2, Self::Dot];

    /// Returns the name in orders: `cosine`, `l2` or `dot`.
    ///
    /// ```
    /// use marmota_model::Metric;
    /// assert_eq!(Metric::ALL.map(Metric::name), ["cosine", "l2", "dot"]);
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cosine => "cosine",
            Self::L2 => "l2",
            Self::Dot => "dot",
        }
    }

    /// Returns the distance between two vectors with the same number of dimensions.
    #[must_use]
    pub fn distance(self, a: &[f32], b: &[f32]) -> f64 {
        let bytes: Vec<u8> = a.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.distance_of(&bytes, b, self.norm(b))
    }

    /// Returns the part of a distance that depends on one vector only.
    pub(crate) fn norm(self, of: &[f32]) -> f64 {
        match self {
            Self::Cosine => of.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt(),
            Self::L2 | Self::Dot => 0.0,
        }
    }

    /// Returns the distance between a stored vector and another one, whose norm is `norm`.
    pub(crate) fn distance_of(self, stored: &[u8], to: &[f32], norm: f64) -> f64 {
        let distance = match self {
            Self::Cosine => {
                let product = sum(stored, to, |x, y| x * y);
                let square = sum(stored, to, |x, _| x * x);
                let length = f64::from(square).sqrt() * norm;
                if length == 0.0 { 1.0 } else { 1.0 - f64::from(product) / length }
            }
            Self::L2 => {
                let square = sum(stored, to, |x, y| (x - y) * (x - y));
                f64::from(square).sqrt()
            }
            Self::Dot => {
                let product = sum(stored, to, |x, y| x * y);
                -f64::from(product)
            }
        };
        // Numbers close to the maximum of their type exceed it when they are multiplied.
        if distance.is_nan() { f64::INFINITY } else { distance }
    }
}

/// Returns the sum of the terms of a stored vector and another one. Two sums take two passes: a pass
/// that makes both is vectorized badly.
#[inline(always)]
fn sum(stored: &[u8], to: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let (blocks, rest) = stored.as_chunks::<{ LANES * NUMBER_BYTES }>();
    let (to_blocks, to_rest) = to.as_chunks::<LANES>();
    for (block, to) in blocks.iter().zip(to_blocks) {
        let (numbers, _) = block.as_chunks::<NUMBER_BYTES>();
        for lane in 0..LANES {
            lanes[lane] += term(f32::from_le_bytes(numbers[lane]), to[lane]);
        }
    }
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
    }
    numbers(rest).zip(to_rest).fold(lanes[0], |sum, (number, to)| sum + term(number, *to))
}

/// Returns the numbers of a stored vector.
pub(crate) fn numbers(stored: &[u8]) -> impl Iterator<Item = f32> {
    stored.as_chunks::<NUMBER_BYTES>().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}

/// Returns the stored form of numbers.
pub(crate) fn stored(numbers: impl IntoIterator<Item = f32>) -> Vec<u8> {
    numbers.into_iter().flat_map(f32::to_le_bytes).collect()
}

/// Returns true if a stored vector has this number of dimensions.
pub(crate) const fn has_dimensions(stored: &[u8], dimensions: u32) -> bool {
    stored.len() == dimensions as usize * NUMBER_BYTES
}

/// Appends a stored vector as an array of numbers, which are read back exactly.
pub(crate) fn write_json(out: &mut Vec<u8>, stored: &[u8]) {
    out.push(b'[');
    for (at, number) in numbers(stored).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match number.is_finite() {
            true => out.extend_from_slice(zmij::Buffer::new().format_finite(number).as_bytes()),
            false => out.extend_from_slice(b"null"),
        }
    }
    out.push(b']');
}

/// Reads the numbers of a JSON array; `None` if it is not an array of finite numbers, or has more
/// than the maximum.
pub(crate) fn read_json(json: &str) -> Option<Vec<f32>> {
    let inside = json.trim().strip_prefix('[')?.strip_suffix(']')?;
    let mut numbers = Vec::new();
    for number in inside.split(',') {
        let number = number.trim();
        // Rust also reads `inf`, `+1` and `.5`.
        let is_number = number.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        let read = number.parse().ok().filter(|number: &f32| is_number && number.is_finite())?;
        if numbers.len() == VECTOR_DIMENSIONS_MAX as usize {
            return None;
        }
        numbers.push(read);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_arrays_of_finite_numbers_are_read() {
        assert_eq!(read_json(" [1, -2.5e-1 ,0] "), Some(vec![1.0, -0.25, 0.0]));
        for json in [
            "", "[]", "[1,]", "[1", "1", "[null]", "[\"1\"]", "[[1]]", "[1e39]", "[inf]", "[-inf]",
            "[NaN]", "[+1]", "[.5]", "{}",
        ] {
            assert_eq!(read_json(json), None, "{json}");
        }
        assert_eq!(read_json(&format!("[{}1]", "1,".repeat(4_096))), None);
    }

    #[test]
    fn distances_of_zero_and_huge_vectors_are_numbers() {
        let (zero, huge) = ([0.0; 20], [f32::MAX; 20]);
        assert_eq!(Metric::Cosine.distance(&zero, &huge), 1.0);
        for metric in Metric::ALL {
            assert!(!metric.distance(&huge, &huge).is_nan());
        }
    }

    proptest! {
        #[test]
        fn distances_are_those_of_a_plain_loop(
            pairs in prop::collection::vec((-9.0_f32..9.0, -9.0_f32..9.0), 1..70),
        ) {
            let (a, b): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
            let sum = |term: fn(f64, f64) -> f64| -> f64 {
                pairs.iter().map(|&(a, b)| term(f64::from(a), f64::from(b))).sum()
            };
            let (product, squares) = (sum(|a, b| a * b), sum(|a, b| (a - b) * (a - b)));
            prop_assert!((Metric::Dot.distance(&a, &b) + product).abs() < 0.02);
            prop_assert!((Metric::L2.distance(&a, &b) - squares.sqrt()).abs() < 0.01);
            let lengths = (sum(|a, _| a * a) * sum(|_, b| b * b)).sqrt();
            if lengths > 0.1 {
                let wanted = 1.0 - product / lengths;
                prop_assert!((Metric::Cosine.distance(&a, &b) - wanted).abs() < 0.001);
            }
        }

        #[test]
        fn json_is_read_back_exactly(numbers in prop::collection::vec(prop::num::f32::NORMAL, 1..9)) {
            let mut json = Vec::new();
            write_json(&mut json, &stored(numbers.iter().copied()));
            prop_assert_eq!(read_json(std::str::from_utf8(&json).unwrap()), Some(numbers));
        }
    }
}
