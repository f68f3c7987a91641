//! Places on the earth: points, circles and boxes in degrees.
//!
//! The earth is a sphere with its mean radius. Whether a point is in a circle is decided by the
//! haversine of its distance, in the order of operations that [`GeoCircle::contains`] has. SQL of
//! engines repeats it operation by operation, so that the results are the same.

use std::f64::consts::PI;

use crate::{Error, ErrorKind, Result};

/// The mean radius of the earth, in metres.
pub const EARTH_RADIUS: f64 = 6_371_008.8;

/// The degrees by which the box of a circle is enlarged on each side, against rounding: 0.1 mm.
const MARGIN: f64 = 1e-9;

/// A point on the earth (WGS 84).
///
/// ```
/// use marmota_model::GeoPoint;
/// let munich = GeoPoint::new(48.137, 11.575)?;
/// let vienna = GeoPoint::new(48.208, 16.373)?;
/// assert_eq!((munich.distance(vienna) / 1_000.0).round(), 356.0);
/// assert!(GeoPoint::new(91.0, 0.0).is_err());
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeoPoint {
    latitude: f64,
    longitude: f64,
}

/// The points within a distance of a centre, including those at exactly this distance.
///
/// ```
/// use marmota_model::{GeoCircle, GeoPoint};
/// let near = GeoCircle::new(GeoPoint::new(48.137, 11.575)?, 5_000.0)?;
/// assert!(near.contains(48.15, 11.58));
/// assert!(!near.contains(48.2, 11.58));
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeoCircle {
    center: GeoPoint,
    radius: f64,
    /// The cosine of the centre's latitude.
    cosine: f64,
    /// The greatest haversine of a distance.
    limit: f64,
}

/// The points between two parallels and two meridians, including those on the edges.
///
/// A box whose west is greater than its east contains the meridian of 180 degrees. The numbers are
/// compared as they are: a box that ends at 180 has no points at -180.
///
/// ```
/// use marmota_model::GeoBox;
/// let fiji = GeoBox::new(-21.0, 176.8, -12.4, -178.2)?;
/// assert!(fiji.contains(-17.7, 178.0) && fiji.contains(-17.2, -179.0));
/// assert!(!fiji.contains(-17.7, 0.0));
/// assert!(GeoBox::new(50.0, 5.0, 48.0, 15.0).is_err(), "south is greater than north");
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeoBox {
    south: f64,
    west: f64,
    north: f64,
    east: f64,
}

impl GeoPoint {
    /// Creates a point from a latitude of -90 to 90 degrees and a longitude of -180 to 180.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the number that is out of range.
    pub fn new(latitude: f64, longitude: f64) -> Result<Self> {
        in_range("latitude", latitude, 90.0)?;
        in_range("longitude", longitude, 180.0)?;
        Ok(Self { latitude, longitude })
    }

    /// Returns the latitude, in degrees.
    #[must_use]
    pub const fn latitude(self) -> f64 {
        self.latitude
    }

    /// Returns the longitude, in degrees.
    #[must_use]
    pub const fn longitude(self) -> f64 {
        self.longitude
    }

    /// Returns the distance to another point, in metres.
    #[must_use]
    pub fn distance(self, other: Self) -> f64 {
        self.distance_to(other.latitude, other.longitude)
    }

    /// Returns the distance to a stored point, in metres.
    pub(crate) fn distance_to(self, latitude: f64, longitude: f64) -> f64 {
        let cosine = self.latitude.to_radians().cos();
        let half = haversine(self, cosine, latitude, longitude).clamp(0.0, 1.0).sqrt().asin();
        2.0 * EARTH_RADIUS * half
    }
}

/// Returns the haversine of the angle between two points.
fn haversine(from: GeoPoint, cosine: f64, latitude: f64, longitude: f64) -> f64 {
    let north = ((latitude - from.latitude).to_radians() / 2.0).sin();
    let east = ((longitude - from.longitude).to_radians() / 2.0).sin();
    north * north + latitude.to_radians().cos() * cosine * east * east
}

fn in_range(name: &str, value: f64, most: f64) -> Result<()> {
    if (-most..=most).contains(&value) {
        return Ok(());
    }
    let message = format!("the {name} {value} must be between -{most} and {most} degrees");
    Err(Error::new(ErrorKind::Invalid, message))
}

