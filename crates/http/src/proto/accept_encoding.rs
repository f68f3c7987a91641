//! The choice of a content coding by the header `Accept-Encoding` (RFC 9110, 12.5.3).
//!
//! The header is a list of codings with weights from 0 to 1, as in `br;q=1.0, gzip;q=0.5, *;q=0`.
//! This file only chooses: the codings themselves are in [`crate::body::coding`], and prepared
//! files (`app.js.br`) in [`crate::files`].

/// Returns the index in `offered` of the coding that the header prefers. Among codings of equal
/// weight it is the first, so `offered` is in the order that the server prefers.
///
/// Returns `None` if the header accepts none of them, or gives a higher weight to `identity`, the
/// body without a coding. A coding that the header does not name has the weight of `*`, or 0
/// without `*`. `x-gzip` is an old name of gzip (RFC 9110, 8.4.1.3). At most four codings can be
/// offered.
pub(crate) fn best_coding(header: &str, offered: &[&str]) -> Option<usize> {
    let (mut identity, mut any) = (None, None);
    let mut weights = [None::<f32>; 4];
    for item in header.split(',') {
        let mut parts = item.split(';');
        let name = parts.next().unwrap_or_default().trim();
        let weight = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            name.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse::<f32>().ok())
        });
        // An item with a malformed weight is ignored.
        let Some(weight) = weight.unwrap_or(Some(1.0)) else { continue };
        let name = if name.eq_ignore_ascii_case("x-gzip") { "gzip" } else { name };
        if name == "*" {
            any = Some(weight);
        } else if name.eq_ignore_ascii_case("identity") {
            identity = Some(weight);
        } else if let Some(at) = offered.iter().position(|known| name.eq_ignore_ascii_case(known))
            && let Some(place) = weights.get_mut(at)
        {
            *place = Some(weight);
        }
    }
    let mut best = None;
    for (at, weight) in weights.iter().take(offered.len()).enumerate() {
        let weight = weight.or(any).unwrap_or(0.0);
        if weight > 0.0
            && weight >= identity.unwrap_or(0.0)
            && best.is_none_or(|(_, highest)| weight > highest)
        {
            best = Some((at, weight));
        }
    }
    best.map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_accepted_coding_is_chosen() {
        for (header, expected) in [
            ("", None),
            ("identity", None),
            ("br, deflate", None),
            ("gzip", Some("gzip")),
            ("GZIP;q=0.5, br", Some("gzip")),
            ("gzip, deflate, br, zstd", Some("zstd")),
            ("zstd;q=0.3, gzip;q=0.8", Some("gzip")),
            ("gzip;q=0", None),
            ("*", Some("zstd")),
            ("zstd;q=0, *", Some("gzip")),
            ("gzip;q=0.2, identity;q=0.9", None),
            ("gzip;q=x", None),
            ("gzip ; q = 1.0", Some("gzip")),
        ] {
            let offered = ["zstd", "gzip"];
            assert_eq!(best_coding(header, &offered).map(|at| offered[at]), expected, "{header}");
        }
    }
}
