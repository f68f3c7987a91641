//! The filters of partial indexes: their grammar, which all engines with partial indexes share, and
//! whether a query implies one.

use super::text::parse_filter;
use crate::value::excerpt::excerpt;
use crate::{Comparison, Error, ErrorKind, FilterExpr, Index, Kind, Result, Schema, Table};

/// The filters of the indexes of a schema, in their order: they are needed for each upsert.
type IndexFilters = Vec<Option<FilterExpr>>;

impl Table {
    /// Checks and prepares a schema.
    ///
    /// - Names of the table and its fields are 1 to 63 ASCII letters, digits or `_` and start with no
    ///   digit; two fields do not differ by case alone. There are at most [`FieldSet::CAPACITY`](crate::FieldSet::CAPACITY) fields.
    /// - Exactly one field has [`Role::Key`](crate::Role::Key); it is not nullable, and of kind [`Kind::I64`], UUID or text.
    /// - Filters of indexes are within their grammar ([`Index::filter`]).
    /// - Defaults and the ends of ranges are values of their field; patterns are regular expressions.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the table and field that are invalid, and the reason.
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Role, Schema, Table};
    /// let fields = vec![
    ///     Field::new("id", Kind::I64).role(Role::Key),
    ///     Field::new("first name", Kind::TEXT),
    /// ];
    /// let error = Table::new(Schema::new("person", fields)).unwrap_err();
    /// assert!(error.to_string().starts_with("field `first name` of model `person`: a name must"));
    /// ```
    pub fn new(schema: Schema) -> Result<Self> {
        let mut table = Self::with_unchecked_filters(schema)?;
        let parsed = |index: &Index| {
            let Some(text) = &index.filter else { return Ok(None) };
            parse_index_filter(&table, text).map(Some).map_err(|why| {
                let fields: Vec<&str> =
                    index.fields.iter().map(|&field| &*table.fields()[field].name).collect();
                let message = format!(
                    "model `{}`: the filter {:?} of the index over {}: {why}",
                    table.name(),
                    excerpt(text),
                    fields.join(", ")
                );
                Error::new(ErrorKind::Invalid, message)
            })
        };
        let filters: IndexFilters =
            table.schema().indexes.iter().map(parsed).collect::<Result<_>>()?;
        table.index_filters = Some(Box::new(filters));
        Ok(table)
    }

    /// Returns the filter of a partial index of this table; `None` for an index of all rows.
    ///
    /// ```
    /// use marmota_model::{Field, FilterExpr, Index, Kind, Role, Schema, Table};
    /// let fields = vec![
    ///     Field::new("id", Kind::I64).role(Role::Key),
    ///     Field::new("email", Kind::TEXT),
    ///     Field::new("deleted", Kind::Timestamp).nullable(true),
    /// ];
    /// let index = Index::unique(vec![1]).filter("deleted = null");
    /// let table = Table::new(Schema::new("person", fields).indexes(vec![index]))?;
    /// let filter = table.index_filter(&table.indexes()[0]);
    /// assert_eq!(filter, Some(FilterExpr::IsNull { field: 2 }));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn index_filter(&self, index: &Index) -> Option<FilterExpr> {
        let (text, table) = (index.filter.as_deref()?, self.original());
        let has_text = |own: &Index| own.filter.as_deref() == Some(text);
        if let Some(filters) = table.index_filters.as_ref()
            && let Some(filters) = filters.downcast_ref::<IndexFilters>()
            && let Some(place) = table.schema().indexes.iter().position(has_text)
            && let Some(Some(filter)) = filters.get(place)
        {
            return Some(filter.clone());
        }
        // An index of another table may have an invalid filter, which selects no row.
        Some(parse_index_filter(table, text).unwrap_or_else(|_| FilterExpr::Or(Vec::new())))
    }
}

fn parse_index_filter(table: &Table, text: &str) -> std::result::Result<FilterExpr, String> {
    let filter = parse_filter(table, text).and_then(|filter| filter.into_expr_for(table));
    let filter = filter.map_err(|error| error.to_string())?;
    check(table, &filter)?;
    Ok(filter)
}

/// Checks that a filter has only conditions on which the databases agree.
fn check(table: &Table, filter: &FilterExpr) -> std::result::Result<(), String> {
    let equality = |field: usize| {
        let field = &table.fields()[field];
        match field.kind {
            Kind::Float | Kind::Blob | Kind::Json | Kind::Vector { .. } | Kind::File { .. } => {
                Err(format!(
                    "`{}` is {}, which an index can only compare with null",
                    field.name,
                    field.kind.name()
                ))
            }
            _ => Ok(()),
        }
    };
    match filter {
        FilterExpr::Compare {
            field, comparison: Comparison::Equal | Comparison::NotEqual, ..
        }
        | FilterExpr::In { field, .. } => equality(*field),
        FilterExpr::Compare { field, .. } => {
            let field = &table.fields()[*field];
            match field.kind {
                Kind::Int { .. } | Kind::Currency | Kind::Date | Kind::Time | Kind::Timestamp => {
                    Ok(())
                }
                _ => Err(format!(
                    "`{}` is {}: only numbers, dates and times can be compared by <, <=, > and >=",
                    field.name,
                    field.kind.name()
                )),
            }
        }
        FilterExpr::IsNull { .. } => Ok(()),
        FilterExpr::Not(inner) => check(table, inner),
        FilterExpr::And(all) | FilterExpr::Or(all) => {
            all.iter().try_for_each(|one| check(table, one))
        }
        FilterExpr::Match { .. }
        | FilterExpr::Inside { .. }
        | FilterExpr::Near { .. }
        | FilterExpr::Search { .. }
        | FilterExpr::Related(_) => Err("an index compares fields of the table with constants by \
                                         =, !=, <, <=, >, >=, `in` and `= null`, combined by \
                                         `and`, `or` and `not`"
            .to_owned()),
    }
}