impl GeoCircle {
    /// Creates a circle with a radius in metres.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the radius is negative or not a finite number.
    pub fn new(center: GeoPoint, radius: f64) -> Result<Self> {
        if !(radius.is_finite() && radius >= 0.0) {
            let message = format!("the radius {radius} must be a number of metres from 0");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let half = radius / (2.0 * EARTH_RADIUS);
        // A haversine may exceed 1 by rounding.
        let limit = if half < PI / 2.0 { half.sin() * half.sin() } else { 2.0 };
        Ok(Self { center, radius, cosine: center.latitude.to_radians().cos(), limit })
    }

    /// Returns the centre.
    #[must_use]
    pub const fn center(&self) -> GeoPoint {
        self.center
    }

    /// Returns the radius, in metres.
    #[must_use]
    pub const fn radius(&self) -> f64 {
        self.radius
    }

    /// Returns the cosine of the centre's latitude; for engines.
    #[must_use]
    pub const fn cosine(&self) -> f64 {
        self.cosine
    }

    /// Returns the greatest haversine of a distance from the centre; for engines.
    #[must_use]
    pub const fn limit(&self) -> f64 {
        self.limit
    }

    /// Returns true if a point is in the circle.
    #[must_use]
    pub fn contains(&self, latitude: f64, longitude: f64) -> bool {
        haversine(self.center, self.cosine, latitude, longitude) <= self.limit
    }

    /// Returns a box that contains the circle.
    #[must_use]
    pub fn bounds(&self) -> GeoBox {
        let GeoPoint { latitude, longitude } = self.center;
        let angle = self.radius / EARTH_RADIUS;
        let height = angle.to_degrees() + MARGIN;
        let (south, north) = ((latitude - height).max(-90.0), (latitude + height).min(90.0));
        let everywhere = GeoBox { south, west: -180.0, north, east: 180.0 };
        // With a pole, the circle has points at all longitudes. Close to one, rounding decides the
        // width.
        let sine = angle.sin() / self.cosine;
        if south == -90.0 || north == 90.0 || sine > 0.999_999 {
            return everywhere;
        }
        let width = sine.asin().to_degrees() + MARGIN;
        let (west, east) = (longitude - width, longitude + width);
        match (west <= -180.0, east >= 180.0) {
            (true, _) => GeoBox { west: west + 360.0, east, ..everywhere },
            (_, true) => GeoBox { west, east: east - 360.0, ..everywhere },
            _ => GeoBox { west, east, ..everywhere },
        }
    }
}

impl GeoBox {
    /// Creates a box from its edges, in degrees.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the edge that is out of range, or if south is greater than north.
    pub fn new(south: f64, west: f64, north: f64, east: f64) -> Result<Self> {
        in_range("south", south, 90.0)?;
        in_range("west", west, 180.0)?;
        in_range("north", north, 90.0)?;
        in_range("east", east, 180.0)?;
        if south > north {
            let message = format!("south, {south}, must not be greater than north, {north}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(Self { south, west, north, east })
    }

    /// Returns true if a point is in the box.
    #[must_use]
    pub fn contains(&self, latitude: f64, longitude: f64) -> bool {
        let is_after = longitude >= self.west;
        let is_before = longitude <= self.east;
        let fits =
            if self.west <= self.east { is_after && is_before } else { is_after || is_before };
        (self.south..=self.north).contains(&latitude) && fits
    }

    /// Returns the least and the greatest latitude.
    #[must_use]
    pub const fn latitudes(&self) -> (f64, f64) {
        (self.south, self.north)
    }

    /// Returns the first and the last longitude, from west to east.
    #[must_use]
    pub const fn longitudes(&self) -> (f64, f64) {
        (self.west, self.east)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn distances_are_those_of_a_sphere() {
        let point = |latitude, longitude| GeoPoint::new(latitude, longitude).unwrap();
        let quarter = PI / 2.0 * EARTH_RADIUS;
        for (from, to, distance) in [
            (point(0.0, 0.0), point(0.0, 90.0), quarter),
            (point(90.0, 17.0), point(0.0, -120.0), quarter),
            (point(12.5, 30.0), point(-12.5, -150.0), 2.0 * quarter),
            (point(0.0, 179.5), point(0.0, -179.5), quarter / 90.0),
            (point(48.0, 11.0), point(48.0, 11.0), 0.0),
        ] {
            assert!((from.distance(to) - distance).abs() < 0.001, "{from:?} {to:?}");
            assert!((to.distance(from) - distance).abs() < 0.001, "{from:?} {to:?}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_named() {
        let error = |made: Result<()>| made.unwrap_err().to_string();
        assert!(error(GeoPoint::new(f64::NAN, 0.0).map(drop)).contains("latitude NaN"));
        assert!(error(GeoPoint::new(0.0, 180.1).map(drop)).contains("longitude 180.1"));
        let center = GeoPoint::new(0.0, 0.0).unwrap();
        for radius in [-1.0, f64::INFINITY, f64::NAN] {
            assert!(error(GeoCircle::new(center, radius).map(drop)).contains("radius"));
        }
        assert!(error(GeoBox::new(0.0, 0.0, 0.0, -181.0).map(drop)).contains("east -181"));
    }

    #[test]
    fn a_circle_around_the_earth_has_all_points() {
        let circle = GeoCircle::new(GeoPoint::new(33.0, 44.0).unwrap(), 21e6).unwrap();
        assert!(circle.contains(-33.0, -136.0) && circle.bounds().contains(-33.0, -136.0));
    }

    proptest! {
        #[test]
        fn the_box_of_a_circle_contains_it(
            latitude in prop_oneof![-90.0..=90.0_f64, Just(90.0), Just(-89.999)],
            longitude in prop_oneof![-180.0..=180.0_f64, Just(180.0), Just(-180.0)],
            radius in prop_oneof![0.0..100.0_f64, 0.0..21e6_f64],
            angle in 0.0..360.0_f64,
            part in prop_oneof![0.0..=1.0_f64, Just(1.0)],
        ) {
            let center = GeoPoint::new(latitude, longitude).unwrap();
            let circle = GeoCircle::new(center, radius).unwrap();
            // The point in this direction at a part of the radius.
            let (sine, cosine) = (part * radius / EARTH_RADIUS).sin_cos();
            let (own, turned) = (latitude.to_radians(), angle.to_radians());
            let north = (own.sin() * cosine + own.cos() * sine * turned.cos()).clamp(-1.0, 1.0);
            let east = (turned.sin() * sine * own.cos()).atan2(cosine - own.sin() * north);
            let longitude = (longitude + east.to_degrees() + 540.0).rem_euclid(360.0) - 180.0;
            let latitude = north.asin().to_degrees();
            if circle.contains(latitude, longitude) {
                prop_assert!(circle.bounds().contains(latitude, longitude));
            } else {
                prop_assert!(center.distance_to(latitude, longitude) > radius * part * 0.999_999);
            }
        }
    }
}
