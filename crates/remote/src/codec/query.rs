//! Encoding of filters and queries. Decoding checks only that they are well formed, not that they
//! fit a table.

use marmota_model::json::{JsonCondition, JsonPath, JsonTest};
use marmota_model::{
    AggregateColumn, AggregateFunction, Comparison, FILTER_DEPTH_MAX, FILTER_TERMS_MAX, FieldSet,
    FilterExpr, GROUP_AGGREGATES_MAX, GROUP_FIELDS_MAX, GeoCircle, GeoPoint, GroupQuery, Place,
    Quantifier, RelatedFilter, RelationStep, Result, RowQuery, Search, SortKey, ValueRef,
};

use super::bytes::{Bytes, broken, put_bytes, put_unsigned};
use marmota_model::binary::{put_value, put_values};

const COMPARE: u8 = 0;
const IN: u8 = 1;
const MATCH: u8 = 2;
const IS_NULL: u8 = 3;
const INSIDE: u8 = 4;
const SEARCH: u8 = 5;
const NOT: u8 = 6;
const AND: u8 = 7;
const OR: u8 = 8;
const EXISTS: u8 = 9;
const RELATED: u8 = 10;
const NEAR: u8 = 11;

const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];

fn put_comparison(out: &mut Vec<u8>, comparison: Comparison) {
    let number = COMPARISONS.iter().position(|&known| known == comparison).unwrap_or_default();
    out.push(number as u8);
}

fn put_text(out: &mut Vec<u8>, kind: u8, place: Place, text: &str) {
    out.push(kind);
    out.push(u8::from(place == Place::Start));
    put_bytes(out, text.as_bytes());
}

fn put_list(out: &mut Vec<u8>, kind: u8, all: &[FilterExpr]) {
    out.push(kind);
    put_unsigned(out, all.len() as u64);
    all.iter().for_each(|one| put_filter(out, one));
}

fn put_field(out: &mut Vec<u8>, kind: u8, field: usize) {
    out.push(kind);
    put_unsigned(out, field as u64);
}

pub(crate) fn put_filter(out: &mut Vec<u8>, filter: &FilterExpr) {
    match filter {
        FilterExpr::Compare { field, comparison, value } => {
            put_field(out, COMPARE, *field);
            put_comparison(out, *comparison);
            put_value(out, value.as_ref());
        }
        FilterExpr::In { field, values } => {
            put_field(out, IN, *field);
            put_values(out, values);
        }
        FilterExpr::Match { field, place, text } => {
            put_text(out, MATCH, *place, text);
            put_unsigned(out, *field as u64);
        }
        FilterExpr::IsNull { field } => put_field(out, IS_NULL, *field),
        FilterExpr::Inside { field, condition } => {
            put_field(out, INSIDE, *field);
            put_bytes(out, condition.path.to_string().as_bytes());
            put_test(out, &condition.test);
        }
        FilterExpr::Near { latitude, longitude, circle } => {
            put_field(out, NEAR, *latitude);
            put_unsigned(out, *longitude as u64);
            put_point(out, circle.center());
            put_value(out, ValueRef::Float(circle.radius()));
        }
        FilterExpr::Search { field, search } => {
            out.push(SEARCH);
            put_unsigned(out, field.map_or(0, |field| field as u64 + 1));
            put_bytes(out, search.text().as_bytes());
        }
        FilterExpr::Related(related) => {
            let step = &related.step;
            out.push(RELATED);
            put_bytes(out, step.table.as_bytes());
            put_unsigned(out, step.local as u64);
            put_unsigned(out, step.target as u64);
            out.push(u8::from(step.to_one));
            match related.quantifier {
                Quantifier::Any => out.push(0),
                Quantifier::Count { comparison, number } => {
                    out.push(1);
                    put_comparison(out, comparison);
                    put_unsigned(out, u64::from(number));
                }
            }
            put_filter(out, &related.filter);
        }
        FilterExpr::Not(inner) => {
            out.push(NOT);
            put_filter(out, inner);
        }
        FilterExpr::And(all) => put_list(out, AND, all),
        FilterExpr::Or(all) => put_list(out, OR, all),
    }
}

/// Appends a point on the earth.
pub(super) fn put_point(out: &mut Vec<u8>, point: GeoPoint) {
    put_value(out, ValueRef::Float(point.latitude()));
    put_value(out, ValueRef::Float(point.longitude()));
}

fn put_test(out: &mut Vec<u8>, test: &JsonTest) {
    match test {
        JsonTest::Compare(comparison, value) => {
            out.push(COMPARE);
            put_comparison(out, *comparison);
            put_value(out, value.as_ref());
        }
        JsonTest::In(values) => {
            out.push(IN);
            put_values(out, values);
        }
        JsonTest::Match(place, text) => put_text(out, MATCH, *place, text),
        JsonTest::IsNull => out.push(IS_NULL),
        JsonTest::Exists => out.push(EXISTS),
    }
}

