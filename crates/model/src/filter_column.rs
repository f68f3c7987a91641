//! Filters and orders by typed columns: `Person::BORN.gt(1900)`,
//! `Place::OPTIONS.at("address.city").eq("Bourges")`.

use crate::json::{JsonCondition, JsonPath, JsonTest};
use crate::{
    Column, Comparable, Comparison, FieldValue, Filter, Json, Model, Order, Place, Search, Value,
};

impl<M: Model, T: FieldValue> Column<M, T> {
    fn compare(self, comparison: Comparison, value: impl Comparable<T>) -> Filter {
        let field = self.position();
        match (comparison, value.into_value()) {
            (Comparison::Equal, Value::Null) => Filter::IsNull { field },
            (Comparison::NotEqual, Value::Null) => Filter::Not(Box::new(Filter::IsNull { field })),
            (comparison, value) => Filter::Compare { field, comparison, value },
        }
    }

    /// Rows where the field is `value`.
    #[must_use]
    pub fn eq(self, value: impl Comparable<T>) -> Filter {
        self.compare(Comparison::Equal, value)
    }

    /// Rows where the field has a value other than `value`.
    #[must_use]
    pub fn ne(self, value: impl Comparable<T>) -> Filter {
        self.compare(Comparison::NotEqual, value)
    }

    /// Rows where the field is less than `value`.
    #[must_use]
    pub fn lt(self, value: impl Comparable<T>) -> Filter {
        self.compare(Comparison::Less, value)
    }

    /// Rows where the field is at most `value`.
    #[must_use]
    pub fn le(self, value: impl Comparable<T>) -> Filter {
        self.compare(Comparison::LessOrEqual, value)
    }

    /// Rows where the field is more than `value`.
    #[must_use]
    pub fn gt(self, value: impl Comparable<T>) -> Filter {
        self.compare(Comparison::Greater, value)
    }

    /// Rows where the field is at least `value`.
    #[must_use]
    pub fn ge(self, value: impl Comparable<T>) -> Filter {
        self.compare(Comparison::GreaterOrEqual, value)
    }

    /// Rows where the field is one of `values`.
    #[must_use]
    pub fn is_in<V: Comparable<T>>(self, values: impl IntoIterator<Item = V>) -> Filter {
        let values = values.into_iter().map(Comparable::into_value).collect();
        Filter::In { field: self.position(), values }
    }

    /// Rows where the field is NULL.
    #[must_use]
    pub fn is_null(self) -> Filter {
        Filter::IsNull { field: self.position() }
    }

    /// Rows where the text field has `text` in it, whatever the case of A to Z.
    #[must_use]
    pub fn contains(self, text: impl Into<String>) -> Filter {
        Filter::Match { field: self.position(), place: Place::Anywhere, text: text.into() }
    }

    /// Rows where the text field begins with `text`, whatever the case of A to Z.
    #[must_use]
    pub fn starts_with(self, text: impl Into<String>) -> Filter {
        Filter::Match { field: self.position(), place: Place::Start, text: text.into() }
    }

    /// Rows where the field, which can be searched, has what is looked for:
    /// `marmot -dog "alpine mead*"` ([`Search`]).
    #[must_use]
    pub fn search(self, text: &str) -> Filter {
        Filter::Search { field: Some(self.position()), search: Box::new(Search::new(text)) }
    }

    /// From the first to the last; NULL first.
    #[must_use]
    pub fn ascending(self) -> Order {
        Order { field: self.position(), descending: false }
    }

    /// From the last to the first; NULL last.
    #[must_use]
    pub fn descending(self) -> Order {
        Order { field: self.position(), descending: true }
    }
}

impl<M, T> Column<M, Json<T>> {
    /// What lies at a path inside the field: `address.city`, `tags[0]`. Rows
    /// are asked by the methods of [`Member`], whatever type `T` is.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter, Json};
    /// # struct Place;
    /// # impl Place { const OPTIONS: Column<Self, Json<Vec<u8>>> = Column::new(1, "options"); }
    /// let filter = Place::OPTIONS.at("address.city").eq("Bourges");
    /// assert!(matches!(filter, Filter::Inside { field: 1, .. }));
    /// ```
    pub fn at(self, path: &str) -> Member {
        Member { field: self.position(), path: JsonPath::new(path) }
    }
}

impl<M, T> Column<M, Option<Json<T>>> {
    /// As for a field that is always there.
    pub fn at(self, path: &str) -> Member {
        Member { field: self.position(), path: JsonPath::new(path) }
    }
}

/// A place inside a JSON field, as [`Column::at`] gives it. A path that makes
/// no sense is reported when the filter is used. See [`JsonCondition`] for
/// what is true of values that are missing or of another type.
#[derive(Clone, Debug)]
#[must_use = "a place is no filter yet"]
pub struct Member {
    field: usize,
    path: JsonPath,
}

impl Member {
    fn filter(self, test: JsonTest) -> Filter {
        let condition = JsonCondition { path: self.path, test };
        Filter::Inside { field: self.field, condition: Box::new(condition) }
    }

    fn compare(self, comparison: Comparison, value: impl Into<Value>) -> Filter {
        match (comparison, value.into()) {
            (Comparison::Equal, Value::Null) => self.filter(JsonTest::IsNull),
            (Comparison::NotEqual, Value::Null) => {
                Filter::Not(Box::new(self.filter(JsonTest::IsNull)))
            }
            (comparison, value) => self.filter(JsonTest::Compare(comparison, value)),
        }
    }

    /// Rows where it is `value`: a number, a text, true or false.
    pub fn eq(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::Equal, value)
    }

    /// Rows where it is there, and is not `value`.
    pub fn ne(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::NotEqual, value)
    }

    /// Rows where it is less than `value`.
    pub fn lt(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::Less, value)
    }

    /// Rows where it is at most `value`.
    pub fn le(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::LessOrEqual, value)
    }

    /// Rows where it is more than `value`.
    pub fn gt(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::Greater, value)
    }

    /// Rows where it is at least `value`.
    pub fn ge(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::GreaterOrEqual, value)
    }

    /// Rows where it is one of `values`.
    pub fn is_in<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Filter {
        self.filter(JsonTest::In(values.into_iter().map(Into::into).collect()))
    }

    /// Rows where it is null or missing.
    pub fn is_null(self) -> Filter {
        self.filter(JsonTest::IsNull)
    }

    /// Rows where it is there, be it null.
    pub fn exists(self) -> Filter {
        self.filter(JsonTest::Exists)
    }

    /// Rows where it is a text with `text` in it, whatever the case of A to Z.
    pub fn contains(self, text: impl Into<String>) -> Filter {
        self.filter(JsonTest::Match(Place::Anywhere, text.into()))
    }

    /// Rows where it is a text that begins with `text`, whatever the case of A
    /// to Z.
    pub fn starts_with(self, text: impl Into<String>) -> Filter {
        self.filter(JsonTest::Match(Place::Start, text.into()))
    }
}
