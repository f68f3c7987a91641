//! The limits of a form, each of which is on by default.

/// Maximum bytes of a part's head, and of the bytes before the first boundary.
pub(super) const HEAD_BYTES_MAX: usize = 8 * 1024;
/// The longest boundary that RFC 2046, 5.1.1, allows.
pub(super) const BOUNDARY_BYTES_MAX: usize = 70;

/// Limits of a form. The length of the whole form is limited by its route: see
/// [`Endpoint::streamed`](crate::Endpoint::streamed) and
/// [`Endpoint::body_bytes_max`](crate::Endpoint::body_bytes_max).
///
/// Two limits are fixed: the head of a part has at most 8 KiB, a boundary at most 70 bytes.
///
/// ```
/// use marmota_http::MultipartLimits;
///
/// let mut limits = MultipartLimits::default();
/// assert_eq!(limits.parts_max, 100);
/// limits.part_bytes_max = 10 << 20; // 10 MiB for each file
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MultipartLimits {
    /// Maximum number of parts. Default: 100. More are answered by
    /// [`MultipartError::TooMany`](super::MultipartError::TooMany).
    pub parts_max: usize,
    /// Maximum bytes of a part that is taken into memory ([`Part::text`](super::Part::text)).
    /// Default: 1 MiB.
    pub text_bytes_max: u64,
    /// Maximum bytes of any part: read, saved or skipped. Default: 1 GiB.
    pub part_bytes_max: u64,
}

impl Default for MultipartLimits {
    fn default() -> Self {
        Self { parts_max: 100, text_bytes_max: 1 << 20, part_bytes_max: 1 << 30 }
    }
}