pub(crate) fn put_filter_option(out: &mut Vec<u8>, filter: Option<&FilterExpr>) {
    out.push(u8::from(filter.is_some()));
    if let Some(filter) = filter {
        put_filter(out, filter);
    }
}

pub(crate) fn put_fields(out: &mut Vec<u8>, fields: FieldSet) {
    put_unsigned(out, fields.len() as u64);
    fields.iter().for_each(|field| out.push(field as u8));
}

fn put_order(out: &mut Vec<u8>, order: &[SortKey]) {
    put_unsigned(out, order.len() as u64);
    for by in order {
        put_unsigned(out, (by.field as u64) << 1 | u64::from(by.descending));
    }
}

pub(crate) fn put_groups(out: &mut Vec<u8>, query: &GroupQuery) {
    put_filter_option(out, query.filter.as_ref());
    put_unsigned(out, query.by.len() as u64);
    query.by.iter().for_each(|&field| put_unsigned(out, field as u64));
    put_unsigned(out, query.aggregates.len() as u64);
    for AggregateColumn { function, field, name } in &query.aggregates {
        let number = AggregateFunction::ALL.iter().position(|known| known == function);
        out.push(number.unwrap_or_default() as u8);
        put_unsigned(out, field.map_or(0, |field| field as u64 + 1));
        put_bytes(out, name.as_deref().unwrap_or_default().as_bytes());
    }
    put_filter_option(out, query.having.as_ref());
    put_order(out, &query.order);
    put_unsigned(out, query.limit.map_or(0, |limit| limit.saturating_add(1)));
}

pub(crate) fn put_query(out: &mut Vec<u8>, query: &RowQuery) {
    put_filter_option(out, query.filter.as_ref());
    put_order(out, &query.order);
    put_unsigned(out, query.limit.map_or(0, |limit| limit.saturating_add(1)));
    out.push(u8::from(query.after.is_some()));
    if let Some(after) = &query.after {
        put_values(out, after);
    }
    out.push(u8::from(query.fields.is_some()));
    if let Some(fields) = query.fields {
        put_fields(out, fields);
    }
}

