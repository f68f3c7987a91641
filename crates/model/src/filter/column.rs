//! Filters and orders by typed columns: `Person::BORN.gt(1900)`.

use crate::{
    Column, Comparable, Comparison, FieldValue, Filter, FilterExpr, Order, Place, Search, SortKey,
    Value,
};

impl<M, T: FieldValue> Column<M, T> {
    fn compare(self, comparison: Comparison, value: impl Comparable<T>) -> Filter<M> {
        let field = self.position();
        Filter::of_model(match (comparison, value.into_value()) {
            (Comparison::Equal, Value::Null) => FilterExpr::IsNull { field },
            (Comparison::NotEqual, Value::Null) => {
                FilterExpr::Not(Box::new(FilterExpr::IsNull { field }))
            }
            (comparison, value) => FilterExpr::Compare { field, comparison, value },
        })
    }

    /// Rows where the field is `value`.
    pub fn eq(self, value: impl Comparable<T>) -> Filter<M> {
        self.compare(Comparison::Equal, value)
    }

    /// Rows where the field has a value other than `value`.
    pub fn ne(self, value: impl Comparable<T>) -> Filter<M> {
        self.compare(Comparison::NotEqual, value)
    }

    /// Rows where the field is less than `value`.
    pub fn lt(self, value: impl Comparable<T>) -> Filter<M> {
        self.compare(Comparison::Less, value)
    }

    /// Rows where the field is at most `value`.
    pub fn le(self, value: impl Comparable<T>) -> Filter<M> {
        self.compare(Comparison::LessOrEqual, value)
    }

    /// Rows where the field is more than `value`.
    pub fn gt(self, value: impl Comparable<T>) -> Filter<M> {
        self.compare(Comparison::Greater, value)
    }

    /// Rows where the field is at least `value`.
    pub fn ge(self, value: impl Comparable<T>) -> Filter<M> {
        self.compare(Comparison::GreaterOrEqual, value)
    }

    /// Rows where the field is one of `values`.
    pub fn is_in<V: Comparable<T>>(self, values: impl IntoIterator<Item = V>) -> Filter<M> {
        let values = values.into_iter().map(Comparable::into_value).collect();
        Filter::of_model(FilterExpr::In { field: self.position(), values })
    }

    /// Rows where the field is NULL.
    pub fn is_null(self) -> Filter<M> {
        Filter::of_model(FilterExpr::IsNull { field: self.position() })
    }

    /// Rows whose text field contains `text`, ignoring the case of A to Z.
    pub fn contains(self, text: impl Into<String>) -> Filter<M> {
        Filter::of_model(FilterExpr::Match {
            field: self.position(),
            place: Place::Anywhere,
            text: text.into(),
        })
    }

    /// Rows whose text field starts with `text`, ignoring the case of A to Z.
    pub fn starts_with(self, text: impl Into<String>) -> Filter<M> {
        Filter::of_model(FilterExpr::Match {
            field: self.position(),
            place: Place::Start,
            text: text.into(),
        })
    }

    /// Rows whose searchable field matches a search: `marmot -dog "alpine mead*"` ([`Search`]).
    pub fn search(self, text: &str) -> Filter<M> {
        Filter::of_model(FilterExpr::Search {
            field: Some(self.position()),
            search: Box::new(Search::new(text)),
        })
    }

    /// Ascending order; NULL first.
    pub fn ascending(self) -> Order<M> {
        Order::of_model(SortKey { field: self.position(), descending: false })
    }

    /// Descending order; NULL last.
    pub fn descending(self) -> Order<M> {
        Order::of_model(SortKey { field: self.position(), descending: true })
    }
}
