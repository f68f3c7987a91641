//! Lists whose order is computed from the rows: by relevance for a search, or by the distance of a
//! vector or of a point on the earth.
//!
//! The score of a row depends only on the row and the query, never on other rows. So it is the same
//! on every engine, reveals nothing about rows that the caller may not read, and a page can continue
//! after the score and the key of a row.

use super::check::{check_coordinate, check_value};
use crate::schema::{check_kind, violation};
use crate::search::relevance;
use crate::value::excerpt::excerpt;
use crate::value::vector;
use crate::{
    Error, ErrorKind, FieldSet, FilterExpr, GeoPoint, Kind, Metric, Result, Schema, Search, Table,
    Value, ValueRef, Words,
};

/// The maximum number of rows of a [`RankedQuery`], which are held in memory until all rows are read.
pub const RANKED_ROWS_MAX: u64 = 10_000;

/// The selection of a list whose order is computed, best rows first.
///
/// ```
/// # use marmota_model::{Field, Kind, Role, Schema, Table};
/// # let table = Table::new(Schema::new("note", vec![
/// #     Field::new("id", Kind::I64).role(Role::Key),
/// #     Field::new("title", Kind::TEXT).search(true)]))?;
/// use marmota_model::{FilterExpr, RankedQuery, Ranking};
/// let filter = FilterExpr::search("marmot");
/// let query = RankedQuery::new(Ranking::relevance(&table, Some(&filter))?);
/// let query = RankedQuery { filter: Some(filter), limit: 20, ..query };
/// query.check(&table)?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RankedQuery {
    /// The condition; `None` for all rows.
    pub filter: Option<FilterExpr>,
    /// What the rows are sorted by; then by the key.
    pub by: Ranking,
    /// The maximum number of rows to return, up to [`RANKED_ROWS_MAX`].
    pub limit: u64,
    /// Starts after this place.
    pub after: Option<RankPlace>,
    /// The fields to read, in addition to [`RankedQuery::needed_fields`]; `None` for
    /// [`Table::read_by_default`].
    pub fields: Option<FieldSet>,
}

/// The place of a row in a ranked list.
#[derive(Clone, Debug, PartialEq)]
pub struct RankPlace {
    /// The score of the row.
    pub score: f64,
    /// The key of the row.
    pub key: Value,
}

/// What a ranked list is sorted by.
#[derive(Clone, Debug, PartialEq)]
pub enum Ranking {
    /// The relevance of the row for searches; the sum, if there are several.
    Relevance(Vec<RankedSearch>),
    /// The distance of a vector. Rows without one are left out.
    Nearest {
        /// The field, of kind vector.
        field: usize,
        /// The vector to measure from.
        to: Box<[f32]>,
        /// How the distance is measured.
        metric: Metric,
    },
    /// The distance of a point on the earth, in metres. Rows without both coordinates are left out.
    Distance {
        /// The field of the latitude.
        latitude: usize,
        /// The field of the longitude.
        longitude: usize,
        /// The point to measure from.
        from: GeoPoint,
    },
}

/// A search by which rows are ranked.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedSearch {
    /// The fields that are searched.
    pub fields: FieldSet,
    /// The search.
    pub search: Search,
}

/// Computes the scores of rows for a [`Ranking`]. It has a buffer, so it is used by one thread.
///
/// ```
/// # use marmota_model::{Field, Kind, Role, Schema, Table};
/// # let table = Table::new(Schema::new("note", vec![
/// #     Field::new("id", Kind::I64).role(Role::Key),
/// #     Field::new("title", Kind::TEXT).search(true)]))?;
/// use marmota_model::{FilterExpr, Ranker, Ranking, ValueRef};
/// let by = Ranking::relevance(&table, Some(&FilterExpr::search("marmot")))?;
/// let mut ranker = Ranker::new(table.schema(), by);
/// let mut score = |text| ranker.score(&[ValueRef::Int(1), ValueRef::Text(text)]);
/// assert!(score("Marmots: the marmot") > score("The guide to mammals mentions a marmot"));
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Debug)]
pub struct Ranker {
    by: Ranking,
    words: Words,
    /// The part of a distance that depends on the query only.
    norm: f64,
}

