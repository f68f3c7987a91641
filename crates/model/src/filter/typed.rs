//! Filters and orders with their subject: a model through their type, or a table if they are made
//! at run time. Engines receive the untyped [`FilterExpr`] and [`SortKey`], which name fields by
//! position.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Not;

use super::subject::Subject;
use crate::table::hash_of;
use crate::{
    Column, Coordinate, Error, ErrorKind, FilterExpr, GeoBox, GeoCircle, GroupQuery, Model, Record,
    RelatedField, RelationStep, Result, RowQuery, SortKey, Table,
};

/// A condition on rows of the model `M`, made from its columns (`Person::BORN.gt(1900)`), or on
/// rows of a table that is known only at run time: a `Filter<Record>`, from
/// [`parse_filter`](crate::parse_filter).
///
/// Verbs accept only filters of their own model. A `Filter<Record>` is checked against the table on
/// which it is used.
///
/// ```
/// # use marmota_model::{Column, Filter};
/// # struct Person;
/// # impl Person { const NAME: Column<Self, String> = Column::new(1, "name"); }
/// let filter: Filter<Person> = Person::NAME.eq("Ann").or(Person::NAME.starts_with("B"));
/// let others = !filter;
/// ```
///
/// Columns of two models cannot be combined:
/// ```compile_fail,E0308
/// # use marmota_model::{Column, Filter};
/// # struct Person;
/// # impl Person { const NAME: Column<Self, String> = Column::new(1, "name"); }
/// # struct City;
/// # impl City { const NAME: Column<Self, String> = Column::new(1, "name"); }
/// let filter = Person::NAME.eq("Ann").and(City::NAME.eq("Bourges"));
/// ```
#[must_use = "a filter selects nothing by itself; pass it to a verb"]
pub struct Filter<M = Record> {
    expr: FilterExpr,
    subject: Subject,
    model: PhantomData<fn() -> M>,
}

/// A field to sort the rows of the model `M` by, from
/// [`Column::ascending`](crate::Column::ascending), or the rows of a table that is known only at
/// run time, from [`parse_order`](crate::parse_order).
///
/// ```
/// # use marmota_model::{Column, Order};
/// # struct Person;
/// # impl Person { const BORN: Column<Self, i64> = Column::new(1, "born"); }
/// let youngest_first: [Order<Person>; 1] = [Person::BORN.descending()];
/// ```
#[must_use = "an order sorts nothing by itself; pass it to a verb"]
pub struct Order<M = Record> {
    key: SortKey,
    /// The steps to a related row and the field there, if the order is by such a field.
    through: Option<Box<(Vec<RelationStep>, usize)>>,
    subject: Subject,
    model: PhantomData<fn() -> M>,
}

impl<M> Filter<M> {
    pub(crate) const fn of_model(expr: FilterExpr) -> Self {
        Self { expr, subject: Subject::Model, model: PhantomData }
    }

    fn combine(self, other: Self, with: impl FnOnce(FilterExpr, FilterExpr) -> FilterExpr) -> Self {
        let (expr, subject) = (with(self.expr, other.expr), self.subject.with(other.subject));
        Self { expr, subject, model: PhantomData }
    }

    /// Selects the rows that both filters select.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter};
    /// # struct Person;
    /// # impl Person {
    /// #     const NAME: Column<Self, String> = Column::new(1, "name");
    /// #     const DIED: Column<Self, Option<i64>> = Column::new(2, "died");
    /// # }
    /// let filter = Person::NAME.starts_with("A").and(Person::DIED.is_null());
    /// ```
    pub fn and(self, other: Self) -> Self {
        self.combine(other, FilterExpr::and)
    }

    /// Selects the rows that either filter selects.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter};
    /// # struct Person;
    /// # impl Person {
    /// #     const NAME: Column<Self, String> = Column::new(1, "name");
    /// #     const DIED: Column<Self, Option<i64>> = Column::new(2, "died");
    /// # }
    /// let filter = Person::DIED.lt(1900).or(Person::DIED.is_null());
    /// ```
    pub fn or(self, other: Self) -> Self {
        self.combine(other, FilterExpr::or)
    }

    /// Selects the rows that all of the filters select; every row if the list is empty.
    ///
    /// ```
    /// # use marmota_model::Filter;
    /// # struct Person;
    /// let everybody: Filter<Person> = Filter::all([]);
    /// ```
    pub fn all(filters: impl IntoIterator<Item = Self>) -> Self {
        let (exprs, subject) = gather(filters);
        Self { expr: FilterExpr::And(exprs), subject, model: PhantomData }
    }

