//! Filters by a place inside a JSON field: `Place::OPTIONS.at("address.city").eq("Bourges")`.

use std::marker::PhantomData;

use crate::json::{JsonCondition, JsonPath, JsonTest};
use crate::{Column, Comparison, Filter, FilterExpr, Json, Place, Value};

impl<M, T> Column<M, Json<T>> {
    /// Returns the member at a path inside the field: `address.city`, `tags[0]`. The methods of
    /// [`Member`] make filters from it, for any type `T`.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter, Json};
    /// # struct Place;
    /// # impl Place { const OPTIONS: Column<Self, Json<Vec<u8>>> = Column::new(1, "options"); }
    /// let filter: Filter<Place> = Place::OPTIONS.at("address.city").eq("Bourges");
    /// ```
    pub fn at(self, path: &str) -> Member<M> {
        Member { field: self.position(), path: JsonPath::new(path), model: PhantomData }
    }
}

impl<M, T> Column<M, Option<Json<T>>> {
    /// As for a field that is not optional.
    pub fn at(self, path: &str) -> Member<M> {
        Member { field: self.position(), path: JsonPath::new(path), model: PhantomData }
    }
}

/// A place inside a JSON field, from [`Column::at`]. An invalid path is reported when the filter is
/// used. [`JsonCondition`] defines the results for values that are missing or of another type.
///
/// ```
/// # use marmota_model::{Column, Filter, Json};
/// # struct Place;
/// # impl Place { const OPTIONS: Column<Self, Json<Vec<u8>>> = Column::new(1, "options"); }
/// let city = || Place::OPTIONS.at("address.city");
/// let filter: Filter<Place> = city().exists().and(!city().is_in(["Bourges", "Tours"]));
/// ```
#[must_use = "a path is not a filter yet"]
pub struct Member<M> {
    field: usize,
    path: JsonPath,
    model: PhantomData<fn() -> M>,
}

impl<M> Member<M> {
    fn filter(self, test: JsonTest) -> Filter<M> {
        let condition = JsonCondition { path: self.path, test };
        Filter::of_model(FilterExpr::Inside { field: self.field, condition: Box::new(condition) })
    }

    fn compare(self, comparison: Comparison, value: impl Into<Value>) -> Filter<M> {
        match (comparison, value.into()) {
            (Comparison::Equal, Value::Null) => self.filter(JsonTest::IsNull),
            (Comparison::NotEqual, Value::Null) => !self.filter(JsonTest::IsNull),
            (comparison, value) => self.filter(JsonTest::Compare(comparison, value)),
        }
    }

    /// Rows where it is `value`: a number, a text or a boolean.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter, Json};
    /// # struct Place;
    /// # impl Place { const OPTIONS: Column<Self, Json<Vec<u8>>> = Column::new(1, "options"); }
    /// let filter = Place::OPTIONS.at("tags[0]").eq("red");
    /// ```
    pub fn eq(self, value: impl Into<Value>) -> Filter<M> {
        self.compare(Comparison::Equal, value)
    }

    /// Rows where it exists and is not `value`.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter, Json};
    /// # struct Place;
    /// # impl Place { const OPTIONS: Column<Self, Json<Vec<u8>>> = Column::new(1, "options"); }
    /// let filter = Place::OPTIONS.at("open").ne(true);
    /// ```
    pub fn ne(self, value: impl Into<Value>) -> Filter<M> {
        self.compare(Comparison::NotEqual, value)
    }

    /// Rows where it is less than `value`.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter, Json};
    /// # struct Place;
    /// # impl Place { const OPTIONS: Column<Self, Json<Vec<u8>>> = Column::new(1, "options"); }
    /// let filter = Place::OPTIONS.at("floor").lt(3_i64);
    /// ```
    pub fn lt(self, value: impl Into<Value>) -> Filter<M> {
        self.compare(Comparison::Less, value)
    }

    /// Rows where it is at most `value`.
    pub fn le(self, value: impl Into<Value>) -> Filter<M> {
        self.compare(Comparison::LessOrEqual, value)
    }

    /// Rows where it is more than `value`.
    pub fn gt(self, value: impl Into<Value>) -> Filter<M> {
        self.compare(Comparison::Greater, value)
    }

    /// Rows where it is at least `value`.
    pub fn ge(self, value: impl Into<Value>) -> Filter<M> {
        self.compare(Comparison::GreaterOrEqual, value)
    }

    /// Rows where it is one of `values`.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter, Json};
    /// # struct Place;
    /// # impl Place { const OPTIONS: Column<Self, Json<Vec<u8>>> = Column::new(1, "options"); }
    /// let filter = Place::OPTIONS.at("floor").is_in([1_i64, 2]);
    /// ```
    pub fn is_in<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Filter<M> {
        self.filter(JsonTest::In(values.into_iter().map(Into::into).collect()))
    }

    /// Rows where it is null or missing.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter, Json};
    /// # struct Place;
    /// # impl Place { const OPTIONS: Column<Self, Json<Vec<u8>>> = Column::new(1, "options"); }
    /// let filter = Place::OPTIONS.at("closed").is_null();
    /// ```
    pub fn is_null(self) -> Filter<M> {
        self.filter(JsonTest::IsNull)
    }

    /// Rows where it exists, including null.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter, Json};
    /// # struct Place;
    /// # impl Place { const OPTIONS: Column<Self, Json<Vec<u8>>> = Column::new(1, "options"); }
    /// let filter = Place::OPTIONS.at("closed").exists();
    /// ```
    pub fn exists(self) -> Filter<M> {
        self.filter(JsonTest::Exists)
    }

    /// Rows where it is a text that contains `text`, ignoring the case of A to Z.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter, Json};
    /// # struct Place;
    /// # impl Place { const OPTIONS: Column<Self, Json<Vec<u8>>> = Column::new(1, "options"); }
    /// let filter = Place::OPTIONS.at("note").contains("quiet");
    /// ```
    pub fn contains(self, text: impl Into<String>) -> Filter<M> {
        self.filter(JsonTest::Match(Place::Anywhere, text.into()))
    }

    /// Rows where it is a text that starts with `text`, ignoring the case of A to Z.
    pub fn starts_with(self, text: impl Into<String>) -> Filter<M> {
        self.filter(JsonTest::Match(Place::Start, text.into()))
    }
}