impl RankedQuery {
    /// Selects the 100 best of all rows.
    #[must_use]
    pub const fn new(by: Ranking) -> Self {
        Self { filter: None, by, limit: 100, after: None, fields: None }
    }

    /// Returns the fields that every read has: the key, and those that are ranked.
    #[must_use]
    pub fn needed_fields(&self, table: &Table) -> FieldSet {
        self.by.fields().with(table.key())
    }

    /// Returns all fields that are read.
    #[must_use]
    pub fn fields_read(&self, table: &Table) -> FieldSet {
        let chosen = self.fields.unwrap_or_else(|| table.read_by_default());
        chosen.union(self.needed_fields(table))
    }

    /// Checks that the query fits a table.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the field and the value.
    pub fn check(&self, table: &Table) -> Result<()> {
        if let Some(filter) = &self.filter {
            filter.check(table)?;
        }
        self.by.check(table)?;
        if self.limit > RANKED_ROWS_MAX {
            let limit = self.limit;
            let message = format!(
                "the limit of a ranked list is {limit}; at most {RANKED_ROWS_MAX} rows are allowed"
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if let Some(after) = &self.after {
            check_value(table, table.key(), after.key.as_ref())?;
            if after.score.is_nan() {
                let message = "a page cannot start after the score NaN";
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
        Ok(())
    }
}

impl Ranking {
    /// Returns the ranking by the searches of a filter: those that are not negated, and not of
    /// related rows.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the filter has no search.
    pub fn relevance(table: &Table, filter: Option<&FilterExpr>) -> Result<Self> {
        let mut searches = Vec::new();
        if let Some(filter) = filter {
            collect(table, filter, &mut searches);
        }
        if searches.is_empty() {
            let message = "the order `rank` needs a search in the filter, such as `@ 'marmot'`";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(Self::Relevance(searches))
    }

    /// Returns the ranking by the distance of a vector field.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the field is not a vector of as many finite numbers.
    pub fn nearest(table: &Table, field: usize, to: &[f32], metric: Metric) -> Result<Self> {
        let by = Self::Nearest { field, to: to.into(), metric };
        by.check(table)?;
        Ok(by)
    }

    /// Returns the ranking by the distance of the point of two fields.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the fields are not floats.
    pub fn distance(
        table: &Table,
        latitude: usize,
        longitude: usize,
        from: GeoPoint,
    ) -> Result<Self> {
        let by = Self::Distance { latitude, longitude, from };
        by.check(table)?;
        Ok(by)
    }

    /// Returns the fields that the score depends on.
    #[must_use]
    pub fn fields(&self) -> FieldSet {
        match self {
            Self::Relevance(searches) => {
                searches.iter().fold(FieldSet::EMPTY, |all, one| all.union(one.fields))
            }
            Self::Nearest { field, .. } => FieldSet::EMPTY.with(*field),
            Self::Distance { latitude, longitude, .. } => {
                FieldSet::EMPTY.with(*latitude).with(*longitude)
            }
        }
    }

    /// Returns the place of a score: a number that is lower for better rows.
    #[must_use]
    pub const fn place(&self, score: f64) -> f64 {
        match self {
            Self::Relevance(_) => -score,
            Self::Nearest { .. } | Self::Distance { .. } => score,
        }
    }

    /// Returns its searches.
    #[must_use]
    pub fn searches(&self) -> &[RankedSearch] {
        match self {
            Self::Relevance(searches) => searches,
            Self::Nearest { .. } | Self::Distance { .. } => &[],
        }
    }

    /// Checks that the ranking fits a table.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the field.
    pub fn check(&self, table: &Table) -> Result<()> {
        match self {
            Self::Relevance(searches) => {
                searches.iter().try_for_each(|RankedSearch { fields, search }| {
                    let by_field = |field| {
                        let search = Box::new(search.clone());
                        FilterExpr::Search { field: Some(field), search }.check(table)
                    };
                    fields.iter().try_for_each(by_field)
                })
            }
            Self::Nearest { field, to, .. } => check_nearest(table, *field, to),
            Self::Distance { latitude, longitude, .. } => {
                check_coordinate(table, *latitude)?;
                check_coordinate(table, *longitude)
            }
        }
    }
}

fn check_nearest(table: &Table, position: usize, to: &[f32]) -> Result<()> {
    let Some(field) = table.fields().get(position) else {
        return FilterExpr::IsNull { field: position }.check(table);
    };
    let refuse = |message: String| {
        Err(Error::invalid(vec![violation(field, ValueRef::Null, "type", message)]))
    };
    if !matches!(field.kind, Kind::Vector { .. }) {
        return refuse(format!("is not a vector, but of type {}", field.kind.name()));
    }
    let stored = vector::stored(to.iter().copied());
    match check_kind(field, ValueRef::Blob(&stored)) {
        Ok(()) => Ok(()),
        Err((_, message)) => {
            refuse(format!("is compared with a vector of {} numbers; it {message}", to.len()))
        }
    }
}

fn collect(table: &Table, filter: &FilterExpr, searches: &mut Vec<RankedSearch>) {
    match filter {
        FilterExpr::Search { field, search } => {
            let fields = match field {
                Some(field) => FieldSet::EMPTY.with(*field),
                None => table.search_fields().collect(),
            };
            searches.push(RankedSearch { fields, search: Search::clone(search) });
        }
        FilterExpr::And(all) | FilterExpr::Or(all) => {
            all.iter().for_each(|one| collect(table, one, searches));
        }
        _ => {}
    }
}

/// Parses an order by a computed value: `rank`, or `rank()` in a table with a field of that name, and
/// `near(embedding,[0.5,-1])`, with a metric as the last argument (`cosine`, `l2` or `dot`), and
/// `near(lat,lon,48.1,11.5)`, by the distance of a point on the earth.
/// Returns `None` for an order by fields.
///
/// # Errors
/// [`ErrorKind::Invalid`] if the filter has no search, or the vector or point does not fit the
/// fields.
///
/// ```
/// # use marmota_model::{Field, Kind, Role, Schema, Table};
/// # let table = Table::new(Schema::new("note", vec![
/// #     Field::new("id", Kind::I64).role(Role::Key),
/// #     Field::new("title", Kind::TEXT).search(true),
/// #     Field::new("embedding", Kind::Vector { dimensions: 2 })]))?;
/// use marmota_model::{FilterExpr, parse_ranking};
/// assert!(parse_ranking(&table, "near(embedding,[0.5,-1],l2)", None)?.is_some());
/// assert!(parse_ranking(&table, "near(embedding,[0.5])", None).is_err());
/// let filter = FilterExpr::search("marmot");
/// assert!(parse_ranking(&table, "rank", Some(&filter))?.is_some());
/// assert!(parse_ranking(&table, "-title", Some(&filter))?.is_none());
/// assert!(parse_ranking(&table, "rank", None).is_err());
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub fn parse_ranking(
    table: &Table,
    text: &str,
    filter: Option<&FilterExpr>,
) -> Result<Option<Ranking>> {
    match text.trim() {
        "rank()" => Ranking::relevance(table, filter).map(Some),
        "rank" if table.find("rank").is_none() => Ranking::relevance(table, filter).map(Some),
        text if text.starts_with("near(") => nearest(table, text).map(Some),
        _ => Ok(None),
    }
}

/// Parses `near(field, vector)` or `near(field, vector, metric)`, or
/// `near(field, field, latitude, longitude)`.
fn nearest(table: &Table, text: &str) -> Result<Ranking> {
    let refuse = || {
        let message = format!(
            "the order {:?} must be `near(field,[0.5,-1])`, with `cosine`, `l2` or `dot` as the \
             last argument or without, or `near(lat,lon,48.1,11.5)`; in place of the array, its \
             bytes can be given as base64url in quotes",
            excerpt(text)
        );
        Error::new(ErrorKind::Invalid, message)
    };
    let arguments = text.strip_prefix("near(").and_then(|text| text.strip_suffix(')'));
    let (name, rest) = arguments.and_then(|text| text.split_once(',')).ok_or_else(refuse)?;
    let field = table.position(name.trim())?;
    if !rest.trim_start().starts_with(['[', '\'']) {
        let mut parts = rest.split(',').map(str::trim);
        let [name, latitude, longitude] = [(); 3].map(|()| parts.next().unwrap_or_default());
        let number = |text: &str| text.parse::<f64>().map_err(|_| refuse());
        let from = (number(latitude)?, number(longitude)?);
        if parts.next().is_some() {
            return Err(refuse());
        }
        let from = GeoPoint::new(from.0, from.1)?;
        return Ranking::distance(table, field, table.position(name)?, from);
    }
    let (to, metric) = vector_of(rest.trim()).ok_or_else(refuse)?;
    let metric = match metric.trim() {
        "" => Some(Metric::default()),
        named => named
            .strip_prefix(',')
            .and_then(|name| Metric::ALL.into_iter().find(|metric| metric.name() == name.trim())),
    };
    Ranking::nearest(table, field, &to, metric.ok_or_else(refuse)?)
}

/// Reads a vector, as an array or as its bytes in quotes, and returns it with the rest of the text.
fn vector_of(text: &str) -> Option<(Vec<f32>, &str)> {
    if let Some(inside) = text.strip_prefix('\'') {
        use base64::Engine as _;
        let (base64, rest) = inside.split_once('\'')?;
        let base64 = base64.trim_end_matches('=');
        let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(base64).ok()?;
        let numbers = vector::numbers(&bytes).collect();
        return (bytes.len() % size_of::<f32>() == 0).then_some((numbers, rest));
    }
    let (array, rest) = text.split_at(text.find(']')? + 1);
    Some((vector::read_json(array)?, rest))
}

impl Ranker {
    /// Creates a ranker of the rows of a table with this schema.
    #[must_use]
    pub fn new(schema: &Schema, by: Ranking) -> Self {
        let norm = match &by {
            Ranking::Nearest { to, metric, .. } => metric.norm(to),
            Ranking::Relevance(_) | Ranking::Distance { .. } => 0.0,
        };
        let words = Words::in_language(schema.search_language);
        Self { by, words, norm }
    }

    /// Returns the ranking.
    #[must_use]
    pub const fn ranking(&self) -> &Ranking {
        &self.by
    }

    /// Returns the score of a row, which has the fields of the ranking; `None` for a row without a
    /// value to rank, which ranked lists leave out.
    pub fn score(&mut self, row: &[ValueRef<'_>]) -> Option<f64> {
        match &self.by {
            Ranking::Relevance(searches) => {
                let mut score = 0.0;
                for RankedSearch { fields, search } in searches {
                    for field in fields.iter() {
                        if let ValueRef::Text(text) = row[field] {
                            self.words.take(text);
                            score += relevance(search, &self.words);
                        }
                    }
                }
                Some(score)
            }
            Ranking::Nearest { field, to, metric } => match row[*field] {
                ValueRef::Blob(stored) if vector::has_dimensions(stored, to.len() as u32) => {
                    Some(metric.distance_of(stored, to, self.norm))
                }
                _ => None,
            },
            Ranking::Distance { latitude, longitude, from } => {
                match (row[*latitude], row[*longitude]) {
                    (ValueRef::Float(latitude), ValueRef::Float(longitude)) => {
                        Some(from.distance_to(latitude, longitude))
                    }
                    _ => None,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Field, Role};
    use proptest::prelude::*;

    fn table() -> Table {
        let fields = vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("rank", Kind::TEXT).search(true),
            Field::new("a", Kind::Vector { dimensions: 2 }).nullable(true),
        ];
        Table::new(Schema::new("note", fields)).unwrap()
    }

    #[test]
    fn a_field_may_be_named_like_an_order() {
        let filter = FilterExpr::search("x").and(FilterExpr::IsNull { field: 2 });
        let parse = |text| parse_ranking(&table(), text, Some(&filter)).unwrap();
        assert_eq!(parse("rank"), None);
        assert!(
            matches!(parse(" rank() "), Some(Ranking::Relevance(searches)) if searches.len() == 1)
        );
        let near = parse("near( a , [1, -2] , dot )").unwrap();
        let wanted = Ranking::Nearest { field: 2, to: [1.0, -2.0].into(), metric: Metric::Dot };
        assert_eq!(near, wanted);
        assert_eq!(parse("near(a,'AACAPwAAAMA=',dot)"), Some(wanted));
    }

    proptest! {
        #[test]
        fn any_order_is_read_or_refused(text in "near\\([a ,\\[\\]'0-9A-Z.é-]{0,20}\\)?") {
            let _ = parse_ranking(&table(), &text, None);
        }
    }
}