impl FilterExpr {
    /// Returns true if each row that this filter selects is also selected by `other`, as far as
    /// that is obvious: every condition of `other` is one of this filter's, or is `!= null` on a
    /// field that this filter compares.
    ///
    /// A read uses a partial index only if its filter implies that of the index.
    ///
    /// ```
    /// # use marmota_model::{parse_filter, Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT),
    /// #     Field::new("died", Kind::I64).nullable(true)]))?;
    /// let expr = |text| parse_filter(&table, text)?.into_expr_for(&table);
    /// assert!(expr("name = 'Ada' and died = null")?.implies(&expr("died = null")?));
    /// assert!(expr("died > 1900")?.implies(&expr("not died = null")?));
    /// assert!(!expr("name = 'Ada'")?.implies(&expr("died = null")?));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn implies(&self, other: &Self) -> bool {
        match other {
            Self::And(all) => all.iter().all(|one| self.implies(one)),
            other => self.has_conjunct(other),
        }
    }

    fn has_conjunct(&self, wanted: &Self) -> bool {
        if let Self::And(all) = self {
            return all.iter().any(|one| one.has_conjunct(wanted));
        }
        let is_compared = |null: &Self| {
            let Self::IsNull { field: null } = null else { return false };
            match self {
                Self::Compare { field, .. }
                | Self::In { field, .. }
                | Self::Match { field, .. } => field == null,
                _ => false,
            }
        };
        self == wanted || matches!(wanted, Self::Not(inner) if is_compared(inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Field, KeyKind, Role};

    fn table(filter: &'static str) -> Result<Table> {
        let fields = vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("email", Kind::TEXT),
            Field::new("deleted", Kind::Timestamp).nullable(true),
            Field::new("rank", Kind::I64),
            Field::new("done", Kind::Bool),
            Field::new("score", Kind::Float),
            Field::new("data", Kind::Json).nullable(true),
            Field::new("boss", Kind::Reference { table: "person".into(), key: KeyKind::Auto }),
        ];
        let index = Index::unique(vec![1, 3]).filter(filter);
        Table::new(Schema::new("person", fields).indexes(vec![index]))
    }

    #[test]
    fn a_filter_of_an_index_compares_fields_with_constants() {
        for filter in [
            "deleted = null",
            "deleted != null and rank >= 3",
            "done = true or not (email in ('a', 'b'))",
            "boss != 7",
            "data = null",
            "deleted > 2026-01-01T00:00:00Z",
        ] {
            assert!(table(filter).is_ok(), "{filter}");
        }
        for (filter, part) in [
            ("email ~ 'x'", "compares fields"),
            ("email < 'x'", "numbers, dates and times"),
            ("score = 1.5", "`score` is float"),
            ("data.x = 1", "compares fields"),
            ("boss.rank = 1", "boss"),
            ("nothing = 1", "no such field"),
            ("boss = @user.id", "email, rank"),
            ("", "email, rank"),
        ] {
            let error = table(filter).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("model `person`"), "{filter}: {error}");
        }
    }

    #[test]
    fn a_partial_index_serves_neither_a_reference_nor_a_unique_field() {
        let fields = vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("email", Kind::TEXT).unique(true),
        ];
        let index = Index::unique(vec![1]).filter("id > 3");
        let table = Table::new(Schema::new("person", fields).indexes(vec![index.clone()]));
        assert_eq!(table.unwrap().indexes(), [Index::unique(vec![1]), index]);
    }

    #[test]
    fn a_filter_implies_its_conditions_only() {
        let table = table("deleted = null").unwrap();
        let expr = |text| parse_filter(&table, text).unwrap().into_expr_for(&table).unwrap();
        for (query, index, implied) in [
            ("deleted = null", "deleted = null", true),
            (
                "rank = 1 and (deleted = null and done = true)",
                "done = true and deleted = null",
                true,
            ),
            ("rank = 1 or deleted = null", "deleted = null", false),
            ("rank > 4", "rank > 3", false),
            ("rank > 3", "rank > 3", true),
            ("not (deleted = null)", "deleted = null", false),
            ("deleted != null", "deleted != null", true),
            ("deleted in (2026-01-01T00:00:00Z)", "deleted != null", true),
            ("rank = 1", "deleted != null", false),
        ] {
            assert_eq!(expr(query).implies(&expr(index)), implied, "{query} implies {index}");
        }
    }
}
