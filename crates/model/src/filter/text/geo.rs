//! Conditions on points: `near(lat, lon, 48.1, 11.5, 5000)`, `within(lat, lon, 43.5, 5, 48.5, 16.5)`.

use super::parser::Parser;
use super::value::value;
use crate::filter::check::check_coordinate;
use crate::lexer::Token;
use crate::{FilterExpr, GeoBox, GeoCircle, GeoPoint, Result, Value};

/// The functions on the point of two fields.
#[derive(Clone, Copy)]
pub(super) enum Area {
    Circle,
    Box,
}

impl Area {
    /// Returns the function with this name; names ignore case.
    pub(super) fn named(name: &str) -> Option<Self> {
        [("near", Self::Circle), ("within", Self::Box)]
            .into_iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, area)| area)
    }
}

impl Parser<'_, '_> {
    /// Parses a function after its name: the fields of the latitude and the longitude, and the
    /// numbers of the area.
    pub(super) fn in_area(&mut self, area: Area) -> Result<FilterExpr> {
        self.cursor.expect("(")?;
        let latitude = self.coordinate()?;
        self.cursor.expect(",")?;
        let longitude = self.coordinate()?;
        let filter = match area {
            Area::Circle => {
                let [north, east, radius] = self.numbers(latitude)?;
                let circle = GeoCircle::new(GeoPoint::new(north, east)?, radius)?;
                FilterExpr::near(latitude, longitude, circle)
            }
            Area::Box => {
                let [south, west, north, east] = self.numbers(latitude)?;
                let area = GeoBox::new(south, west, north, east)?;
                FilterExpr::within(latitude, longitude, area)
            }
        };
        self.cursor.expect(")")?;
        Ok(filter)
    }

    fn coordinate(&mut self) -> Result<usize> {
        match self.cursor.token()? {
            Token::Word(name) => {
                let field = self.table.position(name)?;
                check_coordinate(self.table, field)?;
                Ok(field)
            }
            other => Err(self.cursor.expected("the field of a latitude or longitude", &other)),
        }
    }

    /// Parses numbers, each after a comma, as values of a float field.
    fn numbers<const N: usize>(&mut self, field: usize) -> Result<[f64; N]> {
        let mut numbers = [0.0; N];
        for number in &mut numbers {
            self.cursor.expect(",")?;
            *number = match value(&mut self.cursor, &self.table.fields()[field])? {
                Value::Float(number) => number,
                _ => return Err(self.cursor.error("needs a number")),
            };
        }
        Ok(numbers)
    }
}
