//! Conditions and orders in the form for engines.

use crate::json::JsonCondition;
use crate::{Comparison, FieldSet, GeoBox, GeoCircle, Place, RelatedFilter, Search, Table, Value};

/// A condition on a row in the form for engines: fields are named by their position in the table of
/// the operation. Programs use [`Filter`](crate::Filter), which knows its model or table.
///
/// ```
/// # use marmota_model::{Field, Kind, Role, Schema, Table};
/// # let table = Table::new(Schema::new("person", vec![
/// #     Field::new("id", Kind::I64).role(Role::Key),
/// #     Field::new("name", Kind::TEXT).search(true),
/// #     Field::new("died", Kind::I64).nullable(true)]))?;
/// use marmota_model::{Comparison, FilterExpr, Value, parse_filter};
/// let died = FilterExpr::Compare {
///     field: 2,
///     comparison: Comparison::Greater,
///     value: Value::Int(1930),
/// };
/// let parsed = parse_filter(&table, "died > 1930 or died = null")?.into_expr_for(&table)?;
/// assert_eq!(parsed, died.or(FilterExpr::IsNull { field: 2 }));
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum FilterExpr {
    /// Compares a field with a value, which is not NULL.
    Compare {
        /// The field.
        field: usize,
        /// The comparison.
        comparison: Comparison,
        /// The value.
        value: Value,
    },
    /// A field is one of the values, none of which is NULL.
    In {
        /// The field.
        field: usize,
        /// The values.
        values: Vec<Value>,
    },
    /// A text field contains this text, or starts with it.
    Match {
        /// The field.
        field: usize,
        /// The position of the text in the field.
        place: Place,
        /// The text.
        text: String,
    },
    /// A field is NULL.
    IsNull {
        /// The field.
        field: usize,
    },
    /// The value at a path inside a JSON field satisfies a condition.
    Inside {
        /// The field.
        field: usize,
        /// The path and the test.
        condition: Box<JsonCondition>,
    },
    /// The point of two float fields is in a circle. Made with the box of the circle by
    /// [`FilterExpr::near`], so that an index of the fields can be used.
    Near {
        /// The field of the latitude.
        latitude: usize,
        /// The field of the longitude.
        longitude: usize,
        /// The circle.
        circle: GeoCircle,
    },
    /// A searchable field, or all of them taken together, matches a search. NULL has no words: the
    /// result is always true or false.
    Search {
        /// The field; `None` for all searchable fields.
        field: Option<usize>,
        /// The search.
        search: Box<Search>,
    },
    /// Rows of a related table satisfy a condition. The result is always true or false.
    Related(Box<RelatedFilter>),
    /// The filter is false.
    Not(Box<FilterExpr>),
    /// All filters are true. True for an empty list.
    And(Vec<FilterExpr>),
    /// At least one filter is true. False for an empty list.
    Or(Vec<FilterExpr>),
}

/// A field to sort by, in the form for engines. Programs use [`Order`](crate::Order), which knows
/// its model or table.
///
/// ```
/// # use marmota_model::{Field, Kind, Role, Schema, Table};
/// # let table = Table::new(Schema::new("person", vec![
/// #     Field::new("id", Kind::I64).role(Role::Key),
/// #     Field::new("name", Kind::TEXT).search(true),
/// #     Field::new("died", Kind::I64).nullable(true)]))?;
/// use marmota_model::{SortKey, parse_order};
/// let order = parse_order(&table, "-died")?.remove(0);
/// assert_eq!(order.into_key_for(&table)?, SortKey { field: 2, descending: true });
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SortKey {
    /// The field.
    pub field: usize,
    /// True for descending order, in which NULL comes last; otherwise NULL comes first.
    pub descending: bool,
}

impl FilterExpr {
    /// Rows whose searchable fields, taken together, match a search: `marmot -dog "alpine mead*"`
    /// ([`Search`]).
    ///
    /// ```
    /// use marmota_model::FilterExpr;
    /// let filter = FilterExpr::search("marmot -dog");
    /// assert!(matches!(filter, FilterExpr::Search { field: None, .. }));
    /// ```
    #[must_use]
    pub fn search(text: &str) -> Self {
        Self::Search { field: None, search: Box::new(Search::new(text)) }
    }