impl Bytes<'_> {
    fn comparison(&mut self) -> Result<Comparison> {
        let number = usize::from(self.u8()?);
        COMPARISONS.get(number).copied().ok_or_else(|| broken("has an unknown comparison"))
    }

    fn place(&mut self) -> Result<(Place, String)> {
        let place = if self.bool()? { Place::Start } else { Place::Anywhere };
        Ok((place, self.text()?.to_owned()))
    }

    pub(crate) fn filter(&mut self) -> Result<FilterExpr> {
        let mut terms = 0;
        self.filter_node(0, &mut terms)
    }

    fn filter_list(&mut self, depth: usize, terms: &mut usize) -> Result<Vec<FilterExpr>> {
        let count = self.count()?;
        (0..count).map(|_| self.filter_node(depth + 1, terms)).collect()
    }

    fn filter_node(&mut self, depth: usize, terms: &mut usize) -> Result<FilterExpr> {
        *terms += 1;
        if depth > FILTER_DEPTH_MAX || *terms > FILTER_TERMS_MAX {
            return Err(broken("has a filter that is too deep or too large"));
        }
        Ok(match self.u8()? {
            COMPARE => {
                let (field, comparison) = (self.size()?, self.comparison()?);
                let value = self.checked_value()?.to_value();
                FilterExpr::Compare { field, comparison, value }
            }
            IN => FilterExpr::In { field: self.size()?, values: self.values()? },
            MATCH => {
                let (place, text) = self.place()?;
                FilterExpr::Match { field: self.size()?, place, text }
            }
            IS_NULL => FilterExpr::IsNull { field: self.size()? },
            INSIDE => {
                let field = self.size()?;
                let path = JsonPath::new(self.text()?);
                let condition = Box::new(JsonCondition { path, test: self.json_test()? });
                FilterExpr::Inside { field, condition }
            }
            NEAR => {
                let (latitude, longitude) = (self.size()?, self.size()?);
                let circle = GeoCircle::new(self.point()?, self.float()?)?;
                FilterExpr::Near { latitude, longitude, circle }
            }
            SEARCH => {
                let field = self.size()?.checked_sub(1);
                FilterExpr::Search { field, search: Box::new(Search::new(self.text()?)) }
            }
            RELATED => {
                let table = self.text()?.to_owned().into();
                let (local, target, to_one) = (self.size()?, self.size()?, self.bool()?);
                let quantifier = match self.bool()? {
                    false => Quantifier::Any,
                    true => {
                        let comparison = self.comparison()?;
                        let number = u32::try_from(self.unsigned()?);
                        let number = number.map_err(|_| broken("counts too many rows"))?;
                        Quantifier::Count { comparison, number }
                    }
                };
                let step = RelationStep { table, local, target, to_one };
                let filter = self.filter_node(depth + 1, terms)?;
                FilterExpr::Related(Box::new(RelatedFilter { step, quantifier, filter }))
            }
            NOT => FilterExpr::Not(Box::new(self.filter_node(depth + 1, terms)?)),
            AND => FilterExpr::And(self.filter_list(depth, terms)?),
            OR => FilterExpr::Or(self.filter_list(depth, terms)?),
            _ => return Err(broken("has an unknown condition")),
        })
    }

    fn float(&mut self) -> Result<f64> {
        match self.checked_value()? {
            ValueRef::Float(number) => Ok(number),
            _ => Err(broken("has a coordinate that is not a number")),
        }
    }

    /// Reads a point on the earth.
    pub(super) fn point(&mut self) -> Result<GeoPoint> {
        GeoPoint::new(self.float()?, self.float()?)
    }

    fn json_test(&mut self) -> Result<JsonTest> {
        Ok(match self.u8()? {
            COMPARE => JsonTest::Compare(self.comparison()?, self.checked_value()?.to_value()),
            IN => JsonTest::In(self.values()?),
            MATCH => {
                let (place, text) = self.place()?;
                JsonTest::Match(place, text)
            }
            IS_NULL => JsonTest::IsNull,
            EXISTS => JsonTest::Exists,
            _ => return Err(broken("has an unknown condition")),
        })
    }

    pub(crate) fn filter_option(&mut self) -> Result<Option<FilterExpr>> {
        Ok(if self.bool()? { Some(self.filter()?) } else { None })
    }

    /// Reads a set of fields of a table with `count` fields.
    pub(crate) fn fields(&mut self, count: usize) -> Result<FieldSet> {
        let mut fields = FieldSet::EMPTY;
        for _ in 0..self.count()? {
            match usize::from(self.u8()?) {
                field if field < count => fields = fields.with(field),
                _ => return Err(broken("names a field that the table does not have")),
            }
        }
        Ok(fields)
    }

    fn order(&mut self) -> Result<Vec<SortKey>> {
        let orders = self.count()?;
        if orders > FieldSet::CAPACITY {
            return Err(broken("sorts by more fields than a table has"));
        }
        let order = |number: usize| SortKey { field: number >> 1, descending: number & 1 == 1 };
        (0..orders).map(|_| self.size().map(order)).collect()
    }

    /// Reads a query of groups.
    pub(crate) fn groups(&mut self) -> Result<GroupQuery> {
        let filter = self.filter_option()?;
        let (fields, too_many) =
            (self.count()?, "has more columns than a query of groups may have");
        if fields > GROUP_FIELDS_MAX {
            return Err(broken(too_many));
        }
        let by = (0..fields).map(|_| self.size()).collect::<Result<_>>()?;
        let columns = self.count()?;
        if columns > GROUP_AGGREGATES_MAX {
            return Err(broken(too_many));
        }
        let aggregates = (0..columns).map(|_| self.aggregate()).collect::<Result<_>>()?;
        let having = self.filter_option()?;
        let order = self.order()?;
        let limit = self.unsigned()?.checked_sub(1);
        Ok(GroupQuery { filter, by, related: Vec::new(), aggregates, having, order, limit })
    }

    fn aggregate(&mut self) -> Result<AggregateColumn> {
        let number = usize::from(self.u8()?);
        let function = AggregateFunction::ALL.get(number).copied();
        let function = function.ok_or_else(|| broken("has an unknown aggregate function"))?;
        let column = AggregateColumn::new(function, self.size()?.checked_sub(1));
        Ok(match self.text()? {
            "" => column,
            name => column.named(name.to_owned()),
        })
    }

    pub(crate) fn query(&mut self, count: usize) -> Result<RowQuery> {
        let filter = self.filter_option()?;
        let order = self.order()?;
        let limit = self.unsigned()?.checked_sub(1);
        let after = if self.bool()? { Some(self.values()?) } else { None };
        let fields = if self.bool()? { Some(self.fields(count)?) } else { None };
        Ok(RowQuery { filter, order, limit, after, fields, ..RowQuery::new() })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::codec::any_value::any_value;
    use proptest::prelude::*;

    fn any_comparison() -> impl Strategy<Value = Comparison> {
        (0..COMPARISONS.len()).prop_map(|number| COMPARISONS[number])
    }

    fn any_place() -> impl Strategy<Value = Place> {
        any::<bool>().prop_map(|start| if start { Place::Start } else { Place::Anywhere })
    }

    fn any_test() -> impl Strategy<Value = JsonTest> {
        prop_oneof![
            (any_comparison(), any_value()).prop_map(|(how, value)| JsonTest::Compare(how, value)),
            prop::collection::vec(any_value(), 0..4).prop_map(JsonTest::In),
            (any_place(), ".{0,9}").prop_map(|(place, text)| JsonTest::Match(place, text)),
            Just(JsonTest::IsNull),
            Just(JsonTest::Exists),
        ]
    }

    pub(crate) fn any_filter() -> impl Strategy<Value = FilterExpr> {
        let field = 0..200_usize;
        let leaf = prop_oneof![
            (field.clone(), any_comparison(), any_value()).prop_map(
                |(field, comparison, value)| FilterExpr::Compare { field, comparison, value }
            ),
            (field.clone(), prop::collection::vec(any_value(), 0..4))
                .prop_map(|(field, values)| FilterExpr::In { field, values }),
            (field.clone(), any_place(), ".{0,9}")
                .prop_map(|(field, place, text)| FilterExpr::Match { field, place, text }),
            field.clone().prop_map(|field| FilterExpr::IsNull { field }),
            (field.clone(), "[a-z.\\[\\]0-9]{1,9}", any_test()).prop_map(|(field, path, test)| {
                let path = JsonPath::new(&path);
                FilterExpr::Inside { field, condition: Box::new(JsonCondition { path, test }) }
            }),
            (field.clone(), field.clone(), any_point(), 0.0..1e9_f64).prop_map(
                |(latitude, longitude, center, radius)| {
                    let circle = GeoCircle::new(center, radius).unwrap();
                    FilterExpr::Near { latitude, longitude, circle }
                }
            ),
            (prop::option::of(field), "[a-z -]{0,9}").prop_map(|(field, text)| {
                FilterExpr::Search { field, search: Box::new(Search::new(&text)) }
            }),
        ];
        leaf.prop_recursive(4, 40, 4, |inner| {
            prop_oneof![
                inner.clone().prop_map(|inner| FilterExpr::Not(Box::new(inner))),
                (inner.clone(), any_step(), any_quantifier()).prop_map(
                    |(filter, step, quantifier)| {
                        FilterExpr::Related(Box::new(RelatedFilter { step, quantifier, filter }))
                    }
                ),
                prop::collection::vec(inner.clone(), 0..4).prop_map(FilterExpr::And),
                prop::collection::vec(inner, 0..4).prop_map(FilterExpr::Or),
            ]
        })
    }

    pub(crate) fn any_point() -> impl Strategy<Value = GeoPoint> {
        (-90.0..=90.0_f64, -180.0..=180.0_f64)
            .prop_map(|(latitude, longitude)| GeoPoint::new(latitude, longitude).unwrap())
    }

    fn any_step() -> impl Strategy<Value = RelationStep> {
        ("[a-z]{1,9}", 0..200_usize, 0..200_usize, any::<bool>()).prop_map(
            |(table, local, target, to_one)| RelationStep {
                table: table.into(),
                local,
                target,
                to_one,
            },
        )
    }

    fn any_quantifier() -> impl Strategy<Value = Quantifier> {
        prop_oneof![
            Just(Quantifier::Any),
            (any_comparison(), any::<u32>())
                .prop_map(|(comparison, number)| Quantifier::Count { comparison, number }),
        ]
    }

    fn any_query() -> impl Strategy<Value = RowQuery> {
        let order = (0..100_usize, any::<bool>())
            .prop_map(|(field, descending)| SortKey { field, descending });
        let fields = prop::collection::vec(0..100_usize, 0..9);
        (
            prop::option::of(any_filter()),
            prop::collection::vec(order, 0..4),
            prop::option::of(0..u64::MAX - 1),
            prop::option::of(prop::collection::vec(any_value(), 0..4)),
            prop::option::of(fields),
        )
            .prop_map(|(filter, order, limit, after, fields)| {
                let fields = fields.map(|fields| fields.into_iter().collect());
                RowQuery { filter, order, limit, after, fields, ..RowQuery::new() }
            })
    }

    proptest! {
        #[test]
        fn queries_come_back(query in any_query()) {
            let mut out = Vec::new();
            put_query(&mut out, &query);
            let mut read = Bytes::new(&out);
            prop_assert_eq!(read.query(100).unwrap(), query);
            read.end().unwrap();
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = Bytes::new(&bytes).query(7);
        }
    }

    #[test]
    fn a_filter_without_end_is_refused() {
        let deep = vec![NOT; 1_000_000];
        assert!(Bytes::new(&deep).filter().is_err());
    }
}