    /// Selects the rows that at least one of the filters selects; no row if the list is empty.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter};
    /// # struct Person;
    /// # impl Person {
    /// #     const NAME: Column<Self, String> = Column::new(1, "name");
    /// #     const DIED: Column<Self, Option<i64>> = Column::new(2, "died");
    /// # }
    /// let names = ["Ada", "Grace"];
    /// let filter = Filter::any(names.map(|name| Person::NAME.starts_with(name)));
    /// ```
    pub fn any(filters: impl IntoIterator<Item = Self>) -> Self {
        let (exprs, subject) = gather(filters);
        Self { expr: FilterExpr::Or(exprs), subject, model: PhantomData }
    }
}

fn gather<M>(filters: impl IntoIterator<Item = Filter<M>>) -> (Vec<FilterExpr>, Subject) {
    let mut subject = Subject::Model;
    let take = |filter: Filter<M>| {
        subject = std::mem::replace(&mut subject, Subject::Model).with(filter.subject);
        filter.expr
    };
    let exprs = filters.into_iter().map(take).collect();
    (exprs, subject)
}

impl<M: Model> Filter<M> {
    /// Selects rows whose searchable fields, taken together, match a search:
    /// `marmot -dog "alpine mead*"` ([`Search`](crate::Search)).
    ///
    /// ```no_run
    /// # use marmota_model::{Filter, Model};
    /// # fn example<Note: Model>() {
    /// let filter: Filter<Note> = Filter::search("marmot -dog");
    /// # }
    /// ```
    pub fn search(text: &str) -> Self {
        Self::of_model(FilterExpr::search(text))
    }

    /// Selects rows whose point, of the columns of its latitude and longitude, is in a circle.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter, Model};
    /// use marmota_model::{GeoCircle, GeoPoint};
    /// # fn example<Shop: Model>(lat: Column<Shop, f64>, lon: Column<Shop, f64>) {
    /// let circle = GeoCircle::new(GeoPoint::new(48.137, 11.575).unwrap(), 5_000.0).unwrap();
    /// let filter: Filter<Shop> = Filter::near(lat, lon, circle);
    /// # }
    /// ```
    pub fn near<T: Coordinate, U: Coordinate>(
        latitude: Column<M, T>,
        longitude: Column<M, U>,
        circle: GeoCircle,
    ) -> Self {
        Self::of_model(FilterExpr::near(latitude.position(), longitude.position(), circle))
    }

    /// Selects rows whose point, of the columns of its latitude and longitude, is in a box.
    ///
    /// ```
    /// # use marmota_model::{Column, Filter, Model};
    /// use marmota_model::GeoBox;
    /// # fn example<Shop: Model>(lat: Column<Shop, f64>, lon: Column<Shop, f64>) {
    /// let alps = GeoBox::new(43.5, 5.0, 48.5, 16.5).unwrap();
    /// let filter: Filter<Shop> = Filter::within(lat, lon, alps);
    /// # }
    /// ```
    pub fn within<T: Coordinate, U: Coordinate>(
        latitude: Column<M, T>,
        longitude: Column<M, U>,
        area: GeoBox,
    ) -> Self {
        Self::of_model(FilterExpr::within(latitude.position(), longitude.position(), area))
    }

    /// Returns the expression for engines.
    #[must_use]
    pub fn into_expr(self) -> FilterExpr {
        self.expr
    }
}

