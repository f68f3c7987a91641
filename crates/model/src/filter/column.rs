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
    ///
    /// ```
    /// # use marmota_model::{Column, Filter};
    /// # struct Person;
    /// # impl Person {
    /// #     const NAME: Column<Self, String> = Column::new(1, "name");
    /// #     const DIED: Column<Self, Option<i64>> = Column::new(2, "died");
    /// # }
    /// let ada: Filter<Person> = Person::NAME.eq("Ada");
    /// let alive: Filter<Person> = Person::DIED.eq(None);
    /// ```
    pub fn eq(self, value: impl Comparable<T>) -> Filter<M> {
        self.compare(Comparison::Equal, value)
    }

    /// Rows where the field has a value other than `value`.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter};
    /// # struct Person;
    /// # impl Person {
    /// #     const NAME: Column<Self, String> = Column::new(1, "name");
    /// #     const DIED: Column<Self, Option<i64>> = Column::new(2, "died");
    /// # }
    /// let others = Person::NAME.ne("Ada");
    /// ```
    pub fn ne(self, value: impl Comparable<T>) -> Filter<M> {
        self.compare(Comparison::NotEqual, value)
    }

    /// Rows where the field is less than `value`.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter};
    /// # struct Person;
    /// # impl Person {
    /// #     const NAME: Column<Self, String> = Column::new(1, "name");
    /// #     const DIED: Column<Self, Option<i64>> = Column::new(2, "died");
    /// # }
    /// let long_ago = Person::DIED.lt(1900);
    /// ```
    pub fn lt(self, value: impl Comparable<T>) -> Filter<M> {
        self.compare(Comparison::Less, value)
    }

    /// Rows where the field is at most `value`.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter};
    /// # struct Person;
    /// # impl Person {
    /// #     const NAME: Column<Self, String> = Column::new(1, "name");
    /// #     const DIED: Column<Self, Option<i64>> = Column::new(2, "died");
    /// # }
    /// let up_to_1900 = Person::DIED.le(1900);
    /// ```
    pub fn le(self, value: impl Comparable<T>) -> Filter<M> {
        self.compare(Comparison::LessOrEqual, value)
    }

    /// Rows where the field is more than `value`.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter};
    /// # struct Person;
    /// # impl Person {
    /// #     const NAME: Column<Self, String> = Column::new(1, "name");
    /// #     const DIED: Column<Self, Option<i64>> = Column::new(2, "died");
    /// # }
    /// let after_1900 = Person::DIED.gt(1900);
    /// ```
    pub fn gt(self, value: impl Comparable<T>) -> Filter<M> {
        self.compare(Comparison::Greater, value)
    }

    /// Rows where the field is at least `value`.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter};
    /// # struct Person;
    /// # impl Person {
    /// #     const NAME: Column<Self, String> = Column::new(1, "name");
    /// #     const DIED: Column<Self, Option<i64>> = Column::new(2, "died");
    /// # }
    /// let since_1900 = Person::DIED.ge(1900);
    /// ```
    pub fn ge(self, value: impl Comparable<T>) -> Filter<M> {
        self.compare(Comparison::GreaterOrEqual, value)
    }

    /// Rows where the field is one of `values`.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter};
    /// # struct Person;
    /// # impl Person {
    /// #     const NAME: Column<Self, String> = Column::new(1, "name");
    /// #     const DIED: Column<Self, Option<i64>> = Column::new(2, "died");
    /// # }
    /// let filter = Person::NAME.is_in(["Ada", "Grace"]);
    /// ```
    pub fn is_in<V: Comparable<T>>(self, values: impl IntoIterator<Item = V>) -> Filter<M> {
        let values = values.into_iter().map(Comparable::into_value).collect();
        Filter::of_model(FilterExpr::In { field: self.position(), values })
    }

    /// Rows where the field is NULL.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter};
    /// # struct Person;
    /// # impl Person {
    /// #     const NAME: Column<Self, String> = Column::new(1, "name");
    /// #     const DIED: Column<Self, Option<i64>> = Column::new(2, "died");
    /// # }
    /// let alive = Person::DIED.is_null();
    /// ```
    pub fn is_null(self) -> Filter<M> {
        Filter::of_model(FilterExpr::IsNull { field: self.position() })
    }

    /// Rows whose text field contains `text`, ignoring the case of A to Z.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter};
    /// # struct Person;
    /// # impl Person {
    /// #     const NAME: Column<Self, String> = Column::new(1, "name");
    /// #     const DIED: Column<Self, Option<i64>> = Column::new(2, "died");
    /// # }
    /// let filter = Person::NAME.contains("cur");
    /// ```
    pub fn contains(self, text: impl Into<String>) -> Filter<M> {
        Filter::of_model(FilterExpr::Match {
            field: self.position(),
            place: Place::Anywhere,
            text: text.into(),
        })
    }

    /// Rows whose text field starts with `text`, ignoring the case of A to Z.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter};
    /// # struct Person;
    /// # impl Person {
    /// #     const NAME: Column<Self, String> = Column::new(1, "name");
    /// #     const DIED: Column<Self, Option<i64>> = Column::new(2, "died");
    /// # }
    /// let filter = Person::NAME.starts_with("Mar");
    /// ```
    pub fn starts_with(self, text: impl Into<String>) -> Filter<M> {
        Filter::of_model(FilterExpr::Match {
            field: self.position(),
            place: Place::Start,
            text: text.into(),
        })
    }

    /// Rows whose searchable field matches a search: `marmot -dog "alpine mead*"` ([`Search`]).
    ///
    /// ```
    /// # use marmota_model::{Column, Filter};
    /// # struct Person;
    /// # impl Person {
    /// #     const NAME: Column<Self, String> = Column::new(1, "name");
    /// #     const DIED: Column<Self, Option<i64>> = Column::new(2, "died");
    /// # }
    /// let filter = Person::NAME.search("curie -pierre");
    /// ```
    pub fn search(self, text: &str) -> Filter<M> {
        Filter::of_model(FilterExpr::Search {
            field: Some(self.position()),
            search: Box::new(Search::new(text)),
        })
    }

    /// Ascending order; NULL first.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter};
    /// # struct Person;
    /// # impl Person {
    /// #     const NAME: Column<Self, String> = Column::new(1, "name");
    /// #     const DIED: Column<Self, Option<i64>> = Column::new(2, "died");
    /// # }
    /// let order = [Person::NAME.ascending()];
    /// ```
    pub fn ascending(self) -> Order<M> {
        Order::of_model(SortKey { field: self.position(), descending: false })
    }

    /// Descending order; NULL last.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter};
    /// # struct Person;
    /// # impl Person {
    /// #     const NAME: Column<Self, String> = Column::new(1, "name");
    /// #     const DIED: Column<Self, Option<i64>> = Column::new(2, "died");
    /// # }
    /// let order = [Person::DIED.descending(), Person::NAME.ascending()];
    /// ```
    pub fn descending(self) -> Order<M> {
        Order::of_model(SortKey { field: self.position(), descending: true })
    }
}