    /// Rows whose point, of the fields of its latitude and longitude, is in a circle.
    ///
    /// ```
    /// use marmota_model::{FilterExpr, GeoCircle, GeoPoint};
    /// let circle = GeoCircle::new(GeoPoint::new(48.1, 11.5)?, 5_000.0)?;
    /// let FilterExpr::And(all) = FilterExpr::near(2, 3, circle) else { unreachable!() };
    /// assert!(matches!(all.last(), Some(FilterExpr::Near { latitude: 2, longitude: 3, .. })));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn near(latitude: usize, longitude: usize, circle: GeoCircle) -> Self {
        Self::within(latitude, longitude, circle.bounds()).and(Self::Near {
            latitude,
            longitude,
            circle,
        })
    }

    /// Rows whose point, of the fields of its latitude and longitude, is in a box.
    ///
    /// ```
    /// use marmota_model::{FilterExpr, GeoBox};
    /// let alps = FilterExpr::within(2, 3, GeoBox::new(43.5, 5.0, 48.5, 16.5)?);
    /// assert!(matches!(alps, FilterExpr::And(all) if all.len() == 4));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn within(latitude: usize, longitude: usize, area: GeoBox) -> Self {
        let compare = |field, comparison, value| Self::Compare {
            field,
            comparison,
            value: Value::Float(value),
        };
        let ((south, north), (west, east)) = (area.latitudes(), area.longitudes());
        let after = compare(longitude, Comparison::GreaterOrEqual, west);
        let before = compare(longitude, Comparison::LessOrEqual, east);
        let mut all = vec![
            compare(latitude, Comparison::GreaterOrEqual, south),
            compare(latitude, Comparison::LessOrEqual, north),
        ];
        match west <= east {
            true => all.extend([after, before]),
            false => all.push(after.or(before)),
        }
        Self::And(all)
    }

    /// Returns a filter that is true if both filters are.
    ///
    /// ```
    /// use marmota_model::FilterExpr;
    /// let old = FilterExpr::IsNull { field: 4 };
    /// assert_eq!(old.clone().and(old.clone()), FilterExpr::And(vec![old.clone(), old]));
    /// ```
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match self {
            Self::And(mut all) => {
                all.push(other);
                Self::And(all)
            }
            one => Self::And(vec![one, other]),
        }
    }

    /// Returns a filter that is true if either filter is.
    ///
    /// ```
    /// use marmota_model::FilterExpr;
    /// let (a, b) = (FilterExpr::IsNull { field: 1 }, FilterExpr::IsNull { field: 2 });
    /// assert_eq!(a.clone().or(b.clone()), FilterExpr::Or(vec![a, b]));
    /// ```
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match self {
            Self::Or(mut any) => {
                any.push(other);
                Self::Or(any)
            }
            one => Self::Or(vec![one, other]),
        }
    }

    /// Returns the first field that the filter names, for messages.
    pub(crate) fn first_field(&self) -> Option<usize> {
        match self {
            Self::Compare { field, .. }
            | Self::In { field, .. }
            | Self::Match { field, .. }
            | Self::IsNull { field }
            | Self::Inside { field, .. } => Some(*field),
            Self::Near { latitude, .. } => Some(*latitude),
            Self::Search { field, .. } => *field,
            Self::Related(related) => Some(related.step.local),
            Self::Not(inner) => inner.first_field(),
            Self::And(all) | Self::Or(all) => all.iter().find_map(Self::first_field),
        }
    }

    /// Returns the fields that the filter uses, without those of related tables.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT).search(true),
    /// #     Field::new("died", Kind::I64).nullable(true)]))?;
    /// use marmota_model::FilterExpr;
    /// let filter = FilterExpr::IsNull { field: 2 }.and(FilterExpr::search("ada"));
    /// let fields: Vec<usize> = filter.fields(&table).iter().collect();
    /// assert_eq!(fields, [1, 2], "the search reads the searchable field");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn fields(&self, table: &Table) -> FieldSet {
        match self {
            Self::Compare { field, .. }
            | Self::In { field, .. }
            | Self::Match { field, .. }
            | Self::IsNull { field }
            | Self::Inside { field, .. }
            | Self::Search { field: Some(field), .. } => FieldSet::EMPTY.with(*field),
            Self::Near { latitude, longitude, .. } => {
                FieldSet::EMPTY.with(*latitude).with(*longitude)
            }
            Self::Search { field: None, .. } => {
                table.search_fields().fold(FieldSet::EMPTY, FieldSet::with)
            }
            Self::Related(related) => FieldSet::EMPTY.with(related.step.local),
            Self::Not(inner) => inner.fields(table),
            Self::And(all) | Self::Or(all) => {
                all.iter().fold(FieldSet::EMPTY, |fields, one| fields.union(one.fields(table)))
            }
        }
    }
}