impl Filter {
    /// Creates a filter on rows of `table` from an expression, which names fields by their
    /// positions in that table.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] with the field and the value that do not fit.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT).search(true),
    /// #     Field::new("died", Kind::I64).nullable(true)]))?;
    /// use marmota_model::{Filter, FilterExpr};
    /// let alive = Filter::from_expr(&table, FilterExpr::IsNull { field: 2 })?;
    /// assert!(Filter::from_expr(&table, FilterExpr::IsNull { field: 3 }).is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn from_expr(table: &Table, expr: FilterExpr) -> Result<Self> {
        expr.check(table)?;
        Ok(Self::of_checked(table, expr))
    }

    pub(crate) fn of_checked(table: &Table, expr: FilterExpr) -> Self {
        Self { expr, subject: Subject::of(table), model: PhantomData }
    }

    /// Returns the expression for engines, for an operation on `table`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] with both tables and the field, if the filter was made for a table
    /// with another name or other fields.
    pub fn into_expr_for(self, table: &Table) -> Result<FilterExpr> {
        self.subject.check(table.shape().hash, table.name(), self.expr.first_field())?;
        // The subject does not cover the related tables, which may be those of another store.
        if self.expr.has_relations() {
            self.expr.check(table)?;
        }
        Ok(self.expr)
    }

    /// Converts the filter to one of a model, for the verbs of the model.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] with both tables and the field, if the filter was made for another
    /// table than the model's.
    pub fn of<M: Model>(self) -> Result<Filter<M>> {
        self.subject.check(hash_of(M::schema()), M::TABLE, self.expr.first_field())?;
        Ok(Filter::of_model(self.expr))
    }
}

impl<M> Not for Filter<M> {
    type Output = Self;

    /// Selects the rows for which the filter is false. A comparison with NULL is neither true nor
    /// false, so neither the filter nor its negation selects the row.
    fn not(self) -> Self {
        let expr = FilterExpr::Not(Box::new(self.expr));
        Self { expr, subject: self.subject, model: PhantomData }
    }
}

impl<M> Clone for Filter<M> {
    fn clone(&self) -> Self {
        let (expr, subject) = (self.expr.clone(), self.subject.clone());
        Self { expr, subject, model: PhantomData }
    }
}

impl<M> PartialEq for Filter<M> {
    fn eq(&self, other: &Self) -> bool {
        self.expr == other.expr && self.subject == other.subject
    }
}

impl<M> fmt::Debug for Filter<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr.fmt(f)
    }
}

impl<M> Order<M> {
    pub(crate) const fn of_model(key: SortKey) -> Self {
        Self { key, through: None, subject: Subject::Model, model: PhantomData }
    }

    /// Returns an order by a field of the row to which the steps lead. They are not empty.
    pub(crate) fn through(steps: Vec<RelationStep>, field: usize, descending: bool) -> Self {
        let key = SortKey { field: steps.first().map_or(0, |first| first.local), descending };
        Self { through: Some(Box::new((steps, field))), ..Self::of_model(key) }
    }

    fn append(self, query: &mut RowQuery) {
        if let Some(through) = self.through {
            let (steps, field) = *through;
            query.related.push(RelatedField::new(query.order.len(), steps, field));
        }
        query.order.push(self.key);
    }

    pub(crate) fn has_same_field(&self, other: &Self) -> bool {
        self.key.field == other.key.field && self.through == other.through
    }

    fn own_key(self) -> Result<SortKey> {
        if self.through.is_none() {
            return Ok(self.key);
        }
        let message = "an order by a field of related rows was used where only fields of the \
                       table are allowed";
        Err(Error::new(ErrorKind::Invalid, message))
    }
}

impl<M: Model> Order<M> {
    /// Returns the sort key for engines.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] for an order by a field of related rows.
    pub fn into_key(self) -> Result<SortKey> {
        self.own_key()
    }

    /// Returns the sort key for the groups of a query, whose position is one of
    /// [`GroupQuery::result`]; `None` for a field by which the query does not group.
    #[must_use]
    pub fn into_group_key(self, query: &GroupQuery) -> Option<SortKey> {
        let related = |place: usize| query.related.iter().find(|related| related.place == place);
        let is_it = |place: usize| match (&self.through, related(place)) {
            (None, None) => query.by[place] == self.key.field,
            (Some(through), Some(related)) => related.has_path(&through.0, through.1),
            _ => false,
        };
        let field = (0..query.by.len()).find(|place| is_it(*place))?;
        Some(SortKey { field, descending: self.key.descending })
    }

    /// Appends the order to those of a query.
    pub fn append_to(self, query: &mut RowQuery) {
        self.append(query);
    }
}

impl Order {
    /// Creates an order of the rows of `table` by the field at a position.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] for a position that the table does not have.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT).search(true),
    /// #     Field::new("died", Kind::I64).nullable(true)]))?;
    /// use marmota_model::{Order, SortKey};
    /// let order = Order::from_key(&table, SortKey { field: 1, descending: false })?;
    /// assert_eq!(order.into_key_for(&table)?.field, 1);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn from_key(table: &Table, key: SortKey) -> Result<Self> {
        key.check(table)?;
        Ok(Self::of_checked(table, key))
    }

    pub(crate) fn of_checked(table: &Table, key: SortKey) -> Self {
        Self { key, through: None, subject: Subject::of(table), model: PhantomData }
    }

    pub(crate) fn checked_through(table: &Table, through: Self) -> Self {
        Self { subject: Subject::of(table), ..through }
    }

    /// Returns the sort key for engines, for an operation on `table`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] with both tables and the field, if the order was made for a table
    /// with another name or other fields; and for an order by a field of related rows.
    pub fn into_key_for(self, table: &Table) -> Result<SortKey> {
        self.subject.check(table.shape().hash, table.name(), Some(self.key.field))?;
        self.own_key()
    }

    /// Appends the order to those of a query of rows of `table`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] with both tables and the field, if the order was made for a table
    /// with another name or other fields.
    pub fn append_to_query_of(self, table: &Table, query: &mut RowQuery) -> Result<()> {
        self.subject.check(table.shape().hash, table.name(), Some(self.key.field))?;
        self.append(query);
        Ok(())
    }

    /// Converts the order to one of a model, for the verbs of the model.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] with both tables and the field, if the order was made for another
    /// table than the model's.
    pub fn of<M: Model>(self) -> Result<Order<M>> {
        self.subject.check(hash_of(M::schema()), M::TABLE, Some(self.key.field))?;
        Ok(Order { through: self.through, ..Order::of_model(self.key) })
    }
}

impl<M> Clone for Order<M> {
    fn clone(&self) -> Self {
        let (through, subject) = (self.through.clone(), self.subject.clone());
        Self { key: self.key, through, subject, model: PhantomData }
    }
}

impl<M> PartialEq for Order<M> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.through == other.through && self.subject == other.subject
    }
}

impl<M> fmt::Debug for Order<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, Field, Kind, Role, Schema, parse_filter, parse_order};

    fn table(name: &'static str, fields: [&'static str; 2]) -> Table {
        let fields = fields.map(|field| Field::new(field, Kind::TEXT));
        let mut all = vec![Field::new("id", Kind::I64).role(Role::Key)];
        all.extend(fields);
        Table::new(Schema::new(name, all)).unwrap()
    }

    #[test]
    fn a_filter_is_refused_where_its_positions_mean_other_fields() {
        let (a, b) = (table("a", ["name", "city"]), table("b", ["city", "name"]));
        let filter = parse_filter(&b, "id > 0 and name = 'y'").unwrap();
        assert!(filter.clone().into_expr_for(&b).is_ok());
        let error = filter.clone().into_expr_for(&a).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("`id` of `b` was used on `a`"), "{error}");
        // Another version of the same table, and the same version of it.
        let newer = table("b", ["name", "city"]);
        let error = filter.clone().into_expr_for(&newer).unwrap_err();
        assert!(error.to_string().contains("another version of `b`"), "{error}");
        assert!(filter.clone().into_expr_for(&table("b", ["city", "name"])).is_ok());

        let mixed = filter.and(!parse_filter(&a, "name = 'x'").unwrap());
        for table in [&a, &b] {
            let error = mixed.clone().into_expr_for(table).unwrap_err().to_string();
            assert!(error.contains("conditions on `b` and `a`"), "{error}");
        }
        let any = Filter::any([mixed, Filter::all([])]);
        assert!(any.into_expr_for(&b).is_err());
        assert!(Filter::all([]).into_expr_for(&b).is_ok());
    }

    #[test]
    fn an_order_is_refused_where_its_position_means_another_field() {
        let (a, b) = (table("a", ["name", "city"]), table("b", ["city", "name"]));
        let order = parse_order(&b, "-name").unwrap().remove(0);
        assert_eq!(order.clone().into_key_for(&b).unwrap().field, 2);
        let error = order.into_key_for(&a).unwrap_err().to_string();
        assert!(error.contains("`name` of `b` was used on `a`"), "{error}");
        assert!(Order::from_key(&a, SortKey { field: 3, descending: false }).is_err());
    }

    #[test]
    fn an_expression_is_checked_against_its_table() {
        let a = table("a", ["name", "city"]);
        assert!(Filter::from_expr(&a, FilterExpr::IsNull { field: 3 }).is_err());
        assert!(Filter::from_expr(&a, FilterExpr::IsNull { field: 2 }).is_ok());
    }
}
